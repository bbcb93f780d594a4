//! Signals between the control thread and the queues.

use futures_util::task::AtomicWaker;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Context;

/// The signal that ends a queue. Only one task may poll it.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    level: AtomicU8,
    waker: AtomicWaker,
}

const STOPPED: u8 = 1;
const CUT: u8 = 2;

impl Stop {
    /// Ends the queue after its requests are done.
    pub(crate) fn set(&self) {
        self.level.fetch_max(STOPPED, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Ends the queue at once.
    pub(crate) fn cut(&self) {
        self.level.store(CUT, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Whether the queue has to end; if not, the task is woken when it has to.
    pub(crate) fn poll(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.level.load(Ordering::SeqCst) >= STOPPED
    }

    /// Whether the queue has to end at once.
    pub(crate) fn is_cut(&self) -> bool {
        self.level.load(Ordering::SeqCst) == CUT
    }
}

/// A value that one thread waits for.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    value: Mutex<Option<T>>,
    given: Condvar,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self { value: Mutex::new(None), given: Condvar::new() }
    }
}

impl<T> Answer<T> {
    pub(crate) fn give(&self, value: T) {
        *self.value.lock() = Some(value);
        self.given.notify_all();
    }

    /// Blocks the thread until there is a value.
    pub(crate) fn wait(&self) -> T {
        let mut value = self.value.lock();
        loop {
            match value.take() {
                Some(value) => return value,
                None => self.given.wait(&mut value),
            }
        }
    }
}
