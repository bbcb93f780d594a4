//! Limits the operations in progress of one device, so that a device that hangs does not use up the worker threads of
//! the kernel and of the runtime.

use event_listener::Event;
use futures_util::task::AtomicWaker;
use nitro_port::{DeviceError, Urgency};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// Maximum number of turns (permits) of reads and writes through io_uring: more than a device's queue, beyond which
/// threads wait in the kernel.
pub(super) const RING_MAX: usize = 256;
/// Maximum number of turns if each read or write takes a thread of the runtime.
pub(super) const THREADS_MAX: usize = 8;
/// A read or write of this size takes one turn, a longer one more: the turns also bound the memory that a hanging
/// device keeps.
const TURN_BYTES: usize = 256 << 10;
/// Number of later requests of the next higher urgency that may overtake one that waits; of the one above it twice as
/// many, and so on. So none waits for ever, and the time that it waits follows from the speed of the device.
const OVERTAKEN_MAX: u64 = 64;

/// The turns of a device's reads and writes, granted by urgency, and among requests of one urgency in their order.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    taken: usize,
    /// Number of requests that had to wait so far.
    arrived: u64,
    /// By urgency, each in the order of arrival.
    waiting: [VecDeque<Arc<Waiter>>; Urgency::COUNT],
}

/// A read or write that waits.
#[derive(Debug)]
struct Waiter {
    urgency: Urgency,
    /// Its place among all requests: that of its arrival, but the further back, the less urgent it is.
    place: u64,
    weight: usize,
    limit: usize,
    waker: AtomicWaker,
    granted: AtomicBool,
}

/// The permit for one read or write. It is held until the kernel has answered, even if the caller is dropped earlier.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    weight: usize,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.give_back(self.weight);
    }
}

/// The turns that a read or write of `len` bytes takes.
fn weight(limit: usize, len: usize) -> usize {
    len.div_ceil(TURN_BYTES).clamp(1, limit)
}

impl Queue {
    /// Takes turns, unless there are too few or others wait.
    fn try_take(&mut self, weight: usize, limit: usize) -> bool {
        let may = self.taken + weight <= limit && self.waiting.iter().all(VecDeque::is_empty);
        if may {
            self.taken += weight;
        }
        may
    }

    /// Adds a request to those that wait.
    fn wait(&mut self, urgency: Urgency, weight: usize, limit: usize, context: &Context<'_>) -> Arc<Waiter> {
        let place = self.arrived + OVERTAKEN_MAX * (Urgency::COUNT - 1 - urgency as usize) as u64;
        self.arrived += 1;
        let (waker, granted) = (AtomicWaker::new(), AtomicBool::new(false));
        waker.register(context.waker());
        let waiter = Arc::new(Waiter { urgency, place, weight, limit, waker, granted });
        self.waiting[urgency as usize].push_back(Arc::clone(&waiter));
        waiter
    }

    /// The request that is next; of two with the same place, the more urgent one.
    fn next(&self) -> Option<Urgency> {
        let fronts = self.waiting.iter().rev().filter_map(VecDeque::front);
        fronts.min_by_key(|waiter| waiter.place).map(|waiter| waiter.urgency)
    }

    fn grant(&mut self) {
        while let Some(urgency) = self.next() {
            // A long request that is next is not overtaken by shorter ones.
            let taken = self.taken;
            let next = self.waiting[urgency as usize].pop_front_if(|w| taken + w.weight <= w.limit);
            let Some(waiter) = next else { return };
            self.taken += waiter.weight;
            waiter.granted.store(true, Ordering::SeqCst);
            waiter.waker.wake();
        }
    }
}

impl Turns {
    /// Waits until a read or write of `len` bytes may be in progress, where no more than `limit` turns are taken at
    /// once.
    pub(super) async fn take(self: &Arc<Self>, urgency: Urgency, limit: usize, len: usize) -> Turn {
        let weight = weight(limit, len);
        let mut claim = Claim { turns: self, urgency, weight, limit, waiter: None };
        poll_fn(|context| claim.poll(context)).await;
        Turn { turns: Arc::clone(self), weight }
    }

    /// As [`take`](Self::take), if the turns are available without waiting.
    pub(super) fn take_at_once(self: &Arc<Self>, limit: usize, len: usize) -> Option<Turn> {
        let weight = weight(limit, len);
        self.0.lock().try_take(weight, limit).then(|| Turn { turns: Arc::clone(self), weight })
    }

    fn give_back(&self, weight: usize) {
        let mut queue = self.0.lock();
        queue.taken -= weight;
        queue.grant();
    }
}

/// A request that waits for turns.
struct Claim<'a> {
    turns: &'a Turns,
    urgency: Urgency,
    weight: usize,
    limit: usize,
    waiter: Option<Arc<Waiter>>,
}

impl Claim<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if let Some(waiter) = &self.waiter {
            waiter.waker.register(context.waker());
            if !waiter.granted.load(Ordering::SeqCst) {
                return Poll::Pending;
            }
            self.waiter = None;
            return Poll::Ready(());
        }
        let mut queue = self.turns.0.lock();
        if queue.try_take(self.weight, self.limit) {
            return Poll::Ready(());
        }
        self.waiter = Some(queue.wait(self.urgency, self.weight, self.limit, context));
        Poll::Pending
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        let mut queue = self.turns.0.lock();
        if waiter.granted.load(Ordering::SeqCst) {
            queue.taken -= self.weight;
        } else {
            queue.waiting[waiter.urgency as usize].retain(|other| !Arc::ptr_eq(other, &waiter));
        }
        queue.grant();
    }
}

