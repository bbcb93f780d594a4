//! Random choices that keep a share in the long run.

use crate::rng::Rng;

/// Largest deviation from a share, in units.
const SLACK: f64 = 64.0;

/// Random yes-or-no choices, weighted by size, whose share of yes is kept within [`SLACK`] units.
#[derive(Debug, Clone)]
pub struct Quota {
    share: f64,
    /// Units that are missing for the share; negative if there are too many.
    owed: f64,
}

impl Quota {
    /// A quota of `share`, from 0 to 1.
    pub const fn new(share: f64) -> Self {
        Self { share, owed: 0.0 }
    }

    /// Makes a choice. The result, which may differ from it, must be passed to [`count`](Self::count).
    pub fn wants(&self, rng: &mut Rng) -> bool {
        rng.unit() < self.share + self.owed / SLACK
    }

    /// Counts the result for `weight` units.
    pub fn count(&mut self, yes: bool, weight: u64) {
        self.owed += weight as f64 * (self.share - f64::from(u8::from(yes)));
    }
}
