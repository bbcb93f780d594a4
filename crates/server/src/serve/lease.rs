//! Keeps the stamp of an origin in its cache true: before the server changes the origin, the stamp says that it is in
//! use; at the end, its final state.

use super::known_origin::KnownOrigin;
use crate::export::ServedCache;
use crate::origins::{Identity, LEASE_SECONDS, Look, Stamp, Uuid, VolumeMark, VolumeMarks, aside, unix_seconds};
use nitro_console::error::Error;
use nitro_engine::{VolumeEntry, WriteMode};
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The form of a mode in a cache's registry.
pub fn mode_byte(mode: WriteMode) -> u8 {
    u8::from(mode == WriteMode::WriteBack)
}

/// The mode from a cache's registry.
pub fn mode_of_byte(byte: u8) -> WriteMode {
    if byte == mode_byte(WriteMode::WriteBack) { WriteMode::WriteBack } else { WriteMode::WriteThrough }
}

/// How long a durable look at an origin is valid while it is changed. A durable look costs a commit of the file
/// system's journal.
const LOOK_SECONDS: u64 = 60;

/// The last [durable look](Identity::look_durably) at an origin.
struct Known {
    look: Mutex<Look>,
    /// When the next look was begun, in seconds since 1970.
    begun: AtomicU64,
    is_looking: AtomicBool,
}

/// Keeps the cache's entry of a volume true.
pub struct OriginLease {
    cache: Arc<ServedCache>,
    origin: Arc<dyn Identity>,
    known: Arc<Known>,
    entry: Mutex<VolumeEntry>,
    /// What the cache knows of the origin, if it is served for writing, and where its mark is made.
    marked: Mutex<Option<(KnownOrigin, VolumeMarks)>>,
    /// When the stamp was last set to *in use*, in seconds since 1970; 0: the origin is at rest.
    renewed: AtomicU64,
    /// The cache is going to drop the volume; the entry is not updated.
    paused: AtomicBool,
}

impl OriginLease {
    /// Registers the volume in the cache, with its origin at rest in the state of the last [durable
    /// look](Identity::look_durably). `None`: the cache has no number left for the volume.
    pub(super) fn start(
        cache: &Arc<ServedCache>,
        origin: Arc<dyn Identity>,
        look: Look,
        entry: VolumeEntry,
    ) -> Option<(Self, ObjectId)> {
        let entry = VolumeEntry { stamp: Stamp::at_rest(look).encode(), ..entry };
        let object = cache.remember_volume(entry.clone())?;
        let (renewed, paused) = (AtomicU64::new(0), AtomicBool::new(false));
        let (begun, is_looking) = (AtomicU64::new(unix_seconds()), AtomicBool::new(false));
        let known = Arc::new(Known { look: Mutex::new(look), begun, is_looking });
        let (entry, marked) = (Mutex::new(entry), Mutex::new(None));
        Some((Self { cache: Arc::clone(cache), origin, known, entry, marked, renewed, paused }, object))
    }

    /// Looks at the origin again in the background, if the last look is old.
    fn look_again(&self, now: u64) {
        let known = &self.known;
        if (known.begun.load(Ordering::SeqCst)..).contains(&now.saturating_sub(LOOK_SECONDS))
            && !known.is_looking.swap(true, Ordering::SeqCst)
        {
            known.begun.store(now, Ordering::SeqCst);
            let (known, origin) = (Arc::clone(known), Arc::clone(&self.origin));
            let size_bytes = self.entry.lock().origin_bytes;
            nitro_device::spawn_local(async move {
                // An origin that cannot be looked at has worse troubles, which its device will tell.
                if let Ok(Ok(look)) = aside(move || origin.look_durably(size_bytes)).await {
                    *known.look.lock() = look;
                }
                known.is_looking.store(false, Ordering::SeqCst);
            });
        }
    }

    fn remember(&self, change: impl FnOnce(&mut VolumeEntry)) {
        let mut entry = self.entry.lock();
        change(&mut entry);
        if !self.paused.load(Ordering::SeqCst) {
            self.cache.remember_volume(entry.clone());
        }
    }

