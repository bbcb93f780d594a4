//! Until when a host may serve: what each request asks.

use crate::boot_time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The time until which a host may serve the volumes that it owns. It ends by itself: a host that was stopped finds it over at once
/// when it goes on.
#[derive(Debug, Default)]
pub struct Tenure {
    /// Nanoseconds since the boot.
    until_ns: AtomicU64,
    over: OnceLock<Arc<str>>,
}

impl Tenure {
    /// One that holds until this time since the boot.
    #[must_use]
    pub fn until(time: Duration) -> Self {
        let tenure = Self::default();
        tenure.set(Some(time));
        tenure
    }

    /// Whether the volumes of this host are its own at this moment. To be asked before an origin is changed, and again before a
    /// client is answered: an answer that comes later may be outdated.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.holds_at(boot_time())
    }

    fn holds_at(&self, now: Duration) -> bool {
        as_ns(now) < self.until_ns.load(Ordering::SeqCst)
    }

    /// Until when it holds, from now; zero if it is over.
    #[must_use]
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.until_ns.load(Ordering::SeqCst)).saturating_sub(boot_time())
    }

    /// Why it is over, if that is known.
    #[must_use]
    pub fn over(&self) -> Option<&Arc<str>> {
        self.over.get()
    }

    /// Sets the time until which it holds; `None`: it does not.
    pub(crate) fn set(&self, until: Option<Duration>) {
        self.until_ns.store(until.map_or(0, as_ns), Ordering::SeqCst);
    }

    /// Ends it.
    pub(crate) fn end(&self, why: &str) {
        self.until_ns.store(0, Ordering::SeqCst);
        let _ = self.over.set(Arc::from(why));
    }
}

fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_its_time_and_by_its_end() {
        let tenure = Tenure::default();
        assert!(!tenure.holds());
        let until = Duration::from_secs(9);
        tenure.set(Some(until));
        assert!(tenure.holds_at(until - Duration::from_nanos(1)) && !tenure.holds_at(until));
        tenure.set(Some(boot_time() + Duration::from_secs(3600)));
        assert!(tenure.holds() && tenure.left() > Duration::from_secs(3000) && tenure.over().is_none());
        tenure.end("gone");
        assert!(!tenure.holds() && tenure.over().map(|why| &**why) == Some("gone"));
    }
}
