//! A signal that stays set and wakes all waiters on all threads.

use crate::yielding::attempt_at;
use event_listener::Event;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signal.
#[derive(Debug, Default)]
pub struct Latch {
    set: AtomicBool,
    event: Event,
}

impl Latch {
    /// Sets the signal.
    pub fn set(&self) {
        self.set.store(true, Ordering::SeqCst);
        self.event.notify(usize::MAX);
    }

    /// Clears the signal, if the end that it announced was cancelled.
    pub fn clear(&self) {
        self.set.store(false, Ordering::SeqCst);
    }

    /// Whether the signal is set.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    /// Waits until the signal is set.
    pub async fn wait(&self) {
        attempt_at(&self.event, || self.is_set().then_some(())).await;
    }
}
