//! The registry of a cache's volumes: volumes keep the numbers under which their extents are cached over restarts.

use crate::cache::Cache;
use crate::domain::DedupDomain;
use crate::error::Error;
use crate::format::journal::{FORGET_BYTES, Record};
use crate::volume::EXTENTS_PER_LOCK;
use crate::volume::transitions::{Fact, Flag, Passage};
use nitro_cache::CacheManager;
use nitro_cache::pins::PinRanges;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentIndex, ExtentKey, ObjectId, WeuId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Most extents of one unit that [`Cache::clean_extents`] takes.
const CLEAN_PER_WEU: usize = 4;

/// Whether two numbers have no common divisor but 1.
const fn coprime(mut a: u32, mut b: u32) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// A volume in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeEntry {
    /// Its name, at most 255 bytes.
    pub name: String,
    /// Size of its origin in bytes.
    pub origin_bytes: u64,
    /// The origin's state when it was last known that no other program had changed it, in the host's own form; zeroes:
    /// not known.
    pub stamp: [u8; 16],
    /// The mode in which it was last served, in the host's own form.
    pub mode: u8,
    /// The domain within which it shares contents.
    pub domain: DedupDomain,
    /// What its origin is recognised by, in the host's own form; empty: not known. At most
    /// [`VOLUME_IDENTITY_BYTES_MAX`](crate::format::journal::VOLUME_IDENTITY_BYTES_MAX).
    pub identity: Vec<u8>,
}

impl VolumeEntry {
    fn record(&self, object: ObjectId) -> Record {
        let Self { name, origin_bytes, stamp, mode, domain, identity } = self.clone();
        Record::Volume { object, name, origin_bytes, uuid: stamp, mode, domain, identity }
    }
}

#[derive(Debug, Default)]
struct Volumes {
    all: BTreeMap<ObjectId, VolumeEntry>,
    /// Pinned extents of volumes, by their numbers.
    pins: BTreeMap<ObjectId, PinRanges>,
    /// Numbers of volumes whose removal is not in the journal yet: no other volume gets them.
    leaving: BTreeSet<ObjectId>,
    /// Volumes with changes that are not in the journal yet.
    changed: BTreeSet<ObjectId>,
    /// Volumes with changed pins that are not in the journal yet.
    pins_changed: BTreeSet<ObjectId>,
}

impl Volumes {
    /// The records for a snapshot.
    fn records(&self) -> Vec<Record> {
        let entries = self.all.iter().map(|(object, entry)| entry.record(*object));
        entries.chain(self.pins.keys().map(|object| self.pins_record(*object))).collect()
    }

    fn pins_record(&self, object: ObjectId) -> Record {
        Record::Pins { object, ranges: self.pins.get(&object).cloned().unwrap_or_default() }
    }

    /// Bytes of all records.
    fn bytes(&self) -> u64 {
        self.records().iter().map(|record| record.encoded_bytes() as u64).sum()
    }
}

/// All volumes of a cache.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Volumes>);

impl Registry {
    pub(crate) fn restore(&self, volumes: BTreeMap<ObjectId, VolumeEntry>, pins: BTreeMap<ObjectId, PinRanges>) {
        let mut known = self.0.lock();
        (known.all, known.pins) = (volumes, pins);
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.0.lock().records()
    }

    /// The pinned ranges of a volume.
    pub(crate) fn pins(&self, object: ObjectId) -> PinRanges {
        self.0.lock().pins.get(&object).cloned().unwrap_or_default()
    }

    /// Sets the pinned ranges of a volume, unless the records of all volumes would exceed their room and become longer;
    /// returns whether it succeeded.
    pub(crate) fn set_pins(&self, object: ObjectId, ranges: PinRanges, bytes_max: u64) -> bool {
        let mut volumes = self.0.lock();
        let (bytes, before) = (volumes.bytes(), volumes.pins.get(&object).cloned());
        match ranges.is_empty() {
            true => drop(volumes.pins.remove(&object)),
            false => drop(volumes.pins.insert(object, ranges)),
        }
        if volumes.bytes() > bytes_max && volumes.bytes() > bytes {
            match before {
                Some(before) => drop(volumes.pins.insert(object, before)),
                None => drop(volumes.pins.remove(&object)),
            }
            return false;
        }
        volumes.pins_changed.insert(object);
        true
    }

    /// The records of volumes that changed since the last call: one for each volume.
    pub(crate) fn take_changed(&self) -> Vec<Record> {
        let mut volumes = self.0.lock();
        let changed = std::mem::take(&mut volumes.changed);
        let pins_changed = std::mem::take(&mut volumes.pins_changed);
        let entries = changed.iter().filter_map(|object| volumes.all.get(object).map(|entry| entry.record(*object)));
        entries.chain(pins_changed.iter().map(|object| volumes.pins_record(*object))).collect()
    }

