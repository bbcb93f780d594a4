//! What requests cost, learned from the times that the device takes.

use nitro_cache::reads::{CostEstimator, Costs};
use std::time::Duration;

/// What decides the cost of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It is elsewhere than the last one of its group: it seeks.
    Seeks,
    /// It begins where the last one of its group ended.
    Continues,
    /// It makes earlier writes durable.
    Flushes,
}

/// The weight of a new flush in the mean cost of flushes.
const FLUSH_WEIGHT: f64 = 0.1;
/// The costs are computed anew after this number of requests.
const RENEWED_EVERY: u32 = 8;

/// The costs of a device.
#[derive(Debug)]
pub(crate) struct Learned {
    estimator: CostEstimator,
    costs: Costs,
    ended: u32,
    flush_ns: f64,
}

impl Learned {
    pub(crate) fn new(rotational: bool) -> Self {
        let costs = Costs::assumed(rotational);
        Self { estimator: CostEstimator::of_all_requests(rotational), costs, ended: 0, flush_ns: costs.request_ns }
    }

    /// The cost of a request in nanoseconds.
    pub(crate) fn of(&self, how: How, bytes: u64) -> f64 {
        match how {
            How::Seeks => self.costs.of(bytes),
            How::Continues => self.costs.byte_ns * bytes as f64,
            How::Flushes => self.flush_ns,
        }
    }

    pub(crate) fn begin(&mut self, how: How, now: Duration) {
        if how != How::Flushes {
            self.estimator.begin(now);
        }
    }

    /// A request has ended; `None`: it failed, or was given up.
    pub(crate) fn end(&mut self, how: How, bytes: Option<u64>, (begun, now): (Duration, Duration)) {
        match how {
            How::Seeks => self.estimator.end(now, bytes),
            How::Continues => self.estimator.end_continuing(now, bytes),
            How::Flushes => {
                let took = now.saturating_sub(begun).as_nanos() as f64;
                self.flush_ns += (took - self.flush_ns) * FLUSH_WEIGHT;
            }
        }
        self.ended += 1;
        if self.ended.is_multiple_of(RENEWED_EVERY) {
            self.costs = self.estimator.costs();
        }
    }
}
