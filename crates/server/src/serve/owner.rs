//! Whether this server still owns an origin that another host may take over: before the origin is written to, the mark on it must
//! be this server's, and the lease of etcd, if that decides who serves it, must not be over.
//!
//! A host that was cut off or stopped does not know that another one has taken over. So a reading of the mark counts for a second
//! by [`CLOCK_BOOTTIME`](boot_time), which also counts while the machine sleeps: what is written later waits for another
//! reading. A write that was let pass, and had not reached the origin when the host stopped, still arrives when it goes on; only
//! a cluster manager that switches the host off (fencing) excludes this.

use crate::origins::{Claim, VolumeMarks, aside, shared_folder};
use nitro_cluster::boot_time;
use nitro_device::spawn_local;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a reading counts, from its begin.
const VALID: Duration = Duration::from_secs(1);
/// After this time, the mark is read again in the background, so that writes do not wait for it.
const RENEWED: Duration = Duration::from_millis(500);

/// The claim of a server to an origin, which is the token of its mark.
pub(super) struct Owner {
    volume: String,
    marks: VolumeMarks,
    token: u64,
    /// When the last reading began that found the mark, in nanoseconds since the boot.
    seen_ns: AtomicU64,
    /// A reading in the background is under way.
    is_reading: AtomicBool,
    /// Held by the reading for which writes wait.
    turn: futures_util::lock::Mutex<()>,
    /// When the last reading ended that found nothing.
    failed_ns: AtomicU64,
    /// Why the origin is another server's now.
    lost: OnceLock<Arc<str>>,
}

/// Nanoseconds since the boot, including those for which the machine slept.
fn now_ns() -> u64 {
    ns(boot_time())
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Owner {
    /// The owner of an origin that has just got the mark with this token; `None`: no other host takes it over.
    pub(super) fn new(volume: &str, marks: &VolumeMarks, token: u64) -> Option<Arc<Self>> {
        (shared_folder().is_some() || marks.claim().is_some())
            .then(|| Arc::new(Self::with(volume, marks, token, now_ns())))
    }

    fn with(volume: &str, marks: &VolumeMarks, token: u64, seen_ns: u64) -> Self {
        Self {
            volume: volume.to_owned(),
            marks: marks.clone(),
            token,
            seen_ns: AtomicU64::new(seen_ns),
            is_reading: AtomicBool::new(false),
            turn: futures_util::lock::Mutex::new(()),
            failed_ns: AtomicU64::new(0),
            lost: OnceLock::new(),
        }
    }

    /// Why the origin is another server's, or may be, if that is known.
    pub(super) fn lost(&self) -> Option<Arc<str>> {
        let of_lease = || self.claim().filter(|claim| !claim.tenure.holds()).map(Claim::lost);
        self.lost.get().cloned().or_else(of_lease)
    }

    fn claim(&self) -> Option<&Claim> {
        self.marks.claim()
    }

    /// Whether clients may have answers: by the lease, no other host serves the origin now.
    pub(super) fn may_answer(&self) -> bool {
        self.claim().is_none_or(|claim| claim.tenure.holds())
    }

    /// Refuses if it is known that the origin is another server's.
    ///
    /// # Errors
    /// It is.
    pub(super) fn check_known(&self) -> io::Result<()> {
        self.claim().map_or(Ok(()), Claim::check)?;
        self.lost.get().map_or(Ok(()), |why| Err(refused(why)))
    }

    /// Whether [`check`](Self::check) has something to do.
    pub(super) fn is_due(&self) -> bool {
        self.lost.get().is_some() || !self.may_answer() || self.age_ns() >= ns(RENEWED)
    }

    /// Nanoseconds since the last reading that found the mark began.
    fn age_ns(&self) -> u64 {
        now_ns().saturating_sub(self.seen_ns.load(Ordering::SeqCst))
    }

    /// To be awaited immediately before the origin is changed.
    ///
    /// # Errors
    /// The origin is another server's, or the mark cannot be read now.
    pub(super) async fn check(self: &Arc<Self>) -> io::Result<()> {
        self.check_known()?;
        if self.age_ns() < ns(VALID) {
            if self.is_due() && !self.is_reading.swap(true, Ordering::SeqCst) {
                let owner = Arc::clone(self);
                spawn_local(async move {
                    // What it finds shows at the next change.
                    let _ = owner.read().await;
                    owner.is_reading.store(false, Ordering::SeqCst);
                });
            }
            return Ok(());
        }
        let asked_ns = now_ns();
        let _turn = self.turn.lock().await;
        if self.seen_ns.load(Ordering::SeqCst) >= asked_ns {
            return self.check_known();
        }
        // Those that waited meanwhile do not all try again.
        if self.failed_ns.load(Ordering::SeqCst) >= asked_ns {
            return Err(self.unread());
        }
        self.read().await?;
        self.check_known()
    }

    /// Reads the mark now.
    ///
    /// # Errors
    /// As of [`check`](Self::check).
    pub(super) async fn read(&self) -> io::Result<()> {
        self.check_known()?;
        let (begun_ns, marks) = (now_ns(), self.marks.clone());
        match aside(move || marks.find()).await.map_err(io::Error::other)? {
            Some(mark) if mark.token == self.token => {
                self.seen_ns.fetch_max(begun_ns, Ordering::SeqCst);
                Ok(())
            }
            Some(mark) => {
                let why = self.lost.get_or_init(|| {
                    let number = match mark.fence {
                        0 => String::new(),
                        number => format!(" and the fencing number {number}"),
                    };
                    let why = format!(
                        "taken over: another server serves the origin since, with the cache {}{number}",
                        mark.cache
                    );
                    tracing::error!("volume {}: {why}: nothing is written to it any more", self.volume);
                    Arc::from(why)
                });
                Err(refused(why))
            }
            None => {
                self.failed_ns.store(now_ns(), Ordering::SeqCst);
                let error = self.unread();
                tracing::warn!("volume {}: {error}: its origin is not written to", self.volume);
                Err(error)
            }
        }
    }

    fn unread(&self) -> io::Error {
        let place = shared_folder().map_or("its origin".to_owned(), |folder| folder.display().to_string());
        refused(&format!("this server's mark cannot be read in {place}"))
    }
}

/// A device's error of this kind says that it may not be written to.
fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests;
