//! Virtual time: it leaps to the next timer when nothing else is left to do, so that a disk is as slow as it is and nobody waits.

use nitro_port::Clock;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[derive(Default)]
struct Timers {
    now: Duration,
    next: u64,
    waiting: BTreeMap<(Duration, u64), Waker>,
}

/// A clock that does not run while something is computed, and the executor of one future that has it leap.
#[derive(Clone, Default)]
pub struct VirtualTime(Arc<Mutex<Timers>>);

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A timer that is set, for as long as somebody waits for it.
struct Timer<'a> {
    timers: &'a Mutex<Timers>,
    key: (Duration, u64),
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.timers.lock().waiting.remove(&self.key);
    }
}

impl VirtualTime {
    /// Runs a future to its end.
    ///
    /// # Panics
    /// It waits for what nobody will do.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.try_run(future).expect("nobody is left to wake the task")
    }

    /// Runs a future to its end; `None` if it waits for what nobody will do.
    pub fn try_run<F: Future>(&self, future: F) -> Option<F::Output> {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
            if !woken.0.swap(false, Relaxed) {
                let mut timers = self.0.lock();
                let ((at, _), waker) = timers.waiting.pop_first()?;
                timers.now = timers.now.max(at);
                drop(timers);
                waker.wake();
            }
        }
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
        let timer = Timer { timers: &self.0, key };
        poll_fn(|context| {
            let mut timers = timer.timers.lock();
            if timers.now >= timer.key.0 {
                return Poll::Ready(());
            }
            timers.waiting.insert(timer.key, context.waker().clone());
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
