//! One cache: the manager, its flash, and the state that all its volumes share.

mod classify;
mod devices;
mod doubts;
mod endurance;
mod fetch;
mod live;
mod make;
mod status;

pub(crate) use fetch::Fetched;
pub use status::CacheStatus;

use crate::classify::Classifiers;
use crate::discard::Discards;
use crate::doubts::Doubts;
use crate::endurance::Spending;
use crate::error::Error;
use crate::fingerprints::ContentPlace;
use crate::fingerprints::Moved;
use crate::flash::Flash;
use crate::format::journal::FORGET_BYTES;
use crate::format::stored::Place;
use crate::format::superblock::Superblock;
use crate::health::DeviceHealth;
use crate::insert::{InsertQueue, Lanes, Order, UnitTables, Writes};
use crate::journal::{Area, Budget, Identity};
use crate::kept::Kept;
use crate::metrics::CacheMetrics;
use crate::recovery::State;
use crate::resident::Resident;
use crate::settings::{EngineSettings, Live};
use crate::volume::{EXTENTS_PER_LOCK, Flights, Parts, Regions, Registry};
use crate::write_log::WriteLog;
use crate::writeback::{Commits, DirtyOpen, Ledger, Shares};
use bytes::Bytes;
use event_listener::Event;
use nitro_cache::admission::ObjectCounters;
use nitro_cache::class::Classes;
use nitro_cache::partial::Waiting;
use nitro_cache::ram::{Ahead, RamCache};
use nitro_cache::weu::layout::SECTOR_BYTES;
use nitro_cache::{CacheManager, Location};
use nitro_port::codec::FingerprintHash;
use nitro_port::latch::Latch;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentIndex, ExtentKey, Fingerprint, Generation, ObjectId, WeuId};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An object with more extents is never walked extent by extent.
const WALKED_MAX: u64 = 1 << 32;
/// How often to see whether entries are still being read after a restart.
const RESTORE_LOOK_EVERY: Duration = Duration::from_millis(10);

