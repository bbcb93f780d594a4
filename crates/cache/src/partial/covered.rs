//! Which bytes of an extent are known.

use std::ops::Range;

/// Bytes of an extent, as ranges that neither overlap nor touch, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covered(Vec<Range<u32>>);

impl Covered {
    /// Adds bytes.
    pub fn add(&mut self, part: Range<u32>) {
        if part.is_empty() {
            return;
        }
        let first = self.0.partition_point(|range| range.end < part.start);
        let last = self.0.partition_point(|range| range.start <= part.end);
        let mut joined = part;
        for range in &self.0[first..last] {
            joined = joined.start.min(range.start)..joined.end.max(range.end);
        }
        self.0.splice(first..last, [joined]);
    }

    /// Whether all bytes from the extent's start to `end` are known.
    #[must_use]
    pub fn reaches(&self, end: u32) -> bool {
        matches!(self.0.as_slice(), [range] if range.start == 0 && range.end >= end)
    }

    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_what_a_naive_bitmap_has(parts in prop::collection::vec((0u32..24, 0u32..9), 0..12)) {
            let (mut covered, mut naive) = (Covered::default(), [false; 32]);
            for (start, len) in parts {
                covered.add(start..start + len);
                naive[start as usize..(start + len) as usize].fill(true);
                let has = |byte: u32| covered.ranges().iter().any(|range| range.contains(&byte));
                prop_assert!((0..32).all(|byte| has(byte) == naive[byte as usize]));
                prop_assert!(covered.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
                let first_gap = naive.iter().position(|known| !known).unwrap_or(32) as u32;
                prop_assert!((1..=32).all(|end| covered.reaches(end) == (first_gap >= end && covered.ranges().len() == 1)));
            }
        }
    }
}
