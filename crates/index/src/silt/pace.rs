//! The rate of background work.

use super::Silt;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};
use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Work is done faster than the present rate of inserts requires by this factor.
const MARGIN: f64 = 2.0;
/// The rate of inserts is that of this time, or longer.
const MEASURED: Duration = Duration::from_millis(50);

/// The rate of conversions and merges, in bytes that they read and write per second. It is higher if inserts would find
/// no room otherwise, and not limited while inserts wait for them.
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
pub(super) struct Paced<'a, D, C> {
    silt: &'a Silt<D>,
    clock: &'a C,
    inserting: Cell<Inserting>,
}

/// The rate of inserts.
#[derive(Clone, Copy)]
struct Inserting {
    /// The begin of the measurement, and the number of inserts until then.
    since: Duration,
    inserts: u64,
    per_second: f64,
}

impl<'a, D: Device, C: Clock> Paced<'a, D, C> {
    pub(super) fn new(silt: &'a Silt<D>, clock: &'a C) -> Self {
        let inserts = silt.io.tallies.inserts.load(Relaxed);
        let inserting = Cell::new(Inserting { since: clock.now(), inserts, per_second: 0.0 });
        Self { silt, clock, inserting }
    }

    /// Inserts per second at present.
    fn inserts_per_second(&self) -> f64 {
        let (now, inserts) = (self.clock.now(), self.silt.io.tallies.inserts.load(Relaxed));
        let last = self.inserting.get();
        let elapsed = now.saturating_sub(last.since);
        if elapsed < MEASURED {
            return last.per_second;
        }
        let per_second = (inserts - last.inserts) as f64 / elapsed.as_secs_f64();
        // A pause does not last.
        let per_second = per_second.max(last.per_second / 2.0);
        self.inserting.set(Inserting { since: now, inserts, per_second });
        per_second
    }
}

impl<D: Device, C: Clock> Pace for Paced<'_, D, C> {
    async fn turn(&self, bytes: u64) {
        if bytes > 0 {
            let due = self.silt.due();
            self.silt.debt.step(bytes, &due);
            let is_busy = self.silt.io.tallies.reading.load(Relaxed) > 0;
            let Rates { idle_bytes_per_second, busy_bytes_per_second } = self.silt.rates;
            let configured = if is_busy { busy_bytes_per_second } else { idle_bytes_per_second };
            let needed = MARGIN * due.bytes as f64 * self.inserts_per_second() / due.inserts.max(1) as f64;
            if configured < u64::MAX && self.silt.waiting.load(Relaxed) == 0 {
                let rate = needed.max(configured.max(1) as f64);
                self.clock.sleep(Duration::from_secs_f64(bytes as f64 / rate)).await;
                return;
            }
        }
        yield_now().await;
    }
}
