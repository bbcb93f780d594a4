//! The state of the flash: which pages are programmed and valid, their logical pages, and the wear of the blocks.

use crate::flash::divisor::Divisor;
use crate::flash::ids::NONE;
use crate::{BlockId, Counters, Error, Geometry, Lpn, Medium, Ppn, Wear};
use std::collections::VecDeque;

/// Bits of a word of the valid map.
const WORD_BITS: u32 = u64::BITS;

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// Valid pages.
    valid: u32,
    /// The lowest page that can still be programmed: flash is programmed in ascending order.
    next: u32,
    erasures: u32,
}

/// The flash below a translation layer. Free blocks are used in the order in which they were erased, which spreads the
/// wear among the blocks that are erased at all.
#[derive(Debug)]
pub struct Flash {
    geometry: Geometry,
    block_pages: u32,
    by_block_pages: Divisor,
    block_words: u32,
    /// The logical page that each physical page was programmed for; meaningful only while the page is valid.
    owners: Vec<u32>,
    /// A bit for each page, set while the page is valid; each block has whole words.
    valid: Vec<u64>,
    blocks: Vec<Block>,
    free: VecDeque<BlockId>,
    pub(crate) counters: Counters,
}

impl Flash {
    pub(crate) fn new(geometry: Geometry) -> Result<Self, Error> {
        geometry.check()?;
        let block_pages = geometry.block_pages();
        let block_words = block_pages.div_ceil(WORD_BITS);
        Ok(Self {
            geometry,
            block_pages,
            by_block_pages: Divisor::new(block_pages),
            block_words,
            owners: vec![NONE; geometry.physical_pages() as usize],
            valid: vec![0; geometry.superblocks as usize * block_words as usize],
            blocks: vec![Block::default(); geometry.superblocks as usize],
            free: (0..geometry.superblocks).map(BlockId).collect(),
            counters: Counters::default(),
        })
    }

    /// The layout of the flash.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The counters since the SSD was made.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of erasures of a superblock.
    #[must_use]
    pub fn erasures(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].erasures
    }

    /// The distribution of wear among the blocks.
    #[must_use]
    pub fn wear(&self) -> Wear {
        let erasures = || self.blocks.iter().map(|b| b.erasures);
        let sum: u64 = erasures().map(u64::from).sum();
        Wear {
            least: erasures().min().unwrap_or(0),
            most: erasures().max().unwrap_or(0),
            mean: sum as f64 / self.blocks.len() as f64,
        }
    }

    /// The number of erased superblocks that are not in use.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        self.free.len() as u32
    }

    /// The number of valid pages of a superblock.
    #[must_use]
    pub fn valid_pages(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].valid
    }

    /// The lowest page of a block that can still be programmed.
    pub(crate) fn next(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].next
    }

    pub(crate) fn is_full(&self, block: BlockId) -> bool {
        self.next(block) == self.block_pages
    }

    pub(crate) const fn block_pages(&self) -> u32 {
        self.block_pages
    }

    pub(crate) const fn page(&self, block: BlockId, place: u32) -> Ppn {
        Ppn(block.0 * self.block_pages + place)
    }

    pub(crate) const fn block_of(&self, ppn: Ppn) -> BlockId {
        BlockId(self.by_block_pages.quotient(ppn.0))
    }

    /// The logical page that `ppn` was last programmed for.
    pub(crate) fn owner(&self, ppn: Ppn) -> Lpn {
        Lpn(self.owners[ppn.0 as usize])
    }

    /// Takes the block that was free for longest.
    ///
    /// # Panics
    /// If no block is free: each layer keeps a reserve.
    pub(crate) fn allocate(&mut self) -> BlockId {
        self.free.pop_front().expect("a translation layer keeps a block free")
    }

    /// Programs a page with data of the host.
    pub(crate) fn program<M: Medium>(&mut self, block: BlockId, place: u32, lpn: Lpn, medium: &mut M) -> Ppn {
        self.counters.host_writes += 1;
        let to = self.occupy(block, place, lpn);
        medium.program(to, lpn);
        to
    }

    /// Programs a page with the content of page `from`, which becomes invalid.
    pub(crate) fn relocate<M: Medium>(&mut self, from: Ppn, block: BlockId, place: u32, medium: &mut M) -> Ppn {
        self.counters.copies += 1;
        let to = self.occupy(block, place, self.owner(from));
        medium.copy(from, to);
        self.invalidate(from);
        to
    }

    fn occupy(&mut self, block: BlockId, place: u32, lpn: Lpn) -> Ppn {
        let state = &mut self.blocks[block.index()];
        assert!(state.next <= place && place < self.block_pages, "pages are programmed in ascending order");
        state.next = place + 1;
        state.valid += 1;
        let ppn = Ppn(block.0 * self.block_pages + place);
        self.owners[ppn.0 as usize] = lpn.0;
        self.valid[(block.0 * self.block_words + place / WORD_BITS) as usize] |= 1 << (place % WORD_BITS);
        ppn
    }

    /// Marks a page as invalid. Returns its block and the number of pages that are still valid there.
    pub(crate) fn invalidate(&mut self, ppn: Ppn) -> (BlockId, u32) {
        let block = self.block_of(ppn);
        let place = ppn.0 - block.0 * self.block_pages;
        let word = &mut self.valid[(block.0 * self.block_words + place / WORD_BITS) as usize];
        debug_assert!(*word >> (place % WORD_BITS) & 1 == 1, "only a valid page becomes invalid");
        *word &= !(1 << (place % WORD_BITS));
        let state = &mut self.blocks[block.index()];
        state.valid -= 1;
        (block, state.valid)
    }

    /// The first valid page of a block at or after `place`.
    pub(crate) fn first_valid(&self, block: BlockId, place: u32) -> Option<u32> {
        if place >= self.block_pages {
            return None;
        }
        let base = (block.0 * self.block_words) as usize;
        let words = &self.valid[base..base + self.block_words as usize];
        let first = (place / WORD_BITS) as usize;
        let masked = words[first] & (u64::MAX << (place % WORD_BITS));
        let rest = words[first + 1..].iter().copied();
        std::iter::once(masked)
            .chain(rest)
            .zip(first as u32..)
            .find(|(word, _)| *word != 0)
            .map(|(word, index)| index * WORD_BITS + word.trailing_zeros())
    }

    /// Erases a block without valid pages; it is free afterwards.
    pub(crate) fn release<M: Medium>(&mut self, block: BlockId, medium: &mut M) {
        let state = &mut self.blocks[block.index()];
        assert_eq!(state.valid, 0, "a block with valid pages is not erased");
        state.next = 0;
        state.erasures += 1;
        self.counters.erasures += u64::from(self.geometry.stripe);
        medium.erase(block);
        self.free.push_back(block);
    }
}
