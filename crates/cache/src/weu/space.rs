//! The use of a cache's space.

use super::slots::{Slot, SlotState, WeuTable};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The use of the space of the write-evict units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Bytes in units that are empty, or are being emptied.
    pub free_bytes: u64,
    /// Bytes in units that are being filled or written.
    pub open_bytes: u64,
    /// Bytes in pinned units, which hold dirty content.
    pub pinned_bytes: u64,
    /// Live bytes in the other units. A unit counts by the share of its entries that are in use.
    pub live_bytes: u64,
    /// The rest of those units: bytes that were overwritten or trimmed.
    pub overwritten_bytes: u64,
    /// Bytes in units that were not read yet since the restart.
    pub unread_bytes: u64,
    /// Bytes in units that are not used any more: they could not be written, or their device is lost.
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
                let (used, entries) = slot.used();
                let live = bytes * used / entries;
                self.live_bytes += live;
                self.overwritten_bytes += bytes - live;
            }
        }
    }
}

/// The state of a write-evict unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitState {
    /// It is full, and may be evicted.
    Full,
    /// It holds dirty content.
    Pinned,
    /// It is being filled or written.
    Open,
    /// It is empty.
    Free,
    /// It was not read yet since the restart.
    Unread,
    /// It is not used any more: it could not be written, or its device is lost.
    Retired,
}

/// A write-evict unit, for a map of all units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Its state.
    pub state: UnitState,
    /// Percentage of its entries that are live.
    pub live_percent: u8,
    /// Number of units opened after it; units from before the start have the highest age.
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
        let (used, entries) = slot.used();
        let live_percent = (100 * used / entries) as u8;
        Self { state, live_percent, age: opened.saturating_sub(slot.opened) }
    }
}

impl WeuTable {
    /// Adds the bytes of a range of units.
    pub(crate) fn add_space(&self, slots: Range<u32>, space: &mut Space) {
        let range = slots.start as usize..(slots.end as usize).min(self.slots.len());
        for slot in self.slots.get(range).unwrap_or_default() {
            space.add(slot, self.weu_bytes.into());
        }
    }

    /// The units with these numbers; numbers without a unit are skipped.
    pub(crate) fn units(&self, weus: impl Iterator<Item = u32>) -> impl Iterator<Item = Unit> {
        weus.filter_map(|weu| self.slots.get(weu as usize)).map(|slot| Unit::of(slot, self.opened))
    }
}
