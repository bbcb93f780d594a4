//! The WEU table: generation, state and base entries of every slot.

use super::entries::Entries;
use super::layout::{Fill, Position, Stored};
use super::lru::LruList;
use crate::location::Location;
use crate::settings::Settings;
use nitro_units::{ExtentKey, Generation, WeuId};
use std::collections::VecDeque;

/// The life of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Holds nothing; may be opened.
    Free,
    /// Holds nothing; may not be opened before the device has been told so.
    Discarding,
    /// Being filled in RAM.
    Open,
    /// Full, on its way to the SSD; still served from RAM.
    Sealed,
    /// On the SSD; may be evicted.
    Stored,
    /// Failed to be written; not used again.
    Retired,
    /// Not yet read since the restart.
    Unread,
}

#[derive(Debug)]
struct Slot {
    state: SlotState,
    generation: Generation,
    /// The sweep that was under way when `generation` last began a lap of what a fingerprint slot can tell apart.
    lap_sweep: u64,
    entries: Entries,
    /// Reasons not to evict it: extents that the origin has not got, or that the journal still names.
    pins: u32,
    /// Filled with content that the origin has not got: the journal sees to its being durable.
    for_dirty: bool,
    /// Known from its header only, since the restart: its extents may never have reached the SSD.
    restored: bool,
}

impl Slot {
    fn new() -> Self {
        Self {
            state: SlotState::Free,
            generation: Generation(0),
            lap_sweep: 0,
            entries: Entries::default(),
            pins: 0,
            for_dirty: false,
            restored: false,
        }
    }
}

/// All slots of a cache.
#[derive(Debug)]
pub(crate) struct WeuTable {
    slots: Vec<Slot>,
    open: Vec<(WeuId, Fill)>,
    free: VecDeque<WeuId>,
    lru: LruList,
    pinned: u32,
    discarding: u32,
    /// Slots from this number on are not opened: they were given up.
    limit: u32,
    weu_bytes: u32,
    extent_bytes: u32,
    entries_max: u32,
}

impl WeuTable {
    pub(crate) fn new(settings: &Settings) -> Self {
        let count = settings.weu_count();
        Self {
            slots: (0..count).map(|_| Slot::new()).collect(),
            open: Vec::new(),
            free: (0..count).map(WeuId).collect(),
            lru: LruList::new(count),
            pinned: 0,
            discarding: 0,
            limit: count,
            weu_bytes: settings.weu_bytes,
            extent_bytes: settings.extent_bytes,
            entries_max: settings.weu_entries_max(),
        }
    }

    fn slot(&self, weu: WeuId) -> &Slot {
        &self.slots[weu.0 as usize]
    }

