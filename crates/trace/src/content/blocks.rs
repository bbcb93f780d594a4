//! The contents of blocks, stored by extent: one entry of a hash table per extent instead of per block, in many small
//! tables, so that the growth of one of them takes little time.

use hashbrown::HashMap;

/// Bytes that are kept of a block's fingerprint: those of an MD5 digest.
pub(super) const PRINT_BYTES: usize = 16;

/// A block's fingerprint.
pub(super) type Print = [u8; PRINT_BYTES];

/// The mark of a block with unknown content. No fingerprint has this value.
const UNKNOWN: Print = [0; PRINT_BYTES];
/// Binary logarithm of the extents of a region. Each region has a table of its own.
const REGION_BITS: u32 = 18;
/// Extents whose prints are in one allocation.
const CHUNK_EXTENTS: usize = 1024;

/// Prints of the blocks of all objects. Memory: 9 to 21 bytes per known extent, and 16 per block of it.
pub(super) struct Blocks {
    /// Blocks of an extent.
    extent_blocks: u64,
    /// Tables by object and upper part of the extent's number. A table maps the lower part to the place of the prints.
    regions: HashMap<(u32, u64), HashMap<u32, u32>>,
    chunks: Vec<Box<[Print]>>,
    extents: usize,
}

impl Blocks {
    pub(super) fn new(extent_blocks: u64) -> Self {
        Self { extent_blocks, regions: HashMap::new(), chunks: Vec::new(), extents: 0 }
    }

    /// The prints of an extent's blocks.
    fn extent(&self, object: u32, extent: u64) -> Option<&[Print]> {
        let place = *self.regions.get(&(object, extent >> REGION_BITS))?.get(&low(extent))? as usize;
        let blocks = self.extent_blocks as usize;
        let first = place % CHUNK_EXTENTS * blocks;
        self.chunks.get(place / CHUNK_EXTENTS)?.get(first..first + blocks)
    }

    /// The content of a block, if it is known.
    pub(super) fn get(&self, object: u32, block: u64) -> Option<&Print> {
        let prints = self.extent(object, block / self.extent_blocks)?;
        prints.get((block % self.extent_blocks) as usize).filter(|print| **print != UNKNOWN)
    }

    /// Sets the content of a block.
    pub(super) fn set(&mut self, object: u32, block: u64, print: Print) {
        let extent = block / self.extent_blocks;
        let blocks = self.extent_blocks as usize;
        let region = self.regions.entry((object, extent >> REGION_BITS)).or_default();
        let next = self.extents;
        let place = *region.entry(low(extent)).or_insert(next as u32) as usize;
        if place == next {
            self.extents += 1;
            if place / CHUNK_EXTENTS == self.chunks.len() {
                self.chunks.push(vec![UNKNOWN; CHUNK_EXTENTS * blocks].into_boxed_slice());
            }
        }
        let at = place % CHUNK_EXTENTS * blocks + (block % self.extent_blocks) as usize;
        self.chunks[place / CHUNK_EXTENTS][at] = print;
    }

    /// Makes the contents of a range of an object's blocks unknown.
    pub(super) fn forget(&mut self, object: u32, range: std::ops::Range<u64>) {
        let blocks = self.extent_blocks;
        let (first, last) = (range.start / blocks, range.end.div_ceil(blocks));
        for ((of, high), region) in &self.regions {
            let start = high << REGION_BITS;
            if *of != object || start >= last || start + (1 << REGION_BITS) <= first {
                continue;
            }
            for (low, place) in region {
                let extent = start + u64::from(*low);
                let from = range.start.max(extent * blocks);
                let to = range.end.min((extent + 1) * blocks);
                if from < to {
                    let at = *place as usize % CHUNK_EXTENTS * blocks as usize;
                    let within = (from - extent * blocks) as usize..(to - extent * blocks) as usize;
                    self.chunks[*place as usize / CHUNK_EXTENTS][at..at + blocks as usize][within].fill(UNKNOWN);
                }
            }
        }
    }
}

/// The lower part of an extent's number.
const fn low(extent: u64) -> u32 {
    (extent & ((1 << REGION_BITS) - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holds_what_a_map_holds(
            operations in prop::collection::vec((0u8..4, 0u32..2, 0u64..40, 1u64..20, 1u8..=255), 0..200),
            extent_blocks in prop::sample::select(vec![1u64, 2, 8, 256]),
            far in prop::sample::select(vec![0u64, 1 << 18, (1 << 40) - 17]),
        ) {
            let (mut blocks, mut model) = (Blocks::new(extent_blocks), HashMap::new());
            for (operation, object, block, len, print) in operations {
                let block = block + far;
                if operation == 0 {
                    blocks.forget(object, block..block + len);
                    model.retain(|(of, at), _| *of != object || !(block..block + len).contains(at));
                } else {
                    blocks.set(object, block, [print; PRINT_BYTES]);
                    model.insert((object, block), [print; PRINT_BYTES]);
                }
                for at in (far..far + 64).flat_map(|at| [(0, at), (1, at)]) {
                    prop_assert_eq!(blocks.get(at.0, at.1), model.get(&at));
                }
            }
        }
    }
}
