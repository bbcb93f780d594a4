//! Folders for test files, and time that passes only when everybody waits.

use nitro_port::Clock;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tempfile::TempDir;

/// A folder on the file system that the code is built on, which is a real disk's more often than /tmp is.
pub fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[derive(Default)]
struct Timers {
    now: Duration,
    next: u64,
    wakers: BTreeMap<(Duration, u64), Waker>,
}

/// A clock whose time leaps to the next timer when nothing else is left to do.
#[derive(Clone, Default)]
pub struct VirtualClock {
    timers: Arc<Mutex<Timers>>,
}

impl VirtualClock {
    /// Runs a future to its end in virtual time.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        struct Flag(AtomicBool);
        impl Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&flag));
        let mut future = std::pin::pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            if !flag.0.swap(false, Ordering::Relaxed) {
                let mut timers = self.timers.lock();
                let ((at, _), waker) = timers.wakers.pop_first().expect("nobody is left to wake the test");
                timers.now = timers.now.max(at);
                drop(timers);
                waker.wake();
            }
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        self.timers.lock().now
    }

    async fn sleep(&self, duration: Duration) {
        let timer = Timer::new(&self.timers, duration);
        poll_fn(|cx| {
            let mut timers = self.timers.lock();
            if timers.now >= timer.key.0 {
                return Poll::Ready(());
            }
            timers.wakers.insert(timer.key, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Forgets its waker when it is dropped.
struct Timer<'a> {
    timers: &'a Mutex<Timers>,
    key: (Duration, u64),
}

impl<'a> Timer<'a> {
    fn new(timers: &'a Mutex<Timers>, duration: Duration) -> Self {
        let mut guard = timers.lock();
        guard.next += 1;
        Self { timers, key: (guard.now + duration, guard.next) }
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.timers.lock().wakers.remove(&self.key);
    }
}

/// A generator of numbers that differ from each other (xorshift64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
