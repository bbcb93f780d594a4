//! The shares of volumes in the room for dirty data. A write is admitted before it becomes dirty, so that admitted
//! writes never wait for another volume's destage.
//!
//! There are two kinds of room: extents, and write-evict units that dirty extents pin. Units may hold extents of
//! several volumes; each volume is charged with all units that it pins.

use crate::cache::Cache;
use nitro_cache::CacheManager;
use nitro_port::{Clock, Device};
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Percentage of the room that is reserved for volumes without a configured minimum, in equal parts.
const KEPT_PERCENT: u64 = 50;

/// A volume's share of the room for dirty data of its cache, in percent of
/// [`dirty_max_percent`](crate::EngineSettings::dirty_max_percent).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyShare {
    /// The share reserved for it while it is in write-back; `None`: an equal part of half the room.
    pub min_percent: Option<u8>,
    /// The maximum share.
    pub max_percent: u8,
}

impl Default for DirtyShare {
    fn default() -> Self {
        Self { min_percent: None, max_percent: 100 }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Taker {
    share: DirtyShare,
    writes_back: bool,
    /// Its destage fails: its dirty data do not become less.
    failing: bool,
    /// Extents that were admitted and are not in the cache yet.
    admitted: u64,
}

/// The room for dirty data that the volumes of a cache take.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<BTreeMap<ObjectId, Taker>>);

impl Shares {
    fn change(&self, object: ObjectId, change: impl FnOnce(&mut Taker)) {
        change(self.0.lock().entry(object).or_default());
    }

    pub(crate) fn set_share(&self, object: ObjectId, share: DirtyShare) {
        self.change(object, |taker| taker.share = share);
    }

    pub(crate) fn share(&self, object: ObjectId) -> DirtyShare {
        self.0.lock().get(&object).map_or_else(DirtyShare::default, |taker| taker.share)
    }

    /// Notes whether a minimum has to be reserved for a volume.
    pub(crate) fn set_writes_back(&self, object: ObjectId, writes_back: bool) {
        self.change(object, |taker| taker.writes_back = writes_back);
    }

    pub(crate) fn set_failing(&self, object: ObjectId, failing: bool) {
        self.change(object, |taker| taker.failing = failing);
    }

    /// Removes a volume.
    pub(crate) fn remove(&self, object: ObjectId) {
        self.0.lock().remove(&object);
    }

    /// Counts extents that are dirty already, whether or not they fit.
    pub(crate) fn admit_over(&self, object: ObjectId, extents: u64) {
        self.change(object, |taker| taker.admitted += extents);
    }

    /// Releases admitted extents that were inserted, or will not be inserted.
    pub(crate) fn release(&self, object: ObjectId, extents: u64) {
        self.change(object, |taker| taker.admitted = taker.admitted.saturating_sub(extents));
    }
}

fn admitted_by(takers: &BTreeMap<ObjectId, Taker>, object: ObjectId) -> u64 {
    takers.get(&object).map_or(0, |taker| taker.admitted)
}

fn admitted_by_all(takers: &BTreeMap<ObjectId, Taker>) -> u64 {
    takers.values().map(|taker| taker.admitted).sum()
}

/// One kind of room, from the view of a volume that requests some.
struct Room<'a> {
    takers: &'a BTreeMap<ObjectId, Taker>,
    asks: ObjectId,
    /// The total.
    max: u64,
    /// The room that a volume takes.
    taken: &'a dyn Fn(ObjectId) -> u64,
    /// The room that all volumes take, including the request.
    all_after: u64,
    /// What remains for volumes without dirty data, if other volumes are in write-back.
    left: u64,
    /// What a volume without dirty data may take of the room reserved for others.
    first_max: u64,
}

impl Room<'_> {
    fn min(&self, taker: &Taker) -> u64 {
        let writers = self.takers.values().filter(|taker| taker.writes_back).count().max(1) as u64;
        match (taker.writes_back, taker.share.min_percent) {
            (false, _) => 0,
            (true, Some(percent)) => self.max * u64::from(percent) / 100,
            (true, None) => self.max * KEPT_PERCENT / 100 / writers,
        }
    }