/// See [`Cache::set_witness`].
type Witness = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// A cache in front of any number of volumes. Shared by all threads.
pub struct Cache<F, C> {
    pub(crate) settings: EngineSettings,
    pub(crate) live: Live,
    pub(crate) flash: Flash<F>,
    pub(crate) clock: C,
    pub(crate) superblock: Superblock,
    /// Lost devices whose dirty contents are known to be lost, and all of whose slots are retired: one bit each.
    retired: AtomicU32,
    /// Dirty extents that were lost with a device: counted by volume, for its next FLUSH.
    losses: Mutex<devices::Losses>,
    loss_witness: Mutex<Option<devices::LossWitness>>,
    pub(crate) manager: Mutex<CacheManager>,
    pub(crate) resident: Resident,
    pub(crate) queue: InsertQueue,
    /// The order in which prepared extents are appended.
    pub(crate) order: Order,
    /// Writes of full WEUs with clean content.
    pub(crate) writes: Writes,
    /// No clean content will be inserted any more.
    pub(crate) clean_ended: Latch,
    /// Held while an extent is appended to an open WEU, or room is made.
    pub(crate) lanes: futures_util::lock::Mutex<Lanes>,
    pub(crate) ram: Mutex<RamCache<Bytes>>,
    /// There are several bands of priority.
    pub(crate) has_bands: AtomicBool,
    /// Classes have different priorities.
    pub(crate) has_priorities: AtomicBool,
    /// Some classes may keep written content out of the cache.
    pub(crate) restricts_writes: AtomicBool,
    pub(crate) ahead: Mutex<Ahead<Kept>>,
    /// Parts of extents that are not cached. A writer takes them, and adds to them, under the guard of its write.
    pub(crate) parts: Mutex<Waiting<Parts>>,
    pub(crate) device_health: DeviceHealth,
    pub(crate) discards: Discards,
    /// For an index of fingerprints on flash.
    pub(crate) moved: Moved,
    /// Tables of units, in which a lean index compares fingerprints.
    pub(crate) unit_tables: UnitTables,
    /// How often the cache has been started, including this start.
    pub(crate) start: u32,
    /// The start in which each WEU was filled; it is part of checksums.
    starts: RwLock<Vec<u32>>,
    /// Slots of the cache; after a resize, fewer or more than in `superblock`.
    pub(crate) weu_count: AtomicU32,
    /// Slots from this number on are being removed by a resize.
    pub(crate) weu_limit: AtomicU32,
    /// The last filling, according to the journal that the start found, of any slot that an earlier resize has removed.
    pub(crate) last_beyond: OnceLock<Generation>,
    /// The size is being changed.
    pub(crate) resizing: AtomicBool,
    /// A slot that is being removed is open and has to be closed.
    pub(crate) seal_wanted: Event,
    pub(crate) dirty_queue: InsertQueue,
    pub(crate) dirty_open: Mutex<DirtyOpen>,
    /// The shares of volumes in the room for dirty data.
    pub(crate) shares: Shares,
    pub(crate) ledger: Ledger,
    /// The division of the journal's space.
    pub(crate) budget: Budget,
    pub(crate) log: Option<WriteLog<F>>,
    /// Contents restored from the write log at the start, by volume, until they are inserted.
    pub(crate) replayed: HashMap<ObjectId, Arc<Flights>>,
    pub(crate) commits: Commits,
    pub(crate) regions: Regions,
    pub(crate) doubts: Doubts,
    pub(crate) volumes: Registry,
    /// Held while pins change.
    pub(crate) pinning: futures_util::lock::Mutex<()>,
    /// The state from which a restart still has to restore clean entries.
    pub(crate) recovery: Mutex<Option<State>>,
    witness: Mutex<Option<Witness>>,
    pub(crate) classifiers: Classifiers,
    pub(crate) spending: Spending,
    /// The journal has failed, and the witness has recorded it.
    outlived: AtomicBool,
    /// Dirty extents need room.
    pub(crate) destage_wanted: Event,
    /// There may be room for dirty extents again.
    pub(crate) room: Event,
    pub(crate) zero_fingerprint: Fingerprint,
    pub(crate) zero_extent: Bytes,
    /// The counters of the cache.
    pub metrics: CacheMetrics,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// The part of the device for an index of fingerprints on flash, if the cache was created with one: offset and
    /// length in bytes. The cache itself neither reads nor writes it.
    pub fn index_area(&self) -> Option<Area> {
        self.superblock.index
    }

    /// Whether there is a journal: false for a cache that is pass-through from the start. The journal may have failed
    /// since.
    pub(crate) fn is_journaling(&self) -> bool {
        self.commits.is_there()
    }

    /// Sets a function that is called once when the journal fails, with the reason. It has to record durably, outside
    /// the cache device, that this cache must next be opened with
    /// [`distrust_clean`](crate::EngineSettings::distrust_clean), and returns whether it succeeded. If it did not,
    /// volumes in write-through refuse writes from then on, because the cache cannot record them.
    pub fn set_witness(&self, witness: impl Fn(&str) -> bool + Send + Sync + 'static) {
        *self.witness.lock() = Some(Box::new(witness));
    }

    /// Notes that nothing can be made durable on the cache device any more.
    pub(crate) fn fail(&self, error: &dyn std::fmt::Display) {
        let reason = error.to_string();
        let witness = self.witness.lock().take();
        self.outlived.store(witness.is_some_and(|witness| witness(&reason)), Ordering::SeqCst);
        self.ledger.fail(&reason);
        if let Some(log) = &self.log {
            log.wake();
        }
        self.device_health.give_up(error);
        self.room.notify(usize::MAX);
    }

    /// Checks that origins may be written to without a record in the journal.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the journal has failed, and a restart would not find out about it.
    pub(crate) fn check_outlived(&self) -> Result<(), Error> {
        match self.ledger.failed() {
            Some(reason) if !self.outlived.load(Ordering::SeqCst) => Err(Error::Poisoned { reason }),
            _ => Ok(()),
        }
    }

