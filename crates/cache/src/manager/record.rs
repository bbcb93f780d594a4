//! Records of duplicates. The header of a unit names its own extents only, so that a restart would lose all other keys
//! of a content. Therefore each unit also gets records of the duplicates that have none yet: key, version and target.
//! If there are many of these and no unit is full, they get a unit of their own.
//!
//! A record is an entry in all respects: its key has one version, the journal has a bit for it if it is void, and it dies
//! with the unit that it is in. In addition it dies with its target. The version is given when the record is made, so
//! that the record is newer than all that was void before.

use super::{CacheManager, Evicted};
use crate::file_index::{Dup, Recorded, Reference};
use crate::weu::SlotState;
use nitro_units::{ExtentKey, Generation, ObjectId, WeuId};

/// Records made or restored under one holding of the manager's lock.
pub const RECORD_STEP: usize = 64;
/// The share of cached extents that may wait for a record before they get a unit of their own.
const WAITING_SHARE: u64 = 128;
/// So many units that have nothing but a few records are made one.
const SMALL_UNITS_MAX: usize = 7;

/// The record of a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DupRecord {
    /// The extent.
    pub key: ExtentKey,
    /// Of several entries for one extent, the highest version counts.
    pub version: u64,
    /// The unit with its content.
    pub weu: WeuId,
    /// The filling of that unit.
    pub generation: Generation,
    /// The entry within that filling.
    pub entry: u16,
}

/// A record that was read at a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredRecord {
    /// What it says.
    pub record: DupRecord,
    /// The journal has a newer version for this key.
    pub void: bool,
    /// It must not be trusted, and the journal has no record of this yet.
    pub doubtful: bool,
}

impl CacheManager {
    /// From now on, duplicates are recorded in the units that are sealed.
    pub fn keep_duplicates(&mut self) {
        self.unrecorded.begin();
    }

    /// Number of duplicates that wait for a record.
    #[must_use]
    pub fn unrecorded_count(&self) -> usize {
        self.unrecorded.len()
    }

    /// Whether so many duplicates wait for a record that they should get a unit of their own.
    #[must_use]
    pub fn wants_record_unit(&self) -> bool {
        let least = u64::from(self.settings.weu_entries_max());
        let waiting_max = least.max(self.files.len() as u64 / WAITING_SHARE);
        self.unrecorded.len() as u64 >= waiting_max && self.weus.records_left() >= waiting_max
    }

    /// Whether the duplicates that wait for a record are worth a unit of their own at an orderly end: it takes the place of
    /// none, or of fewer extents.
    #[must_use]
    pub fn is_record_unit_worth_it(&self) -> bool {
        let waiting = self.unrecorded.len() as u32;
        let has_room = self.weus.coming_free_count() > self.settings.free_reserve();
        waiting > 0 && (has_room || waiting > self.settings.weu_bytes / self.settings.extent_bytes)
    }

    /// Points `count` dups from number `from` on to the places to which their contents were copied, so that these are
    /// recorded. Returns where to continue; `None`: there are no more.
    pub fn repair_dups(&mut self, from: u32, count: u32) -> Option<u32> {
        let end = self.dups.capacity().min(from.saturating_add(count));
        for number in from..end {
            self.repair(number);
        }
        (from < end).then_some(end)
    }

    /// Adds records to a unit that was just [sealed](Self::seal), and that has room for `room` more: at most
    /// [`RECORD_STEP`] of them. `false`: there are no more.
    pub fn record(&mut self, weu: WeuId, room: &mut u32, made: &mut Vec<DupRecord>) -> bool {
        for _ in 0..RECORD_STEP {
            if *room == 0 || self.weus.records_left() == 0 || !self.weus.takes_records(weu) {
                return false;
            }
            let Some(number) = self.unrecorded.pop() else { return false };
            let Some(dup) = self.dups.get(number).filter(|dup| !matches!(dup.recorded, Recorded::In(..))) else {
                continue;
            };
            // The journal has what is dirty. Where the content is gone, the cleaner drops the dup.
            if self.dirty.get(dup.key).is_some() || !self.repair(number) {
                continue;
            }
            let Some(Dup { key, .. }) = self.dups.get(number) else { continue };
            let Some(target) = self.peek(key) else { continue };
            self.version += 1;
            let index = self.weus.push_record(weu, Some(number));
            self.dups.set_recorded(number, Recorded::In(weu, index));
            *room -= 1;
            self.stats.dups_recorded += 1;
            let (version, generation, entry) = (self.version, target.generation, target.entry);
            made.push(DupRecord { key, version, weu: target.weu, generation, entry });
        }
        true
    }

    /// Begins to evict a unit that has nothing but a few records, if there are so many such units that one is better:
    /// its records are made again, with those that wait. To be called before a unit of records is opened, until it
    /// returns `None`.
    pub fn begin_merging_records(&mut self, evicted: usize) -> Option<Evicted> {
        let records_max = self.settings.weu_entries_max() as usize * 4;
        let (count, first) = self.weus.small_record_slots(records_max);
        let weu = first.filter(|_| evicted > 0 || count >= SMALL_UNITS_MAX)?;
        Some(self.begin_eviction_of(weu, SlotState::Free))
    }

    /// Notes whether a snapshot of the journal is being taken: until it has ended, evicted records keep their room.
    pub fn hold_records(&mut self, is_held: bool) {
        self.weus.hold_records(is_held);
    }