    /// Whether the volume may take `own_after` in total, if it has taken `own` already. The total never exceeds the
    /// room: admitted extents find room without destage.
    fn fits(&self, own: u64, own_after: u64) -> bool {
        if self.all_after > self.max {
            return false;
        }
        let taker = self.takers.get(&self.asks).copied().unwrap_or_default();
        if own == 0 && own_after <= self.first_max || own_after <= self.min(&taker) {
            return true;
        }
        own_after <= self.max_of(&taker) && self.all_after + self.kept() <= self.max
    }

    fn max_of(&self, taker: &Taker) -> u64 {
        self.max * u64::from(taker.share.max_percent) / 100
    }

    /// What has to remain for others.
    fn kept(&self) -> u64 {
        let others = || self.takers.iter().filter(|(object, _)| **object != self.asks);
        let kept: u64 = others().map(|(object, taker)| self.min(taker).saturating_sub((self.taken)(*object))).sum();
        if others().any(|(_, taker)| taker.writes_back) { kept.max(self.left) } else { kept }
    }

    /// The part that the volume has taken of all that it may take now, from 0 to 1.
    fn used(&self) -> f64 {
        let (own, free) = ((self.taken)(self.asks), self.max.saturating_sub(self.all_after));
        let taker = self.takers.get(&self.asks).copied().unwrap_or_default();
        let first = if own == 0 { self.first_max } else { 0 };
        let reserved = self.min(&taker).saturating_sub(own);
        let shared = self.max_of(&taker).saturating_sub(own).min(free.saturating_sub(self.kept()));
        match first.max(reserved).max(shared).min(free) {
            0 => 1.0,
            left => own as f64 / (own + left) as f64,
        }
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Admits further dirty extents of a volume if its share has room for them: each has to be put into the dirty
    /// queue, or [released](Shares::release). A volume without dirty data may take room reserved for others.
    pub(crate) fn try_admit(&self, object: ObjectId, extents: u64) -> bool {
        let mut takers = self.shares.0.lock();
        let manager = self.manager.lock();
        if !self.has_room(&manager, &takers, object, extents) {
            return false;
        }
        drop(manager);
        takers.entry(object).or_default().admitted += extents;
        true
    }

    fn has_room(
        &self,
        manager: &CacheManager,
        takers: &BTreeMap<ObjectId, Taker>,
        asks: ObjectId,
        extents: u64,
    ) -> bool {
        let per_weu = self.extents_per_weu();
        let admitted = |object: ObjectId| admitted_by(takers, object);
        let all_admitted = admitted_by_all(takers) + extents;
        let dirty = |object: ObjectId| manager.dirty_count_of(object) + admitted(object);
        let in_extents = self.room_in_extents(takers, asks, &dirty, manager.dirty_count() + all_admitted);
        let pinned = |object: ObjectId| u64::from(manager.pinned_count_of(object)) + admitted(object) / per_weu;
        let in_weus = Room {
            max: self.weus_dirty_max(),
            taken: &pinned,
            all_after: manager.pinned_after(all_admitted),
            left: 1,
            first_max: 1,
            ..in_extents
        };
        let own_weus = u64::from(manager.pinned_count_of(asks)) + (admitted(asks) + extents) / per_weu;
        let own = dirty(asks);
        in_extents.fits(own, own + extents) && in_weus.fits(own, own_weus)
    }

    /// The room for dirty extents, of which all volumes take `all_after`.
    fn room_in_extents<'a>(
        &self,
        takers: &'a BTreeMap<ObjectId, Taker>,
        asks: ObjectId,
        dirty: &'a dyn Fn(ObjectId) -> u64,
        all_after: u64,
    ) -> Room<'a> {
        let (max, first_max) = (self.extents_dirty_max(), self.extents_per_weu());
        Room { takers, asks, max, taken: dirty, all_after, left: 0, first_max }
    }

    fn extents_per_weu(&self) -> u64 {
        u64::from((self.superblock.weu_bytes / self.superblock.extent_bytes).max(1))
    }

    /// The part that a volume has taken of the room for dirty data that it may take now, from 0 to 1: of extents or of units, whichever
    /// is more.
    pub(crate) fn dirty_used(&self, object: ObjectId) -> f64 {
        let takers = self.shares.0.lock();
        let manager = self.manager.lock();
        let per_weu = self.extents_per_weu();
        let admitted = |object: ObjectId| admitted_by(&takers, object);
        let all_admitted = admitted_by_all(&takers);
        let dirty = |object: ObjectId| manager.dirty_count_of(object) + admitted(object);
        let in_extents = self.room_in_extents(&takers, object, &dirty, manager.dirty_count() + all_admitted);
        // In extents, too: a unit that is being filled counts as far as it is full.
        let (weus_max, max) = (self.weus_dirty_max(), self.weus_dirty_max() * per_weu);
        let all = max.saturating_sub(manager.dirty_room(weus_max).saturating_sub(all_admitted));
        let pinned =
            |object: ObjectId| (u64::from(manager.pinned_count_of(object)) * per_weu + admitted(object)).min(all);
        let in_weus = Room { max, taken: &pinned, all_after: all, left: per_weu, ..in_extents };
        in_extents.used().max(in_weus.used())
    }

    /// Whether a volume that has nothing dirty finds no room because of others whose destage fails, or whose dirty
    /// contents cannot be read.
    pub(crate) fn is_crowded_out(&self, object: ObjectId) -> bool {
        let takers = self.shares.0.lock();
        let manager = self.manager.lock();
        let is_sick = |other: &ObjectId| {
            let is_failing = takers.get(other).is_some_and(|taker| taker.failing);
            *other != object && (is_failing || !manager.has_destageable_of(*other))
        };
        let own = admitted_by(&takers, object) + manager.dirty_count_of(object);
        own == 0 && manager.dirty_objects().iter().any(is_sick) && !self.has_room(&manager, &takers, object, 1)
    }

    fn part_for_dirty(&self, all: u64) -> u64 {
        all * u64::from(self.live.dirty_max_percent()) / 100
    }

    fn extents_dirty_max(&self) -> u64 {
        self.part_for_dirty(self.extents_raw()).max(1)
    }

    /// Write-evict units that dirty extents may pin: one that a volume fills, and one for its neighbours, in the smallest cache.
    fn weus_dirty_max(&self) -> u64 {
        self.part_for_dirty(self.weus_for_dirty().into()).max(2)
    }

    /// Runs `insert` with the number of pinned units from which on a duplicate must not pin another one, so that
    /// admitted extents still find room. Nothing is admitted meanwhile.
    pub(crate) fn pinning<T>(&self, insert: impl FnOnce(&mut CacheManager, u32) -> T) -> T {
        let takers = self.shares.0.lock();
        let mut manager = self.manager.lock();
        let (pinned, after) = (u64::from(manager.pinned_count()), manager.pinned_after(admitted_by_all(&takers)));
        let admitted_max = (self.weus_dirty_max() + pinned).saturating_sub(after);
        let start = self.weus_for_dirty() * u32::from(self.live.dirty_start_percent()) / 100;
        insert(&mut manager, start.min(u32::try_from(admitted_max).unwrap_or(u32::MAX)))
    }

    /// Whether no volume could admit another dirty extent.
    pub(crate) fn lacks_dirty_room(&self) -> bool {
        let takers = self.shares.0.lock();
        self.is_out_of_room(&self.manager.lock(), &takers)
    }

    fn is_out_of_room(&self, manager: &CacheManager, takers: &BTreeMap<ObjectId, Taker>) -> bool {
        let after = admitted_by_all(takers) + 1;
        manager.pinned_after(after) > self.weus_dirty_max() || manager.dirty_count() + after > self.extents_dirty_max()
    }

    /// Whether a volume's destage should run, independent of the age of its dirty data. Dirty data of volumes whose
    /// destage fails do not count, because this volume cannot reduce them, unless there is no room at all.
    pub(crate) fn wants_destage_of(&self, object: ObjectId) -> bool {
        if !self.wants_destage() {
            return false;
        }
        let takers = self.shares.0.lock();
        let failing: Vec<ObjectId> = takers
            .iter()
            .filter(|(other, taker)| **other != object && taker.failing)
            .map(|(other, _)| *other)
            .collect();
        if failing.is_empty() || self.is_shrinking() {
            return true;
        }
        let manager = self.manager.lock();
        if self.is_out_of_room(&manager, &takers) {
            return true;
        }
        let (weus, extents) = failing.iter().fold((0, 0), |(weus, extents), other| {
            (weus + manager.pinned_count_of(*other), extents + manager.dirty_count_of(*other))
        });
        self.is_beyond_start(manager.pinned_count().saturating_sub(weus), manager.dirty_count().saturating_sub(extents))
    }
}
