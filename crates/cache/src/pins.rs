//! Pins: extents that are cached independently of the policies, and are copied forward before their units are evicted
//! (Differentiated Storage Services, SOSP 2011, §3.2: data that an administrator knows to be hot).
//!
//! An extent that is pinned when it is inserted has its own content, even if it is a duplicate: which of the keys of one
//! content it is copied forward under depends on their use. A unit with mostly pinned extents is evicted only if
//! there is no other candidate.

use nitro_units::{ExtentKey, ObjectId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of pinned ranges of a volume.
pub const PINS_PER_VOLUME: usize = 16;
/// Maximum number of extents that one call may pin or unpin, because it looks each of them up.
pub const PIN_STEP_EXTENTS: u64 = 64;

/// Pinned ranges of extent numbers, in order and not adjacent.
pub type PinRanges = Vec<Range<u64>>;

/// The pinned ranges, by object.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    by_object: BTreeMap<ObjectId, PinRanges>,
    /// Total number of extents in the ranges.
    extents: u64,
    /// Number of pinned extents that are cached.
    cached: u64,
}

/// The ranges with `changed` added if `pinned`, otherwise removed.
#[must_use]
pub fn with_range(ranges: &[Range<u64>], changed: &Range<u64>, pinned: bool) -> PinRanges {
    if changed.start >= changed.end {
        return ranges.to_vec();
    }
    let mut all = PinRanges::with_capacity(ranges.len() + 1);
    let mut new = changed.clone();
    for range in ranges {
        let is_apart = if pinned {
            range.end < new.start || range.start > new.end
        } else {
            range.end <= new.start || range.start >= new.end
        };
        if is_apart {
            all.push(range.clone());
        } else if pinned {
            new = new.start.min(range.start)..new.end.max(range.end);
        } else {
            let parts = [range.start..new.start, new.end..range.end];
            all.extend(parts.into_iter().filter(|part| part.start < part.end));
        }
    }
    if pinned {
        all.push(new);
        all.sort_by_key(|range| range.start);
    }
    all
}

fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

impl Pins {
    #[inline]
    pub(crate) fn has(&self, key: ExtentKey) -> bool {
        if self.by_object.is_empty() {
            return false;
        }
        let Some(ranges) = self.by_object.get(&key.object()) else { return false };
        let at = ranges.partition_point(|range| range.end <= key.index().0);
        ranges.get(at).is_some_and(|range| range.start <= key.index().0)
    }

    /// The ranges of an object.
    pub(crate) fn of(&self, object: ObjectId) -> &[Range<u64>] {
        self.by_object.get(&object).map_or(&[], Vec::as_slice)
    }

    /// Number of pinned extents, and how many of them are cached.
    pub(crate) const fn extents(&self) -> (u64, u64) {
        (self.extents, self.cached)
    }

    pub(crate) fn set(&mut self, object: ObjectId, ranges: PinRanges) {
        let before = self.by_object.remove(&object).map_or(0, |ranges| total(&ranges));
        self.extents = self.extents + total(&ranges) - before;
        if !ranges.is_empty() {
            self.by_object.insert(object, ranges);
        }
    }

    pub(crate) fn note_cached(&mut self, is_more: bool) {
        self.cached = if is_more { self.cached + 1 } else { self.cached.saturating_sub(1) };
    }

    pub(crate) fn note_gone(&mut self, extents: u32) {
        self.cached = self.cached.saturating_sub(extents.into());
    }
}

/// Percentage of a cache of `extents` that pins guarantee, rounded up.
pub(crate) fn percent(pinned: u64, extents: u64) -> u64 {
    u64::try_from((u128::from(pinned) * 100).div_ceil(u128::from(extents.max(1)))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::ExtentIndex;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The ranges equal a plain set, are in order, and are not adjacent.
        #[test]
        fn ranges_are_a_set(operations in prop::collection::vec((0u64..200, 0u64..40, any::<bool>()), 0..60)) {
            let (mut ranges, mut model) = (PinRanges::new(), BTreeSet::new());
            let mut pins = Pins::default();
            for (start, len, pinned) in operations {
                ranges = with_range(&ranges, &(start..start + len), pinned);
                (start..start + len).for_each(|at| { if pinned { model.insert(at); } else { model.remove(&at); } });
                pins.set(ObjectId(3), ranges.clone());
                prop_assert_eq!(pins.extents, model.len() as u64);
                for at in 0..250 {
                    prop_assert_eq!(pins.has(ExtentKey::new(ObjectId(3), ExtentIndex(at))), model.contains(&at));
                }
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert!(!pins.has(ExtentKey::new(ObjectId(4), ExtentIndex(start))));
            }
        }
    }
}