    /// Adds the next records of a unit that was restored with its entries, in their order; at most [`RECORD_STEP`].
    /// `shares` tells whether two objects share contents. Returns how many are in the file index now.
    pub fn restore_records(
        &mut self,
        weu: WeuId,
        generation: Generation,
        records: &[RestoredRecord],
        shares: impl Fn(ObjectId, ObjectId) -> bool,
    ) -> u64 {
        if !self.weus.is_current(weu, generation) {
            return 0; // it was evicted meanwhile
        }
        let mut live = 0;
        for restored in records {
            let believed = !restored.void && !restored.doubtful && self.is_restorable(&restored.record, &shares);
            let DupRecord { key, weu: at, entry, .. } = restored.record;
            let number = believed.then(|| self.add_dup(key, at, entry));
            let index = self.weus.push_record(weu, number);
            if let Some(number) = number {
                self.dups.set_recorded(number, Recorded::In(weu, index));
                live += 1;
                self.stats.dups_restored += 1;
            } else if !restored.void {
                self.note_untold(weu);
            }
        }
        live
    }

    /// Notes that the next `count` records of a restored unit cannot be read: should they be readable at the next
    /// restart, they must not be believed. At most [`RECORD_STEP`].
    pub fn lose_records(&mut self, weu: WeuId, generation: Generation, count: usize) {
        if self.weus.is_current(weu, generation) {
            for _ in 0..count {
                self.weus.push_record(weu, None);
            }
            self.note_untold(weu);
        }
    }

    /// Whether nothing is known of a record's key that is newer, and its content is there.
    fn is_restorable(&self, record: &DupRecord, shares: impl Fn(ObjectId, ObjectId) -> bool) -> bool {
        let DupRecord { key, weu, generation, entry, .. } = *record;
        let first = self.location(weu, generation, entry).and_then(|_| self.weus.key(weu, entry));
        let is_of_target = first.is_some_and(|first| shares(first.object(), key.object()));
        is_of_target && !self.has_changed(key) && self.find(key).is_none() && !self.dups.is_full()
    }

    /// Drops those of `count` dups from number `from` on whose extent and content are of objects that do not share
    /// contents any more. What is dirty stays. Returns where to continue; `None`: there are no more.
    pub fn forget_unshared(
        &mut self,
        from: u32,
        count: u32,
        shares: impl Fn(ObjectId, ObjectId) -> bool,
    ) -> Option<u32> {
        let end = self.dups.capacity().min(from.saturating_add(count));
        for number in from..end {
            let Some(dup) = self.dups.get(number) else { continue };
            let first = self.resolve_dup(&dup).and_then(|found| self.weus.key(found.weu, found.entry));
            if first.is_some_and(|first| !shares(first.object(), dup.key.object())) {
                self.invalidate(dup.key);
            }
        }
        (from < end).then_some(end)
    }

    /// Whether each record of a unit is void, for at most `count` records from `from` on; `None`: there are no more.
    #[must_use]
    pub fn void_records(&self, weu: WeuId, from: u32, count: u32) -> Option<Vec<bool>> {
        let end = (self.weus.record_count(weu) as u32).min(from.saturating_add(count));
        let is_void = |number: u32| {
            let dup = self.weus.record(weu, number).and_then(|dup| self.dups.get(dup));
            dup.is_none_or(|dup| dup.recorded != Recorded::In(weu, number as u16))
        };
        (from < end).then(|| (from..end).map(is_void).collect())
    }

    /// Drops a dup whose content is gone. The journal has no record of it: what records name it, name the content by its
    /// filling, and the journal has that this was evicted.
    pub(crate) fn drop_stale(&mut self, key: ExtentKey, number: u32) {
        self.files.remove(key, Reference::Dup(number));
        self.remove_dup(number);
    }

    /// Removes a dup that is not in the file index any more.
    pub(crate) fn remove_dup(&mut self, number: u32) {
        if let Some(dup) = self.dups.get(number) {
            self.weus.unrefer(dup.weu(), dup.entry(), |generation| dup.is_of(generation));
            if self.is_named(&dup) {
                self.note_base(dup.key, dup.weu(), false);
            }
        }
        self.dups.remove(number);
    }

    /// Whether the header of its unit has a dup's key for its content: the key was dropped and refers to it again.
    pub(crate) fn is_named(&self, dup: &Dup) -> bool {
        let (weu, generation) = (dup.weu(), self.weus.generation(dup.weu()));
        dup.is_of(generation)
            && self.weus.is_current(weu, generation)
            && self.weus.key(weu, dup.entry()) == Some(dup.key)
    }

    /// Notes that a dup has no record any more that counts.
    pub(crate) fn record_again(&mut self, number: u32) {
        if let Some(dup) = self.dups.get(number) {
            if dup.recorded != Recorded::Never {
                self.dups.set_recorded(number, Recorded::Before);
            }
            self.unrecorded.push(number);
        }
    }

    /// Removes some records of a unit that is being emptied; returns whether there were any.
    pub(crate) fn clear_records(&mut self, weu: WeuId) -> bool {
        let mut is_any = false;
        let is_clearing = self.weus.state(weu) == SlotState::Clearing;
        for _ in 0..if is_clearing { RECORD_STEP } else { 0 } {
            let Some((index, number)) = self.weus.pop_record(weu) else { break };
            is_any = true;
            if self.dups.get(number).is_some_and(|dup| dup.recorded == Recorded::In(weu, index)) {
                self.record_again(number);
            }
        }
        is_any
    }
}
