//! Random choices that keep to a share in the long run.

use crate::rng::Rng;

/// How many units a quota may be off by, either way.
const SLACK: f64 = 64.0;

/// Says yes to a share of what passes, weighed by size: at random, but so that the share is met within [`SLACK`] units.
#[derive(Debug, Clone)]
pub struct Quota {
    share: f64,
    /// Units that should have had a yes, and had none.
    owed: f64,
}

impl Quota {
    /// A quota of `share`, from 0 to 1.
    pub const fn new(share: f64) -> Self {
        Self { share, owed: 0.0 }
    }

    /// A choice; [`count`](Self::count) must be told what came of it.
    pub fn wants(&self, rng: &mut Rng) -> bool {
        rng.unit() < self.share + self.owed / SLACK
    }

    /// `weight` units had a yes, or a no.
    pub fn count(&mut self, yes: bool, weight: u64) {
        self.owed += weight as f64 * (self.share - f64::from(u8::from(yes)));
    }
}
