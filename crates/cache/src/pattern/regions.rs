//! Patterns by pattern region of an object (Allu et al., USENIX ATC 2018, "Access pattern detection"): each region
//! stores the last three ranges that were accessed in it, and determines from their history whether it is accessed in
//! sequence, upwards with gaps, or at random. The pattern may differ between regions, and change over time: old
//! accesses have less weight.

use serde::Serialize;

/// Number of ranges that a region remembers.
const RANGES: usize = 3;
/// Maximum number of regions of an object: if there would be more, their size is doubled.
pub const REGIONS_MAX: usize = 64;
/// Initial size of a region in bytes.
const SPAN_BYTES_MIN: u64 = 16 << 20;
/// An access that begins at most this far behind the end of an earlier one continues it.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// Number of accesses after which a region has a pattern.
const HISTORY_MIN: u32 = 4;
/// Number of accesses after which a region may count as accessed upwards with gaps: of fewer random ones, too many go
/// upwards by chance.
const MONOTONIC_HISTORY_MIN: u32 = 8;
/// Number of accesses after which all counts are halved.
const HISTORY_MAX: u32 = 16;
/// A single access of this size counts as sequential.
const LARGE_BYTES: u64 = 512 << 10;

/// How a region is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Too few accesses to tell.
    #[default]
    Unknown,
    /// Each access continues an earlier one, or is large.
    Sequential,
    /// Accesses go upwards, with gaps between them.
    Monotonic,
    /// At random.
    Random,
}

impl Pattern {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Sequential => "sequential",
            Self::Monotonic => "monotonic",
            Self::Random => "random",
        }
    }
}

/// The history of a region.
#[derive(Debug, Clone, Copy, Default)]
struct Region {
    /// The last ranges, the newest first: start, and length in bytes. Length 0: no range.
    ranges: [(u64, u32); RANGES],
    /// Counts of sequential, monotonic and random accesses.
    votes: [u8; 3],
}

const _: () = assert!(size_of::<Region>() <= 64);

impl Region {
    fn access(&mut self, offset: u64, len: u64) {
        let known = self.ranges.iter().filter(|(_, len)| *len > 0);
        let end = |range: &(u64, u32)| range.0.saturating_add(range.1.into());
        let follows = known.clone().any(|range| offset >= end(range) && offset - end(range) <= GAP_BYTES_MAX);
        let vote = match known.clone().next() {
            _ if follows || len >= LARGE_BYTES => Some(0),
            Some(_) if known.clone().all(|range| offset >= end(range)) => Some(1),
            Some(_) => Some(2),
            None => None,
        };
        if let Some(vote) = vote {
            if self.total() >= HISTORY_MAX {
                self.votes.iter_mut().for_each(|votes| *votes /= 2);
            }
            self.votes[vote] += 1;
        }
        // An access that continues a range replaces it, so that interleaved streams are kept apart.
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let goes_on = self
            .ranges
            .iter()
            .position(|range| range.1 > 0 && offset >= end(range) && offset - end(range) <= GAP_BYTES_MAX);
        self.ranges[..=goes_on.unwrap_or(RANGES - 1)].rotate_right(1);
        self.ranges[0] = (offset, len);
    }

    fn total(&self) -> u32 {
        self.votes.iter().map(|votes| u32::from(*votes)).sum()
    }

    fn pattern(&self) -> Pattern {
        let [sequential, _, random] = self.votes.map(u32::from);
        let total = self.total();
        if total + 1 < HISTORY_MIN {
            Pattern::Unknown
        } else if sequential * 2 > total {
            Pattern::Sequential
        } else if random * 4 <= total {
            if total + 1 < MONOTONIC_HISTORY_MIN { Pattern::Unknown } else { Pattern::Monotonic }
        } else {
            Pattern::Random
        }
    }

    /// The history of this region or of the next one: the longer one.
    fn merged(self, next: Self) -> Self {
        if next.total() > self.total() { next } else { self }
    }
}

/// A region, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RegionPattern {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// How it is accessed.
    pub pattern: Pattern,
    /// Counts of sequential, monotonic and random accesses.
    pub accesses: [u8; 3],
}

/// Detects the patterns of one object, with at most [`RAM_BYTES_MAX`](Self::RAM_BYTES_MAX) of RAM.
#[derive(Debug, Clone)]
pub struct RegionDetector {
    span_bytes: u64,
    regions: Vec<Region>,
}

impl Default for RegionDetector {
    fn default() -> Self {
        Self { span_bytes: SPAN_BYTES_MIN, regions: Vec::new() }
    }
}

impl RegionDetector {
    /// The maximum RAM in bytes that it takes.
    pub const RAM_BYTES_MAX: usize = REGIONS_MAX * size_of::<Region>() + size_of::<Self>();

