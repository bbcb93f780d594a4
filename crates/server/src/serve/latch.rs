//! A signal that stays set and wakes all waiters on all threads.

use event_listener::Event;
use nitro_port::yielding::attempt_at;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub struct Latch {
    set: AtomicBool,
    event: Event,
}

impl Latch {
    pub fn set(&self) {
        self.set.store(true, Ordering::SeqCst);
        self.event.notify(usize::MAX);
    }

    /// Clears the signal, if the end that it announced was cancelled.
    pub fn clear(&self) {
        self.set.store(false, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    pub async fn wait(&self) {
        attempt_at(&self.event, || self.is_set().then_some(())).await;
    }
}
