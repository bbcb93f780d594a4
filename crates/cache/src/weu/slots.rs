//! The WEU table: generation, state and base entries of every slot.

use super::layout::{Fill, Position};
use super::lru::LruList;
use crate::ids::{ExtentKey, Generation, Location, WeuId};
use std::collections::VecDeque;

/// The life of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Holds nothing; may be opened.
    Free,
    /// Being filled in RAM.
    Open,
    /// Full, on its way to the SSD; still served from RAM.
    Sealed,
    /// On the SSD; may be evicted.
    Stored,
    /// Failed to be written; not used again.
    Retired,
}

#[derive(Debug)]
struct Slot {
    state: SlotState,
    generation: Generation,
    /// The sweep that was under way when `generation` last began a lap of what a fingerprint slot can tell apart.
    lap_sweep: u64,
    entries: Vec<BaseEntry>,
}

/// A base entry in 12 bytes: a key of 8 would be aligned to 16.
#[derive(Debug, Clone, Copy)]
struct BaseEntry {
    key: [u32; 2],
    position: Position,
}

impl BaseEntry {
    fn new(key: ExtentKey, position: Position) -> Self {
        Self { key: [key.raw() as u32, (key.raw() >> 32) as u32], position }
    }

    fn key(&self) -> ExtentKey {
        ExtentKey::from_raw(u64::from(self.key[1]) << 32 | u64::from(self.key[0]))
    }
}

/// All slots of a cache.
#[derive(Debug)]
pub(crate) struct WeuTable {
    slots: Vec<Slot>,
    open: Vec<(WeuId, Fill)>,
    free: VecDeque<WeuId>,
    lru: LruList,
    weu_bytes: u32,
    entries_max: u32,
}

impl WeuTable {
    pub(crate) fn new(count: u32, weu_bytes: u32, entries_max: u32) -> Self {
        let slot = || Slot { state: SlotState::Free, generation: Generation(0), lap_sweep: 0, entries: Vec::new() };
        Self {
            slots: (0..count).map(|_| slot()).collect(),
            open: Vec::new(),
            free: (0..count).map(WeuId).collect(),
            lru: LruList::new(count),
            weu_bytes,
            entries_max,
        }
    }

    fn slot(&self, weu: WeuId) -> &Slot {
        &self.slots[weu.0 as usize]
    }

    fn slot_mut(&mut self, weu: WeuId) -> &mut Slot {
        &mut self.slots[weu.0 as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
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
        let generation = slot.generation;
        self.open.push((weu, Fill::new(self.weu_bytes, self.entries_max)));
        Some((weu, generation))
    }

    pub(crate) fn set_lap_sweep(&mut self, weu: WeuId, sweep: u64) {
        self.slot_mut(weu).lap_sweep = sweep;
    }

    /// Adds an extent to an open slot; `None` when it does not fit.
    pub(crate) fn append(&mut self, weu: WeuId, key: ExtentKey, payload_bytes: u32) -> Option<Location> {
        let fill = self.open.iter_mut().find(|(id, _)| *id == weu).map(|(_, fill)| fill)?;
        let position = fill.take(payload_bytes)?;
        let slot = self.slot_mut(weu);
        slot.entries.push(BaseEntry::new(key, position));
        self.location(weu, (self.slot(weu).entries.len() - 1) as u16)
    }

    /// Where entry number `entry` of a slot lies now.
    pub(crate) fn location(&self, weu: WeuId, entry: u16) -> Option<Location> {
        let slot = self.slot(weu);
        let position = slot.entries.get(usize::from(entry))?.position;
        let (offset, sectors) = (position.offset(), position.sectors());
        let in_ram = slot.state != SlotState::Stored;
        Some(Location { weu, generation: slot.generation, entry, offset, sectors, in_ram })
    }

    /// The first key of entry number `entry` of a slot.
    pub(crate) fn key(&self, weu: WeuId, entry: u16) -> Option<ExtentKey> {
        self.slot(weu).entries.get(usize::from(entry)).map(BaseEntry::key)
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
        self.lru.touch(weu.0);
    }

    /// Marks a slot as used just now. Slots that are not on the SSD yet get their place when they are.
    pub(crate) fn touch(&mut self, weu: WeuId) {
        if self.slot(weu).state == SlotState::Stored {
            self.lru.touch(weu.0);
        }
    }

    pub(crate) fn least_recent(&self) -> Option<WeuId> {
        self.lru.least_recent().map(WeuId)
    }

    /// Empties a slot and gives its keys; it becomes free, or retired. Its generation stands until it is opened again,
    /// but no entry is current any more.
    pub(crate) fn clear(&mut self, weu: WeuId, then: SlotState) -> impl ExactSizeIterator<Item = ExtentKey> + use<> {
        self.lru.remove(weu.0);
        self.open.retain(|(id, _)| *id != weu);
        let slot = self.slot_mut(weu);
        slot.state = then;
        let entries = std::mem::take(&mut slot.entries);
        if then == SlotState::Free {
            self.free.push_back(weu);
        }
        entries.into_iter().map(|entry| entry.key())
    }

    /// Whether a location of that generation still means what it meant: the slot holds the same filling.
    pub(crate) fn is_current(&self, weu: WeuId, generation: Generation) -> bool {
        let slot = self.slot(weu);
        slot.generation == generation && !matches!(slot.state, SlotState::Free | SlotState::Retired)
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        let per_slot = |s: &Slot| s.entries.capacity() * size_of::<BaseEntry>();
        self.slots.capacity() * size_of::<Slot>()
            + self.slots.iter().map(per_slot).sum::<usize>()
            + self.lru.ram_bytes()
            + self.free.capacity() * size_of::<WeuId>()
    }
}
