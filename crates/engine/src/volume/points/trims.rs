//! TRIMs of a volume that reaches points: the extents that were trimmed since the last point, and not written to since.

use super::super::context::RequestContext;
use super::super::flights::Touches;
use super::super::{EXTENTS_PER_LOCK, Volume};
use super::On;
use crate::error::Error;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentRange};
use std::collections::{BTreeMap, BTreeSet};

/// Ranges that are noted between two points: further ones are not passed on, as by a disk that ignores them.
const RANGES_MAX: usize = 4096;

/// Ranges of extents, in order and not adjacent, by their start.
#[derive(Debug, Default)]
pub(super) struct Trims(BTreeMap<ExtentIndex, ExtentIndex>);

impl Trims {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = ExtentRange> + '_ {
        self.0.iter().map(|(start, end)| ExtentRange::new(*start, *end))
    }

    /// The ranges that touch a range, or are adjacent to it.
    fn near(&self, range: ExtentRange) -> Vec<ExtentRange> {
        let before = self.0.range(..=range.end).rev().map(|(start, end)| ExtentRange::new(*start, *end));
        before.take_while(|near| near.end >= range.start).collect()
    }

    fn add(&mut self, range: ExtentRange) {
        if range.is_empty() || self.0.len() >= RANGES_MAX {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        for near in self.near(range) {
            self.0.remove(&near.start);
            (start, end) = (start.min(near.start), end.max(near.end));
        }
        self.0.insert(start, end);
    }

    /// Takes out extents that were written to.
    pub(super) fn remove(&mut self, range: ExtentRange) {
        if self.0.is_empty() {
            return;
        }
        for near in self.near(range) {
            self.0.remove(&near.start);
            if near.start < range.start {
                self.0.insert(near.start, near.end.min(range.start));
            }
            if near.end > range.end {
                self.0.insert(near.start.max(range.end), near.end);
            }
        }
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Notes that a range is trimmed: the whole extents of it that are not dirty. The others stay as they are, which a trim may do.
    pub(in crate::volume) async fn trim_in_point(
        &self,
        on: &On,
        offset: u64,
        len: u64,
        context: &RequestContext,
    ) -> Result<(), Error> {
        let extent = self.extent_bytes();
        let end = offset + len;
        let last = if end >= self.size_bytes() { end.div_ceil(extent) } else { end / extent };
        let first = offset.div_ceil(extent);
        if first >= last {
            return Ok(());
        }
        let extents = ExtentRange::new(ExtentIndex(first), ExtentIndex(last));
        // No write of these extents is under way meanwhile: what is written later takes them out again.
        let _writing = self.flights.begin_write(extents, Touches::Buffer, context, |_, _| {}).await;
        context.check(offset, len)?;
        self.may_be_dirty.store(true, std::sync::atomic::Ordering::SeqCst);
        // First what is on its way, then what is there: an extent goes from the one to the other.
        let mut dirty: BTreeSet<ExtentIndex> = self.flights.dirty(extents).into_iter().collect();
        let mut from = extents.start;
        loop {
            let count = EXTENTS_PER_LOCK as usize;
            let batch = self.cache.manager.lock().dirty_from(self.object(), from, u32::MAX, count);
            dirty.extend(batch.iter().map(|extent| extent.key.index()).filter(|index| *index < extents.end));
            match batch.last() {
                Some(last) if last.key.index() < extents.end => from = last.key.index().next(),
                _ => break,
            }
            yield_now().await;
        }
        let mut state = on.state.lock();
        let mut start = extents.start;
        for index in dirty {
            state.trims.add(ExtentRange::new(start, index));
            start = index.next();
        }
        state.trims.add(ExtentRange::new(start, extents.end));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The ranges equal a plain set, and are not adjacent.
        #[test]
        fn trims_are_a_set(operations in prop::collection::vec((0u64..80, 1u64..20, any::<bool>()), 0..60)) {
            let (mut trims, mut model) = (Trims::default(), BTreeSet::new());
            for (start, len, is_trim) in operations {
                let range = ExtentRange::from(ExtentIndex(start), len);
                if is_trim {
                    trims.add(range);
                    model.extend(range.iter());
                } else {
                    trims.remove(range);
                    range.iter().for_each(|index| { model.remove(&index); });
                }
                let all: Vec<_> = trims.ranges().flat_map(|range| range.iter().collect::<Vec<_>>()).collect();
                prop_assert_eq!(&all, &model.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<_> = trims.ranges().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }
}
