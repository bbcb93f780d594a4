//! One cache: the manager, its flash, and what is shared by all volumes in front of which it stands.

use crate::codec::{FingerprintHash, decode};
use crate::error::Error;
use crate::format::stored::{Place, payload_range};
use crate::format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use crate::health::{Health, Watch};
use crate::insert::InsertQueue;
use crate::metrics::{CacheCounters, CacheMetrics};
use crate::port::{Clock, Device};
use crate::resident::Resident;
use crate::settings::EngineSettings;
use crate::volume::Prefetched;
use bytes::{Buf, Bytes};
use nitro_cache::weu::layout::SECTOR_BYTES;
use nitro_cache::{CacheManager, ExtentKey, Fingerprint, Location, LruMap, Stats, WeuId};
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;

/// What one cache is and did, for status displays.
#[derive(Debug, Clone, Serialize)]
pub struct CacheStatus {
    /// The cache device's state.
    pub health: Health,
    /// The manager's counters.
    pub manager: Stats,
    /// The engine's counters.
    pub engine: CacheCounters,
    /// Bytes waiting for insertion.
    pub insert_queue_bytes: u64,
    /// Bytes in the RAM cache.
    pub ram_cache_bytes: u64,
}

/// A cache in front of any number of volumes. Shared by all threads.
pub struct Cache<F, C> {
    pub(crate) settings: EngineSettings,
    pub(crate) flash: F,
    pub(crate) clock: C,
    pub(crate) superblock: Superblock,
    pub(crate) manager: Mutex<CacheManager>,
    pub(crate) resident: Resident,
    pub(crate) queue: InsertQueue,
    pub(crate) ram: Mutex<LruMap<ExtentKey, Bytes>>,
    pub(crate) prefetched: Mutex<LruMap<ExtentKey, Prefetched>>,
    pub(crate) watch: Watch,
    pub(crate) zero_fingerprint: Fingerprint,
    pub(crate) zero_extent: Bytes,
    /// What the cache did.
    pub metrics: CacheMetrics,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Bytes of a device that are not for WEUs: superblocks, and room for a journal.
    #[must_use]
    pub fn overhead_bytes(settings: &EngineSettings) -> u64 {
        u64::from(settings.manager.weu_bytes)
    }

    /// Formats `flash` and starts an empty cache on it. `uuid` names the cache; `epoch` must be random: stored extents
    /// of an earlier formatting are told apart by it.
    ///
    /// # Errors
    /// [`Error::Setting`] where settings and device do not go together; [`Error::Flash`] where writing fails.
    pub async fn format(
        flash: F,
        clock: C,
        settings: EngineSettings,
        uuid: [u8; 16],
        epoch: u64,
    ) -> Result<Arc<Self>, Error> {
        let cache = Self::new(flash, clock, settings, uuid, epoch)?;
        cache.write_superblock().await?;
        Ok(Arc::new(cache))
    }

