//! The table of write-evict units: generation, state and base entries of every slot.

mod lost;
mod records;
mod size;
mod slot;

pub use lost::LostDevices;

pub(super) use slot::Slot;
pub(crate) use slot::SlotState;

use super::entries::Entries;
use super::heat::Heats;
use super::layout::{Fill, RECORD_BYTES, Stored};
use super::location::Location;
use crate::class::ClassRules;
use crate::eviction::{Bands, Units, Victim};
use crate::shelf::{Band, Shelf};
use nitro_units::{ClassId, ExtentKey, Generation, WeuId};
use records::RecordCounts;
use slot::Classes;
use std::collections::VecDeque;

/// The share of a slot that extents leave to waiting records.
const KEPT_SHARE: u32 = 8;

/// The progress of emptying a slot.
#[derive(Debug)]
struct Clearing {
    weu: WeuId,
    /// The state of the slot afterwards.
    then: SlotState,
    /// Number of the next entry to remove from the indexes.
    next: u16,
}

/// The slots as a policy of eviction sees them.
struct View<'a> {
    slots: &'a [Slot],
    wanted: Wanted<'a>,
    /// Slots in which more than half of the live extents are pinned are candidates, too.
    with_pinned: bool,
}

/// Which slots may be evicted because of the bounds of classes.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// All slots.
    Any,
    /// Slots in which at least half of the live extents are of this class.
    Of(ClassId),
    /// Slots whose eviction leaves no class below its minimum: for each class with a minimum, the extents above it.
    Beyond(&'a [(ClassId, u64)]),
}

impl Units for View<'_> {
    fn heat(&self, weu: WeuId) -> u32 {
        self.slots.get(weu.0 as usize).map_or(0, |slot| slot.heats.sum())
    }

    fn is_kept(&self, weu: WeuId) -> bool {
        let Some(slot) = self.slots.get(weu.0 as usize) else { return true };
        if !self.with_pinned && slot.kept * 2 > slot.live {
            return true;
        }
        match self.wanted {
            Wanted::Any => false,
            Wanted::Of(class) => slot.live_of(class) * 2 < u64::from(slot.live) || slot.live_of(class) == 0,
            Wanted::Beyond(spare) => spare.iter().any(|(class, spare)| slot.live_of(*class) > *spare),
        }
    }
}

/// The sizes of a cache's slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Number of slots.
    pub(crate) count: u32,
    pub(crate) weu_bytes: u32,
    pub(crate) extent_bytes: u32,
    /// Maximum number of entries in a slot.
    pub(crate) entries_max: u32,
    /// Entries are packed when a slot is closed.
    pub(crate) packs: bool,
}

/// All slots of a cache.
#[derive(Debug)]
pub(crate) struct WeuTable {
    pub(super) slots: Vec<Slot>,
    open: Vec<(WeuId, Fill)>,
    free: VecDeque<WeuId>,
    order: Bands,
    pinned: u32,
    discarding: u32,
    clearing: Vec<Clearing>,
    /// Extents that refer to entries. The next field has them by class; unclassified ones are not counted there.
    live: u64,
    live_by_class: [u64; ClassId::COUNT],
    /// Slots from this number on are not opened, because a shrink removed them.
    limit: u32,
    /// Slots on these devices are not opened.
    lost: LostDevices,
    pub(super) weu_bytes: u32,
    extent_bytes: u32,
    entries_max: u32,
    packs: bool,
    records: RecordCounts,
    /// Number of slots opened since the start.
    pub(super) opened: u32,
}

impl WeuTable {
    pub(crate) fn new(sizes: Sizes, order: Bands) -> Self {
        let Sizes { count, weu_bytes, extent_bytes, entries_max, packs } = sizes;
        Self {
            slots: (0..count).map(|_| Slot::new()).collect(),
            open: Vec::new(),
            free: (0..count).map(WeuId).collect(),
            order,
            pinned: 0,
            discarding: 0,
            clearing: Vec::new(),
            live: 0,
            live_by_class: [0; ClassId::COUNT],
            limit: count,
            lost: LostDevices::default(),
            weu_bytes,
            extent_bytes,
            entries_max,
            packs,
            records: RecordCounts::default(),
            opened: 0,
        }
    }

