//! Where requests wait for their turn.

use crate::{Counters, Entry, Next, Policy, Request, Running, Scheduler, Terms, Ticket, Workload};
use futures_util::future::{Either, select};
use futures_util::task::AtomicWaker;
use nitro_port::Clock;
use parking_lot::{Mutex, MutexGuard};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Lets requests to a device begin in the order of a [`Scheduler`]. A request that need not wait allocates nothing.
pub struct Gate<C> {
    clock: C,
    state: Mutex<State>,
}

struct State {
    scheduler: Scheduler<Arc<Waiter>>,
    /// The time at which a request that waits has been asked to let others begin.
    asked_at: Option<Duration>,
}

/// A request that waits.
#[derive(Default)]
struct Waiter {
    waker: AtomicWaker,
    news: Mutex<Option<News>>,
}

/// What a request that waits is told.
enum News {
    /// It begins.
    Go(Running),
    /// It waits, and asks again at that time.
    At(Duration),
}

impl Waiter {
    /// Returns what it had been told, and has not heard.
    fn tell(&self, news: News) -> Option<News> {
        let unheard = self.news.lock().replace(news);
        self.waker.wake();
        unheard
    }

    fn poll(&self, context: &Context<'_>) -> Poll<News> {
        self.waker.register(context.waker());
        self.news.lock().take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// A request that has begun. If it is dropped without its [end](Self::end), it was given up.
#[must_use]
pub struct Turn<'a, C: Clock> {
    gate: &'a Gate<C>,
    running: Option<Running>,
}

impl<C: Clock> Turn<'_, C> {
    /// It has ended; `is_done`: it succeeded.
    pub fn end(mut self, is_done: bool) {
        self.give_back(is_done);
    }

    fn give_back(&mut self, is_done: bool) {
        if let Some(running) = self.running.take() {
            let now = self.gate.clock.now();
            let mut state = self.gate.state.lock();
            state.scheduler.end(now, running, is_done);
            state.go_on(now);
        }
    }
}

impl<C: Clock> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        self.give_back(false);
    }
}

impl State {
    /// Lets all requests begin that may.
    fn go_on(&mut self, now: Duration) {
        loop {
            match self.scheduler.next(now) {
                Next::Go(waiter, running) => {
                    if waiter.tell(News::Go(running)).is_some() {
                        self.asked_at = None;
                    }
                }
                Next::At(at, waiter) if self.asked_at.is_none_or(|other| at < other) => {
                    self.asked_at = Some(at);
                    waiter.tell(News::At(at));
                    return;
                }
                Next::At(..) | Next::Nothing => return,
            }
        }
    }
}

/// A request's place among those that wait. If it is dropped, the request is given up.
struct Place<'a, C: Clock> {
    gate: &'a Gate<C>,
    ticket: Ticket,
    waiter: Arc<Waiter>,
    /// It has been asked to let others begin at this time.
    asks_at: Option<Duration>,
}

impl<C: Clock> Drop for Place<'_, C> {
    fn drop(&mut self) {
        let now = self.gate.clock.now();
        let mut state = self.gate.state.lock();
        state.scheduler.cancel(self.ticket);
        let news = self.waiter.news.lock().take();
        if self.asks_at.is_some() || matches!(news, Some(News::At(_))) {
            state.asked_at = None;
        }
        if let Some(News::Go(running)) = news {
            state.scheduler.end(now, running, false);
        }
        state.go_on(now);
    }
}

impl<C: Clock> Place<'_, C> {
    /// Waits until the request begins.
    async fn wait(&mut self) -> Running {
        let waiter = Arc::clone(&self.waiter);
        loop {
            let told = poll_fn(|context| waiter.poll(context));
            let news = match self.asks_at {
                None => Some(told.await),
                Some(at) => {
                    let pause = at.saturating_sub(self.gate.clock.now());
                    match select(pin!(told), pin!(self.gate.clock.sleep(pause))).await {
                        Either::Left((news, _)) => Some(news),
                        Either::Right(_) => None,
                    }
                }
            };
            match news {
                Some(News::Go(running)) => return running,
                Some(News::At(at)) => self.asks_at = Some(at),
                None => {
                    self.asks_at = None;
                    let mut state = self.gate.state.lock();
                    state.asked_at = None;
                    state.go_on(self.gate.clock.now());
                }
            }
        }
    }
}

impl<C: Clock> Gate<C> {
    /// A gate of a device that has to seek, or not.
    pub fn new(clock: C, policy: &Policy, rotational: bool) -> Self {
        let scheduler = Scheduler::new(policy, rotational);
        Self { clock, state: Mutex::new(State { scheduler, asked_at: None }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes the shares of workloads.
    pub fn set_policy(&self, policy: &Policy) {
        let now = self.clock.now();
        let mut state = self.state();
        state.scheduler.set_policy(policy);
        state.go_on(now);
    }

    /// Changes what a group may have within its workloads.
    pub fn set_terms(&self, group: u64, terms: Terms) {
        let now = self.clock.now();
        let mut state = self.state();
        state.scheduler.set_terms(group, terms);
        state.go_on(now);
    }

    /// What the workloads have had.
    pub fn counters(&self) -> Counters {
        let state = self.state();
        Counters::of(Workload::ALL.map(|workload| state.scheduler.used(workload)))
    }

    /// Waits until a request may begin.
    pub async fn enter(&self, request: Request) -> Turn<'_, C> {
        let mut made = None;
        let entry = {
            let now = self.clock.now();
            let mut state = self.state();
            let token = || Arc::clone(made.insert(Arc::<Waiter>::default()));
            let entry = state.scheduler.enter(now, &request, token);
            if matches!(entry, Entry::Wait(_)) {
                state.go_on(now);
            }
            entry
        };
        let running = match (entry, made) {
            (Entry::Go(running), _) => running,
            (Entry::Wait(ticket), made) => {
                let mut place = Place { gate: self, ticket, waiter: made.unwrap_or_default(), asks_at: None };
                // Boxed, so that the futures of requests that need not wait stay small.
                Box::pin(place.wait()).await
            }
        };
        Turn { gate: self, running: Some(running) }
    }
}
