//! Slots: their restoration after a restart, and changes of their number.

use super::{Slot, SlotState, WeuTable};
use crate::shelf::{Band, Shelf};
use crate::weu::entries::Entries;
use crate::weu::layout::{Position, Stored};
use nitro_units::{ExtentKey, Generation, WeuId};

impl WeuTable {
    /// Makes all slots unread.
    pub(crate) fn begin_restore(&mut self) {
        self.free.clear();
        for slot in &mut self.slots {
            slot.state = SlotState::Unread;
        }
    }

    pub(crate) fn restore_free(&mut self, weu: WeuId, generation: Generation) {
        let slot = self.slot_mut(weu);
        slot.generation = generation;
        self.release(weu);
    }

    pub(crate) fn restore(
        &mut self,
        weu: WeuId,
        generation: Generation,
        band: Band,
        entries: impl Iterator<Item = (ExtentKey, Position, Stored)>,
    ) {
        let packs = self.packs;
        let slot = self.slot_mut(weu);
        slot.generation = generation;
        slot.state = SlotState::Stored;
        (slot.restored, slot.opened) = (true, 0);
        slot.entries = Entries::default();
        debug_assert!(slot.records().is_empty(), "they are read after all entries");
        for (key, position, stored) in entries {
            slot.entries.push(key, position, stored);
        }
        slot.entries.close(packs);
        (slot.live, slot.kept) = (0, 0);
        slot.shelf = Shelf { band, ..Shelf::default() };
        self.order.restored(weu, band);
    }

    pub(crate) fn is_unread(&self, weu: WeuId) -> bool {
        self.slot(weu).state == SlotState::Unread
    }

    /// `last`: the last filling that a slot may have had before it was removed, and that a journal may still speak of.
    pub(crate) fn grow(&mut self, count: u32, last: Generation) {
        self.order.grow(count);
        let known = self.slots.len() as u32;
        for weu in (0..known.min(count)).map(WeuId) {
            if weu.0 >= self.limit && self.slot(weu).state == SlotState::Retired && !self.lost.has(weu) {
                self.slot_mut(weu).state = SlotState::Free;
                self.free.push_back(weu);
            }
        }
        self.limit = count;
        for weu in (known..count).map(WeuId) {
            self.slots.push(Slot::new());
            self.restore_free(weu, last);
        }
    }

    pub(crate) fn begin_shrink(&mut self, limit: u32) {
        self.limit = limit;
        let gone: Vec<WeuId> = self.free.iter().copied().filter(|weu| weu.0 >= limit).collect();
        self.free.retain(|weu| weu.0 < limit);
        for weu in gone {
            self.slot_mut(weu).state = SlotState::Retired;
        }
    }

    pub(crate) fn evictable_beyond(&self, limit: u32) -> Option<WeuId> {
        let beyond = (limit..self.slots.len() as u32).map(WeuId).find(|weu| self.is_evictable(*weu));
        beyond.or_else(|| self.has_too_many_records().then(|| self.fullest_of_records()).flatten())
    }

    pub(crate) fn occupied_beyond(&self, limit: u32) -> usize {
        let beyond = self.slots.iter().skip(limit as usize).filter(|slot| slot.state != SlotState::Retired).count();
        beyond + usize::from(self.has_too_many_records())
    }
}
