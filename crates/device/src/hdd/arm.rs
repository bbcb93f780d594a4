//! One disk: its arm, and the requests that wait for it.

use super::HddModel;
use futures_util::future::{Either, select};
use nitro_port::Clock;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The time after which other requests release the arm of a completed request that was neither polled nor dropped.
const RECLAIM_AFTER: Duration = Duration::from_secs(1);

/// Counters of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ArmStats {
    pub(super) requests: u64,
    pub(super) seeks: u64,
    pub(super) busy: Duration,
}

/// A request to a disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A request that waits for the arm or holds it.
struct Entry {
    ticket: u64,
    request: Request,
    arrived: Duration,
    /// The time when it entered the disk's own queue.
    seen: Option<Duration>,
    /// The time when the disk completes it; set when it gets the arm.
    done: Option<Duration>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    /// In the order of arrival.
    queue: Vec<Entry>,
    /// Whether an entry holds the arm.
    held: bool,
    next_ticket: u64,
    /// The time when the last request is complete, so that a late wake-up does not delay the next one.
    free_at: Duration,
    /// The end of the last request, in bytes.
    head: u64,
    stats: ArmStats,
    /// The last grant.
    current: Grant,
}

/// The changes of a grant, which are undone if the request is dropped before the arm begins to move.
#[derive(Default)]
struct Grant {
    start: Duration,
    free_at: Duration,
    head: u64,
    stats: ArmStats,
}

/// One disk.
pub(super) struct Arm {
    state: Mutex<State>,
    span_bytes: u64,
}

impl Arm {
    pub(super) fn new(span_bytes: u64) -> Self {
        Self { state: Mutex::new(State::default()), span_bytes }
    }

    pub(super) fn stats(&self) -> ArmStats {
        self.state.lock().stats
    }

    /// Waits for the time that the disk needs for `request`.
    pub(super) async fn serve<C: Clock>(&self, model: &HddModel, clock: &C, request: Request) {
        let place = self.enter(model, clock, request);
        let done = loop {
            let granted = std::pin::pin!(self.granted(place.ticket));
            let patience = std::pin::pin!(clock.sleep(RECLAIM_AFTER));
            match select(granted, patience).await {
                Either::Left((done, _)) => break done,
                Either::Right(_) => self.reclaim(model, clock.now()),
            }
        };
        let wait = done.saturating_sub(clock.now());
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
    }

    /// Waits for the arm, and returns the time at which the disk completes the request.
    async fn granted(&self, ticket: u64) -> Duration {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            // The entry is missing if it was granted and reclaimed.
            let Some(entry) = state.queue.iter_mut().find(|e| e.ticket == ticket) else {
                return Poll::Ready(Duration::ZERO);
            };
            match entry.done {
                Some(done) => Poll::Ready(done),
                None => {
                    entry.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Takes the arm from a request whose future is neither polled nor dropped, so that others can continue.
    fn reclaim(&self, model: &HddModel, now: Duration) {
        let mut state = self.state.lock();
        if !state.held || now < state.free_at + RECLAIM_AFTER {
            return;
        }
        state.queue.retain(|e| e.done.is_none());
        let waker = state.pass_on(model, self.span_bytes, now);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn enter<'a, C: Clock>(&'a self, model: &'a HddModel, clock: &'a C, request: Request) -> Place<'a, C> {
        let now = clock.now();
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push(Entry { ticket, request, arrived: now, seen: None, done: None, waker: None });
        if !state.held {
            state.grant(model, self.span_bytes, now);
        }
        Place { arm: self, model, clock, ticket }
    }
}

impl State {
    /// Takes the arm from the request that held it, and gives it to the next.
    fn pass_on(&mut self, model: &HddModel, span_bytes: u64, now: Duration) -> Option<Waker> {
        self.held = false;
        if now < self.current.start {
            (self.free_at, self.head, self.stats) = (self.current.free_at, self.current.head, self.current.stats);
        }
        self.grant(model, span_bytes, now)
    }

    /// Gives the free arm to the request that it reaches first, and returns that one's waker.
    fn grant(&mut self, model: &HddModel, span_bytes: u64, now: Duration) -> Option<Waker> {
        let (free_at, head) = (self.free_at, self.head);
        let need = |e: &Entry| {
            let start = free_at.max(e.arrived);
            (start, model.position(span_bytes, head, start, e.request.offset))
        };
        let depth = model.queue_depth.max(1);
        for entry in self.queue.iter_mut().take(depth) {
            entry.seen.get_or_insert(now);
        }
        let aged = self.queue.first().and_then(|e| e.seen).is_some_and(|seen| now.saturating_sub(seen) > model.age_max);
        let candidates = if aged { 1 } else { depth };
        let next = self.queue.iter_mut().take(candidates).min_by_key(|e| {
            let (start, positioning) = need(e);
            start + positioning
        })?;
        let (start, positioning) = need(next);
        let done = start + positioning + model.transfer(next.request.len);
        next.done = Some(done);
        let waker = next.waker.take();
        self.current = Grant { start, free_at, head, stats: self.stats };
        self.stats.requests += 1;
        self.stats.seeks += u64::from(next.request.offset != head);
        self.stats.busy += done - start;
        self.head = next.request.offset + next.request.len;
        self.free_at = done;
        self.held = true;
        waker
    }
}

/// A request's position in the queue. It is dropped when the request is complete or cancelled: then the next request
/// gets the arm.
struct Place<'a, C: Clock> {
    arm: &'a Arm,
    model: &'a HddModel,
    clock: &'a C,
    ticket: u64,
}

impl<C: Clock> Drop for Place<'_, C> {
    fn drop(&mut self) {
        let now = self.clock.now();
        let mut state = self.arm.state.lock();
        let Some(index) = state.queue.iter().position(|e| e.ticket == self.ticket) else { return };
        let held = state.queue.remove(index).done.is_some();
        let waker = if held { state.pass_on(self.model, self.arm.span_bytes, now) } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
