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
    /// In units that may not be evicted: they hold content that the origin does not have.
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

/// What a write-evict unit is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitState {
    /// It is full, and may be evicted.
    Full,
    /// It holds content that the origin does not have.
    Pinned,
    /// It is being filled, or on its way to the SSD.
    Open,
    /// It holds nothing.
    Free,
    /// It was not read yet since the restart.
    Unread,
    /// It failed to be written, and is not used any more.
    Retired,
}

/// A write-evict unit, for a picture of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// What it is doing.
    pub state: UnitState,
    /// Of its entries, those that extents refer to, in percent.
    pub live_percent: u8,
    /// Units that were opened after it; those from before the start are the oldest.
    pub age: u32,
}

impl Unit {
    fn of(slot: &Slot, opened: u32) -> Self {
        let state = match slot.state {
            SlotState::Free | SlotState::Discarding | SlotState::Clearing => UnitState::Free,
            SlotState::Open | SlotState::Sealed => UnitState::Open,
            SlotState::Unread => UnitState::Unread,
            SlotState::Retired => UnitState::Retired,
            SlotState::Stored if slot.pins > 0 => UnitState::Pinned,
            SlotState::Stored => UnitState::Full,
        };
        let entries = slot.entries.len().max(1) as u64;
        let live_percent = (100 * u64::from(slot.live).min(entries) / entries) as u8;
        Self { state, live_percent, age: opened.saturating_sub(slot.opened) }
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

    /// Some units, by number; those that there are not are left out.
    pub fn units(&self, weus: impl Iterator<Item = u32>) -> impl Iterator<Item = Unit> {
        weus.filter_map(|weu| self.weus.slots.get(weu as usize)).map(|slot| Unit::of(slot, self.weus.opened))
    }
}
