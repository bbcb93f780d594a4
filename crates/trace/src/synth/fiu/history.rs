//! The recent requests or contents of a trace.

use crate::rng::Rng;

/// The last `limit` runs of blocks or contents, which later requests use again.
#[derive(Debug, Clone)]
pub struct History {
    runs: Vec<(u32, u8)>,
    count: u64,
    limit: usize,
}

impl History {
    /// An empty history of at most `limit` runs, which is not 0.
    pub const fn new(limit: usize) -> Self {
        Self { runs: Vec::new(), count: 0, limit }
    }

    /// Whether there are no runs.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a run: its first block or content, and its length.
    pub fn push(&mut self, first: u32, len: u64) {
        let run = (first, len as u8);
        if self.runs.len() < self.limit {
            self.runs.push(run);
        } else {
            self.runs[self.count as usize % self.limit] = run;
        }
        self.count += 1;
    }

    /// A run that was added at least `age_min` runs ago, if there is one. The density of the logarithm of its age is
    /// proportional to its position between the least and the greatest to the power of `reuse`: with 0, it is uniformly
    /// distributed, so that recent runs are used most.
    pub fn pick(&self, age_min: f64, reuse: f64, rng: &mut Rng) -> Option<(u32, u64)> {
        let count = self.runs.len() as f64;
        if count < age_min || self.runs.is_empty() {
            return None;
        }
        let position = if reuse == 0.0 { rng.unit() } else { libm::pow(rng.unit(), 1.0 / (1.0 + reuse)) };
        let age = age_min * libm::exp(position * libm::log(count / age_min));
        let age = (age as u64).clamp(1, self.runs.len() as u64);
        let (first, len) = self.runs[((self.count - age) % self.limit as u64) as usize];
        Some((first, len.into()))
    }
}
