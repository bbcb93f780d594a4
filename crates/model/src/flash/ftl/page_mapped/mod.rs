//! Page mapping: every page may be stored anywhere. Garbage collection copies the valid pages out of the blocks that it
//! reclaims.

mod victims;

pub use victims::VictimPolicy;

use super::{Ftl, settings};
use crate::flash::ids::NONE;
use crate::{BlockId, Error, Flash, Geometry, Lpn, Medium, PageRun, Ppn};
use serde::Serialize;
use victims::Victims;

/// The smallest number of blocks beyond the logical ones with which collection makes progress: a free one for the host,
/// one for copies, two that are being filled, and the equivalent of one block in garbage.
const RESERVE_BLOCKS: u32 = 5;

/// Garbage is collected while fewer blocks are free: one is for the host, and one for copies.
const FREE_MIN: u32 = 2;

/// Settings of page mapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageMappedSettings {
    /// Flash beyond the logical capacity, as a share of the logical capacity; at least five superblocks.
    pub over_provisioning: f64,
    /// The block that is reclaimed.
    pub victims: VictimPolicy,
    /// Whether a write that covers a whole aligned block is given a block of its own, so that evicting a WEU leaves
    /// whole blocks of garbage (Nitro §4, "aligned allocation").
    pub aligned: bool,
}

impl Default for PageMappedSettings {
    /// 7 % (Nitro §5.3), greedy, aligned.
    fn default() -> Self {
        Self { over_provisioning: 0.07, victims: VictimPolicy::Greedy, aligned: true }
    }
}

impl PageMappedSettings {
    /// Superblocks that the host may use on an SSD of `blocks` superblocks.
    ///
    /// # Errors
    /// [`Error::Setting`] or [`Error::TooSmall`].
    pub fn logical_blocks(&self, blocks: u32) -> Result<u32, Error> {
        settings::check_share("over_provisioning", self.over_provisioning)?;
        settings::logical_blocks(blocks, self.over_provisioning, RESERVE_BLOCKS)
    }
}

/// A translation layer with page mapping. Copies and writes of the host go to different blocks.
#[derive(Debug)]
pub struct PageMapped {
    flash: Flash,
    map: Vec<u32>,
    aligned: bool,
    /// The block that is being filled with small writes of the host.
    open_host: Option<BlockId>,
    /// The block that is being filled with copies.
    open_copies: Option<BlockId>,
    victims: Victims,
}

impl PageMapped {
    /// A layer on erased flash.
    ///
    /// # Errors
    /// A setting or the geometry is out of bounds, or the SSD is too small.
    pub fn new(geometry: Geometry, settings: PageMappedSettings) -> Result<Self, Error> {
        let flash = Flash::new(geometry)?;
        let logical = settings.logical_blocks(geometry.superblocks)?;
        Ok(Self {
            map: vec![NONE; logical as usize * geometry.block_pages() as usize],
            aligned: settings.aligned,
            open_host: None,
            open_copies: None,
            victims: Victims::new(settings.victims, geometry.superblocks, geometry.block_pages()),
            flash,
        })
    }

    /// Writes a whole logical block to a block of its own.
    fn write_block<M: Medium>(&mut self, first: u32, medium: &mut M) {
        let block = self.allocate_for_host(medium);
        for place in 0..self.flash.block_pages() {
            self.place(block, place, Lpn(first + place), medium);
        }
        self.close(block);
    }

    fn append<M: Medium>(&mut self, lpn: Lpn, medium: &mut M) {
        let block = match self.open_host {
            Some(block) => block,
            None => self.allocate_for_host(medium),
        };
        self.place(block, self.flash.next(block), lpn, medium);
        self.open_host = if self.flash.is_full(block) {
            self.close(block);
            None
        } else {
            Some(block)
        };
    }

    fn place<M: Medium>(&mut self, block: BlockId, place: u32, lpn: Lpn, medium: &mut M) {
        let to = self.flash.program(block, place, lpn, medium);
        let from = std::mem::replace(&mut self.map[lpn.0 as usize], to.0);
        if from != NONE {
            self.invalidate(Ppn(from));
        }
    }

    fn invalidate(&mut self, ppn: Ppn) {
        let (block, valid) = self.flash.invalidate(ppn);
        self.victims.note(block, valid, self.flash.counters.host_writes);
    }

    /// Makes a full block a candidate for collection.
    fn close(&mut self, block: BlockId) {
        self.victims.add(block, self.flash.valid_pages(block), self.flash.counters.host_writes);
    }

    fn allocate_for_host<M: Medium>(&mut self, medium: &mut M) -> BlockId {
        while self.flash.free_blocks() < FREE_MIN {
            self.collect(medium);
        }
        self.flash.allocate()
    }

    /// Reclaims one block.
    fn collect<M: Medium>(&mut self, medium: &mut M) {
        let victim = self.victims.take(self.flash.counters.host_writes).expect("there are full blocks");
        assert!(self.flash.valid_pages(victim) < self.flash.block_pages(), "the reserve leaves garbage to collect");
        self.flash.counters.collections += 1;
        let mut place = 0;
        while let Some(valid) = self.flash.first_valid(victim, place) {
            self.copy(self.flash.page(victim, valid), medium);
            place = valid + 1;
        }
        self.flash.release(victim, medium);
    }

    fn copy<M: Medium>(&mut self, from: Ppn, medium: &mut M) {
        let block = match self.open_copies {
            Some(block) => block,
            None => self.flash.allocate(),
        };
        let to = self.flash.relocate(from, block, self.flash.next(block), medium);
        self.map[self.flash.owner(to).0 as usize] = to.0;
        self.open_copies = if self.flash.is_full(block) {
            self.close(block);
            None
        } else {
            Some(block)
        };
    }
}

impl Ftl for PageMapped {
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
        let block_pages = self.flash.block_pages();
        for (block, places) in run.by_block(block_pages) {
            let first = block * block_pages;
            if self.aligned && places.len() == block_pages as usize {
                self.write_block(first, medium);
            } else {
                places.for_each(|place| self.append(Lpn(first + place), medium));
            }
        }
    }

    fn read(&mut self, run: PageRun) {
        self.flash.counters.host_reads += u64::from(run.pages);
    }

    fn note_partial(&mut self, pages: u32) {
        self.flash.counters.partial_writes += u64::from(pages);
    }

    fn trim<M: Medium>(&mut self, run: PageRun, _medium: &mut M) {
        for lpn in run.range() {
            let from = std::mem::replace(&mut self.map[lpn as usize], NONE);
            if from != NONE {
                self.flash.counters.trims += 1;
                self.invalidate(Ppn(from));
            }
        }
    }
}
