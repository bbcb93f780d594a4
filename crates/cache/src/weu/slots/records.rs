//! Records of duplicates in the headers of slots: for each the number of the dup that it is of.
//!
//! The journal has a bit for each record, so that the number of records is bounded: by the entries that all slots could
//! have. While a snapshot of the journal is taken, what is evicted gives no room back: the snapshot may have it already.

use super::{SlotState, WeuTable};
use crate::weu::layout::{RECORD_BYTES, RECORDS_MAX};
use nitro_units::WeuId;
use std::collections::BTreeSet;

/// The number of a record that is of no dup.
const NOBODY: u32 = u32::MAX;

/// The number of records in all slots.
#[derive(Debug, Default)]
pub(super) struct RecordCounts {
    /// Those in slots.
    all: u64,
    /// Those that were evicted since a snapshot was begun; `None`: no snapshot is being taken.
    held: Option<u64>,
    /// The slots that have records and no extents.
    alone: BTreeSet<WeuId>,
}

impl WeuTable {
    /// Records that may be added before the bound is reached.
    pub(crate) fn records_left(&self) -> u64 {
        let all = self.records.all + self.records.held.unwrap_or(0);
        (u64::from(self.limit) * u64::from(self.entries_max)).saturating_sub(all)
    }

    /// Whether there are more records than these slots may have, after the cache became smaller.
    pub(crate) fn has_too_many_records(&self) -> bool {
        self.records.all > u64::from(self.limit) * u64::from(self.entries_max)
    }

    /// Whether a snapshot of the journal is being taken.
    pub(crate) fn hold_records(&mut self, is_held: bool) {
        self.records.held = is_held.then_some(0);
    }

    /// How many records fit into `bytes` of a slot.
    pub(super) fn records_in(bytes: u32) -> u32 {
        (bytes / RECORD_BYTES).min(RECORDS_MAX)
    }

    /// Whether a slot is closed to extents and not written yet, so that records can be added.
    pub(crate) fn takes_records(&self, weu: WeuId) -> bool {
        self.slot(weu).state == SlotState::Sealed
    }

    /// Adds the record of a dup to a slot; returns its number.
    pub(crate) fn push_record(&mut self, weu: WeuId, dup: Option<u32>) -> u16 {
        self.records.all += 1;
        let number = self.slot_mut(weu).push_record(dup.unwrap_or(NOBODY));
        if number == 0 && self.slot(weu).entries.len() == 0 {
            // It has no extents, and is in use all the same: it is not evicted before others.
            self.order_mut().live_changed(weu, 1, 1);
            self.records.alone.insert(weu);
        }
        number
    }

    /// The dup that a record of a slot is of, or was of; `None`: there is no such record.
    pub(crate) fn record(&self, weu: WeuId, number: u32) -> Option<u32> {
        self.slot(weu).records().get(number as usize).copied()
    }

    pub(crate) fn record_count(&self, weu: WeuId) -> usize {
        self.slot(weu).records().len()
    }

    /// Removes the last record of a slot that is being emptied.
    pub(crate) fn pop_record(&mut self, weu: WeuId) -> Option<(u16, u32)> {
        let last = self.slot_mut(weu).pop_record()?;
        self.records.all -= 1;
        if last.0 == 0 {
            self.records.alone.remove(&weu);
        }
        if let Some(held) = &mut self.records.held {
            *held += 1;
        }
        Some(last)
    }

    /// The number of evictable slots that have up to `records_max` records and no extents, and the first one.
    pub(crate) fn small_record_slots(&self, records_max: usize) -> (usize, Option<WeuId>) {
        let is_small = |weu: &&WeuId| self.is_evictable(**weu) && self.record_count(**weu) <= records_max;
        let mut small = self.records.alone.iter().filter(is_small);
        let first = small.next().copied();
        (small.count() + usize::from(first.is_some()), first)
    }

    /// The evictable slot with the most records; `None`: none has any.
    pub(crate) fn fullest_of_records(&self) -> Option<WeuId> {
        let slots = (0u32..).map(WeuId).zip(&self.slots);
        let slots = slots.filter(|(weu, slot)| self.is_evictable(*weu) && !slot.records().is_empty());
        slots.max_by_key(|(_, slot)| slot.records().len()).map(|(weu, _)| weu)
    }
}
