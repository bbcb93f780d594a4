//! The number of requests whose data are in RAM, which is limited.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Permits; a thread that takes one waits until there is one.
#[derive(Debug)]
pub(crate) struct Permits {
    left: Mutex<usize>,
    given_back: Condvar,
}

/// A permit, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Permits>);

impl Permits {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { left: Mutex::new(count), given_back: Condvar::new() })
    }

    pub(crate) fn take(self: &Arc<Self>) -> Permit {
        let mut left = self.left.lock();
        self.given_back.wait_while(&mut left, |left| *left == 0);
        *left -= 1;
        Permit(Arc::clone(self))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.left.lock() += 1;
        self.0.given_back.notify_one();
    }
}