    pub(super) fn slot(&self, weu: WeuId) -> &Slot {
        &self.slots[weu.0 as usize]
    }

    pub(super) fn slot_mut(&mut self, weu: WeuId) -> &mut Slot {
        &mut self.slots[weu.0 as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        self.limit
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// Slots that are free, or will be once they are emptied and discarded.
    pub(crate) fn coming_free_count(&self) -> u32 {
        self.free_count() + self.discarding + self.clearing_count()
    }

    /// Whether slots are being emptied or discarded.
    pub(crate) fn is_any_coming_free(&self) -> bool {
        self.discarding + self.clearing_count() > 0
    }

    fn clearing_count(&self) -> u32 {
        self.clearing.iter().filter(|clearing| clearing.then != SlotState::Retired).count() as u32
    }

    /// Notes that a slot was discarded on the device.
    pub(crate) fn discarded(&mut self, weu: WeuId) {
        if self.slot(weu).state == SlotState::Discarding {
            self.discarding -= 1;
            self.release(weu);
        }
    }

    /// Makes an empty slot free, or retires it if a shrink removed it or its device is lost.
    fn release(&mut self, weu: WeuId) {
        if weu.0 >= self.limit || self.lost.has(weu) {
            self.slot_mut(weu).state = SlotState::Retired;
        } else {
            self.slot_mut(weu).state = SlotState::Free;
            self.free.push_back(weu);
        }
    }

    pub(crate) fn generation(&self, weu: WeuId) -> Generation {
        self.slot(weu).generation
    }

    /// The next free slot, its next generation, and the cleaner's pass in which its last half lap began; see
    /// `CacheManager::finish_lap`.
    pub(crate) fn next_free(&self) -> Option<(WeuId, Generation, u64)> {
        let weu = *self.free.front()?;
        Some((weu, self.slot(weu).generation.next(), self.slot(weu).lap_sweep))
    }

    /// Opens the next free slot with its next generation. `None`: there is no free slot.
    pub(crate) fn open(&mut self, shelf: Shelf) -> Option<(WeuId, Generation)> {
        let weu = self.free.pop_front()?;
        self.opened = self.opened.saturating_add(1);
        let opened = self.opened;
        let slot = self.slot_mut(weu);
        slot.opened = opened;
        slot.generation = slot.generation.next();
        slot.state = SlotState::Open;
        (slot.for_dirty, slot.restored, slot.live, slot.kept) = (false, false, 0, 0);
        slot.shelf = shelf;
        let generation = slot.generation;
        self.order.opened(weu, shelf);
        self.open.push((weu, Fill::new(self.weu_bytes, self.entries_max)));
        Some((weu, generation))
    }

    pub(crate) fn set_lap_sweep(&mut self, weu: WeuId, sweep: u64) {
        self.slot_mut(weu).lap_sweep = sweep;
    }

    /// Adds an extent to an open slot, so that `waiting` records have room, too, or as many of them as may take an eighth
    /// of a slot; `None`: it does not fit.
    pub(crate) fn append(&mut self, weu: WeuId, key: ExtentKey, stored: Stored, waiting: usize) -> Option<Location> {
        debug_assert!(!matches!(stored, Stored::Raw { bytes, .. } if bytes != self.extent_bytes));
        let kept_bytes = match self.slot(weu).for_dirty {
            true => 0,
            false => (self.weu_bytes / KEPT_SHARE).min((waiting as u32).saturating_mul(RECORD_BYTES)),
        };
        let fill = self.open.iter_mut().find(|(id, _)| *id == weu).map(|(_, fill)| fill)?;
        let position = fill.take(stored, kept_bytes)?;
        self.slot_mut(weu).entries.push(key, position, stored);
        self.location(weu, (self.slot(weu).entries.len() - 1) as u16)
    }

    /// The location of entry number `entry` of a slot; `None`: there is no such entry, or the slot is being emptied.
    pub(crate) fn location(&self, weu: WeuId, entry: u16) -> Option<Location> {
        let slot = self.slot(weu);
        if slot.state == SlotState::Clearing {
            return None;
        }
        let (position, raw_crc) = slot.entries.place(entry, self.weu_bytes, self.extent_bytes)?;
        let (offset, sectors, in_ram) = (position.offset(), position.sectors(), self.is_in_ram(weu));
        Some(Location { weu, generation: slot.generation, entry, offset, sectors, raw_crc, in_ram })
    }

    /// Whether the extents of a filled slot are in RAM.
    pub(crate) fn is_in_ram(&self, weu: WeuId) -> bool {
        self.slot(weu).state != SlotState::Stored
    }

    /// The first key of entry number `entry` of a slot.
    pub(crate) fn key(&self, weu: WeuId, entry: u16) -> Option<ExtentKey> {
        self.slot(weu).entries.key(entry)
    }

    /// Closes an open slot to further extents; returns how many records have room.
    pub(crate) fn seal(&mut self, weu: WeuId) -> u32 {
        let fill = self.open.iter().find(|(id, _)| *id == weu).map(|(_, fill)| *fill);
        self.open.retain(|(id, _)| *id != weu);
        let packs = self.packs;
        let slot = self.slot_mut(weu);
        debug_assert_eq!(slot.state, SlotState::Open);
        slot.state = SlotState::Sealed;
        slot.entries.close(packs);
        self.order.sealed(weu);
        fill.map_or(0, |fill| Self::records_in(fill.room_bytes()))
    }

    /// Notes that a sealed slot is on the SSD. From now on it may be evicted.
    pub(crate) fn stored(&mut self, weu: WeuId) {
        debug_assert_eq!(self.slot(weu).state, SlotState::Sealed);
        self.slot_mut(weu).state = SlotState::Stored;
        self.enter(weu);
    }

    /// Notes a use of an entry. It counts as heat only once the slot is full, because earlier uses belong to the burst
    /// in which the slot was filled.
    pub(crate) fn touch(&mut self, weu: WeuId, entry: u16) {
        let slot = self.slot_mut(weu);
        if matches!(slot.state, SlotState::Sealed | SlotState::Stored) {
            slot.heats.raise(entry);
        }
        self.order.touched(weu);
    }

    /// Notifies the policy of eviction of a look-up.
    pub(crate) fn looked_up(&mut self, key: ExtentKey, read: bool) {
        self.order.looked_up(key, read);
    }

    pub(super) const fn order_mut(&mut self) -> &mut Bands {
        &mut self.order
    }

    /// Uses this number of bands from now on, or as many as the policy of eviction supports; returns their number.
    pub(crate) fn tell_bands_apart(&mut self, count: usize, normal: Band) -> usize {
        self.order.tell_apart(count, normal)
    }

    /// Makes a slot a candidate for eviction, if it is evictable.
    pub(super) fn enter(&mut self, weu: WeuId) {
        if self.is_evictable(weu) {
            self.order.enter(weu);
        }
    }

    /// Whether a slot may be evicted: it is on the SSD, not pinned and not leaving.
    pub(crate) fn is_evictable(&self, weu: WeuId) -> bool {
        self.slots
            .get(weu.0 as usize)
            .is_some_and(|slot| slot.state == SlotState::Stored && slot.pins == 0 && !slot.leaving)
    }

    /// Counts one more extent that refers to an entry of a slot.
    pub(crate) fn refer(&mut self, weu: WeuId, entry: u16) {
        let slot = &mut self.slots[weu.0 as usize];
        slot.live += 1;
        self.live += 1;
        if let Some(classes) = &mut slot.classes
            && let Some(class) = classes.of(entry)
        {
            classes.live[class.index()] += 1;
            self.live_by_class[class.index()] += 1;
        }
        self.order.live_changed(weu, slot.live, slot.entries.len() as u32);
    }

    /// Counts one extent less that refers to an entry of a slot, if the slot still has the filling.
    pub(crate) fn unrefer(&mut self, weu: WeuId, entry: u16, is_of: impl Fn(Generation) -> bool) {
        let generation = self.slot(weu).generation;
        if !is_of(generation) || !self.is_current(weu, generation) {
            return;
        }
        let slot = &mut self.slots[weu.0 as usize];
        slot.live -= 1;
        self.live -= 1;
        if let Some(classes) = &mut slot.classes
            && let Some(class) = classes.of(entry)
        {
            classes.live[class.index()] -= 1;
            self.live_by_class[class.index()] -= 1;
        }
        self.order.live_changed(weu, slot.live, slot.entries.len() as u32);
    }

    /// Sets the class of the last entry of an open slot, to which one extent refers.
    pub(crate) fn classify(&mut self, weu: WeuId, entry: u16, class: ClassId) {
        let classes = self.slots[weu.0 as usize].classes.get_or_insert_default();
        debug_assert!(usize::from(entry) >= classes.of.len(), "only new entries are classified");
        classes.of.resize(usize::from(entry), ClassId::UNCLASSIFIED);
        classes.of.push(class);
        classes.live[class.index()] += 1;
        self.live_by_class[class.index()] += 1;
    }

    /// Changes the class of an entry to which one extent refers; returns whether it had another class.
    pub(crate) fn reclassify(&mut self, weu: WeuId, entry: u16, class: ClassId) -> bool {
        let slot = &mut self.slots[weu.0 as usize];
        let was = slot.class_of(entry);
        if was == class {
            return false;
        }
        let classes = slot.classes.get_or_insert_default();
        if classes.of.len() <= usize::from(entry) {
            classes.of.resize(usize::from(entry) + 1, ClassId::UNCLASSIFIED);
        }
        classes.of[usize::from(entry)] = class;
        for (class, is_more) in [(was, false), (class, true)] {
            if class.is_classified() {
                let (of_slot, of_all) = (&mut classes.live[class.index()], &mut self.live_by_class[class.index()]);
                if is_more {
                    (*of_slot, *of_all) = (*of_slot + 1, *of_all + 1);
                } else {
                    (*of_slot, *of_all) = (*of_slot - 1, *of_all - 1);
                }
            }
        }
        true
    }

    /// Sets the classes of the entries of a restored slot, to which no extent refers yet.
    pub(crate) fn restore_classes(&mut self, weu: WeuId, of: impl Iterator<Item = ClassId> + Clone) {
        if of.clone().any(ClassId::is_classified) {
            let classes = Classes { of: of.collect(), live: [0; ClassId::COUNT] };
            self.slot_mut(weu).classes = Some(Box::new(classes));
        }
    }

    pub(crate) fn live_by_class(&self) -> [u64; ClassId::COUNT] {
        let mut live = self.live_by_class;
        live[ClassId::UNCLASSIFIED.index()] = self.live - self.live_by_class.iter().sum::<u64>();
        live
    }

    /// Number of extents that refer to entries of a class.
    pub(crate) fn live_of(&self, class: ClassId) -> u64 {
        if class.is_classified() { self.live_by_class[class.index()] } else { self.live_by_class()[class.index()] }
    }

    /// Pins a slot, so that it is not evicted. Pins are counted.
    pub(crate) fn pin(&mut self, weu: WeuId) {
        let slot = self.slot_mut(weu);
        slot.pins += 1;
        if slot.pins == 1 {
            self.pinned += 1;
            self.order.leave(weu);
        }
    }

    /// Removes one pin.
    pub(crate) fn unpin(&mut self, weu: WeuId) {
        let slot = self.slot_mut(weu);
        if slot.pins == 0 {
            return; // its write failed meanwhile, and it was retired
        }
        slot.pins -= 1;
        if slot.pins == 0 {
            self.pinned -= 1;
            self.enter(weu);
        }
    }

    pub(crate) fn is_pinned(&self, weu: WeuId) -> bool {
        self.slot(weu).pins > 0
    }

    pub(crate) fn pinned_count(&self) -> u32 {
        self.pinned
    }

    /// Marks a slot that was just opened as one for dirty content.
    pub(crate) fn open_for_dirty(&mut self, weu: WeuId) {
        self.slot_mut(weu).for_dirty = true;
    }

    /// Number of pinned WEUs after this number of further extents have become dirty, without compression.
    pub(crate) fn pinned_after(&self, extents: u64) -> u64 {
        if extents == 0 {
            return self.pinned.into();
        }
        let (pinned, room, per_weu) = self.dirty_fill();
        pinned + extents.saturating_sub(room).div_ceil(per_weu)
    }

    /// Extents that may become dirty, without compression, until `most` WEUs are pinned.
    pub(crate) fn dirty_room(&self, most: u64) -> u64 {
        let (pinned, room, per_weu) = self.dirty_fill();
        most.checked_sub(pinned).map_or(0, |more| room + more * per_weu)
    }

    /// WEUs that are pinned once the open one for dirty extents is; the extents that still have room in it; those that have room in a
    /// new one.
    fn dirty_fill(&self) -> (u64, u64, u64) {
        let open = self.open.iter().find(|(weu, _)| self.slot(*weu).for_dirty);
        let room = open.map_or(0, |(_, fill)| fill.room_for(self.extent_bytes));
        let joins = room > 0 && open.is_some_and(|(weu, _)| !self.is_pinned(*weu));
        let per_weu = Fill::new(self.weu_bytes, self.entries_max).room_for(self.extent_bytes).max(1);
        (u64::from(self.pinned) + u64::from(joins), room.into(), per_weu.into())
    }

    pub(crate) fn align_open(&mut self, weu: WeuId, block_bytes: u32) {
        if let Some((_, fill)) = self.open.iter_mut().find(|(id, _)| *id == weu) {
            fill.align(block_bytes);
        }
    }

    /// Whether a journal record may name the slot's extents: they are on the SSD, or are written to it before the
    /// record.
    pub(crate) fn is_safe_to_name(&self, weu: WeuId) -> bool {
        let slot = self.slot(weu);
        (slot.state == SlotState::Stored && !slot.restored || slot.for_dirty) && !slot.leaving && !self.lost.has(weu)
    }

    pub(crate) fn entry_count(&self, weu: WeuId) -> usize {
        self.slot(weu).entries.len()
    }

    /// The generations of the last filling that is gone, and of the live one.
    pub(crate) fn filling(&self, weu: WeuId) -> (Generation, Option<Generation>) {
        let slot = self.slot(weu);
        match slot.state {
            SlotState::Free | SlotState::Clearing | SlotState::Discarding | SlotState::Retired | SlotState::Unread => {
                (slot.generation, None)
            }
            SlotState::Open | SlotState::Sealed | SlotState::Stored => {
                (Generation(slot.generation.0.wrapping_sub(1)), Some(slot.generation))
            }
        }
    }

    /// The slot to evict next. Slots with mostly pinned extents are used only if there is no other.
    pub(crate) fn victim(&mut self, rules: &ClassRules) -> Option<Victim> {
        self.allowed_victim(rules, false).or_else(|| self.any_victim(Wanted::Any, true))
    }

    fn allowed_victim(&mut self, rules: &ClassRules, with_pinned: bool) -> Option<Victim> {
        for (class, max) in rules.maximums() {
            if self.live_of(*class) > *max
                && let Some(victim) = self.any_victim(Wanted::Of(*class), with_pinned)
            {
                return Some(victim);
            }
        }
        if !rules.minimums().is_empty() {
            let live = self.live_by_class();
            let spare = |(class, min): &(ClassId, u64)| (*class, live[class.index()].saturating_sub(*min));
            let spare: Vec<_> = rules.minimums().iter().map(spare).collect();
            let victim = self.any_victim(Wanted::Beyond(&spare), with_pinned);
            if victim.is_some() {
                return victim;
            }
        }
        self.any_victim(Wanted::Any, with_pinned)
    }

    fn any_victim(&mut self, wanted: Wanted<'_>, with_pinned: bool) -> Option<Victim> {
        self.order.victim(&View { slots: &self.slots, wanted, with_pinned })
    }

    /// Number of pinned extents that refer to a slot.
    pub(crate) fn kept(&self, weu: WeuId) -> u32 {
        self.slot(weu).kept
    }

    /// Counts one pinned extent more, or one less, that refers to a slot.
    pub(crate) fn note_kept(&mut self, weu: WeuId, is_more: bool) {
        let slot = self.slot_mut(weu);
        slot.kept = if is_more { slot.kept + 1 } else { slot.kept.saturating_sub(1) };
    }

    /// Whether the entries of a slot can be found.
    pub(crate) fn is_filled(&self, weu: WeuId) -> bool {
        matches!(self.slot(weu).state, SlotState::Open | SlotState::Sealed | SlotState::Stored)
    }

    /// Begins to empty a slot: from now on none of its entries is current. [`next_to_clear`](Self::next_to_clear)
    /// returns the entries to remove from the indexes; after the last one, the slot is free, discarding or retired. The
    /// slot keeps its generation until it is opened again. Returns the number of pinned extents that referred to it.
    pub(crate) fn begin_clearing(&mut self, weu: WeuId, then: SlotState) -> u32 {
        self.order.leave(weu);
        self.open.retain(|(id, _)| *id != weu);
        let slot = self.slot_mut(weu);
        slot.state = SlotState::Clearing;
        slot.leaving = false;
        let (live, classes) = (std::mem::take(&mut slot.live), slot.classes.take());
        let kept = std::mem::take(&mut slot.kept);
        let pinned = std::mem::take(&mut slot.pins) > 0;
        self.pinned -= u32::from(pinned);
        self.live -= u64::from(live);
        for (all, gone) in
            self.live_by_class.iter_mut().zip(classes.map_or([0; ClassId::COUNT], |classes| classes.live))
        {
            *all -= u64::from(gone);
        }
        self.clearing.push(Clearing { weu, then, next: 0 });
        kept
    }

    /// Fills `keys` with the keys of the next entries of a slot that is being emptied. Returns the number of the first
    /// entry, and how many there are; `None`: the slot is not being emptied, or has just become empty.
    pub(crate) fn next_to_clear(&mut self, weu: WeuId, keys: &mut [ExtentKey]) -> Option<(u16, usize)> {
        let at = self.clearing.iter().position(|clearing| clearing.weu == weu)?;
        let first = self.clearing[at].next;
        let entries = &self.slots[weu.0 as usize].entries;
        let count = keys.iter_mut().zip(first..entries.len() as u16).map(|(key, entry)| {
            // `entry` is below the number of entries, so it exists.
            *key = entries.key(entry).unwrap_or(*key);
        });
        let count = count.count();
        self.clearing[at].next += count as u16;
        if count == 0 {
            let then = self.clearing.swap_remove(at).then;
            self.emptied(weu, then);
            return None;
        }
        Some((first, count))
    }

    fn emptied(&mut self, weu: WeuId, then: SlotState) {
        debug_assert_eq!(self.record_count(weu), 0, "records go first");
        let slot = self.slot_mut(weu);
        (slot.state, slot.entries) = (then, Entries::default());
        (slot.heats, slot.keys) = (Heats::default(), None);
        self.order.emptied(weu);
        match then {
            SlotState::Free => self.release(weu),
            SlotState::Discarding => self.discarding += 1,
            _ => {}
        }
    }

    /// Whether a location with this generation is still valid: the slot has the same filling.
    pub(crate) fn is_current(&self, weu: WeuId, generation: Generation) -> bool {
        let Some(slot) = self.slots.get(weu.0 as usize) else { return false };
        slot.generation == generation && matches!(slot.state, SlotState::Open | SlotState::Sealed | SlotState::Stored)
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.slots.iter().map(Slot::ram_bytes).sum::<usize>()
            + self.order.ram_bytes()
            + self.free.capacity() * size_of::<WeuId>()
    }
}
