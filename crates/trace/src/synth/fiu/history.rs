//! What a trace did lately.

use crate::rng::Rng;

/// Requests of each size, and contents, that are remembered, to come back to.
const HISTORY: usize = 1 << 18;

/// Runs of blocks or contents, the last [`HISTORY`] of them.
#[derive(Debug, Clone)]
pub struct History {
    runs: Vec<(u32, u8)>,
    count: u64,
}

impl History {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { runs: Vec::new(), count: 0 }
    }

    /// Whether there is nothing.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a run: its first block or content, and how many.
    pub fn push(&mut self, first: u32, len: u64) {
        let run = (first, len as u8);
        if self.runs.len() < HISTORY {
            self.runs.push(run);
        } else {
            self.runs[self.count as usize % HISTORY] = run;
        }
        self.count += 1;
    }

    /// A run of at least `age_min` ago, if there is one: the logarithm of its age is equally distributed, so that what
    /// was used lately is used most.
    pub fn pick(&self, age_min: f64, rng: &mut Rng) -> Option<(u32, u64)> {
        let count = self.runs.len() as f64;
        if count < age_min || self.runs.is_empty() {
            return None;
        }
        let age = age_min * libm::exp(rng.unit() * libm::log(count / age_min));
        let age = (age as u64).clamp(1, self.runs.len() as u64);
        let (first, len) = self.runs[((self.count - age) % HISTORY as u64) as usize];
        Some((first, len.into()))
    }
}