    /// The identity of what is written since this start.
    pub(crate) const fn identity(&self) -> Identity {
        Identity { epoch: self.superblock.epoch, start: self.start }
    }

    /// The unit of writes to the device, in bytes.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.flash.block_bytes().max(SECTOR_BYTES)
    }

    /// Notes in which start a WEU was filled, before that filling is read.
    pub(crate) fn set_start(&self, weu: WeuId, start: u32) {
        if let Some(known) = self.starts.write().get_mut(weu.0 as usize) {
            *known = start;
        }
    }

    /// The start in which a WEU was filled last, modulo 2²⁴; `None`: there is no such WEU.
    pub(crate) fn start_of(&self, weu: WeuId) -> Option<u32> {
        self.starts.read().get(weu.0 as usize).map(|start| start & 0xFF_FFFF)
    }

    /// The start in which a WEU was filled last.
    pub(crate) fn filled_in(&self, weu: WeuId) -> u32 {
        self.starts.read().get(weu.0 as usize).copied().unwrap_or(self.start)
    }

    /// Whether a content place still holds the content that was stored there.
    pub fn holds(&self, place: &ContentPlace) -> bool {
        let manager = self.manager.lock();
        self.start_of(place.weu) == Some(place.start) && manager.is_current(place.weu, place.generation)
    }

    pub(crate) fn grow_starts(&self, count: u32) {
        self.starts.write().resize(count as usize, self.start);
    }

    /// Slots of the cache.
    pub(crate) fn weu_count(&self) -> u32 {
        self.weu_count.load(Ordering::SeqCst)
    }

    /// Slots of the cache that are not on lost devices.
    pub(crate) fn usable_weu_count(&self) -> u32 {
        let count = self.weu_count();
        count - self.flash.lost().slots_lost(count)
    }

    /// Whether a slot is being removed by a resize, or its device is lost.
    pub(crate) fn is_given_up(&self, weu: WeuId) -> bool {
        weu.0 >= self.weu_limit.load(Ordering::SeqCst) || self.flash.is_lost(weu)
    }

    /// Whether slots are being removed, or are on lost devices.
    pub(crate) fn gives_up_any(&self) -> bool {
        self.is_shrinking() || self.flash.lost().lost != 0
    }

    /// The settings it was created with.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// The devices of the cache.
    pub fn devices(&self) -> &Flash<F> {
        &self.flash
    }

    /// The device of the cache; of several, the first that is there.
    ///
    /// # Panics
    /// Never: a cache has a device.
    pub fn flash(&self) -> &F {
        self.flash.first()
    }

    /// Sets the policies of classes of I/O.
    pub fn set_classes(&self, classes: Classes) {
        let mut manager = self.manager.lock();
        manager.set_classes(classes);
        self.has_bands.store(manager.has_bands(), Ordering::Relaxed);
        self.has_priorities.store(manager.has_priorities(), Ordering::Relaxed);
        self.restricts_writes.store(classes.restrict_writes(), Ordering::Relaxed);
    }

    /// Ends the insertion workers after they have processed their queues, and refuses further work.
    pub fn close(&self) {
        self.queue.close();
        self.dirty_queue.close();
    }

    /// Waits until no extent waits for insertion.
    pub async fn settled(&self) {
        self.queue.drained().await;
        self.dirty_queue.drained().await;
    }

    pub(crate) fn extent_bytes(&self) -> usize {
        self.settings.manager.extent_bytes as usize
    }

    pub(crate) fn hash(&self) -> FingerprintHash {
        self.settings.fingerprint_hash
    }

    /// Where a WEU begins on the device.
    pub(crate) fn slot_offset(&self, weu: WeuId) -> u64 {
        self.superblock.data_offset + u64::from(weu.0) * u64::from(self.superblock.weu_bytes)
    }

    pub(crate) fn place(&self, location: &Location) -> Place {
        self.place_at(location.weu, location.generation, location.offset)
    }

    pub(crate) fn place_at(&self, weu: WeuId, generation: Generation, offset: u32) -> Place {
        let start = self.filled_in(weu);
        Place { epoch: self.superblock.epoch, start, weu, generation, offset }
    }

    /// The size of the largest origin whose extents can all be numbered, in bytes.
    pub fn origin_bytes_max(&self) -> u64 {
        (ExtentIndex::MAX.0 + 1).saturating_mul(self.extent_bytes() as u64)
    }

    /// Checks that an origin of this size can be served.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check_origin_size(&self, size_bytes: u64) -> Result<(), Error> {
        let size_bytes_max = self.origin_bytes_max();
        if size_bytes > size_bytes_max { Err(Error::TooLarge { size_bytes, size_bytes_max }) } else { Ok(()) }
    }

    /// Allocates the counters that the policy of admission needs for a volume of that size.
    pub(crate) fn provide_counters(&self, object: ObjectId, size_bytes: u64) {
        let extents = size_bytes.div_ceil(self.superblock.extent_bytes.into());
        let missing = self.manager.lock().counters_missing(object, extents);
        if missing > 0 {
            let counters = ObjectCounters::new(missing);
            self.manager.lock().add_counters(object, counters);
        }
    }

    /// Forgets what is cached of an object of that size and is not dirty, in time that grows with what is cached or with
    /// the object, whichever is less.
    pub(crate) async fn forget_object(&self, object: ObjectId, size_bytes: u64) {
        let extents = size_bytes.div_ceil(self.superblock.extent_bytes.into()).min(ExtentIndex::MAX.0 + 1);
        let step = self.ledger.step(FORGET_BYTES, EXTENTS_PER_LOCK);
        let step_bytes = step as usize * FORGET_BYTES;
        // While entries are still being read, each extent must be known to be void.
        // The address space of a tree of files is larger than anything that can be walked.
        let is_small = extents <= WALKED_MAX;
        if is_small && (self.is_restoring() || extents <= self.manager.lock().stats().cached_extents) {
            for first in (0..extents).step_by(step as usize) {
                let keys = (first..extents.min(first + step)).map(|index| ExtentKey::new(object, ExtentIndex(index)));
                self.telling(step_bytes, |manager| keys.for_each(|key| manager.disown(key))).await;
                yield_now().await;
            }
            return;
        }
        while self.is_restoring() {
            self.clock.sleep(RESTORE_LOOK_EVERY).await;
        }
        for weu in (0..self.weu_count()).map(WeuId) {
            let mut from = Some(0);
            while let Some(entry) = from {
                let forget = |manager: &mut CacheManager| manager.forget_in_weu(object, weu, entry, step as u16);
                from = self.telling(step_bytes, forget).await;
            }
            yield_now().await;
        }
        let mut from = Some(0);
        while let Some(number) = from {
            let forget = |manager: &mut CacheManager| manager.forget_in_dups(object, number, step as u32);
            from = self.telling(step_bytes, forget).await;
            yield_now().await;
        }
    }

    /// Runs an operation of the manager that may note dropped extents, as soon as there is room for `bytes` bytes of
    /// records: [`FORGET_BYTES`] for each extent. Nothing that a commit waits for may delay the future.
    pub(crate) async fn telling<T>(&self, bytes: usize, change: impl FnOnce(&mut CacheManager) -> T) -> T {
        self.ledger.tell(bytes as u64, |room| room.noting(&mut self.manager.lock(), change)).await
    }

    /// As [`telling`](Self::telling), if there is room now.
    pub(crate) fn telling_at_once<T>(&self, bytes: usize, change: impl FnOnce(&mut CacheManager) -> T) -> Option<T> {
        self.ledger.tell_at_once(bytes as u64, |room| room.noting(&mut self.manager.lock(), change))
    }
}
