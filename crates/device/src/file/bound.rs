//! How much of one device may be under way at once, so that one that hangs leaves others the kernel's worker threads and the
//! runtime's.

use event_listener::Event;
use nitro_engine::port::DeviceError;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads and writes at once through io_uring: more than a device's queue, beyond which the kernel lets threads wait.
pub(super) const RING_MAX: usize = 256;
/// Reads and writes at once where each takes a thread of the runtime.
pub(super) const THREADS_MAX: usize = 8;

/// Turns of a device's reads and writes.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: AtomicUsize,
    returned: Event,
}

/// The right to have one request under way, until dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
        self.0.returned.notify_additional(1);
    }
}

impl Turns {
    /// Waits until fewer than `limit` requests are under way.
    pub(super) async fn take(&self, limit: usize) -> Turn<'_> {
        loop {
            if let Some(turn) = self.try_take(limit) {
                return turn;
            }
            let returned = self.returned.listen();
            // One may have been returned before it was listened for.
            if let Some(turn) = self.try_take(limit) {
                return turn;
            }
            returned.await;
        }
    }

    fn try_take(&self, limit: usize) -> Option<Turn<'_>> {
        let more = |taken| (taken < limit).then_some(taken + 1);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok().map(|_| Turn(self))
    }
}

#[derive(Debug, Default)]
struct Flushed {
    /// Flushes begun.
    begun: u64,
    /// The last flush that ended, of all those up to it.
    ended: u64,
    /// The last flush that failed.
    failed: Option<(u64, DeviceError)>,
    running: bool,
}

/// Flushes of one device: one at a time, shared by all who asked before it began. Each takes a worker thread of the kernel.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    state: Mutex<Flushed>,
    ended: Event,
}

/// A flush under way. Dropped before it has ended, another one takes its place.
struct Running<'a>(&'a Flushes);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running = false;
        self.0.ended.notify(usize::MAX);
    }
}

impl Flushes {
    /// Ends when a flush has ended that began after the call; `flush` makes one.
    ///
    /// # Errors
    /// That flush failed. Everybody who shares it gets the error: a kernel reports a failure once, and not to the next flush.
    pub(super) async fn run(&self, flush: impl AsyncFn() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        let wanted = self.state.lock().begun + 1;
        loop {
            let ended = self.ended.listen();
            let number = {
                let mut state = self.state.lock();
                if state.ended >= wanted {
                    let failed = state.failed.as_ref().filter(|(number, _)| *number >= wanted);
                    return failed.map_or(Ok(()), |(_, error)| Err(error.clone()));
                }
                (!state.running).then(|| {
                    state.running = true;
                    state.begun += 1;
                    state.begun
                })
            };
            let Some(number) = number else {
                ended.await;
                continue;
            };
            let running = Running(self);
            let result = flush().await;
            let mut state = self.state.lock();
            state.ended = number;
            if let Err(error) = &result {
                state.failed = Some((number, error.clone()));
            }
            drop(state);
            drop(running);
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::{join, pending, poll_fn};
    use nitro_engine::port::{ErrorKind, Operation};
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::Poll;

    /// Lets others run once.
    async fn pause() {
        let mut paused = false;
        poll_fn(|context| match std::mem::replace(&mut paused, true) {
            true => Poll::Ready(()),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }

    #[test]
    fn a_turn_is_waited_for_and_given_on() {
        let turns = Turns::default();
        let (first, _second) = (turns.take(2).now_or_never().unwrap(), turns.take(2).now_or_never().unwrap());
        let mut third = pin!(turns.take(2));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn flushes_that_were_asked_for_together_are_one_and_a_later_one_is_another() {
        let (flushes, count) = (Flushes::default(), Cell::new(0));
        let flush = async || {
            count.set(count.get() + 1);
            pause().await;
            Ok(())
        };
        crate::Reactor::new().unwrap().block_on(async {
            let mut first = pin!(flushes.run(flush));
            assert!(first.as_mut().now_or_never().is_none());
            // The first began before these were asked for, so that it does not count for them.
            let mut both = pin!(join(flushes.run(flush), flushes.run(flush)));
            assert!(both.as_mut().now_or_never().is_none());
            let (first, (second, third)) = join(first, both).await;
            assert!(first.is_ok() && second.is_ok() && third.is_ok());
        });
        assert_eq!(count.get(), 2);
    }

    #[test]
    fn everybody_who_shares_a_flush_gets_its_error() {
        let (flushes, count) = (Flushes::default(), Cell::new(0));
        let fail = async || {
            count.set(count.get() + 1);
            pause().await;
            Err(DeviceError::new(ErrorKind::Io, Operation::Flush, 0, 0))
        };
        crate::Reactor::new().unwrap().block_on(async {
            let (first, second) = join(flushes.run(fail), flushes.run(fail)).await;
            assert!(first.is_err() && second.is_err());
        });
    }

    #[test]
    fn a_flush_that_was_dropped_is_made_again_by_another() {
        let flushes = Flushes::default();
        let mut hung = Box::pin(flushes.run(async || pending().await));
        assert!(hung.as_mut().now_or_never().is_none());
        let mut next = pin!(flushes.run(async || Ok(())));
        assert!(next.as_mut().now_or_never().is_none());
        drop(hung);
        assert!(next.now_or_never().is_some_and(|result| result.is_ok()));
    }
}
