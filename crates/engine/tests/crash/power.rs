//! The power supply of all devices: it counts their steps and fails at a chosen one.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

#[derive(Default)]
struct State {
    steps: u64,
    fails_at: u64,
    off: bool,
    /// A hash of all that was asked of the devices, to compare runs by.
    trace: u64,
    waiting: Option<Waker>,
}

/// One power supply. Once off, it stays off: the next run has its own.
#[derive(Clone)]
pub struct Power(Arc<Mutex<State>>);

impl Power {
    /// Fails at the `fails_at`th step from now on.
    pub fn new(fails_at: u64) -> Self {
        Self(Arc::new(Mutex::new(State { fails_at, ..State::default() })))
    }

    /// One step of a device operation. Does not return once the power is off.
    pub async fn step(&self, what: (u64, u64, u64)) {
        {
            let mut state = self.0.lock().unwrap();
            if !state.off {
                state.steps += 1;
                for word in [what.0, what.1, what.2] {
                    state.trace = (state.trace ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(17);
                }
                state.off = state.steps >= state.fails_at;
            }
            if !state.off {
                return;
            }
            state.waiting.take().inspect(Waker::wake_by_ref);
        }
        std::future::pending().await
    }

    /// Ends when the power fails.
    pub async fn failure(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            state.waiting = Some(context.waker().clone());
            if state.off { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Switches it off.
    pub fn cut(&self) {
        self.0.lock().unwrap().off = true;
    }

    pub fn is_off(&self) -> bool {
        self.0.lock().unwrap().off
    }

    /// Steps so far, and a hash of them.
    pub fn trace(&self) -> (u64, u64) {
        let state = self.0.lock().unwrap();
        (state.steps, state.trace)
    }
}
