//! Merges: moving pages from the log back to data blocks.

use super::Hybrid;
use crate::flash::ids::NONE;
use crate::{BlockId, Medium, Ppn};

impl Hybrid {
    /// Moves all pages of a logical block into one data block, and frees its old data block and its sequential log
    /// block.
    pub(super) fn merge<M: Medium>(&mut self, lbn: u32, medium: &mut M) {
        let log = self.end_sequential(lbn);
        let old = self.data[lbn as usize].take();
        match log.filter(|log| self.is_current(lbn, *log)) {
            Some(log) => {
                let copies = self.gather(lbn, self.flash.next(log), log, medium);
                let merges = &mut self.flash.counters.merges;
                *(if copies == 0 { &mut merges.switch } else { &mut merges.partial }) += 1;
                self.data[lbn as usize] = Some(log);
            }
            None => {
                let fresh = self.flash.allocate();
                self.gather(lbn, 0, fresh, medium);
                self.flash.counters.merges.full += 1;
                self.data[lbn as usize] = Some(fresh);
                log.into_iter().for_each(|log| self.flash.release(log, medium));
            }
        }
        old.into_iter().for_each(|old| self.flash.release(old, medium));
    }

    /// Whether all programmed pages of `log` are the newest of their logical block, or trimmed.
    fn is_current(&self, lbn: u32, log: BlockId) -> bool {
        (0..self.flash.next(log)).all(|place| {
            let newest = self.newest(lbn, place);
            newest == NONE || newest == self.flash.page(log, place).0
        })
    }

    /// Copies the pages of a logical block, from page `first` on, to the same positions in `to`; returns their number.
    fn gather<M: Medium>(&mut self, lbn: u32, first: u32, to: BlockId, medium: &mut M) -> u32 {
        let mut copies = 0;
        for place in first..self.flash.block_pages() {
            let from = self.newest(lbn, place);
            if from != NONE {
                let to = self.flash.relocate(Ppn(from), to, place, medium);
                self.map[(lbn * self.flash.block_pages() + place) as usize] = to.0;
                copies += 1;
            }
        }
        copies
    }

    fn newest(&self, lbn: u32, place: u32) -> u32 {
        self.map[(lbn * self.flash.block_pages() + place) as usize]
    }

    /// Frees a block of the random log: the oldest one without valid pages, or else the oldest one, after a merge of
    /// every logical block that has a valid page there.
    pub(super) fn reclaim_random<M: Medium>(&mut self, medium: &mut M) {
        let dead = self.random.iter().position(|log| self.flash.valid_pages(*log) == 0);
        let victim = self.random.remove(dead.unwrap_or(0)).expect("the random log is full");
        self.flash.counters.collections += 1;
        while let Some(place) = self.flash.first_valid(victim, 0) {
            let lpn = self.flash.owner(self.flash.page(victim, place));
            self.merge(lpn.0 / self.flash.block_pages(), medium);
        }
        self.flash.release(victim, medium);
    }

    /// Frees the data block and the sequential log block of a logical block if they have no valid pages.
    pub(super) fn drop_empty<M: Medium>(&mut self, lbn: u32, medium: &mut M) {
        if let Some(data) = self.data[lbn as usize].take_if(|data| self.flash.valid_pages(*data) == 0) {
            self.flash.release(data, medium);
        }
        if self.sequential[lbn as usize].is_some_and(|log| self.flash.valid_pages(log) == 0)
            && let Some(log) = self.end_sequential(lbn)
        {
            self.flash.release(log, medium);
        }
    }
}
