//! An SSD designed together with the cache (Nitro §4, "Potential SSD customization"). WEUs are aligned to blocks, and
//! the SSD chooses the WEU to evict. A WEU that is overwritten or trimmed is dropped without copying pages.

use super::Ftl;
use crate::flash::ids::NONE;
use crate::flash::lists::Lists;
use crate::{BlockId, Error, Flash, Geometry, Lpn, Medium, PageRun, Ppn};
use serde::Serialize;
use std::ops::Range;

/// Settings of an SSD designed together with the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CoDesignedSettings {
    /// Superblocks of a WEU; at least 1.
    pub weu_blocks: u32,
}

impl Default for CoDesignedSettings {
    /// A WEU is a superblock.
    fn default() -> Self {
        Self { weu_blocks: 1 }
    }
}

impl CoDesignedSettings {
    /// Superblocks that the host may use on an SSD of `blocks` superblocks: whole WEUs, with at least one block kept
    /// free to rewrite a part of a WEU. Nothing is reserved for a log or for collection (Nitro §5.3).
    ///
    /// # Errors
    /// [`Error::Setting`] or [`Error::TooSmall`].
    pub fn logical_blocks(&self, blocks: u32) -> Result<u32, Error> {
        if self.weu_blocks == 0 {
            return Err(Error::setting("weu_blocks", self.weu_blocks, "must be at least 1"));
        }
        let logical = blocks.saturating_sub(1) / self.weu_blocks * self.weu_blocks;
        if logical == 0 { Err(Error::TooSmall { blocks }) } else { Ok(logical) }
    }
}

/// The layer of an SSD designed together with the cache. It maps whole blocks and keeps WEUs in the order of their use.
///
/// Writes that are not whole WEUs are supported as well: they are appended to a block where that is possible; otherwise
/// the block is rewritten.
#[derive(Debug)]
pub struct CoDesigned {
    flash: Flash,
    map: Vec<u32>,
    data: Vec<Option<BlockId>>,
    weu_blocks: u32,
    /// WEUs with content, the most recently used at the back.
    recency: Lists,
}

impl CoDesigned {
    /// A layer on erased flash.
    ///
    /// # Errors
    /// A setting or the geometry is out of bounds, or the SSD is too small.
    pub fn new(geometry: Geometry, settings: CoDesignedSettings) -> Result<Self, Error> {
        let flash = Flash::new(geometry)?;
        let logical = settings.logical_blocks(geometry.superblocks)?;
        Ok(Self {
            flash,
            map: vec![NONE; logical as usize * geometry.block_pages() as usize],
            data: vec![None; logical as usize],
            weu_blocks: settings.weu_blocks,
            recency: Lists::new(logical / settings.weu_blocks, 1),
        })
    }

    fn write_block<M: Medium>(&mut self, lbn: u32, places: Range<u32>, medium: &mut M) {
        let whole = places.len() == self.flash.block_pages() as usize;
        match self.data[lbn as usize] {
            Some(block) if whole => {
                // The cache has evicted the old content, so it may be erased before the new content is written.
                for place in places.clone() {
                    self.forget(lbn, place);
                }
                self.flash.release(block, medium);
                self.fill_fresh(lbn, places, medium);
            }
            Some(block) if self.flash.next(block) <= places.start => self.place(block, lbn, places, medium),
            Some(block) => self.rewrite(block, lbn, places, medium),
            None => self.fill_fresh(lbn, places, medium),
        }
    }

    fn fill_fresh<M: Medium>(&mut self, lbn: u32, places: Range<u32>, medium: &mut M) {
        let block = self.flash.allocate();
        self.data[lbn as usize] = Some(block);
        self.place(block, lbn, places, medium);
    }

    /// Moves a block's pages to a fresh block; the pages in `places` get new content.
    fn rewrite<M: Medium>(&mut self, old: BlockId, lbn: u32, places: Range<u32>, medium: &mut M) {
        let fresh = self.flash.allocate();
        self.gather(fresh, lbn, 0..places.start, medium);
        self.place(fresh, lbn, places.clone(), medium);
        self.gather(fresh, lbn, places.end..self.flash.block_pages(), medium);
        self.data[lbn as usize] = Some(fresh);
        self.flash.release(old, medium);
    }