    /// A cache that is never used: its volumes are served by their origins alone, for comparison. `flash` is neither
    /// read nor written.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn pass_through(flash: F, clock: C, settings: EngineSettings) -> Result<Arc<Self>, Error> {
        let cache = Self::new(flash, clock, settings, [0; 16], 0)?;
        cache.watch.leave_out();
        Ok(Arc::new(cache))
    }

    fn new(flash: F, clock: C, settings: EngineSettings, uuid: [u8; 16], epoch: u64) -> Result<Self, Error> {
        let manager = CacheManager::new(settings.manager)?;
        let superblock = Superblock {
            extent_bytes: settings.manager.extent_bytes,
            weu_bytes: settings.manager.weu_bytes,
            weu_count: settings.manager.weu_count(),
            data_offset: Self::overhead_bytes(&settings),
            uuid,
            epoch,
        };
        let zero_extent = crate::buf::BufMut::zeroed(settings.manager.extent_bytes as usize).freeze();
        Ok(Self {
            flash,
            clock,
            superblock,
            manager: Mutex::new(manager),
            resident: Resident::default(),
            queue: InsertQueue::new(settings.insert_queue_bytes),
            ram: Mutex::new(LruMap::new(settings.ram_cache_bytes)),
            prefetched: Mutex::new(LruMap::new(settings.readahead_ram_bytes)),
            watch: Watch::default(),
            zero_fingerprint: settings.fingerprint_hash.of(&zero_extent),
            zero_extent,
            metrics: CacheMetrics::default(),
            settings,
        })
    }

    async fn write_superblock(&self) -> Result<(), Error> {
        for offset in SUPERBLOCK_OFFSETS {
            let mut block = crate::buf::BufMut::zeroed(SUPERBLOCK_BYTES);
            self.superblock.encode(&mut block);
            self.flash.write(offset, block.freeze()).await.map_err(Error::Flash)?;
            self.metrics.ssd_written_superblock_bytes.add(SUPERBLOCK_BYTES as u64);
        }
        self.flash.flush().await.map_err(Error::Flash)
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// The cache device.
    pub fn flash(&self) -> &F {
        &self.flash
    }

    /// What it is and did.
    pub fn status(&self) -> CacheStatus {
        let manager = self.manager.lock();
        let index_ram_bytes = manager.index_ram_bytes() as u64;
        let stats = Stats { index_ram_bytes, ..manager.stats() };
        drop(manager);
        CacheStatus {
            health: self.watch.state(),
            manager: stats,
            engine: self.metrics.snapshot(),
            insert_queue_bytes: self.queue.bytes(),
            ram_cache_bytes: self.ram.lock().bytes(),
        }
    }

    /// Ends the insertion workers once they have done what is queued, and refuses further work.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Ends when nothing waits for insertion.
    pub async fn settled(&self) {
        self.queue.drained().await;
    }

    pub(crate) fn extent_bytes(&self) -> usize {
        self.settings.manager.extent_bytes as usize
    }

    pub(crate) fn hash(&self) -> FingerprintHash {
        self.settings.fingerprint_hash
    }

    /// Where on flash a location's sectors are, and how far into them the stored extent begins.
    fn span(&self, first: &Location, last: &Location) -> (u64, usize) {
        let block = self.flash.geometry().block_bytes.max(SECTOR_BYTES);
        let start = first.offset / SECTOR_BYTES * SECTOR_BYTES / block * block;
        let end = last.offset / SECTOR_BYTES * SECTOR_BYTES + u32::from(last.sectors) * SECTOR_BYTES;
        (self.slot_offset(first.weu) + u64::from(start), (end.next_multiple_of(block) - start) as usize)
    }

    /// Reads stored extents that lie behind one another in one WEU: `None` for each that could not be had, be it that
    /// its WEU was refilled meanwhile, its checksum is wrong, or the device failed. Those are counted, and forgotten by
    /// the manager.
    pub(crate) async fn fetch(&self, wanted: &[(ExtentKey, Location)]) -> Fetched {
        let (Some((_, first)), Some((_, last))) = (wanted.first(), wanted.last()) else { return Fetched::new() };
        if first.in_ram || first.sectors == 0 || last.sectors == 0 {
            let mut fetched = Fetched::new();
            for (key, location) in wanted {
                fetched.push(self.fetch_one(*key, location).await);
            }
            return fetched;
        }
        self.fetch_span(first, last, wanted).await
    }

    async fn fetch_one(&self, key: ExtentKey, location: &Location) -> Option<Bytes> {
        if location.sectors == 0 {
            return Some(self.zero_extent.clone());
        }
        if let Some((encoding, payload)) = location.in_ram.then(|| self.resident.get(location)).flatten() {
            return decode(encoding, payload, self.extent_bytes());
        }
        // It was in RAM when asked for, and is on the SSD by now.
        self.fetch_span(location, location, &[(key, *location)]).await.pop().flatten()
    }

    async fn fetch_span(&self, first: &Location, last: &Location, wanted: &[(ExtentKey, Location)]) -> Fetched {
        let (offset, len) = self.span(first, last);
        self.metrics.ssd_reads.add(1);
        self.metrics.ssd_read_bytes.add(len as u64);
        let bytes = match self.flash.read(offset, len).await {
            Ok(bytes) => bytes,
            Err(error) => {
                self.metrics.ssd_read_errors.add(1);
                self.watch.read_failed(&error);
                self.forget(wanted);
                return wanted.iter().map(|_| None).collect();
            }
        };
        self.watch.read_ok();
        // The generation is checked after the bytes were read: a refill raises it before it writes.
        if !self.manager.lock().is_current(first.weu, first.generation) {
            self.metrics.outrun_reads.add(1);
            return wanted.iter().map(|_| None).collect();
        }
        let start = (offset - self.slot_offset(first.weu)) as u32;
        if let [(key, location)] = wanted {
            return Fetched::from_iter([self.unpack(*key, location, bytes, start)]);
        }
        wanted.iter().map(|(key, location)| self.unpack(*key, location, bytes.clone(), start)).collect()
    }

    /// Takes a stored extent out of `bytes`, which were read from byte `start` of its WEU on.
    fn unpack(&self, key: ExtentKey, location: &Location, mut bytes: Bytes, start: u32) -> Option<Bytes> {
        bytes.advance(((location.offset - start) as usize).min(bytes.len()));
        let extent = payload_range(&self.place(location), &bytes).and_then(|(encoding, payload)| {
            bytes.truncate(payload.end);
            bytes.advance(payload.start);
            decode(encoding, bytes, self.extent_bytes())
        });
        if extent.is_none() {
            self.metrics.corrupt_extents.add(1);
            self.forget(&[(key, *location)]);
        }
        extent
    }

    /// Where a WEU begins on the device.
    pub(crate) fn slot_offset(&self, weu: WeuId) -> u64 {
        self.superblock.data_offset + u64::from(weu.0) * u64::from(self.superblock.weu_bytes)
    }

    pub(crate) fn place(&self, location: &Location) -> Place {
        let Location { weu, generation, offset, .. } = *location;
        Place { epoch: self.superblock.epoch, weu, generation, offset }
    }

    /// Removes entries that turned out useless, unless they have been replaced since.
    fn forget(&self, wanted: &[(ExtentKey, Location)]) {
        let mut manager = self.manager.lock();
        for (key, location) in wanted {
            let same =
                |l: Location| (l.weu, l.generation, l.entry) == (location.weu, location.generation, location.entry);
            if manager.peek(*key).is_some_and(same) {
                manager.invalidate(*key);
            }
        }
    }
}

/// Extents fetched from the cache, in the order asked for.
pub(crate) type Fetched = smallvec::SmallVec<[Option<Bytes>; 1]>;
