//! Which part of the room for dirty data each volume may take. A write is admitted before it becomes dirty, so that what was
//! admitted never waits for another volume's destage.
//!
//! There are two kinds of room: extents, and write-evict units that dirty extents keep from being evicted. The units of
//! several volumes overlap, since their extents are stored as they come; each volume is charged with all that it pins.

use crate::cache::Cache;
use nitro_cache::CacheManager;
use nitro_port::{Clock, Device};
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// What is kept for volumes that ask for no minimum, in percent of the room: each gets an equal part.
const KEPT_PERCENT: u64 = 50;

/// A volume's part of the room for dirty data of its cache, in percent of
/// [`dirty_max_percent`](crate::EngineSettings::dirty_max_percent).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyShare {
    /// Kept for it while it is in write-back; `None`: an equal part of half the room.
    pub min_percent: Option<u8>,
    /// The most that it may take.
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
    /// Its destage fails: what it has will not become less.
    failing: bool,
    /// Extents that were admitted and are not in the cache yet.
    admitted: u64,
}

/// What the volumes of a cache take of its room for dirty data.
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

    /// Notes whether a minimum is to be kept for a volume.
    pub(crate) fn set_writes_back(&self, object: ObjectId, writes_back: bool) {
        self.change(object, |taker| taker.writes_back = writes_back);
    }

    pub(crate) fn set_failing(&self, object: ObjectId, failing: bool) {
        self.change(object, |taker| taker.failing = failing);
    }

    /// The cache forgets a volume.
    pub(crate) fn remove(&self, object: ObjectId) {
        self.0.lock().remove(&object);
    }

    /// Counts extents in that are dirty already, whether or not they fit.
    pub(crate) fn admit_over(&self, object: ObjectId, extents: u64) {
        self.change(object, |taker| taker.admitted += extents);
    }

    /// Extents that were admitted are in the cache, or will not get there.
    pub(crate) fn release(&self, object: ObjectId, extents: u64) {
        self.change(object, |taker| taker.admitted = taker.admitted.saturating_sub(extents));
    }
}

/// One kind of room, as a volume that asks for some finds it.
struct Room<'a> {
    takers: &'a BTreeMap<ObjectId, Taker>,
    asks: ObjectId,
    /// All of it.
    max: u64,
    /// What a volume takes.
    taken: &'a dyn Fn(ObjectId) -> u64,
    /// What all take, with what is asked for.
    all_after: u64,
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

    /// Whether the volume may take so much in all.
    fn fits(&self, own_after: u64) -> bool {
        let own = self.takers.get(&self.asks).copied().unwrap_or_default();
        if own_after <= self.min(&own) {
            return true;
        }
        let others = self.takers.iter().filter(|(object, _)| **object != self.asks);
        let kept: u64 = others.map(|(object, taker)| self.min(taker).saturating_sub((self.taken)(*object))).sum();
        own_after <= self.max * u64::from(own.share.max_percent) / 100 && self.all_after + kept <= self.max
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Admits further dirty extents of a volume if its share has room for them: each is to be put into the dirty queue, or
    /// [released](Shares::release). A volume that has nothing dirty is always admitted.
    pub(crate) fn try_admit(&self, object: ObjectId, extents: u64) -> bool {
        let mut takers = self.shares.0.lock();
        let manager = self.manager.lock();
        let admitted = |object: ObjectId| takers.get(&object).map_or(0, |taker| taker.admitted);
        let own = manager.dirty_count_of(object) + admitted(object);
        if own > 0 && !self.has_room(&manager, &takers, object, extents) {
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
        let max = |all: u64| all * u64::from(self.settings.dirty_max_percent) / 100;
        let per_weu = u64::from((self.superblock.weu_bytes / self.superblock.extent_bytes).max(1));
        let admitted = |object: ObjectId| takers.get(&object).map_or(0, |taker| taker.admitted);
        let all_admitted: u64 = takers.values().map(|taker| taker.admitted).sum::<u64>() + extents;
        let dirty = |object: ObjectId| manager.dirty_count_of(object) + admitted(object);
        let in_extents = Room {
            takers,
            asks,
            max: max(self.extents_raw()),
            taken: &dirty,
            all_after: manager.dirty_count() + all_admitted,
        };
        let pinned = |object: ObjectId| u64::from(manager.pinned_count_of(object)) + admitted(object) / per_weu;
        let in_weus = Room {
            takers,
            asks,
            max: max(self.weus_for_dirty().into()),
            taken: &pinned,
            all_after: u64::from(manager.pinned_count()) + all_admitted / per_weu,
        };
        let own_weus = u64::from(manager.pinned_count_of(asks)) + (admitted(asks) + extents) / per_weu;
        in_extents.fits(dirty(asks) + extents) && in_weus.fits(own_weus)
    }

    /// Whether a volume's destage should run, whatever the age of what is dirty. What others have whose destage fails does not
    /// count: nothing that this one does makes it less.
    pub(crate) fn wants_destage_of(&self, object: ObjectId) -> bool {
        if !self.wants_destage() {
            return false;
        }
        let failing: Vec<ObjectId> = {
            let takers = self.shares.0.lock();
            takers.iter().filter(|(other, taker)| **other != object && taker.failing).map(|(other, _)| *other).collect()
        };
        if failing.is_empty() || self.is_shrinking() {
            return true;
        }
        let manager = self.manager.lock();
        let (weus, extents) = failing.iter().fold((0, 0), |(weus, extents), other| {
            (weus + manager.pinned_count_of(*other), extents + manager.dirty_count_of(*other))
        });
        self.is_beyond_start(manager.pinned_count().saturating_sub(weus), manager.dirty_count().saturating_sub(extents))
    }
}