    fn place<M: Medium>(&mut self, block: BlockId, lbn: u32, places: Range<u32>, medium: &mut M) {
        for place in places {
            let lpn = lbn * self.flash.block_pages() + place;
            let to = self.flash.program(block, place, Lpn(lpn), medium);
            let from = std::mem::replace(&mut self.map[lpn as usize], to.0);
            if from != NONE {
                self.flash.invalidate(Ppn(from));
            }
        }
    }

    fn gather<M: Medium>(&mut self, to: BlockId, lbn: u32, places: Range<u32>, medium: &mut M) {
        for place in places {
            let lpn = lbn * self.flash.block_pages() + place;
            if let Some(from) = self.lookup(Lpn(lpn)) {
                self.map[lpn as usize] = self.flash.relocate(from, to, place, medium).0;
            }
        }
    }

    /// Unmaps a page; returns whether it had content.
    fn forget(&mut self, lbn: u32, place: u32) -> bool {
        let lpn = lbn * self.flash.block_pages() + place;
        let from = std::mem::replace(&mut self.map[lpn as usize], NONE);
        if from != NONE {
            self.flash.invalidate(Ppn(from));
        }
        from != NONE
    }

    /// Makes a WEU the most recently used if it has content; otherwise removes it from the order.
    fn touch(&mut self, weu: u32) {
        let blocks = (weu * self.weu_blocks) as usize..((weu + 1) * self.weu_blocks) as usize;
        if self.data[blocks].iter().any(Option::is_some) {
            self.recency.push_back(0, weu);
        } else {
            self.recency.remove(weu);
        }
    }

    const fn weu_pages(&self) -> u32 {
        self.flash.block_pages() * self.weu_blocks
    }
}

impl Ftl for CoDesigned {
    fn flash(&self) -> &Flash {
        &self.flash
    }

    fn logical_pages(&self) -> u32 {
        self.map.len() as u32
    }

    fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        self.map.get(lpn.0 as usize).filter(|ppn| **ppn != NONE).map(|ppn| Ppn(*ppn))
    }

    fn write<M: Medium>(&mut self, run: PageRun, medium: &mut M) {
        for (lbn, places) in run.by_block(self.flash.block_pages()) {
            self.write_block(lbn, places, medium);
            self.touch(lbn / self.weu_blocks);
        }
    }

    fn read(&mut self, run: PageRun) {
        self.flash.counters.host_reads += u64::from(run.pages);
        for (weu, _) in run.by_block(self.weu_pages()) {
            self.touch(weu);
        }
    }

    fn note_partial(&mut self, pages: u32) {
        self.flash.counters.partial_writes += u64::from(pages);
    }

    /// Blocks that have no valid pages afterwards are erased at once. The WEU keeps its position in the order.
    fn trim<M: Medium>(&mut self, run: PageRun, medium: &mut M) {
        for (lbn, places) in run.by_block(self.flash.block_pages()) {
            let dropped = places.filter(|place| self.forget(lbn, *place)).count();
            self.flash.counters.trims += dropped as u64;
            if let Some(block) = self.data[lbn as usize].take_if(|block| self.flash.valid_pages(*block) == 0) {
                self.flash.release(block, medium);
                let weu = lbn / self.weu_blocks;
                let blocks = (weu * self.weu_blocks) as usize..((weu + 1) * self.weu_blocks) as usize;
                if self.data[blocks].iter().all(Option::is_none) {
                    self.recency.remove(weu);
                }
            }
        }
    }

    /// The least recently used WEU (WEU-LRU, Nitro §4).
    fn victim(&self) -> Option<PageRun> {
        let weu = self.recency.front(0)?;
        Some(PageRun { first: Lpn(weu * self.weu_pages()), pages: self.weu_pages() })
    }
}
