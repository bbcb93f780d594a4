//! A write budget: it limits the bytes written to the SSD and determines how the cache complies with the limit.
//!
//! Writes are reduced first where this costs the fewest hits: new content that was not used again while it waited in
//! RAM (Kangaroo, SOSP'21, §4.2: admission before the flash), then copying forward, and then other content at random.
//! docs/PERFORMANCE.md shows the cost.

use crate::shelf::Lane;

/// The denominator of shares.
const WHOLE: u16 = 256;
/// Maximum percentage of the bytes of a main unit that is copied forward: each new byte then costs at most seven.
const FORWARD_PERCENT_MAX: u8 = 85;
/// The same for a unit on probation.
const FORWARD_NEW_PERCENT_MAX: u8 = 75;
/// Openness above which only new content that was not used again is refused; below it, less is copied forward.
const NEW_UNTIL: f64 = 0.4;
/// Openness below which other content is refused, too.
const FORWARD_UNTIL: f64 = 0.15;
/// The lowest openness: some content is always admitted, so that its hits can be observed.
const OPENNESS_MIN: f64 = 1.0 / 256.0;
/// The largest change in a step, in both directions.
const STEP: f64 = 0.25;
/// Number of steps over which the bytes written are averaged, because units are written as a whole.
const SMOOTHED_OVER: f64 = 16.0;
/// Number of steps over which saved bytes are spent.
const SPENT_OVER: f64 = 360.0;
/// The minimum target of a step, as a fraction of the bytes that it earns: if more than the budget had to be written,
/// the excess is recovered over time.
const TARGET_MIN: f64 = 0.25;

/// How much a cache reduces writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thrift {
    /// The share in 256ths that is refused of new content that was not used again and not dropped recently.
    pub(crate) new_refused: u16,
    /// The share in 256ths that is refused of other content.
    pub(crate) known_refused: u16,
    /// Maximum percentage of a unit's bytes that is copied forward.
    pub(crate) forward_percent: u8,
}

impl Thrift {
    /// Without a budget.
    pub const NONE: Self = Self { new_refused: 0, known_refused: 0, forward_percent: FORWARD_PERCENT_MAX };

    /// The reduction for an openness: from 1 (nothing is refused) to nearly 0.
    #[must_use]
    pub fn new(openness: f64) -> Self {
        let part = |from: f64, to: f64| ((openness - to) / (from - to)).clamp(0.0, 1.0);
        let refused = |open: f64| ((1.0 - open) * f64::from(WHOLE)) as u16;
        Self {
            new_refused: refused(part(1.0, NEW_UNTIL)),
            known_refused: refused(part(FORWARD_UNTIL, 0.0)),
            forward_percent: (part(NEW_UNTIL, FORWARD_UNTIL) * f64::from(FORWARD_PERCENT_MAX)) as u8,
        }
    }

    /// Maximum percentage of the bytes of a unit of a lane that is copied forward.
    pub(crate) fn forward_percent_of(self, lane: Lane) -> u8 {
        match lane {
            Lane::Main => self.forward_percent,
            Lane::Side | Lane::Dirty => self.forward_percent.min(FORWARD_NEW_PERCENT_MAX),
        }
    }

    /// Whether content is refused; `draw` is a random number.
    pub(crate) const fn refuses(self, is_new: bool, draw: u64) -> bool {
        (draw % WHOLE as u64) < if is_new { self.new_refused } else { self.known_refused } as u64
    }
}

/// Keeps the bytes written within a budget, in steps of equal length. Unused bytes are saved, up to a bound. In any
/// period, at most this bound is written beyond the budget, except for dirty extents, which have to be written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    saved: f64,
    saved_max: f64,
    /// Bytes written in a step, in the mean.
    mean: f64,
    openness: f64,
}

impl Budget {
    /// A budget of which at most `saved_max` bytes can be saved, with `saved` bytes at first.
    #[must_use]
    pub fn new(saved: u64, saved_max: u64) -> Self {
        Self { saved: saved.min(saved_max) as f64, saved_max: saved_max as f64, mean: 0.0, openness: 1.0 }
    }

    /// Ends a step in which `earned` bytes could have been written, and `written` were.
    pub fn step(&mut self, earned: f64, written: u64) {
        let written = written as f64;
        self.saved = (self.saved + earned - written).clamp(-self.saved_max, self.saved_max);
        let target = (earned + self.saved / SPENT_OVER).max(earned * TARGET_MIN);
        self.mean += (written.min(self.saved_max) - self.mean) / SMOOTHED_OVER;
        let change = if self.mean > 0.0 { target / self.mean } else { 1.0 + STEP };
        self.openness = (self.openness * change.clamp(1.0 - STEP, 1.0 + STEP)).clamp(OPENNESS_MIN, 1.0);
    }

    /// The openness, from 1 (nothing is refused) to nearly 0.
    #[must_use]
    pub const fn openness(&self) -> f64 {
        self.openness
    }

    /// Bytes that may be written in addition; negative: the budget is exceeded.
    #[must_use]
    pub const fn saved_bytes(&self) -> f64 {
        self.saved
    }

    /// How much the cache has to reduce writes.
    #[must_use]
    pub fn thrift(&self) -> Thrift {
        Thrift::new(self.openness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_the_fewest_hits_is_given_up_first() {
        assert_eq!(Thrift::new(1.0), Thrift::NONE);
        assert_eq!(Thrift::new(0.4), Thrift { new_refused: 256, ..Thrift::NONE });
        assert_eq!(Thrift::new(0.15), Thrift { new_refused: 256, known_refused: 0, forward_percent: 0 });
        let least = Thrift::new(OPENNESS_MIN);
        assert!(least.refuses(true, 255) && !least.refuses(false, 255) && least.refuses(false, 200));
        assert!(!Thrift::NONE.refuses(true, 0));
    }

    /// The demand falls with openness; in the end the bytes written equal the budget.
    #[test]
    fn what_is_written_comes_down_to_the_budget_and_back() {
        let mut budget = Budget::new(100_000, 100_000);
        let mut total = 0.0;
        for _ in 0..4000 {
            let written = (1000.0 * budget.openness()) as u64;
            total += written as f64;
            budget.step(200.0, written);
        }
        assert!((total - 4000.0 * 200.0 - 100_000.0).abs() < 5000.0, "{total}");
        assert!((0.15..0.25).contains(&budget.openness()), "{budget:?}");
        for _ in 0..50 {
            budget.step(200.0, 10);
        }
        assert_eq!(budget.thrift(), Thrift::NONE, "what is little is not held up");
    }

    /// The budget cannot limit writes that are mandatory; their debt is bounded.
    #[test]
    fn debts_have_a_bound() {
        let mut budget = Budget::new(1000, 1000);
        for _ in 0..100 {
            budget.step(10.0, 1 << 40);
        }
        assert!(budget.saved_bytes() >= -1000.0);
        for _ in 0..200 {
            budget.step(10.0, 0);
        }
        assert_eq!((budget.openness(), budget.saved_bytes()), (1.0, 1000.0));
    }
}
