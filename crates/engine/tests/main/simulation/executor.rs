//! One thread, tasks polled in an order drawn from a seed.

use super::Rng;
use nitro_port::Clock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

type Task = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
struct Ready(Mutex<Vec<usize>>);

struct TaskWaker {
    task: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.0.lock().unwrap();
        if !ready.contains(&self.task) {
            ready.push(self.task);
        }
    }
}

#[derive(Default)]
struct Timers {
    now: Duration,
    next: u64,
    waiting: BTreeMap<(Duration, u64), Waker>,
}

/// Virtual time: it moves to the next timer when no task is ready.
#[derive(Clone, Default)]
pub struct SimClock(Arc<Mutex<Timers>>);

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.0.lock().unwrap().now
    }

    async fn sleep(&self, duration: Duration) {
        let (until, id) = {
            let mut timers = self.0.lock().unwrap();
            timers.next += 1;
            (timers.now + duration, timers.next)
        };
        std::future::poll_fn(|context| {
            let mut timers = self.0.lock().unwrap();
            if timers.now >= until {
                timers.waiting.remove(&(until, id));
                return Poll::Ready(());
            }
            timers.waiting.insert((until, id), context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl SimClock {
    /// Moves to the next timer; false when there is none.
    fn advance(&self) -> bool {
        let mut timers = self.0.lock().unwrap();
        let Some(((until, _), waker)) = timers.waiting.pop_first() else { return false };
        timers.now = timers.now.max(until);
        waker.wake();
        true
    }
}

/// The executor.
pub struct Simulation {
    tasks: RefCell<Vec<Option<Task>>>,
    ready: Arc<Ready>,
    rng: RefCell<Rng>,
    pub clock: SimClock,
}

impl Simulation {
    pub fn new(seed: u64) -> Rc<Self> {
        let rng = RefCell::new(Rng::new(seed ^ 0xE8EC));
        Rc::new(Self { tasks: RefCell::default(), ready: Arc::default(), rng, clock: SimClock::default() })
    }

    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        let mut tasks = self.tasks.borrow_mut();
        self.ready.0.lock().unwrap().push(tasks.len());
        tasks.push(Some(Box::pin(future)));
    }

    /// Runs until `main` ends. Panics when nothing can go on any more.
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let slot = result.clone();
        self.spawn(async move { *slot.borrow_mut() = Some(main.await) });
        while result.borrow().is_none() {
            self.step();
        }
        result.take().expect("just checked")
    }

    /// Drops all tasks: those that know the simulation would keep it, and all they hold, for ever.
    pub fn end(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
    }

    fn step(&self) {
        let task = {
            let mut ready = self.ready.0.lock().unwrap();
            let count = ready.len() as u64;
            (count > 0).then(|| ready.swap_remove(self.rng.borrow_mut().below(count) as usize))
        };
        let Some(task) = task else {
            assert!(self.clock.advance(), "deadlock: no task is ready and no timer is set");
            return;
        };
        let Some(mut future) = self.tasks.borrow_mut()[task].take() else { return };
        let waker = Waker::from(Arc::new(TaskWaker { task, ready: self.ready.clone() }));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.tasks.borrow_mut()[task] = Some(future);
        }
    }
}
