//! Where requests wait until they may pass.

use super::Bucket;
use super::queue::Turns;
use futures_util::future::{Either, select};
use futures_util::task::AtomicWaker;
use nitro_port::Clock;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

/// The least time whose tokens are saved up: a timer is late by some tens of microseconds, and what is missed meanwhile must not be
/// lost for a high rate.
const BURST_MIN: Duration = Duration::from_millis(10);
/// How often a rate that follows something else is renewed while requests wait.
const RENEW_EVERY: Duration = Duration::from_millis(10);
/// Most bytes for which a request is charged: as many as the longest read or write has. A request for zeroes may be much longer,
/// and costs an origin little.
const BYTES_CHARGED_MAX: u64 = 32 << 20;

/// How fast requests may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Requests a second; `None`: any number.
    pub requests: Option<NonZeroU64>,
    /// Bytes a second; `None`: any number.
    pub bytes: Option<NonZeroU64>,
    /// What is not used of this time may be used later; at least [10 ms](BURST_MIN).
    pub burst: Duration,
}

impl Rates {
    /// Without limits.
    pub const ANY: Self = Self { requests: None, bytes: None, burst: Duration::ZERO };

    /// Whether there is a limit.
    #[must_use]
    pub const fn is_limit(&self) -> bool {
        self.requests.is_some() || self.bytes.is_some()
    }
}

/// The client of a request that waited has gone: nobody needs it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left;

/// Lets requests pass at the rates that are set. Those of one client pass in the order in which they come; clients that wait take turns, so
/// that one with many requests under way gets no more than one with few. A request that need not wait allocates nothing; one that waits
/// holds what it would hold otherwise, and a few words.
pub struct Gate<C> {
    clock: C,
    /// There are limits.
    limits: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rates: Rates,
    requests: Bucket,
    bytes: Bucket,
    waiting: Turns<Arc<Waiter>>,
    /// Limits do not count any more.
    is_over: bool,
}

/// A request that waits.
#[derive(Default)]
struct Waiter {
    client: u64,
    waker: AtomicWaker,
    /// It has to look again.
    is_called: AtomicBool,
    has_left: AtomicBool,
}

impl Waiter {
    fn call(&self) {
        self.is_called.store(true, SeqCst);
        self.waker.wake();
    }

    /// Waits until it is called.
    async fn called(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.is_called.swap(false, SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl State {
    /// When the next request may pass; `None`: now.
    fn due(&mut self, now: Duration) -> Option<Duration> {
        if self.is_over {
            return None;
        }
        self.requests.due(now).max(self.bytes.due(now))
    }

    fn charge(&mut self, bytes: u64) {
        self.requests.take(1);
        self.bytes.take(bytes.min(BYTES_CHARGED_MAX));
    }

    /// The time in nanoseconds for which a request takes all that the limits allow.
    fn cost(&self, bytes: u64) -> u64 {
        let cost = |rate: Option<NonZeroU64>, tokens: u64| {
            let nanoseconds = rate.map_or(0, |rate| u128::from(tokens) * 1_000_000_000 / u128::from(rate.get()));
            u64::try_from(nanoseconds).unwrap_or(u64::MAX)
        };
        cost(self.rates.requests, 1).max(cost(self.rates.bytes, bytes.min(BYTES_CHARGED_MAX)))
    }

    fn call_first(&self) {
        if let Some((_, first)) = self.waiting.first() {
            first.call();
        }
    }
}

/// A request's place among those that wait; given up when dropped.
struct Place<'a, C> {
    gate: &'a Gate<C>,
    waiter: Arc<Waiter>,
}

impl<C> Drop for Place<'_, C> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        state.waiting.remove(self.waiter.client, |waiter| Arc::ptr_eq(waiter, &self.waiter));
        state.call_first();
    }
}

impl<C: Clock> Gate<C> {
    /// A gate without limits.
    pub fn new(clock: C) -> Self {
        Self { clock, limits: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Changes the rates; requests that wait go by the new ones.
    pub fn set(&self, rates: Rates) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.rates == rates {
            return;
        }
        let burst = rates.burst.max(BURST_MIN);
        state.rates = rates;
        state.requests.set(now, rates.requests, burst);
        state.bytes.set(now, rates.bytes, burst);
        self.limits.store(rates.is_limit(), SeqCst);
        state.call_first();
    }

    /// The rates.
    pub fn rates(&self) -> Rates {
        self.state.lock().rates
    }

    /// Lets all requests pass, whatever the rates are, or no longer does.
    pub fn set_over(&self, is_over: bool) {
        let mut state = self.state.lock();
        state.is_over = is_over;
        state.call_first();
    }

    /// Whether requests may have to wait.
    pub fn is_limit(&self) -> bool {
        self.limits.load(SeqCst)
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Whether a request may pass now, which [`charge`](Self::charge) is to follow.
    pub fn may_pass(&self) -> bool {
        if !self.is_limit() {
            return true;
        }
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.waiting.is_empty() && state.due(now).is_none()
    }

    /// Charges a request of so many bytes that passes now.
    pub fn charge(&self, bytes: u64) {
        if self.is_limit() {
            self.state.lock().charge(bytes);
        }
    }

    /// Charges a request if it may pass now.
    fn try_pass(&self, bytes: u64) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let passes = state.waiting.is_empty() && state.due(now).is_none();
        if passes {
            state.charge(bytes);
        }
        passes
    }

    /// Waits until a request of a client, of so many bytes, may pass. Returns for how long it waited. `renew` renews the
    /// [rates](Self::set) while it waits, if they follow something else.
    ///
    /// # Errors
    /// The client [has left](Self::leave) meanwhile.
    pub async fn pass(&self, client: u64, bytes: u64, renew: Option<&dyn Fn()>) -> Result<Duration, Left> {
        if !self.is_limit() || self.try_pass(bytes) {
            return Ok(Duration::ZERO);
        }
        let begun = self.clock.now();
        // Boxed, so that the futures of requests that need not wait stay small.
        Box::pin(self.wait(client, bytes, renew)).await?;
        Ok(self.clock.now().saturating_sub(begun))
    }

    async fn wait(&self, client: u64, bytes: u64, renew: Option<&dyn Fn()>) -> Result<(), Left> {
        let waiter = Arc::new(Waiter { client, ..Waiter::default() });
        self.state.lock().waiting.push(client, Arc::clone(&waiter));
        let place = Place { gate: self, waiter };
        let waiter = &place.waiter;
        loop {
            let now = self.clock.now();
            let due = {
                let mut state = self.state.lock();
                if waiter.has_left.load(SeqCst) {
                    return Err(Left);
                }
                let is_first = state.waiting.first().is_some_and(|(_, first)| Arc::ptr_eq(first, waiter));
                match is_first.then(|| state.due(now)) {
                    Some(None) => {
                        state.charge(bytes);
                        let cost = state.cost(bytes);
                        state.waiting.charge(client, cost);
                        return Ok(());
                    }
                    Some(due) => due,
                    None => None,
                }
            };
            let Some(due) = due else {
                waiter.called().await;
                continue;
            };
            let left = due.saturating_sub(now);
            let pause = if renew.is_some() { left.min(RENEW_EVERY) } else { left };
            if let Either::Right(_) = select(pin!(waiter.called()), pin!(self.clock.sleep(pause))).await
                && let Some(renew) = renew
            {
                renew();
            }
        }
    }

    /// Ends the waiting of all requests of a client that has gone.
    pub fn leave(&self, client: u64) {
        let state = self.state.lock();
        for waiter in state.waiting.of(client) {
            waiter.has_left.store(true, SeqCst);
            waiter.call();
        }
    }
}
