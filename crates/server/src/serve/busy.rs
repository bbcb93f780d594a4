//! How busy the threads that serve clients are, and which of them gets the next client.

use nitro_device::CompioClock;
use nitro_port::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How often a thread measures its processor time.
const MEASURE_EVERY: Duration = Duration::from_millis(500);
/// A thread that has not measured for this time does not come to it: it is as busy as can be.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// A whole processor.
const ALL: u64 = 1000;
/// Threads whose loads differ by less are equally busy: there, the number of clients decides.
const STEP: u64 = 50;
/// What a client is expected to take at least, until it is measured.
const CLIENT_MIN: u64 = 50;

/// The load of a thread.
#[derive(Debug)]
pub(super) struct Load {
    clock: CompioClock,
    clients: AtomicUsize,
    /// Thousandths of a processor in the last interval.
    busy: AtomicU64,
    /// When it was measured, in nanoseconds.
    at: AtomicU64,
    /// Clients that came since.
    new: AtomicUsize,
}

/// A load at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Thousandths of a processor.
    pub(crate) busy: u64,
    /// Its clients.
    pub(crate) clients: usize,
    /// Clients that are not measured yet.
    new: usize,
}

/// One of a thread's clients; counted until dropped.
pub(super) struct ClientGuard(Arc<Load>);

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Relaxed);
    }
}

impl Load {
    pub(super) fn new() -> Self {
        let clock = CompioClock::new();
        let at = AtomicU64::new(nanoseconds(clock.now()));
        Self { clock, clients: AtomicUsize::new(0), busy: AtomicU64::new(0), at, new: AtomicUsize::new(0) }
    }

    /// Counts a client that the thread gets.
    pub(super) fn enter(self: &Arc<Self>) -> ClientGuard {
        self.clients.fetch_add(1, Relaxed);
        self.new.fetch_add(1, Relaxed);
        ClientGuard(Arc::clone(self))
    }

    /// Measures the calling thread, as long as it is polled.
    pub(super) async fn measure(&self) {
        let mut before = (self.clock.now(), processor_time());
        loop {
            self.clock.sleep(MEASURE_EVERY).await;
            let now = (self.clock.now(), processor_time());
            let (passed, taken) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            let busy = taken.as_nanos() * u128::from(ALL) / passed.as_nanos().max(1);
            self.busy.store(u64::try_from(busy).unwrap_or(ALL).min(ALL), Relaxed);
            self.at.store(nanoseconds(now.0), Relaxed);
            self.new.store(0, Relaxed);
            before = now;
        }
    }

    /// The load now.
    pub(super) fn seen(&self) -> Seen {
        let age = nanoseconds(self.clock.now()).saturating_sub(self.at.load(Relaxed));
        let is_silent = age > nanoseconds(SILENCE_MAX);
        let busy = if is_silent { ALL } else { self.busy.load(Relaxed) };
        Seen { busy, clients: self.clients.load(Relaxed), new: self.new.load(Relaxed) }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The processor time that the calling thread has taken.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The thread that gets the next client: the least busy one. A client that is not measured yet is expected to take as much as others
/// take in the mean.
pub(super) fn least_busy(loads: &[Seen]) -> Option<usize> {
    let measured: usize = loads.iter().map(|load| load.clients.saturating_sub(load.new)).sum();
    let mean = loads.iter().map(|load| load.busy).sum::<u64>() / measured.max(1) as u64;
    let expected = |load: &Seen| load.busy + load.new as u64 * mean.clamp(CLIENT_MIN, ALL);
    let key = |(_, load): &(usize, &Seen)| (expected(load) / STEP, load.clients);
    loads.iter().enumerate().min_by_key(key).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seen(busy: u64, clients: usize, new: usize) -> Seen {
        Seen { busy, clients, new }
    }

    #[test]
    fn one_busy_client_weighs_more_than_many_idle_ones() {
        assert_eq!(least_busy(&[seen(900, 1, 0), seen(20, 40, 0)]), Some(1));
        assert_eq!(least_busy(&[seen(300, 1, 0), seen(200, 9, 0), seen(400, 0, 0)]), Some(1));
        assert_eq!(least_busy(&[]), None);
    }

    #[test]
    fn idle_threads_get_clients_in_turn() {
        // By noise, one seems to be less busy.
        assert_eq!(least_busy(&[seen(3, 5, 0), seen(17, 4, 0)]), Some(1));
        let mut loads = [seen(3, 0, 0), seen(17, 0, 0), seen(1, 0, 0)];
        for _ in 0..30 {
            let next = least_busy(&loads).unwrap();
            loads[next].clients += 1;
            loads[next].new += 1;
        }
        assert_eq!(loads.map(|load| load.clients), [10; 3]);
    }

    #[test]
    fn clients_that_come_together_do_not_all_get_the_least_busy_thread() {
        let mut loads = [seen(1000, 5, 0), seen(200, 1, 0)];
        for _ in 0..12 {
            let next = least_busy(&loads).unwrap();
            loads[next].clients += 1;
            loads[next].new += 1;
        }
        // Each is expected to take a fifth of a processor.
        assert_eq!(loads.map(|load| load.new), [4, 8]);
    }

    #[test]
    fn a_thread_measures_what_it_takes() {
        let reactor = nitro_device::Reactor::new().unwrap();
        let load = Load::new();
        reactor.block_on(async {
            let busy = async {
                let clock = CompioClock::new();
                let begun = clock.now();
                while clock.now() - begun < MEASURE_EVERY * 3 {
                    nitro_port::yielding::yield_now().await;
                }
            };
            futures_util::future::select(std::pin::pin!(busy), std::pin::pin!(load.measure())).await;
        });
        assert!(load.seen().busy > 0, "{:?}", load.seen());
    }
}
