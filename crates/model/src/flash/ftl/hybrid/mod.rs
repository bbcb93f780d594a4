//! Hybrid mapping (Nitro §4). A data block holds one logical block, with each page at its own position. Overwritten
//! pages go to log blocks, which are mapped by page; when the log is full, they are merged with the data blocks.
//!
//! A page is written to the first of these that is possible:
//! 1. the sequential log block of its logical block, if the page continues it;
//! 2. its position in the data block, if that position and all later ones are still erased;
//! 3. a new sequential log block, if the page is the first of a logical block in a long request;
//! 4. the random log, whose blocks take any page.
//!
//! This is FAST (Lee et al., 2007) with a log that is split as in LAST (Lee et al., 2008), without LAST's separation by
//! temperature. The condition in (2) follows from MLC flash, which is programmed in ascending order only.

mod merge;
mod settings;

pub use settings::HybridSettings;

use super::Ftl;
use crate::flash::ids::NONE;
use crate::flash::lists::Lists;
use crate::{BlockId, Error, Flash, Geometry, Lpn, Medium, PageRun, Ppn};
use std::collections::VecDeque;

/// A translation layer with hybrid mapping.
#[derive(Debug)]
pub struct Hybrid {
    flash: Flash,
    /// The physical page with the newest content of each logical page, in data and log blocks.
    map: Vec<u32>,
    /// The data block of each logical block.
    data: Vec<Option<BlockId>>,
    /// The sequential log block of each logical block.
    sequential: Vec<Option<BlockId>>,
    /// Logical blocks with a sequential log block, the most recently written at the back.
    sequential_order: Lists,
    sequential_count: u32,
    /// Blocks of the random log, oldest first; the last one is being filled.
    random: VecDeque<BlockId>,
    sequential_max: u32,
    random_max: u32,
    long_pages: u32,
}

impl Hybrid {
    /// A layer on erased flash.
    ///
    /// # Errors
    /// A setting or the geometry is out of bounds, or the SSD is too small.
    pub fn new(geometry: Geometry, settings: HybridSettings) -> Result<Self, Error> {
        let flash = Flash::new(geometry)?;
        let areas = settings.areas(geometry.superblocks)?;
        Ok(Self {
            flash,
            map: vec![NONE; areas.logical as usize * geometry.block_pages() as usize],
            data: vec![None; areas.logical as usize],
            sequential: vec![None; areas.logical as usize],
            sequential_order: Lists::new(areas.logical, 1),
            sequential_count: 0,
            random: VecDeque::with_capacity(areas.random as usize),
            sequential_max: areas.sequential,
            random_max: areas.random,
            long_pages: settings.long_pages.min(geometry.block_pages()),
        })
    }

    fn write_page<M: Medium>(&mut self, lbn: u32, place: u32, long: bool, medium: &mut M) {
        if let Some(log) = self.sequential[lbn as usize].filter(|log| self.flash.next(*log) == place) {
            self.place(log, place, lbn, place, medium);
            self.sequential_order.push_back(0, lbn);
            if self.flash.is_full(log) {
                self.merge(lbn, medium);
            }
            return;
        }
        let data = *self.data[lbn as usize].get_or_insert_with(|| self.flash.allocate());
        if self.flash.next(data) <= place {
            self.place(data, place, lbn, place, medium);
        } else if place == 0 && long {
            self.begin_sequential(lbn, medium);
        } else {
            self.append_random(lbn, place, medium);
        }
    }

    /// Programs page `from` of a logical block at position `place` of `block`.
    fn place<M: Medium>(&mut self, block: BlockId, place: u32, lbn: u32, from: u32, medium: &mut M) {
        let lpn = lbn * self.flash.block_pages() + from;
        let to = self.flash.program(block, place, Lpn(lpn), medium);
        let old = std::mem::replace(&mut self.map[lpn as usize], to.0);
        if old != NONE {
            self.flash.invalidate(Ppn(old));
        }
    }

    /// Starts a sequential log block with the first page of a logical block.
    fn begin_sequential<M: Medium>(&mut self, lbn: u32, medium: &mut M) {
        if self.sequential[lbn as usize].is_some() {
            self.merge(lbn, medium);
        } else if self.sequential_count == self.sequential_max {
            let oldest = self.sequential_order.front(0).expect("a full sequential area has an oldest block");
            self.merge(oldest, medium);
        }
        let log = self.flash.allocate();
        self.sequential[lbn as usize] = Some(log);
        self.sequential_count += 1;
        self.sequential_order.push_back(0, lbn);
        self.place(log, 0, lbn, 0, medium);
        if self.flash.is_full(log) {
            self.merge(lbn, medium);
        }
    }

    /// Removes the sequential log block of a logical block from the area; returns it.
    fn end_sequential(&mut self, lbn: u32) -> Option<BlockId> {
        let log = self.sequential[lbn as usize].take()?;
        self.sequential_order.remove(lbn);
        self.sequential_count -= 1;
        Some(log)
    }

    fn append_random<M: Medium>(&mut self, lbn: u32, from: u32, medium: &mut M) {
        let log = match self.random.back().filter(|log| !self.flash.is_full(**log)) {
            Some(log) => *log,
            None => {
                if self.random.len() as u32 == self.random_max {
                    self.reclaim_random(medium);
                }
                let log = self.flash.allocate();
                self.random.push_back(log);
                log
            }
        };
        self.place(log, self.flash.next(log), lbn, from, medium);
    }
}

impl Ftl for Hybrid {
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
            let long = places.len() >= self.long_pages as usize;
            places.for_each(|place| self.write_page(lbn, place, long, medium));
        }
    }

    fn read(&mut self, run: PageRun) {
        self.flash.counters.host_reads += u64::from(run.pages);
    }

    fn note_partial(&mut self, pages: u32) {
        self.flash.counters.partial_writes += u64::from(pages);
    }

    /// Data blocks and sequential log blocks that have no valid pages afterwards are erased at once.
    fn trim<M: Medium>(&mut self, run: PageRun, medium: &mut M) {
        for (lbn, places) in run.by_block(self.flash.block_pages()) {
            for place in places {
                let lpn = lbn * self.flash.block_pages() + place;
                let old = std::mem::replace(&mut self.map[lpn as usize], NONE);
                if old != NONE {
                    self.flash.counters.trims += 1;
                    self.flash.invalidate(Ppn(old));
                }
            }
            self.drop_empty(lbn, medium);
        }
    }
}
