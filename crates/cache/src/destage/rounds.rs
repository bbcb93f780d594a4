//! How dirty extents are divided into rounds, after each of which the origin is flushed, and into writes.

use super::{ROUND_EXTENTS, WRITES_AT_ONCE_MAX, run_extents_max};
use nitro_units::ExtentIndex;

/// Bytes of a round, of an origin that stores whole units.
const ROUND_BYTES: usize = 64 << 20;
/// Bytes that are written at once to such an origin.
const AT_ONCE_BYTES: usize = 16 << 20;

/// Rounds and writes for an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// Extents of a round.
    pub extents: usize,
    /// Extents of a write.
    pub run_extents: usize,
    /// Writes at once.
    pub writes_at_once: usize,
    /// Extents of a unit, if the origin stores whole units.
    unit_extents: Option<u64>,
}

impl Rounds {
    /// Those for extents of a size, both in bytes; `unit_bytes`: the origin rewrites a unit as a whole if a part of it changes, as
    /// objects of a bucket are.
    #[must_use]
    pub fn new(extent_bytes: usize, unit_bytes: Option<usize>) -> Self {
        let Some(unit_bytes) = unit_bytes else {
            let run_extents = run_extents_max(extent_bytes);
            let (extents, writes_at_once) = (ROUND_EXTENTS, WRITES_AT_ONCE_MAX);
            return Self { extents, run_extents, writes_at_once, unit_extents: None };
        };
        let run_extents = (unit_bytes / extent_bytes).max(1);
        let unit_bytes = run_extents * extent_bytes;
        let units = (ROUND_BYTES / unit_bytes).max(1);
        Self {
            extents: units * run_extents,
            run_extents,
            writes_at_once: (AT_ONCE_BYTES / unit_bytes).clamp(1, WRITES_AT_ONCE_MAX),
            unit_extents: Some(run_extents as u64),
        }
    }

    /// Whether the writes of a round begin while the origin is flushed after the round before.
    #[must_use]
    pub const fn overlap(&self) -> bool {
        self.unit_extents.is_some()
    }

    /// The first extents of the units of a round, of those to which the chosen extents belong, and the extents of each; `None`: the
    /// origin has no units. The chosen extents are in order of offset.
    #[must_use]
    pub fn units(&self, chosen: impl Iterator<Item = ExtentIndex>) -> Option<(Vec<ExtentIndex>, u64)> {
        let each = self.unit_extents?;
        let mut units: Vec<ExtentIndex> = chosen.map(|index| ExtentIndex(index.0 / each * each)).collect();
        units.dedup();
        units.truncate(self.extents / each as usize);
        Some((units, each))
    }

    /// Whether one write may have two extents that follow each other, of which this is the second.
    #[must_use]
    pub fn are_together(&self, second: ExtentIndex) -> bool {
        self.unit_extents.is_none_or(|each| !second.0.is_multiple_of(each))
    }

    /// The most extents whose contents are in RAM at a time.
    #[must_use]
    pub fn in_ram(&self) -> usize {
        (self.writes_at_once * self.run_extents).min(self.extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_with_units_gets_whole_ones_in_rounds_of_64_mib() {
        let rounds = Rounds::new(32 << 10, Some(4 << 20));
        assert_eq!((rounds.extents, rounds.run_extents, rounds.writes_at_once), (2048, 128, 4));
        assert!(rounds.overlap() && rounds.are_together(ExtentIndex(127)) && !rounds.are_together(ExtentIndex(128)));
        let chosen = [0, 5, 127, 128, 1000].map(ExtentIndex);
        assert_eq!(
            rounds.units(chosen.into_iter()),
            Some((vec![ExtentIndex(0), ExtentIndex(128), ExtentIndex(896)], 128))
        );
        let sparse = (0..2048).map(|n| ExtentIndex(n * 500));
        assert_eq!(rounds.units(sparse).map(|(units, _)| units.len()), Some(16));
        // Extents that are larger than units are units.
        let large = Rounds::new(128 << 10, Some(64 << 10));
        assert_eq!((large.extents, large.run_extents, large.writes_at_once), (512, 1, WRITES_AT_ONCE_MAX));
    }

    #[test]
    fn other_origins_get_rounds_of_extents() {
        let rounds = Rounds::new(32 << 10, None);
        assert_eq!((rounds.extents, rounds.run_extents, rounds.in_ram()), (ROUND_EXTENTS, 32, ROUND_EXTENTS));
        assert!(!rounds.overlap() && rounds.are_together(ExtentIndex(128)));
        assert_eq!(rounds.units(std::iter::empty()), None);
    }
}
