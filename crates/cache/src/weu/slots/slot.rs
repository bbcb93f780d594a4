//! One slot: its state, its entries, and the counts of extents that refer to them.

use crate::shelf::Shelf;
use crate::weu::entries::Entries;
use crate::weu::heat::Heats;
use crate::weu::heirs::Keys;
use nitro_units::{ClassId, Generation};

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Empty; may be opened.
    Free,
    /// Empty; must be discarded on the device before it is opened.
    Discarding,
    /// Being filled in RAM.
    Open,
    /// Full and being written to the SSD; still served from RAM.
    Sealed,
    /// On the SSD; may be evicted.
    Stored,
    /// Being emptied: its entries are not found any more, but are still in the indexes.
    Clearing,
    /// Not used any more: its write failed, a shrink removed it, or its device is lost.
    Retired,
    /// Not read yet since the restart.
    Unread,
}

#[derive(Debug)]
pub(in crate::weu) struct Slot {
    pub(in crate::weu) state: SlotState,
    pub(in crate::weu) generation: Generation,
    /// The cleaner's pass in which `generation` last began half a lap; see `CacheManager::finish_lap`.
    pub(super) lap_sweep: u64,
    pub(in crate::weu) entries: Entries,
    /// The dups that its records are of; see `records`. Few units have any: the others keep no room for a list.
    records: Option<Box<Records>>,
    /// Uses of its entries since it became full.
    pub(in crate::weu) heats: Heats,
    /// What is known of its entries because of dups; `None`: nothing.
    pub(in crate::weu) keys: Option<Box<Keys>>,
    /// The lane and the band that it was opened for.
    pub(in crate::weu) shelf: Shelf,
    /// Its surviving extents are being copied forward; then it is evicted.
    pub(in crate::weu) leaving: bool,
    /// Number of extents that refer to its entries.
    pub(in crate::weu) live: u32,
    /// The number of pinned ones among them.
    pub(super) kept: u32,
    /// The classes of its entries; `None`: none was classified.
    pub(super) classes: Option<Box<Classes>>,
    /// Number of reasons not to evict it: dirty extents, and older content that the journal still names.
    pub(in crate::weu) pins: u32,
    /// Filled with dirty content: the engine writes it to the SSD before the journal names it.
    pub(super) for_dirty: bool,
    /// Restored from its header: its extents may never have reached the SSD.
    pub(super) restored: bool,
    /// The value of the counter of opened slots when this one was opened, itself included; 0: before the start.
    pub(in crate::weu) opened: u32,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            state: SlotState::Free,
            generation: Generation(0),
            lap_sweep: 0,
            entries: Entries::default(),
            records: None,
            heats: Heats::default(),
            keys: None,
            shelf: Shelf::default(),
            leaving: false,
            live: 0,
            kept: 0,
            classes: None,
            pins: 0,
            for_dirty: false,
            restored: false,
            opened: 0,
        }
    }
}

/// Numbers of dups.
#[derive(Debug, Default)]
struct Records(Vec<u32>);

/// The classes of a slot's entries.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// By entry; entries beyond the end are unclassified.
    pub(super) of: Vec<ClassId>,
    /// Number of extents that refer to entries of each class. The unclassified ones are not counted.
    pub(super) live: [u32; ClassId::COUNT],
}

impl Classes {
    pub(super) fn of(&self, entry: u16) -> Option<ClassId> {
        self.of.get(usize::from(entry)).copied().filter(|class| class.is_classified())
    }
}

impl Slot {
    pub(in crate::weu) fn class_of(&self, entry: u16) -> ClassId {
        self.classes.as_ref().and_then(|classes| classes.of(entry)).unwrap_or_default()
    }

    /// Number of extents that refer to entries of a class.
    pub(super) fn live_of(&self, class: ClassId) -> u64 {
        let live = self.classes.as_ref().map_or(&[0; ClassId::COUNT], |classes| &classes.live);
        let count = if class.is_classified() { live[class.index()] } else { self.live - live.iter().sum::<u32>() };
        count.into()
    }

    /// The dups that its records are of.
    pub(super) fn records(&self) -> &[u32] {
        self.records.as_ref().map_or(&[], |records| &records.0)
    }

    /// Adds a record; returns its number.
    pub(super) fn push_record(&mut self, dup: u32) -> u16 {
        let records = &mut self.records.get_or_insert_default().0;
        records.push(dup);
        (records.len() - 1) as u16
    }

    /// Removes the last record; returns its number, and the dup.
    pub(super) fn pop_record(&mut self) -> Option<(u16, u32)> {
        let records = &mut self.records.as_mut()?.0;
        let (dup, number) = (records.pop()?, records.len() as u16);
        if number == 0 {
            self.records = None;
        }
        Some((number, dup))
    }

    /// How many of its entries are in use, and how many there are; a slot that has records alone is in use.
    pub(in crate::weu) fn used(&self) -> (u64, u64) {
        let entries = self.entries.len() as u64;
        if entries == 0 && !self.records().is_empty() {
            return (1, 1);
        }
        (u64::from(self.live).min(entries.max(1)), entries.max(1))
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.entries.ram_bytes()
            + self.records.as_ref().map_or(0, |r| size_of::<Records>() + r.0.capacity() * size_of::<u32>())
            + self.heats.ram_bytes()
            + self.keys.as_ref().map_or(0, |keys| keys.ram_bytes())
            + self.classes.as_ref().map_or(0, |c| size_of::<Classes>() + c.of.capacity())
    }
}
