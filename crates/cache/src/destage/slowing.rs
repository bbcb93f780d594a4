//! How fast writes may come while the room for what they leave behind runs out.

use super::Watermarks;
use std::num::NonZeroU64;

/// Where writes are slowed: the part of a room from which on, and the rate in the middle between that and all of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowing {
    /// The part of the room that may be taken before writes are slowed: from 0 to 1.
    pub from: f64,
    /// Bytes a second when half of the rest is taken.
    pub middle_bytes: u64,
}

/// The part of the way from the start of destage to the most that may be dirty.
const DIRTY_PART: f64 = 2.0 / 3.0;
/// Bytes a second in the middle of the room for dirty data: what a few hard disks take at random.
const DIRTY_MIDDLE_BYTES: u64 = 8 << 20;
/// For what waits for the SSD alone.
const SSD_MIDDLE_BYTES: u64 = 64 << 20;
/// The least rate: nobody is cut off. Where even that is too fast, writes wait for room.
const BYTES_MIN: u64 = 64 << 10;

impl Slowing {
    /// In the RAM of what waits for the SSD.
    pub const RAM: Self = Self { from: 0.6, middle_bytes: SSD_MIDDLE_BYTES };
    /// In the age, or the bytes, by which an origin may be behind: a point is frozen before half of it is used.
    pub const POINT: Self = Self { from: 0.75, middle_bytes: DIRTY_MIDDLE_BYTES };
    /// In a journal or a write log, which make room for themselves once half is taken.
    pub const JOURNAL: Self = Self { from: 0.75, middle_bytes: SSD_MIDDLE_BYTES };

    /// In the room for dirty data: from two thirds of the way between the start of destage and the most that may be dirty, so that
    /// destage has run for a while.
    #[must_use]
    pub fn dirty(marks: Watermarks) -> Self {
        let start = (f64::from(marks.start_percent) / f64::from(marks.max_percent.max(1))).min(1.0);
        Self { from: start + (1.0 - start) * DIRTY_PART, middle_bytes: DIRTY_MIDDLE_BYTES }
    }

    /// Bytes a second that may come when `used` of the room is taken, from 0 to 1; `None`: any number.
    ///
    /// The rate falls from any number to nearly none, as a hyperbola, so that there is one point at which as much comes as goes, however
    /// fast that is: what is taken moves there, and stays. (ZFS delays transactions by the inverse of it: OpenZFS, `dmu_tx.c`,
    /// `dmu_tx_delay`.)
    #[must_use]
    pub fn bytes_per_second(&self, used: f64) -> Option<NonZeroU64> {
        let over = used - self.from;
        if over <= 0.0 {
            return None;
        }
        let rate = self.middle_bytes as f64 * ((1.0 - used) / over).max(0.0);
        NonZeroU64::new((rate as u64).max(BYTES_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(slowing: Slowing, used: f64) -> u64 {
        slowing.bytes_per_second(used).map_or(u64::MAX, NonZeroU64::get)
    }

    #[test]
    fn the_rate_falls_without_a_step_and_never_to_nothing() {
        for slowing in [Slowing::RAM, Slowing::JOURNAL, Slowing::dirty(Watermarks::USUAL)] {
            assert_eq!(rate(slowing, slowing.from), u64::MAX);
            assert!(rate(slowing, slowing.from + 0.000_1) > 5 << 30, "hardly slowed at first");
            let middle = f64::midpoint(slowing.from, 1.0);
            assert!(rate(slowing, middle).abs_diff(slowing.middle_bytes) < 16);
            assert_eq!([1.0, 2.0].map(|used| rate(slowing, used)), [BYTES_MIN; 2]);
            let all: Vec<_> = (0..=10_000).map(|used| rate(slowing, f64::from(used) / 10_000.0)).collect();
            assert!(all.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn destage_begins_before_writes_are_slowed() {
        for (start, max) in [(20, 60), (0, 90), (60, 60), (10, 1)] {
            let marks = Watermarks { start_percent: start, max_percent: max, age_seconds: 30 };
            let from = Slowing::dirty(marks).from;
            assert!(from * f64::from(max) >= f64::from(start.min(max)) && (0.5..=1.0).contains(&from), "{start} {max}");
        }
    }

    /// Writers that come as fast as they may, and an origin that takes a number of bytes each millisecond.
    #[test]
    fn what_is_taken_comes_to_rest_below_all_of_it_whatever_the_origin_takes() {
        const ROOM: f64 = (64 << 20) as f64;
        let slowing = Slowing::dirty(Watermarks::USUAL);
        for drained in [200 << 10, 1 << 20, 20 << 20, 500_u64 << 20] {
            let (mut used, mut most, mut least) = (0.0_f64, 0.0_f64, 1.0_f64);
            for millisecond in 0..600_000 {
                // No client writes more than 1 GiB/s.
                let came = rate(slowing, used / ROOM).min(1 << 30);
                used = (used + came as f64 / 1e3 - drained as f64 / 1e3).max(0.0);
                if millisecond > 500_000 {
                    (most, least) = (most.max(used / ROOM), least.min(used / ROOM));
                }
            }
            assert!(most < 1.0 && least >= slowing.from && most - least < 0.02, "{drained}: {least} to {most}");
        }
    }
}
