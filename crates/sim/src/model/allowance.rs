//! A write budget in a simulation: so many bytes written to the SSD for each byte that is requested.

use nitro_cache::{Budget, Thrift};

/// Steps while as many bytes are requested as the cache has.
const STEPS: u64 = 32;

/// What may be written.
pub(super) struct Allowance {
    budget: Budget,
    ratio: f64,
    step_bytes: u64,
    requested: u64,
    written: u64,
}

impl Allowance {
    /// Of `ratio` bytes for each byte that is requested. As much as the cache has may be saved.
    pub(super) fn new(ratio: f64, cache_bytes: u64) -> Self {
        let budget = Budget::new(0, cache_bytes);
        let step_bytes = (cache_bytes / STEPS).max(1);
        Self { budget, ratio, step_bytes, requested: 0, written: 0 }
    }

    /// Bytes were written to the SSD.
    pub(super) fn note_written(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Bytes are requested; how sparing the cache is to be from now on, if that changes.
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
