//! The power supply of one or more devices: it counts their steps and fails at a chosen moment.

use nitro_port::Operation;
use parking_lot::Mutex;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// What happens to requests once the power is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// Requests never return, as in a machine without power. Each step of a request counts.
    Silence,
    /// Requests fail. Writes and flushes count when they begin; the last one begins and then fails.
    Errors,
}

struct State {
    steps: u64,
    fails_at: u64,
    off: bool,
    /// A hash of all requests to the devices, to compare runs.
    trace: u64,
    waiting: Option<Waker>,
}

/// A power supply; clones are the same one. Once off, it stays off: the next run has its own supply.
#[derive(Clone)]
pub struct Power {
    outage: Outage,
    state: Arc<Mutex<State>>,
}

impl Power {
    fn with(outage: Outage, fails_at: u64) -> Self {
        let state = State { steps: 0, fails_at, off: false, trace: 0, waiting: None };
        Self { outage, state: Arc::new(Mutex::new(state)) }
    }

    /// A power supply that fails at step number `fails_at`; from then on no request returns.
    #[must_use]
    pub fn new(fails_at: u64) -> Self {
        Self::with(Outage::Silence, fails_at)
    }

    /// A power supply that fails only after [`fail_after`](Self::fail_after); from then on requests fail.
    pub(super) fn with_errors() -> Self {
        Self::with(Outage::Errors, u64::MAX)
    }

    /// The power fails when `changes` more writes and flushes have begun.
    pub(super) fn fail_after(&self, changes: u64) {
        let state = &mut *self.state.lock();
        (state.fails_at, state.off) = (state.steps.saturating_add(changes), changes == 0);
    }

    /// Counts the first or a later step of a request to a device. Returns whether the request may go on; with `Silence`
    /// it does not return without power.
    pub(super) async fn step(&self, is_first: bool, what: (u64, Operation, u64, u64)) -> bool {
        match self.outage {
            Outage::Silence => self.step_or_silence(what).await,
            Outage::Errors => self.step_or_error(is_first, what.1),
        }
    }

    async fn step_or_silence(&self, (device, operation, offset, len): (u64, Operation, u64, u64)) -> bool {
        {
            let mut state = self.state.lock();
            if !state.off {
                state.steps += 1;
                for word in [device << 8 | operation as u64, offset, len] {
                    state.trace = (state.trace ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(17);
                }
                state.off = state.steps >= state.fails_at;
            }
            if !state.off {
                return true;
            }
            state.waiting.take().inspect(Waker::wake_by_ref);
        }
        pending().await
    }

    fn step_or_error(&self, is_first: bool, operation: Operation) -> bool {
        let state = &mut *self.state.lock();
        // A read that has begun completes.
        if !is_first {
            return !state.off || operation == Operation::Read;
        }
        let had_power = !state.off;
        if had_power && matches!(operation, Operation::Write | Operation::Flush) {
            state.steps += 1;
            state.off = state.steps >= state.fails_at;
        }
        had_power
    }

    /// Completes when the power fails.
    pub async fn failure(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock();
            state.waiting = Some(context.waker().clone());
            if state.off { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Switches the power off.
    pub fn cut(&self) {
        self.state.lock().off = true;
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state.lock().off
    }

    /// The number of steps so far, and a hash of them.
    #[must_use]
    pub fn trace(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.steps, state.trace)
    }
}
