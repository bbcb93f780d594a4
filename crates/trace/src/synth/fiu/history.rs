//! What a trace did recently.

use crate::rng::Rng;

/// Runs of blocks or contents, the last `limit` of them, to come back to.
#[derive(Debug, Clone)]
pub struct History {
    runs: Vec<(u32, u8)>,
    count: u64,
    limit: usize,
}

impl History {
    /// Nothing yet; room for `limit` runs, which is not 0.
    pub const fn new(limit: usize) -> Self {
        Self { runs: Vec::new(), count: 0, limit }
    }

    /// Whether there is nothing.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a run: its first block or content, and how many.
    pub fn push(&mut self, first: u32, len: u64) {
        let run = (first, len as u8);
        if self.runs.len() < self.limit {
            self.runs.push(run);
        } else {
            self.runs[self.count as usize % self.limit] = run;
        }
        self.count += 1;
    }

    /// A run of at least `age_min` ago, if there is one: the logarithm of its age is equally distributed, so that what
    /// was used recently is used most.
    pub fn pick(&self, age_min: f64, rng: &mut Rng) -> Option<(u32, u64)> {
        let count = self.runs.len() as f64;
        if count < age_min || self.runs.is_empty() {
            return None;
        }
        let age = age_min * libm::exp(rng.unit() * libm::log(count / age_min));
        let age = (age as u64).clamp(1, self.runs.len() as u64);
        let (first, len) = self.runs[((self.count - age) % self.limit as u64) as usize];
        Some((first, len.into()))
    }
}
