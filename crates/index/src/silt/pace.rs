//! The rate of background work.

use super::io::Tallies;
use nitro_port::Clock;
use nitro_port::yielding::yield_now;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The rate of conversions and merges, in bytes that they read and write per second. It is not limited while inserts
/// wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// The rate while no look-up is reading from the flash; `u64::MAX`: no limit.
    pub idle_bytes_per_second: u64,
    /// The rate while look-ups are reading from the flash.
    pub busy_bytes_per_second: u64,
}

impl Default for Rates {
    fn default() -> Self {
        Self { idle_bytes_per_second: u64::MAX, busy_bytes_per_second: 32 << 20 }
    }
}

/// Yields to other tasks during long work.
pub(super) trait Pace {
    /// Called after every few thousand entries, or after a write; `bytes` were read and written since the last call.
    fn turn(&self, bytes: u64) -> impl Future<Output = ()>;
}

/// The pace of work that another task waits for: it yields, but is not limited.
pub(super) struct Hurried;

impl Pace for Hurried {
    async fn turn(&self, _bytes: u64) {
        yield_now().await;
    }
}

/// Work at a limited rate.
pub(super) struct Paced<'a, C> {
    pub(super) clock: &'a C,
    pub(super) rates: Rates,
    pub(super) tallies: &'a Tallies,
    /// The number of inserts that wait for room.
    pub(super) waiting: &'a AtomicU32,
}

impl<C: Clock> Pace for Paced<'_, C> {
    async fn turn(&self, bytes: u64) {
        yield_now().await;
        if bytes == 0 || self.waiting.load(Relaxed) > 0 {
            return;
        }
        let busy = self.tallies.reading.load(Relaxed) > 0;
        let rate = if busy { self.rates.busy_bytes_per_second } else { self.rates.idle_bytes_per_second };
        if rate < u64::MAX {
            self.clock.sleep(Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64)).await;
        }
    }
}
