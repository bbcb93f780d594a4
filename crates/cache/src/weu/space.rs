//! Where a cache's bytes are.

use super::slots::{Slot, SlotState, WeuTable};
use crate::manager::CacheManager;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where the bytes of the write-evict units are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// In units that hold nothing, or are being emptied.
    pub free_bytes: u64,
    /// In units that are being filled, or are on their way to the SSD.
    pub open_bytes: u64,
    /// In units that may not be evicted: they hold content that the origin has not got.
    pub pinned_bytes: u64,
    /// Of the other units, what extents refer to. A unit counts by the share of its entries that are in use, at most all of it.
    pub live_bytes: u64,
    /// The rest of those units: what was overwritten or trimmed since.
    pub overwritten_bytes: u64,
    /// In units that were not read yet since the restart.
    pub unread_bytes: u64,
    /// In units that failed to be written and are not used any more.
    pub retired_bytes: u64,
}

impl Space {
    fn add(&mut self, slot: &Slot, bytes: u64) {
        match slot.state {
            SlotState::Free | SlotState::Discarding | SlotState::Clearing => self.free_bytes += bytes,
            SlotState::Open | SlotState::Sealed => self.open_bytes += bytes,
            SlotState::Unread => self.unread_bytes += bytes,
            SlotState::Retired => self.retired_bytes += bytes,
            SlotState::Stored if slot.pins > 0 => self.pinned_bytes += bytes,
            SlotState::Stored => {
                let entries = slot.entries.len().max(1) as u64;
                let live = bytes * u64::from(slot.live).min(entries) / entries;
                self.live_bytes += live;
                self.overwritten_bytes += bytes - live;
            }
        }
    }
}

impl WeuTable {
    fn add_space(&self, slots: Range<u32>, space: &mut Space) {
        let range = slots.start as usize..(slots.end as usize).min(self.slots.len());
        for slot in self.slots.get(range).unwrap_or_default() {
            space.add(slot, self.weu_bytes.into());
        }
    }
}

impl CacheManager {
    /// Adds the bytes of some units, by number: in steps, so that nobody waits long for the manager.
    pub fn add_space(&self, weus: Range<u32>, space: &mut Space) {
        self.weus.add_space(weus, space);
    }
}
