//! Virtual time: the clock advances to the next timer when no task is ready, so that slow devices are simulated without
//! real waiting.

use crate::Simulation;
use nitro_port::Clock;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

#[derive(Default)]
struct Timers {
    now: Duration,
    next: u64,
    waiting: BTreeMap<(Duration, u64), Waker>,
}

/// A clock that stands still during computation. A [`Simulation`] advances it; clones are the same clock.
///
/// A dropped sleep leaves its timer behind: the clock still stops there and wakes the task without need. The seeds of
/// simulations depend on this behaviour.
#[derive(Clone, Default)]
pub struct VirtualTime(Arc<Mutex<Timers>>);

impl VirtualTime {
    /// Runs a future to its end, in a simulation of its own.
    ///
    /// # Panics
    /// The future waits for an event that no task and no timer causes.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        Simulation::by(self.clone(), 0).run(future)
    }

    /// Runs a future to its end; `None` if it waits for an event that no task and no timer causes.
    pub fn try_run<F: Future>(&self, future: F) -> Option<F::Output> {
        Simulation::by(self.clone(), 0).try_run(future)
    }

    /// Advances to the next timer and wakes its task; false if there is no timer.
    pub(crate) fn leap(&self) -> bool {
        let mut timers = self.0.lock();
        let Some(((at, _), waker)) = timers.waiting.pop_first() else { return false };
        timers.now = timers.now.max(at);
        drop(timers);
        waker.wake();
        true
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Duration {
        self.0.lock().now
    }

    async fn sleep(&self, duration: Duration) {
        let key = {
            let mut timers = self.0.lock();
            timers.next += 1;
            (timers.now + duration, timers.next)
        };
        poll_fn(|context| {
            let mut timers = self.0.lock();
            if timers.now >= key.0 {
                timers.waiting.remove(&key);
                return Poll::Ready(());
            }
            timers.waiting.insert(key, context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join;

    #[test]
    fn time_passes_for_those_who_sleep_and_for_nobody_else() {
        let clock = VirtualTime::default();
        let (short, long) = (Duration::from_secs(3600), Duration::from_secs(7200));
        let both = async {
            let first = async {
                clock.sleep(short).await;
                clock.now()
            };
            let second = async {
                clock.sleep(long).await;
                clock.now()
            };
            join(second, first).await
        };
        assert_eq!(clock.run(both), (long, short));
        assert_eq!(clock.try_run(std::future::pending::<()>()), None);
    }
}