    /// Whether [`renew`](Self::renew) has something to do.
    pub(super) fn is_due(&self) -> bool {
        let last = self.renewed.load(Ordering::SeqCst);
        let valid = last..last.saturating_add(LEASE_SECONDS);
        !valid.contains(&unix_seconds()) && !self.paused.load(Ordering::SeqCst)
    }

    /// To be awaited before the origin is changed. Costs one commit every [`LEASE_SECONDS`] while the origin is
    /// changed.
    pub(super) async fn renew(&self) {
        if !self.is_due() {
            return;
        }
        let now = unix_seconds();
        self.look_again(now);
        let look = *self.known.look.lock();
        self.remember(|entry| entry.stamp = Stamp::in_use(look, now).encode());
        // Where the cache fails it is given up, and the change shows at the next start.
        if self.cache.sync().await.is_ok() {
            self.renewed.store(now, Ordering::SeqCst);
        }
    }

    /// Notes what is known of an origin that is served for writing, and where its mark is made.
    pub(super) fn set_known(&self, known: KnownOrigin, marks: VolumeMarks) {
        self.remember(|entry| entry.identity = known.encode());
        *self.marked.lock() = Some((known, marks));
    }

    /// Gives the end of serving a number of its own, in the cache `cache` and in the origin's mark: a copy of either that was made
    /// before is recognised if it is put back. To be followed by [`ServedCache::sync`].
    pub(super) async fn number_end(&self, cache: Uuid) {
        let Some((known, marks)) = self.marked.lock().take() else { return };
        let Some(ended) = known.ended(VolumeMark::new_token()) else { return };
        self.remember(|entry| entry.identity = ended.encode());
        // First the cache: it accepts the number before, too, where the mark is not made.
        if self.cache.sync().await.is_err() {
            return;
        }
        let mark = ended.mark(cache);
        if let Ok(Ok(true)) = aside(move || marks.set(&mark)).await {
            self.remember(|entry| entry.identity = ended.marked(true).encode());
        }
    }

    /// Notes the mode that the volume is served in.
    pub(super) fn set_mode(&self, mode: WriteMode) {
        self.remember(|entry| entry.mode = mode_byte(mode));
    }

    /// Notes that the server will not change the origin any more; its file's times are made durable. To be followed by
    /// [`ServedCache::sync`].
    ///
    /// # Errors
    /// The origin cannot be looked at.
    pub(super) async fn rest(&self) -> Result<(), Error> {
        if self.renewed.swap(0, Ordering::SeqCst) == 0 {
            return Ok(());
        }
        let (origin, size_bytes) = (Arc::clone(&self.origin), self.entry.lock().origin_bytes);
        let looked = aside(move || (origin.look_durably(size_bytes), origin.is_at_its_name())).await?;
        let look = looked.0.map_err(|e| Error::new("the origin's file", e).or("check its file system"))?;
        if !looked.1 {
            let name = self.entry.lock().name.clone();
            tracing::warn!(
                "volume {name}: another file or device has the path of its origin by now: what was written is in the one that was served"
            );
        }
        self.remember(|entry| entry.stamp = Stamp::at_rest(look).encode());
        Ok(())
    }

    /// Notes that the origin has grown, as it is now.
    ///
    /// # Errors
    /// The origin cannot be looked at.
    pub(super) async fn grow(&self, size_bytes: u64) -> Result<(), Error> {
        let origin = Arc::clone(&self.origin);
        let look = aside(move || origin.look_durably(size_bytes)).await?;
        let look = look.map_err(|e| Error::new("the origin's file", e).or("check its file system"))?;
        *self.known.look.lock() = look;
        let now = unix_seconds();
        self.known.begun.store(now, Ordering::SeqCst);
        self.remember(|entry| {
            entry.origin_bytes = size_bytes;
            entry.stamp = Stamp::in_use(look, now).encode();
        });
        // The next change says again that it is in use.
        self.renewed.store(0, Ordering::SeqCst);
        Ok(())
    }

    /// Stops updating the cache, which is going to drop the volume.
    pub(super) fn pause(&self) {
        self.paused.store(true, Ordering::SeqCst);
    }
}
