//! Ranges of extents.

use crate::ExtentIndex;
use std::ops::Range;

/// Consecutive extents of an object: from `start` up to, and without, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentRange {
    /// The first extent.
    pub start: ExtentIndex,
    /// The extent behind the last one.
    pub end: ExtentIndex,
}

impl ExtentRange {
    /// All extents of an object.
    pub const ALL: Self = Self::new(ExtentIndex(0), ExtentIndex::MAX.next());

    /// The extents from `start` up to, and without, `end`.
    #[must_use]
    pub const fn new(start: ExtentIndex, end: ExtentIndex) -> Self {
        Self { start, end }
    }

    /// One extent.
    #[must_use]
    pub const fn one(index: ExtentIndex) -> Self {
        Self { start: index, end: index.next() }
    }

    /// `count` extents from `start` on.
    #[must_use]
    pub const fn from(start: ExtentIndex, count: u64) -> Self {
        Self { start, end: ExtentIndex(start.0 + count) }
    }

    /// The extents of `extent_bytes` bytes that `len` bytes at `offset` touch.
    #[must_use]
    pub const fn touched(offset: u64, len: u64, extent_bytes: u64) -> Self {
        let end = (offset + len).div_ceil(extent_bytes);
        Self { start: ExtentIndex(offset / extent_bytes), end: ExtentIndex(end) }
    }

    /// The number of extents.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count() == 0
    }

    /// Whether an extent is one of them.
    #[must_use]
    pub const fn contains(self, index: ExtentIndex) -> bool {
        self.start.0 <= index.0 && index.0 < self.end.0
    }

    /// Whether both have an extent in common; ranges without extents have none.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end.0 && other.start.0 < self.end.0
    }

    /// The bytes of the extents in the object.
    #[must_use]
    pub const fn bytes(self, extent_bytes: u64) -> Range<u64> {
        self.start.offset(extent_bytes)..self.end.offset(extent_bytes)
    }

    /// The extents in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = ExtentIndex> + Clone {
        (self.start.0..self.end.0).map(ExtentIndex)
    }

    /// The range in parts of at most `count` extents, which must not be 0.
    pub fn steps(self, count: u64) -> impl Iterator<Item = Self> {
        let firsts = (self.start.0..self.end.0).step_by(count as usize);
        firsts.map(move |first| Self::new(ExtentIndex(first), ExtentIndex(self.end.0.min(first + count))))
    }

    /// The extents from the start up to the first one for which `is_wanted` does not hold.
    #[must_use]
    pub fn take_while(self, mut is_wanted: impl FnMut(ExtentIndex) -> bool) -> Self {
        let end = self.iter().find(|index| !is_wanted(*index)).unwrap_or(self.end);
        Self { start: self.start, end: if self.is_empty() { self.start } else { end } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> ExtentRange {
        ExtentRange::new(ExtentIndex(start), ExtentIndex(end))
    }

    #[test]
    fn ranges_behave_as_those_of_numbers() {
        let (some, none) = (range(3, 7), range(5, 5));
        assert_eq!((some.count(), none.count(), range(7, 3).count()), (4, 0, 0));
        assert!(none.is_empty() && !some.is_empty() && !ExtentRange::ALL.is_empty());
        assert!(some.contains(ExtentIndex(3)) && some.contains(ExtentIndex(6)) && !some.contains(ExtentIndex(7)));
        assert!(some.overlaps(range(6, 9)) && !some.overlaps(range(7, 9)) && !range(0, 3).overlaps(some));
        assert_eq!(some.iter().map(|index| index.0).collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!(some.bytes(4096), 12_288..28_672);
        assert_eq!(
            (ExtentRange::touched(4095, 2, 4096), ExtentRange::touched(8192, 4096, 8192)),
            (range(0, 2), range(1, 2))
        );
        assert_eq!(
            (ExtentRange::one(ExtentIndex(4)), ExtentRange::from(ExtentIndex(4), 2)),
            (range(4, 5), range(4, 6))
        );
    }

    #[test]
    fn a_range_is_divided_without_gaps() {
        assert_eq!(range(1, 8).steps(3).collect::<Vec<_>>(), [range(1, 4), range(4, 7), range(7, 8)]);
        assert_eq!(range(2, 2).steps(3).count(), 0);
        let below = |limit: u64| range(2, 6).take_while(|index| index.0 < limit);
        assert_eq!([below(0), below(4), below(9)], [range(2, 2), range(2, 4), range(2, 6)]);
        assert_eq!(range(6, 2).take_while(|_| true), range(6, 6));
    }
}