    /// How many [`take_changed`](Self::take_changed) would give.
    pub(crate) fn changed_count(&self) -> usize {
        let volumes = self.0.lock();
        volumes.changed.len() + volumes.pins_changed.len()
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// The domain of a volume's contents; the shared one for volumes that the cache does not know.
    pub(crate) fn domain(&self, object: ObjectId) -> DedupDomain {
        self.volumes.0.lock().all.get(&object).map_or(DedupDomain::SHARED, |entry| entry.domain)
    }

    /// The volumes that the cache knows, by the numbers of their extents' keys.
    pub fn volumes(&self) -> BTreeMap<ObjectId, VolumeEntry> {
        self.volumes.0.lock().all.clone()
    }

    /// Registers a volume, or its changes; returns its number: that of the volume with the same name, otherwise a new
    /// one. It is durable with the next commit; see [`sync`](Self::sync). `None`: the journal has no room for another
    /// volume. A volume that is known already keeps its place: if there is no room for its identity, it stays without one.
    pub fn remember_volume(&self, mut entry: VolumeEntry) -> Option<ObjectId> {
        let mut volumes = self.volumes.0.lock();
        let pins_bytes: usize = volumes.pins.keys().map(|object| volumes.pins_record(*object).encoded_bytes()).sum();
        let Volumes { all, changed, leaving, .. } = &mut *volumes;
        let known = all.iter().find(|(_, known)| known.name == entry.name).map(|(object, _)| *object);
        let is_free = |object: &ObjectId| !all.contains_key(object) && !leaving.contains(object);
        let object = known.or_else(|| (0..u16::MAX).map(ObjectId).find(is_free))?;
        let others = all.iter().filter(|(other, _)| **other != object);
        let others: usize = others.map(|(other, entry)| entry.record(*other).encoded_bytes()).sum();
        let has_room = |entry: &VolumeEntry| {
            (others + entry.record(object).encoded_bytes() + pins_bytes) as u64 <= self.budget.volumes_bytes
        };
        if !has_room(&entry) {
            entry.identity.clear();
            if known.is_none() && !has_room(&entry) {
                return None;
            }
        }
        if all.get(&object) != Some(&entry) {
            changed.insert(object);
            all.insert(object, entry);
        }
        Some(object)
    }

    /// Drops duplicates of volumes whose contents are of other domains now; to be called after a volume got another domain.
    pub async fn part_domains(&self) {
        let step = self.ledger.step(FORGET_BYTES, EXTENTS_PER_LOCK);
        let mut from = Some(0);
        while let Some(number) = from {
            let shares = |a, b| self.domain(a) == self.domain(b);
            let part = |manager: &mut CacheManager| manager.forget_unshared(number, step as u32, shares);
            from = self.telling(step as usize * FORGET_BYTES, part).await;
            yield_now().await;
        }
    }

    /// Removes a volume, which must have no dirty data, and all its cached data. One that has been served is removed with
    /// [`Volume::remove`](crate::Volume::remove).
    ///
    /// # Errors
    /// [`Error::Poisoned`] where the cache device fails.
    pub async fn forget_volume(&self, object: ObjectId) -> Result<(), Error> {
        let Some(entry) = self.volumes.0.lock().all.get(&object).cloned() else { return Ok(()) };
        let mut passage = Passage::default();
        self.forget_object(object, entry.origin_bytes).await;
        // Another volume may get its number.
        self.released_by_log(object).await?;
        self.manager.lock().set_stuck(object, false);
        self.shares.remove(object);
        {
            let mut volumes = self.volumes.0.lock();
            volumes.all.remove(&object);
            volumes.leaving.insert(object);
            volumes.changed.remove(&object);
            volumes.pins.remove(&object);
            volumes.pins_changed.remove(&object);
        }
        let counters = {
            let mut manager = self.manager.lock();
            manager.forget_pins(object);
            manager.take_counters(object)
        };
        drop(counters);
        self.ledger.push(Record::VolumeRemoved { object }).await;
        self.sync().await?;
        passage.is_durable(Fact::ContentsVoid);
        passage.is_durable(Fact::Registered);
        passage.change(Flag::NumberFree, || self.volumes.0.lock().leaving.remove(&object));
        Ok(())
    }

    /// Drops all cached data of a volume that are not dirty; durable when this returns.
    ///
    /// # Errors
    /// [`Error::Poisoned`] where the cache device fails.
    pub async fn drop_clean(&self, object: ObjectId) -> Result<(), Error> {
        let Some(entry) = self.volumes.0.lock().all.get(&object).cloned() else { return Ok(()) };
        self.forget_object(object, entry.origin_bytes).await;
        self.sync().await
    }

    /// At most `max` clean extents of a volume that are on the SSD, from units spread over the cache.
    pub async fn clean_extents(&self, object: ObjectId, max: usize) -> Vec<ExtentIndex> {
        let mut found = Vec::new();
        let weus = self.weu_count();
        // A stride through all units: each is visited once, neighbours are far apart.
        let stride = (weus / 2 + 1..).find(|stride| coprime(*stride, weus)).unwrap_or(1);
        for n in 0..weus {
            if found.len() >= max {
                break;
            }
            let weu = WeuId((u64::from(n) * u64::from(stride) % u64::from(weus)) as u32);
            let keys = self.manager.lock().clean_in_weu(object, weu, CLEAN_PER_WEU.min(max - found.len()));
            found.extend(keys.into_iter().map(ExtentKey::index));
            yield_now().await;
        }
        found
    }

    /// Makes the registry durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`] where the cache device fails.
    pub async fn sync(&self) -> Result<(), Error> {
        self.commit().await
    }
}
