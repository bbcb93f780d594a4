//! Parts of an extent that were written one after the other.

use crate::kept::Kept;
use bytes::Bytes;
use nitro_cache::Location;
use nitro_cache::partial::Covered;
use nitro_port::buf::BufMut;

/// More parts than this, or more bytes than an extent has, are put together.
const PARTS_MAX: usize = 4;

/// The parts, in the order of their writes: where they overlap, a later one wins. They keep no more memory than an extent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patch {
    parts: Vec<(usize, Bytes)>,
    covered: Covered,
}

impl Patch {
    /// Adds the part that was written last: the bytes from byte `at` on of an extent of `extent_bytes`. It has its own memory.
    pub(crate) fn add(&mut self, at: usize, part: Bytes, extent_bytes: usize) {
        self.covered.add(at as u32..(at + part.len()) as u32);
        self.parts.push((at, part));
        let bytes: usize = self.parts.iter().map(|(_, part)| part.len()).sum();
        if self.parts.len() > PARTS_MAX || bytes > extent_bytes {
            let all = self.whole(extent_bytes);
            let known = self.covered.ranges().iter();
            self.parts = known.map(|r| (r.start as usize, all.slice(r.start as usize..r.end as usize))).collect();
        }
    }

    /// Whether they are all bytes of the extent up to `end`.
    pub(crate) fn reach(&self, end: u64) -> bool {
        u32::try_from(end).is_ok_and(|end| self.covered.reaches(end))
    }

    /// An extent of `extent_bytes` with these parts; the other bytes are zero.
    pub(crate) fn whole(&self, extent_bytes: usize) -> Bytes {
        self.onto(BufMut::zeroed(extent_bytes))
    }

    /// The extent that was `base` before the parts were written.
    pub(crate) fn over(&self, base: &[u8]) -> Kept {
        Kept::own(self.onto(BufMut::copy_of(base)))
    }

    fn onto(&self, mut extent: BufMut) -> Bytes {
        for (at, part) in &self.parts {
            extent[*at..*at + part.len()].copy_from_slice(part);
        }
        extent.freeze()
    }
}

/// A patch to be written over an extent that is on the SSD.
#[derive(Debug, Clone)]
pub(crate) struct Merge {
    /// Where the extent was stored before the first of the parts was written.
    pub(crate) base: Location,
    pub(crate) patch: Patch,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn later_parts_win_however_many_there_are(parts in prop::collection::vec((0usize..24, 1usize..9), 0..20)) {
            let (mut all, mut naive, mut covered) = (Patch::default(), vec![0xFF; 32], [false; 32]);
            for (number, (at, len)) in parts.into_iter().enumerate() {
                naive[at..at + len].fill(number as u8);
                covered[at..at + len].fill(true);
                all.add(at, vec![number as u8; len].into(), 32);
                let whole = all.over(&[0xFF; 32]);
                prop_assert_eq!(&whole.bytes()[..], &naive[..]);
                prop_assert!(all.parts.len() <= PARTS_MAX.max(all.covered.ranges().len()));
                prop_assert!(all.parts.iter().map(|(_, part)| part.len()).sum::<usize>() <= 32);
            }
            prop_assert_eq!(all.reach(32), covered.iter().all(|known| *known));
        }
    }
}
