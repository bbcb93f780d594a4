//! The virtual executor: one thread that polls its tasks in a random order from a seed.

use crate::{Rng, VirtualTime};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The numbers of the ready tasks.
#[derive(Default)]
struct Runnable(Mutex<Vec<usize>>);

struct TaskWaker {
    task: usize,
    runnable: Arc<Runnable>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut runnable = self.runnable.0.lock();
        if !runnable.contains(&self.task) {
            runnable.push(self.task);
        }
    }
}

struct Task {
    /// `None` while the task is polled, after its end, and for the future of [`Simulation::run`].
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Waker,
}

/// An executor that chooses the next task by a seed. Its clock advances to the next timer when no task is ready.
pub struct Simulation {
    tasks: RefCell<Vec<Task>>,
    runnable: Arc<Runnable>,
    random: RefCell<Rng>,
    /// The clock of its tasks.
    pub clock: VirtualTime,
}

impl Simulation {
    /// An executor without tasks, whose time begins at zero.
    #[must_use]
    pub fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self::by(VirtualTime::default(), seed))
    }

    /// As [`new`](Self::new), with a clock that may have been used before.
    pub(crate) fn by(clock: VirtualTime, seed: u64) -> Self {
        let random = RefCell::new(Rng::new(seed ^ 0xE8EC));
        Self { tasks: RefCell::default(), runnable: Arc::default(), random, clock }
    }

    /// Adds a task, which is polled during each call of [`run`](Self::run).
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.add(Some(Box::pin(future)));
    }

    /// Adds a ready task; returns its number.
    fn add(&self, future: Option<Pin<Box<dyn Future<Output = ()>>>>) -> usize {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.len();
        self.runnable.0.lock().push(task);
        let waker = Waker::from(Arc::new(TaskWaker { task, runnable: Arc::clone(&self.runnable) }));
        tasks.push(Task { future, waker });
        task
    }

    /// Runs `main` to its end, and the other tasks meanwhile.
    ///
    /// # Panics
    /// `main` has not ended, no task is ready, and no timer is set.
    pub fn run<F: Future>(&self, main: F) -> F::Output {
        self.try_run(main).expect("deadlock: no task is ready and no timer is set")
    }

    /// Runs `main` to its end, and the other tasks meanwhile; `None` if no task is ready and no timer is set before
    /// that.
    pub fn try_run<F: Future>(&self, main: F) -> Option<F::Output> {
        let mut main = pin!(main);
        let number = self.add(None);
        loop {
            let Some(task) = self.choose() else {
                if self.clock.leap() {
                    continue;
                }
                return None;
            };
            let waker = self.tasks.borrow().get(task).map(|task| task.waker.clone());
            let Some(waker) = waker else { continue };
            let mut context = Context::from_waker(&waker);
            if task != number {
                self.poll(task, &mut context);
            } else if let Poll::Ready(output) = main.as_mut().poll(&mut context) {
                return Some(output);
            }
        }
    }

    /// Takes a random ready task.
    fn choose(&self) -> Option<usize> {
        let mut runnable = self.runnable.0.lock();
        let count = runnable.len() as u64;
        (count > 0).then(|| runnable.swap_remove(self.random.borrow_mut().below(count) as usize))
    }

    fn poll(&self, task: usize, context: &mut Context<'_>) {
        let Some(mut future) = self.tasks.borrow_mut()[task].future.take() else { return };
        if future.as_mut().poll(context).is_pending() {
            self.tasks.borrow_mut()[task].future = Some(future);
        }
    }

    /// Drops all tasks. A task that holds the simulation would otherwise form a reference cycle and leak.
    pub fn end(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        self.runnable.0.lock().clear();
        drop(tasks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_port::Clock;
    use nitro_port::yielding::yield_now;
    use std::time::Duration;

    /// The order in which three tasks take three turns each.
    fn order(seed: u64) -> Vec<u32> {
        let (simulation, turns) = (Simulation::new(seed), Rc::new(RefCell::new(Vec::new())));
        for task in 0..3 {
            let turns = Rc::clone(&turns);
            simulation.spawn(async move {
                for _ in 0..3 {
                    turns.borrow_mut().push(task);
                    yield_now().await;
                }
            });
        }
        simulation.run(simulation.clock.sleep(Duration::from_secs(1)));
        turns.take()
    }

    #[test]
    fn a_seed_decides_the_order_of_tasks() {
        assert!((0..20).all(|seed| order(seed) == order(seed) && order(seed).len() == 9));
        assert!((1..20).any(|seed| order(seed) != order(0)));
    }

    #[test]
    fn a_simulation_that_cannot_go_on_says_so() {
        let simulation = Simulation::new(1);
        simulation.spawn(std::future::pending());
        assert_eq!(simulation.try_run(std::future::pending::<()>()), None);
        assert_eq!(simulation.run(async { 7 }), 7, "it can still be used");
    }
}