#[derive(Debug, Default)]
struct Flushed {
    /// The number of flushes begun.
    begun: u64,
    /// The number of the last flush that ended.
    ended: u64,
    /// The last flush that failed.
    failed: Option<(u64, DeviceError)>,
    running: bool,
}

/// Flushes of one device: one at a time, shared by all callers that requested it before it began. Each takes a worker
/// thread of the kernel.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    state: Mutex<Flushed>,
    ended: Event,
}

/// A flush in progress. If it is dropped before its end, another one is started.
struct Running<'a>(&'a Flushes);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running = false;
        self.0.ended.notify(usize::MAX);
    }
}

impl Flushes {
    /// Waits for the end of a flush that began after the call; `flush` starts one.
    ///
    /// # Errors
    /// That flush failed. All callers that share it get the error: the kernel reports a failure once, and not to the
    /// next flush.
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
    use futures_util::StreamExt;
    use futures_util::future::{join, pending, poll_fn};
    use futures_util::stream::FuturesUnordered;
    use nitro_port::{ErrorKind, Operation};
    use std::cell::{Cell, RefCell};
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::Poll;

    /// Yields to other tasks once.
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
        let turns = Arc::new(Turns::default());
        let (first, _second) = (
            turns.take(Urgency::Normal, 2, 1).now_or_never().unwrap(),
            turns.take(Urgency::Normal, 2, 1).now_or_never().unwrap(),
        );
        let mut third = pin!(turns.take(Urgency::Normal, 2, 1));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn a_long_request_takes_more_turns_and_is_not_overtaken() {
        let turns = Arc::new(Turns::default());
        let short = [(); 4].map(|()| turns.take(Urgency::Normal, 4, TURN_BYTES).now_or_never().unwrap());
        let mut long = Box::pin(turns.take(Urgency::Normal, 4, 100 * TURN_BYTES));
        assert!(long.as_mut().now_or_never().is_none());
        let [first, second, rest @ ..] = short;
        drop((first, second));
        let mut late = pin!(turns.take(Urgency::Normal, 4, 1));
        assert!(late.as_mut().now_or_never().is_none());
        drop(rest);
        let long = long.now_or_never().unwrap();
        assert!(late.as_mut().now_or_never().is_none());
        drop(long);
        assert!(late.now_or_never().is_some());
    }

    #[test]
    fn urgent_requests_come_first_and_others_in_their_order() {
        let turns = Arc::new(Turns::default());
        let held = turns.take(Urgency::Low, 1, 1).now_or_never().unwrap();
        let (order, granted) = (Rc::new(RefCell::new(Vec::new())), FuturesUnordered::new());
        let [low, normal, high, highest] = Urgency::ALL;
        for (number, urgency) in [low, normal, highest, high, normal, highest, low].into_iter().enumerate() {
            let mut wait = Box::pin(turns.take(urgency, 1, 1));
            assert!(wait.as_mut().now_or_never().is_none(), "the only turn is taken");
            let order = Rc::clone(&order);
            granted.push(async move {
                let turn = wait.await;
                order.borrow_mut().push((number, urgency));
                drop(turn);
            });
        }
        drop(held);
        crate::Reactor::new().unwrap().block_on(granted.collect::<Vec<()>>());
        let numbers: Vec<_> = order.borrow().iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 5, 3, 1, 4, 0, 6], "{:?}", order.borrow());
    }

    /// Number of later requests that are granted a turn before one that waits, if there are always some that wait.
    fn overtaken(waits: Urgency, others: Urgency) -> u64 {
        let turns = Arc::new(Turns::default());
        let mut held = turns.take(others, 1, 1).now_or_never();
        let mut waiting = Box::pin(turns.take(waits, 1, 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        let mut later = VecDeque::new();
        for number in 0..10 * OVERTAKEN_MAX {
            let mut next = Box::pin(turns.take(others, 1, 1));
            assert!(next.as_mut().now_or_never().is_none());
            later.push_back(next);
            drop(held.take());
            if waiting.as_mut().now_or_never().is_some() {
                return number;
            }
            held = later.pop_front().and_then(|mut first| first.as_mut().now_or_never());
        }
        u64::MAX
    }

    #[test]
    fn none_waits_for_ever() {
        assert_eq!(overtaken(Urgency::Normal, Urgency::Normal), 0);
        assert_eq!(overtaken(Urgency::Highest, Urgency::Low), 0);
        assert_eq!(overtaken(Urgency::Normal, Urgency::High), OVERTAKEN_MAX);
        assert_eq!(overtaken(Urgency::Low, Urgency::Highest), 3 * OVERTAKEN_MAX);
    }

    #[test]
    fn who_goes_away_while_waiting_or_given_a_turn_leaves_it_to_others() {
        let turns = Arc::new(Turns::default());
        let held = turns.take(Urgency::Normal, 1, 1).now_or_never().unwrap();
        let (mut gone, mut granted, mut last) = (
            Box::pin(turns.take(Urgency::Normal, 1, 1)),
            Box::pin(turns.take(Urgency::Normal, 1, 1)),
            pin!(turns.take(Urgency::Normal, 1, 1)),
        );
        assert!(gone.as_mut().now_or_never().is_none() && granted.as_mut().now_or_never().is_none());
        assert!(last.as_mut().now_or_never().is_none());
        drop(gone);
        drop(held);
        // The turn was granted, but the future has not been polled since.
        drop(granted);
        assert!(last.now_or_never().is_some());
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
            // The first flush began before these were requested, so it does not count for them.
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