    /// Notes an access, and returns the new pattern of its region. A region without a history copies that of the
    /// previous one, if the access continues there.
    pub fn access(&mut self, offset: u64, len: u64) -> Pattern {
        let number = self.number(offset);
        if self.regions.len() <= number {
            self.regions.resize(number + 1, Region::default());
        }
        if self.regions[number].ranges[0].1 == 0
            && let Some(before) = number.checked_sub(1).map(|before| self.regions[before])
        {
            let start = number as u64 * self.span_bytes;
            let (at, bytes) = before.ranges[0];
            if bytes > 0
                && offset - start <= GAP_BYTES_MAX
                && offset.abs_diff(at.saturating_add(bytes.into())) <= GAP_BYTES_MAX
            {
                self.regions[number] = before;
            }
        }
        self.regions[number].access(offset, len);
        self.regions[number].pattern()
    }

    /// The pattern of the region of a byte.
    #[must_use]
    pub fn pattern(&self, offset: u64) -> Pattern {
        self.regions.get((offset / self.span_bytes) as usize).map_or(Pattern::Unknown, Region::pattern)
    }

    /// The number of the region of a byte; first doubles the size of regions as often as needed.
    fn number(&mut self, offset: u64) -> usize {
        while offset / self.span_bytes >= REGIONS_MAX as u64 {
            self.span_bytes *= 2;
            let merged = self.regions.chunks(2).map(|pair| match pair {
                [one, next] => one.merged(*next),
                [one, ..] => *one,
                [] => Region::default(),
            });
            self.regions = merged.collect();
        }
        (offset / self.span_bytes) as usize
    }

    /// The regions that were accessed, in order.
    pub fn regions(&self) -> impl Iterator<Item = RegionPattern> {
        let span = self.span_bytes;
        let known = self.regions.iter().zip(0..).filter(|(region, _)| region.ranges[0].1 > 0);
        known.map(move |(region, number)| RegionPattern {
            offset: number * span,
            len: span,
            pattern: region.pattern(),
            accesses: region.votes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const GIB: u64 = 1 << 30;

    #[test]
    fn the_regions_of_one_object_have_patterns_of_their_own() {
        let mut detector = RegionDetector::default();
        detector.access(6 * GIB - 8 * KIB, 8 * KIB);
        let mut random = 1_u64;
        for step in 0..40 {
            detector.access(step * 64 * KIB, 64 * KIB);
            detector.access(2 * GIB + step * 300 * KIB, 8 * KIB);
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            detector.access(4 * GIB + (random >> 40) % 16384 * 4 * KIB, 8 * KIB);
        }
        assert_eq!(detector.pattern(0), Pattern::Sequential);
        assert_eq!(detector.pattern(2 * GIB), Pattern::Monotonic);
        assert_eq!(detector.pattern(4 * GIB), Pattern::Random);
        assert_eq!(detector.pattern(5 * GIB), Pattern::Unknown);
        assert_eq!(detector.regions().count(), 4);
    }

    #[test]
    fn random_accesses_hardly_ever_go_upwards_by_chance() {
        let (mut random, mut monotonic) = (1_u64, 0);
        for _ in 0..10_000 {
            let mut detector = RegionDetector::default();
            monotonic += u32::from((0..12).any(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                detector.access((random >> 40) % 4096 * 4 * KIB, 4 * KIB) == Pattern::Monotonic
            }));
        }
        assert!(monotonic < 50, "{monotonic} of 10,000");
    }

    #[test]
    fn what_changes_is_learnt_afresh() {
        let mut detector = RegionDetector::default();
        for step in 0..1000 {
            detector.access(step * 8 * KIB, 8 * KIB);
        }
        assert_eq!(detector.pattern(0), Pattern::Sequential);
        let mut needed = 0;
        while detector.pattern(0) != Pattern::Random {
            needed += 1;
            detector.access(needed * 7919 % 1000 * 8 * KIB, 8 * KIB);
            assert!(needed < 100);
        }
        assert!(needed <= 2 * u64::from(HISTORY_MAX), "{needed} accesses");
        for step in 0..40 {
            detector.access(step * 8 * KIB, 8 * KIB);
        }
        assert_eq!(detector.pattern(0), Pattern::Sequential);
    }

    #[test]
    fn streams_side_by_side_are_sequences_and_go_on_into_the_next_region() {
        let mut detector = RegionDetector::default();
        for step in 0..100 {
            detector.access(step * 8 * KIB, 8 * KIB);
            detector.access((8 << 20) + step * 8 * KIB, 8 * KIB);
            detector.access((12 << 20) + step * 8 * KIB, 8 * KIB);
        }
        assert_eq!(detector.pattern(0), Pattern::Sequential);
        let mut detector = RegionDetector::default();
        for step in 0..2 * SPAN_BYTES_MIN / (64 * KIB) {
            let pattern = detector.access(step * 64 * KIB, 64 * KIB);
            assert!(step < 8 || pattern == Pattern::Sequential, "{step}");
        }
    }

    #[test]
    fn regions_stay_few_however_large_an_object_is() {
        let mut detector = RegionDetector::default();
        for step in 0..10_000_u64 {
            detector.access(step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 3, 8 * KIB);
            assert!(detector.regions.len() <= REGIONS_MAX);
        }
        detector.access(u64::MAX - 10, 5);
        assert!(detector.regions().count() <= REGIONS_MAX);
    }
}
