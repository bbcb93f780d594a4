//! The slots of containers.

use crate::format::record::{SlotRecord, SlotState};
use crate::format::region::ChunkKind;
use crate::format::superblock::Superblock;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// The state of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) state: SlotState,
    pub(crate) kind: ChunkKind,
    /// Whether its container is being emptied: no new references to it are allowed.
    pub(crate) leaving: bool,
    /// The number of sectors of its regions; for an open container, those that are on the device.
    pub(crate) sectors: u16,
    pub(crate) chunks: u16,
    /// The number of the container, in the order in which containers were begun.
    pub(crate) sequence: u64,
}

/// The number of free slots whose storage is kept: one for each of the collector's lanes, two for recipes.
const RESERVED: usize = 4;

const FREE: Slot =
    Slot { state: SlotState::Free, kind: ChunkKind::Data, leaving: false, sectors: 0, chunks: 0, sequence: 0 };

/// The slots of a store.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// Slots that have no containers, but journals, summary vector and index. They are not in `free`.
    taken: Range<u32>,
    free: VecDeque<u32>,
    /// Free slots whose storage is kept; they are not in `free`.
    reserved: BTreeSet<u32>,
    /// Slots whose current state is not in the journal yet.
    changed: BTreeSet<u32>,
    sequence: u64,
    /// The maximum number of slots in use for new content; `None`: no quota.
    quota: Option<u32>,
    quota_changed: bool,
}

impl Slots {
    pub(crate) fn new(superblock: &Superblock) -> Self {
        let taken = superblock.moved.map_or(0..0, |moved| moved.first..moved.first + moved.slots);
        Self {
            slots: vec![FREE; superblock.containers as usize],
            free: (0..superblock.containers).filter(|slot| !taken.contains(slot)).collect(),
            taken,
            reserved: BTreeSet::new(),
            changed: BTreeSet::new(),
            sequence: 0,
            quota: None,
            quota_changed: false,
        }
    }

    /// The number of slots that can have containers.
    pub(crate) fn count(&self) -> u32 {
        self.slots.len() as u32 - self.taken.len() as u32
    }

    /// Adds the new slots of a store that has grown, and returns their number. Those that journals, summary vector and index had
    /// taken are not free yet: they are to be [reused](Self::reuse).
    pub(crate) fn grow(&mut self, superblock: &Superblock) -> usize {
        let before = self.slots.len() as u32;
        let others = Self::new(superblock);
        let added = others.free.into_iter().filter(|slot| *slot >= before);
        let free = self.free.len();
        self.free.extend(added);
        self.slots.resize(others.slots.len(), FREE);
        self.taken = others.taken;
        self.free.len() - free
    }

    pub(crate) fn free(&self) -> u32 {
        (self.free.len() + self.reserved.len()) as u32
    }

    pub(crate) fn used(&self) -> u32 {
        self.count() - self.free()
    }

    pub(crate) fn quota(&self) -> Option<u32> {
        self.quota
    }

    /// Sets the quota; it must be written to the journal.
    pub(crate) fn set_quota(&mut self, quota: Option<u32>) {
        (self.quota, self.quota_changed) = (quota, true);
    }

    /// Sets the quota that was read from the journal at a start.
    pub(crate) fn restore_quota(&mut self, quota: Option<u32>) {
        self.quota = quota;
    }

    /// Whether the quota has changed since the last call.
    pub(crate) fn take_quota_changed(&mut self) -> bool {
        std::mem::take(&mut self.quota_changed)
    }

    /// The number of slots that may be opened; the quota limits those for clients' data.
    fn room(&self, kind: ChunkKind) -> u32 {
        let quota = self.quota.filter(|_| kind == ChunkKind::Data).unwrap_or(u32::MAX);
        self.free().min(quota.saturating_sub(self.used()))
    }

    /// The number of free slots that clients' data may take, and the number of all that they may take.
    pub(crate) fn room_for_data(&self) -> (u32, u32) {
        (self.room(ChunkKind::Data), self.count().min(self.quota.unwrap_or(u32::MAX)))
    }

    /// The last sequence number that was assigned.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn get(&self, slot: u32) -> Slot {
        self.slots.get(slot as usize).copied().unwrap_or(FREE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Slot)> {
        (0..).zip(self.slots.iter().copied())
    }

    /// Takes a free slot if more than `spared` are free, or if `spared` is 0. The caller must [begin](Self::begin) it
    /// or put it back.
    pub(crate) fn take(&mut self, kind: ChunkKind, spared: u32) -> Option<u32> {
        if spared > 0 && self.room(kind) <= spared {
            return None;
        }
        self.free.pop_front().or_else(|| self.take_reserved(spared))
    }

    /// Takes a free slot whose storage is kept, if there are more than `spared`.
    pub(crate) fn take_reserved(&mut self, spared: u32) -> Option<u32> {
        if self.reserved.len() <= spared as usize {
            return None;
        }
        self.reserved.pop_first()
    }

