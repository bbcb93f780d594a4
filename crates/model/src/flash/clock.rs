//! Virtual time for one task: modelled devices without an executor.

use nitro_port::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock whose time advances only by sleeping, at once. Clones share the time. It suits one task at a time: concurrent
/// sleeps add up.
#[derive(Debug, Clone, Default)]
pub struct SleepClock(Arc<AtomicU64>);

impl Clock for SleepClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}
