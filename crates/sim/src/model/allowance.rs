//! The write budget of a simulation: bytes written to the SSD for each byte requested.

use nitro_cache::{Budget, Thrift};

/// The budget is updated this number of times while the bytes requested add up to the size of the cache.
const STEPS: u64 = 32;

/// A write budget by bytes requested.
pub(super) struct Allowance {
    budget: Budget,
    ratio: f64,
    step_bytes: u64,
    requested: u64,
    written: u64,
}

impl Allowance {
    /// A budget of `ratio` bytes for each byte requested. Unused bytes are saved, up to the size of the cache.
    pub(super) fn new(ratio: f64, cache_bytes: u64) -> Self {
        let budget = Budget::new(0, cache_bytes);
        let step_bytes = (cache_bytes / STEPS).max(1);
        Self { budget, ratio, step_bytes, requested: 0, written: 0 }
    }

    /// Counts bytes written to the SSD.
    pub(super) fn note_written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Counts bytes requested; returns the new [`Thrift`] if it is updated.
    pub(super) fn note_requested(&mut self, bytes: u64) -> Option<Thrift> {
        self.requested += bytes;
        if self.requested < self.step_bytes {
            return None;
        }
        self.budget.step(self.requested as f64 * self.ratio, self.written);
        (self.requested, self.written) = (0, 0);
        Some(self.budget.thrift())
    }
}