    /// Takes the free slot that would be used last, if the storage of more slots is to be kept.
    pub(crate) fn take_for_reserve(&mut self) -> Option<u32> {
        if self.wants_reserved() { self.free.pop_back() } else { None }
    }

    /// Puts back a slot that was taken and not used.
    pub(crate) fn put_back(&mut self, slot: u32) {
        self.free.push_front(slot);
    }

    /// Whether the storage of too few free slots is kept.
    pub(crate) fn wants_reserved(&self) -> bool {
        self.reserved.len() < RESERVED
    }

    /// Records that the storage of a free slot is kept.
    pub(crate) fn reserve(&mut self, slot: u32) {
        self.reserved.insert(slot);
        self.changed.insert(slot);
    }

    /// Begins a container in a slot that was taken. Returns its sequence number.
    pub(crate) fn begin(&mut self, slot: u32, kind: ChunkKind) -> u64 {
        self.sequence += 1;
        self.slots[slot as usize] = Slot { state: SlotState::Open, kind, sequence: self.sequence, ..FREE };
        self.sequence
    }

    /// Records the part of an open container that is on the device.
    pub(crate) fn written(&mut self, slot: u32, sectors: u16, chunks: u16) {
        let held = &mut self.slots[slot as usize];
        (held.sectors, held.chunks) = (sectors, chunks);
        self.changed.insert(slot);
    }

    pub(crate) fn sealed(&mut self, slot: u32, sectors: u16, chunks: u16) {
        self.written(slot, sectors, chunks);
        self.slots[slot as usize].state = SlotState::Sealed;
    }

    /// Forbids new references to the chunks of a container, or allows them again. The change must be written to the
    /// journal, because a start has to enter the chunks in the index again.
    pub(crate) fn set_leaving(&mut self, slot: u32, leaving: bool) {
        self.slots[slot as usize].leaving = leaving;
        self.changed.insert(slot);
    }

    /// Frees the container of a slot. The slot may be used again only when this is in the journal.
    pub(crate) fn release(&mut self, slot: u32) {
        self.slots[slot as usize] = FREE;
        self.changed.insert(slot);
    }

    /// Makes a slot available whose release is in the journal.
    pub(crate) fn reuse(&mut self, slot: u32) {
        self.free.push_back(slot);
    }

    /// Takes the records that must be written to the journal.
    pub(crate) fn take_changed(&mut self) -> Vec<SlotRecord> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|slot| self.record(slot)).collect()
    }

    /// Takes back records that could not be written to the journal.
    pub(crate) fn put_back_changed(&mut self, changed: &[SlotRecord]) {
        self.changed.extend(changed.iter().map(|record| record.slot));
        self.quota_changed = true;
    }

    fn record(&self, slot: u32) -> SlotRecord {
        let Slot { state, kind, leaving, sectors, chunks, sequence } = self.get(slot);
        let state = match state {
            SlotState::Free if self.reserved.contains(&slot) => SlotState::Reserved,
            _ if leaving => SlotState::Leaving,
            state => state,
        };
        SlotRecord { slot, state, kind, sectors, chunks, sequence }
    }

    /// The records of a checkpoint: slots that are not free, and slots whose storage is kept.
    pub(crate) fn records(&self) -> impl Iterator<Item = SlotRecord> {
        self.iter().map(|(slot, _)| self.record(slot)).filter(|record| record.state != SlotState::Free)
    }

    /// Applies a record of the journal at a start.
    pub(crate) fn restore(&mut self, record: &SlotRecord) -> bool {
        let Some(slot) = self.slots.get_mut(record.slot as usize).filter(|_| !self.taken.contains(&record.slot)) else {
            return false;
        };
        let SlotRecord { state, kind, sectors, chunks, sequence, .. } = *record;
        match state {
            SlotState::Reserved => self.reserved.insert(record.slot),
            _ => self.reserved.remove(&record.slot),
        };
        *slot = match state {
            SlotState::Free | SlotState::Reserved => FREE,
            SlotState::Leaving => Slot { state: SlotState::Sealed, kind, leaving: true, sectors, chunks, sequence },
            SlotState::Open | SlotState::Sealed => Slot { state, kind, leaving: false, sectors, chunks, sequence },
        };
        self.sequence = self.sequence.max(sequence);
        true
    }

    /// Ends [`restore`](Self::restore): lists the free slots.
    pub(crate) fn restored(&mut self) {
        let is_free = |slot: u32, held: &Slot| {
            held.state == SlotState::Free && !self.reserved.contains(&slot) && !self.taken.contains(&slot)
        };
        self.free = self.iter().filter(|(slot, held)| is_free(*slot, held)).map(|(slot, _)| slot).collect();
    }
}
