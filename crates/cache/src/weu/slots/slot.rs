//! One slot: its state, its entries, and who refers to them.

use crate::admission::Shelf;
use crate::weu::entries::Entries;
use crate::weu::heat::Heats;
use nitro_units::{ClassId, Generation};

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
    /// Being emptied: nothing of it is found any more, but its entries are still in the indexes.
    Clearing,
    /// Failed to be written; not used again.
    Retired,
    /// Not yet read since the restart.
    Unread,
}

#[derive(Debug)]
pub(in crate::weu) struct Slot {
    pub(in crate::weu) state: SlotState,
    pub(in crate::weu) generation: Generation,
    /// The sweep that was in progress when `generation` last began a lap of what a fingerprint slot can tell apart.
    pub(super) lap_sweep: u64,
    pub(in crate::weu) entries: Entries,
    /// How often its entries were used again since it is full.
    pub(in crate::weu) heats: Heats,
    /// A bit for each entry up to the last that a dup referred to: set for those.
    pub(in crate::weu) shared: Vec<u64>,
    /// What it was opened for.
    pub(in crate::weu) shelf: Shelf,
    /// What is worth it is being copied forward, after which it is evicted.
    pub(in crate::weu) leaving: bool,
    /// Extents that refer to its entries.
    pub(in crate::weu) live: u32,
    /// Of them, pinned ones.
    pub(super) kept: u32,
    /// Where any entry was classified.
    pub(super) classes: Option<Box<Classes>>,
    /// Reasons not to evict it: extents that the origin does not have, or that the journal still names.
    pub(in crate::weu) pins: u32,
    /// Filled with content that the origin does not have: the journal sees to its being durable.
    pub(super) for_dirty: bool,
    /// Known from its header only, since the restart: its extents may never have reached the SSD.
    pub(super) restored: bool,
    /// How many slots had been opened since the start when it was, itself included; 0: before the start.
    pub(in crate::weu) opened: u32,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            state: SlotState::Free,
            generation: Generation(0),
            lap_sweep: 0,
            entries: Entries::default(),
            heats: Heats::default(),
            shared: Vec::new(),
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

/// The classes of a slot's entries.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// By entry; of those behind the last: unclassified.
    pub(super) of: Vec<ClassId>,
    /// Extents that refer to entries of each class. That of the unclassified is not counted.
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

    /// Extents that refer to entries of a class.
    pub(super) fn live_of(&self, class: ClassId) -> u64 {
        let live = self.classes.as_ref().map_or(&[0; ClassId::COUNT], |classes| &classes.live);
        let count = if class.is_classified() { live[class.index()] } else { self.live - live.iter().sum::<u32>() };
        count.into()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.entries.ram_bytes()
            + self.heats.ram_bytes()
            + self.shared.capacity() * size_of::<u64>()
            + self.classes.as_ref().map_or(0, |c| size_of::<Classes>() + c.of.capacity())
    }
}