    fn slot_mut(&mut self, weu: WeuId) -> &mut Slot {
        &mut self.slots[weu.0 as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        self.limit
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// Slots that will be free once the device has been told so.
    pub(crate) fn discarding_count(&self) -> u32 {
        self.discarding
    }

    /// The device has been told that a slot holds nothing.
    pub(crate) fn discarded(&mut self, weu: WeuId) {
        if self.slot(weu).state == SlotState::Discarding {
            self.discarding -= 1;
            self.release(weu);
        }
    }

    /// Lets an empty slot be opened, if it is not being given up.
    fn release(&mut self, weu: WeuId) {
        if weu.0 >= self.limit {
            self.slot_mut(weu).state = SlotState::Retired;
        } else {
            self.slot_mut(weu).state = SlotState::Free;
            self.free.push_back(weu);
        }
    }

    pub(crate) fn generation(&self, weu: WeuId) -> Generation {
        self.slot(weu).generation
    }

    /// The next free slot and the lap its next generation would begin, if any.
    pub(crate) fn next_free(&self) -> Option<(WeuId, Generation, u64)> {
        let weu = *self.free.front()?;
        Some((weu, self.slot(weu).generation.next(), self.slot(weu).lap_sweep))
    }

    /// Opens the next free slot under its next generation.
    pub(crate) fn open(&mut self) -> Option<(WeuId, Generation)> {
        let weu = self.free.pop_front()?;
        let slot = self.slot_mut(weu);
        slot.generation = slot.generation.next();
        slot.state = SlotState::Open;
        (slot.for_dirty, slot.restored) = (false, false);
        let generation = slot.generation;
        self.open.push((weu, Fill::new(self.weu_bytes, self.entries_max)));
        Some((weu, generation))
    }

    pub(crate) fn set_lap_sweep(&mut self, weu: WeuId, sweep: u64) {
        self.slot_mut(weu).lap_sweep = sweep;
    }

    /// Adds an extent to an open slot; `None` when it does not fit.
    pub(crate) fn append(&mut self, weu: WeuId, key: ExtentKey, stored: Stored) -> Option<Location> {
        debug_assert!(!matches!(stored, Stored::Raw { bytes, .. } if bytes != self.extent_bytes));
        let fill = self.open.iter_mut().find(|(id, _)| *id == weu).map(|(_, fill)| fill)?;
        let position = fill.take(stored)?;
        self.slot_mut(weu).entries.push(key, position, stored);
        self.location(weu, (self.slot(weu).entries.len() - 1) as u16)
    }

    /// Where entry number `entry` of a slot lies now.
    pub(crate) fn location(&self, weu: WeuId, entry: u16) -> Option<Location> {
        let slot = self.slot(weu);
        let (position, raw_crc) = slot.entries.place(entry, self.weu_bytes, self.extent_bytes)?;
        let (offset, sectors) = (position.offset(), position.sectors());
        let in_ram = slot.state != SlotState::Stored;
        Some(Location { weu, generation: slot.generation, entry, offset, sectors, raw_crc, in_ram })
    }

    /// The first key of entry number `entry` of a slot.
    pub(crate) fn key(&self, weu: WeuId, entry: u16) -> Option<ExtentKey> {
        self.slot(weu).entries.key(entry)
    }

    /// Closes an open slot to further extents.
    pub(crate) fn seal(&mut self, weu: WeuId) {
        self.open.retain(|(id, _)| *id != weu);
        let slot = self.slot_mut(weu);
        debug_assert_eq!(slot.state, SlotState::Open);
        slot.state = SlotState::Sealed;
        slot.entries.shrink_to_fit();
    }

    /// Notes that a sealed slot is on the SSD: from now on it may be evicted.
    pub(crate) fn stored(&mut self, weu: WeuId) {
        debug_assert_eq!(self.slot(weu).state, SlotState::Sealed);
        self.slot_mut(weu).state = SlotState::Stored;
        self.touch(weu);
    }

    /// Marks a slot as used just now. Slots that are not on the SSD yet get their place when they are; pinned ones,
    /// when their last pin goes.
    pub(crate) fn touch(&mut self, weu: WeuId) {
        let slot = self.slot(weu);
        if slot.state == SlotState::Stored && slot.pins == 0 {
            self.lru.touch(weu.0);
        }
    }

    /// Keeps a slot from being evicted; once for each reason.
    pub(crate) fn pin(&mut self, weu: WeuId) {
        let slot = self.slot_mut(weu);
        slot.pins += 1;
        if slot.pins == 1 {
            self.pinned += 1;
            self.lru.remove(weu.0);
        }
    }

    /// Takes one reason back.
    pub(crate) fn unpin(&mut self, weu: WeuId) {
        let slot = self.slot_mut(weu);
        if slot.pins == 0 {
            return; // given up meanwhile: its write failed
        }
        slot.pins -= 1;
        if slot.pins == 0 {
            self.pinned -= 1;
            self.touch(weu);
        }
    }

    pub(crate) fn is_pinned(&self, weu: WeuId) -> bool {
        self.slot(weu).pins > 0
    }

    pub(crate) fn pinned_count(&self) -> u32 {
        self.pinned
    }

    /// Marks a slot just opened as one for content that the origin has not got.
    pub(crate) fn open_for_dirty(&mut self, weu: WeuId) {
        self.slot_mut(weu).for_dirty = true;
    }

    pub(crate) fn align_open(&mut self, weu: WeuId, block_bytes: u32) {
        if let Some((_, fill)) = self.open.iter_mut().find(|(id, _)| *id == weu) {
            fill.align(block_bytes);
        }
    }

    /// Whether a journal record that names the slot's extents will, once durable, find them: they are on the SSD, or
    /// get there before the record.
    pub(crate) fn is_safe_to_name(&self, weu: WeuId) -> bool {
        let slot = self.slot(weu);
        slot.state == SlotState::Stored && !slot.restored || slot.for_dirty
    }

    /// No slot is known any more.
    pub(crate) fn begin_restore(&mut self) {
        self.free.clear();
        for slot in &mut self.slots {
            slot.state = SlotState::Unread;
        }
    }

    pub(crate) fn restore_free(&mut self, weu: WeuId, generation: Generation) {
        let slot = self.slot_mut(weu);
        slot.generation = generation;
        slot.state = SlotState::Free;
        self.free.push_back(weu);
    }

    pub(crate) fn restore(
        &mut self,
        weu: WeuId,
        generation: Generation,
        entries: impl Iterator<Item = (ExtentKey, Position, Stored)>,
    ) {
        let slot = self.slot_mut(weu);
        slot.generation = generation;
        slot.state = SlotState::Stored;
        slot.restored = true;
        slot.entries = Entries::default();
        for (key, position, stored) in entries {
            slot.entries.push(key, position, stored);
        }
        slot.entries.shrink_to_fit();
        self.lru.put_oldest(weu.0);
    }

    pub(crate) fn is_unread(&self, weu: WeuId) -> bool {
        self.slot(weu).state == SlotState::Unread
    }

    pub(crate) fn grow(&mut self, count: u32) {
        self.lru.grow(count);
        let known = self.slots.len() as u32;
        for weu in (0..known.min(count)).map(WeuId) {
            if weu.0 >= self.limit && self.slot(weu).state == SlotState::Retired {
                self.slot_mut(weu).state = SlotState::Free;
                self.free.push_back(weu);
            }
        }
        for weu in (known..count).map(WeuId) {
            self.slots.push(Slot::new());
            self.free.push_back(weu);
        }
        self.limit = count;
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
        let evictable = |slot: &Slot| slot.state == SlotState::Stored && slot.pins == 0;
        (limit..self.slots.len() as u32).map(WeuId).find(|weu| evictable(self.slot(*weu)))
    }

    pub(crate) fn occupied_beyond(&self, limit: u32) -> usize {
        self.slots.iter().skip(limit as usize).filter(|slot| slot.state != SlotState::Retired).count()
    }

    pub(crate) fn entry_count(&self, weu: WeuId) -> usize {
        self.slot(weu).entries.len()
    }

    /// The last filling that is gone, and the one that is live.
    pub(crate) fn filling(&self, weu: WeuId) -> (Generation, Option<Generation>) {
        let slot = self.slot(weu);
        match slot.state {
            SlotState::Free | SlotState::Discarding | SlotState::Retired | SlotState::Unread => (slot.generation, None),
            SlotState::Open | SlotState::Sealed | SlotState::Stored => {
                (Generation(slot.generation.0.wrapping_sub(1)), Some(slot.generation))
            }
        }
    }

    pub(crate) fn least_recent(&self) -> Option<WeuId> {
        self.lru.least_recent().map(WeuId)
    }

    /// Empties a slot and gives its keys; it becomes free, discarding or retired. Its generation stands until it is opened again,
    /// but no entry is current any more.
    pub(crate) fn clear(&mut self, weu: WeuId, then: SlotState) -> impl ExactSizeIterator<Item = ExtentKey> + use<> {
        self.lru.remove(weu.0);
        self.open.retain(|(id, _)| *id != weu);
        let slot = self.slot_mut(weu);
        slot.state = then;
        let entries = std::mem::take(&mut slot.entries);
        let pinned = std::mem::take(&mut slot.pins) > 0;
        self.pinned -= u32::from(pinned);
        match then {
            SlotState::Free => self.release(weu),
            SlotState::Discarding => self.discarding += 1,
            _ => {}
        }
        entries.into_keys()
    }

    /// Whether a location of that generation still means what it meant: the slot holds the same filling.
    pub(crate) fn is_current(&self, weu: WeuId, generation: Generation) -> bool {
        let Some(slot) = self.slots.get(weu.0 as usize) else { return false };
        slot.generation == generation && matches!(slot.state, SlotState::Open | SlotState::Sealed | SlotState::Stored)
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.slots.iter().map(|s| s.entries.ram_bytes()).sum::<usize>()
            + self.lru.ram_bytes()
            + self.free.capacity() * size_of::<WeuId>()
    }
}
