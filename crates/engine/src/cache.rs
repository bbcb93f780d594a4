//! One cache: the manager, its flash, and what is shared by all volumes in front of which it stands.

use crate::classify::Classifiers;
use crate::doubts::{Before, Doubts};
use crate::endurance::Spending;
use crate::error::Error;
use crate::fingerprints::ContentPlace;
use crate::format::FormatError;
use crate::format::crc32c;
use crate::format::journal::FORGET_BYTES;
use crate::format::stored::{Place, payload_range};
use crate::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use crate::health::{Health, Watch};
use crate::insert::{InsertQueue, Lanes};
use crate::journal::{Area, Budget, Halves, Identity, Journal};
use crate::kept::Kept;
use crate::live::Live;
use crate::metrics::{CacheCounters, CacheMetrics};
use crate::recovery::State;
use crate::resident::Resident;
use crate::settings::EngineSettings;
use crate::volume::{EXTENTS_PER_LOCK, Flights, Regions, Registry};
use crate::write_log::{LogDevice, LogStatus, MissingLog, WriteLog};
use crate::writeback::{Commits, DirtyOpen, Ledger, Shares};
use bytes::{Buf, Bytes};
use event_listener::Event;
use nitro_cache::class::Classes;
use nitro_cache::ram::{Ahead, RamCache};
use nitro_cache::weu::layout::SECTOR_BYTES;
use nitro_cache::weu::{Space, Unit};
use nitro_cache::{CacheManager, Location, Stats};
use nitro_port::codec::{FingerprintHash, decode};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, DeviceError, ErrorKind, Operation};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, Fingerprint, Generation, ObjectId, WeuId};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// See [`Cache::set_witness`].
type Witness = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Where the journal begins: what programs write to a device's start by mistake (partition tables, labels, filesystems'
/// superblocks) lies before.
const JOURNAL_OFFSET: u64 = 1 << 20;

/// Where an index of fingerprints begins, as erase blocks do.
const INDEX_ALIGNMENT_BYTES: u64 = 128 << 10;
/// Write-evict units that are looked at while the manager is locked.
const WEUS_PER_LOCK: u32 = 1024;

/// What one cache is and did, for status displays.
#[derive(Debug, Clone, Serialize)]
pub struct CacheStatus {
    /// The cache device's state.
    pub health: Health,
    /// Why nothing can be made durable on the device any more, if so.
    pub failed: Option<String>,
    /// Clean contents are still coming back after a restart.
    pub restoring: bool,
    /// Regions that are being written to, or were a moment ago: what is cached of them is not trusted after a power cut.
    pub open_regions: u64,
    /// Bytes of dirty extents waiting for insertion.
    pub dirty_queue_bytes: u64,
    /// The write log, if there is one.
    pub log: Option<LogStatus>,
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
    pub(crate) live: Live,
    pub(crate) flash: F,
    pub(crate) clock: C,
    pub(crate) superblock: Superblock,
    /// Whether the copy at the device's start is whole, and no older than the other.
    pub(crate) first_superblock_whole: AtomicBool,
    pub(crate) manager: Mutex<CacheManager>,
    pub(crate) resident: Resident,
    pub(crate) queue: InsertQueue,
    /// Held while an extent gets its place, or room is made.
    pub(crate) lanes: futures_util::lock::Mutex<Lanes>,
    pub(crate) ram: Mutex<RamCache<Bytes>>,
    pub(crate) ahead: Mutex<Ahead<Kept>>,
    pub(crate) watch: Watch,
    /// How often the cache has been started, this time included.
    pub(crate) start: u32,
    /// The start in which each WEU was filled: it is mixed into checksums.
    starts: RwLock<Vec<u32>>,
    /// Slots of the cache; fewer than in `superblock`, or more, once it has been resized.
    pub(crate) weu_count: AtomicU32,
    /// Slots from this number on are being given up.
    pub(crate) weu_limit: AtomicU32,
    /// The size is being changed.
    pub(crate) resizing: AtomicBool,
    /// Who fills a slot that is being given up shall close it.
    pub(crate) seal_wanted: Event,
    pub(crate) dirty_queue: InsertQueue,
    pub(crate) dirty_open: Mutex<DirtyOpen>,
    /// What each volume may have dirty.
    pub(crate) shares: Shares,
    pub(crate) ledger: Ledger,
    /// How the journal's room is divided.
    pub(crate) budget: Budget,
    pub(crate) log: Option<WriteLog<F>>,
    /// What the write log brought back at the start, by volume, until it is in the cache.
    pub(crate) replayed: HashMap<ObjectId, Arc<Flights>>,
    pub(crate) commits: Commits,
    pub(crate) regions: Regions,
    pub(crate) doubts: Doubts,
    pub(crate) volumes: Registry,
    /// Held while pins change.
    pub(crate) pinning: futures_util::lock::Mutex<()>,
    /// What a restart has yet to bring back.
    pub(crate) recovery: Mutex<Option<State>>,
    witness: Mutex<Option<Witness>>,
    pub(crate) classifiers: Classifiers,
    pub(crate) spending: Spending,
    /// The journal has failed, and it is known elsewhere.
    outlived: AtomicBool,
    /// Dirty extents need room.
    pub(crate) destage_wanted: Event,
    /// There may be room again.
    pub(crate) room: Event,
    pub(crate) zero_fingerprint: Fingerprint,
    pub(crate) zero_extent: Bytes,
    /// What the cache did.
    pub metrics: CacheMetrics,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Bytes of a device that are not for WEUs: superblock and journal, up to a whole WEU, and the superblock's second copy.
    #[must_use]
    pub fn overhead_bytes(settings: &EngineSettings) -> u64 {
        Self::data_offset(settings) + SUPERBLOCK_BYTES as u64
    }

    fn data_offset(settings: &EngineSettings) -> u64 {
        let index = Self::index_area_of(settings);
        (index.offset + index.len).next_multiple_of(settings.manager.weu_bytes.into())
    }

    /// Where the index of fingerprints on flash would be.
    fn index_area_of(settings: &EngineSettings) -> Area {
        let journal_end = JOURNAL_OFFSET + settings.journal_counts().area_bytes();
        match settings.index_bytes {
            0 => Area { offset: journal_end, len: 0 },
            len => Area { offset: journal_end.next_multiple_of(INDEX_ALIGNMENT_BYTES), len },
        }
    }

    /// The part of the device for an index of fingerprints on flash, if it was made with one: offset and length in bytes.
    /// The cache itself neither reads nor writes it.
    pub fn index_area(&self) -> Option<Area> {
        self.superblock.index
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
        Box::pin(Self::format_logged(flash, None, MissingLog::Refuse, clock, settings, uuid, epoch)).await
    }

    /// As [`format`](Self::format), with a write log: what is acknowledged in write-back is durable there. The log's
    /// device must not bear the log of another cache, unless `missing` says that it may be lost.
    ///
    /// # Errors
    /// As [`format`](Self::format); [`Error::LogForeign`], or [`Error::Log`] where the log device fails.
    pub async fn format_logged(
        flash: F,
        log: Option<LogDevice<F>>,
        missing: MissingLog,
        clock: C,
        settings: EngineSettings,
        uuid: [u8; 16],
        epoch: u64,
    ) -> Result<Arc<Self>, Error> {
        let superblock = Superblock { logged: log.is_some(), ..Self::superblock(&settings, uuid, epoch)? };
        let mut cache = Self::new(flash, clock, settings, superblock)?;
        let verdict = cache.judge_log(None, log.as_ref(), missing).await?;
        let identity = Identity { epoch, start: cache.start };
        let journal = Journal::create(&cache.flash, superblock.journal, identity).await.map_err(Error::Flash)?;
        cache.write_superblock(&superblock).await?;
        cache.doubts.begin(&superblock, Before::Nothing);
        cache.install_log(verdict, log).await?;
        cache.commits.begin(journal);
        Ok(Arc::new(cache))
    }

    /// A cache that is never used: its volumes are served by their origins alone, for comparison. `flash` is neither
    /// read nor written.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn pass_through(flash: F, clock: C, settings: EngineSettings) -> Result<Arc<Self>, Error> {
        let superblock = Self::superblock(&settings, [0; 16], 0)?;
        let cache = Self::new(flash, clock, settings, superblock)?;
        cache.watch.leave_out();
        cache.ledger.end();
        Ok(Arc::new(cache))
    }

    fn superblock(settings: &EngineSettings, uuid: [u8; 16], epoch: u64) -> Result<Superblock, Error> {
        settings.manager.check()?;
        Ok(Superblock {
            extent_bytes: settings.manager.extent_bytes,
            weu_bytes: settings.manager.weu_bytes,
            weu_count: settings.manager.weu_count(),
            data_offset: Self::data_offset(settings),
            uuid,
            epoch,
            journal: Area { offset: JOURNAL_OFFSET, len: settings.journal_counts().area_bytes() },
            start: 1,
            fingerprints: settings.fingerprints(),
            logged: false,
            index: Some(Self::index_area_of(settings)).filter(|area| area.len > 0),
            identity: settings.crash_memory.map_or_else(Default::default, |memory| memory.identity),
        })
    }

    pub(crate) fn new(flash: F, clock: C, settings: EngineSettings, superblock: Superblock) -> Result<Self, Error> {
        superblock.check(&settings)?;
        let mut manager = CacheManager::new(settings.manager)?;
        manager.keep_journal();
        let zero_extent = nitro_port::buf::BufMut::zeroed(settings.manager.extent_bytes as usize).freeze();
        let budget = Halves::divide(superblock.journal, &flash.geometry())
            .budget(superblock.weu_count, settings.manager.weu_entries_max())
            .ok_or(FormatError::Field {
                structure: "superblock",
                field: "bytes of the journal",
                value: superblock.journal.len,
            })?;
        let spending = Spending::new(settings.endurance, superblock.start == 1, clock.now());
        Ok(Self {
            flash,
            clock,
            superblock,
            first_superblock_whole: AtomicBool::new(false),
            manager: Mutex::new(manager),
            resident: Resident::default(),
            queue: InsertQueue::new(settings.insert_queue_bytes, settings.staging_bytes),
            lanes: futures_util::lock::Mutex::default(),
            ram: Mutex::new(RamCache::new(settings.ram_cache_bytes)),
            ahead: Mutex::new(Ahead::new(settings.readahead_ram_bytes)),
            watch: Watch::default(),
            start: superblock.start,
            starts: RwLock::new(vec![superblock.start; superblock.weu_count as usize]),
            weu_count: AtomicU32::new(superblock.weu_count),
            weu_limit: AtomicU32::new(superblock.weu_count),
            resizing: AtomicBool::new(false),
            seal_wanted: Event::new(),
            dirty_queue: InsertQueue::new(settings.dirty_queue_bytes, 0),
            dirty_open: Mutex::default(),
            shares: Shares::default(),
            ledger: Ledger::new(budget.pending_bytes),
            budget,
            log: None,
            replayed: HashMap::new(),
            commits: Commits::default(),
            regions: Regions::new(budget.regions_max),
            doubts: Doubts::new(settings.crash_memory),
            volumes: Registry::default(),
            pinning: futures_util::lock::Mutex::default(),
            recovery: Mutex::default(),
            witness: Mutex::default(),
            classifiers: Classifiers::default(),
            spending,
            outlived: AtomicBool::new(false),
            destage_wanted: Event::new(),
            room: Event::new(),
            zero_fingerprint: settings.fingerprint_hash.of(&zero_extent),
            zero_extent,
            metrics: CacheMetrics::default(),
            live: Live::new(&settings),
            settings,
        })
    }

    pub(crate) async fn write_superblock(&self, superblock: &Superblock) -> Result<(), Error> {
        let [first, last] = superblock_offsets(self.flash.geometry().size_bytes);
        if last < superblock.data_end() {
            let error = DeviceError::new(ErrorKind::NoSpace, Operation::Write, last, SUPERBLOCK_BYTES as u64);
            return Err(Error::Flash(error));
        }
        // The first copy comes last if it is whole: the other may be what a crash left of it, or stand where the device ended
        // before it grew. Else the second is whole.
        let whole = self.first_superblock_whole.load(Ordering::SeqCst);
        for offset in if whole { [last, first] } else { [first, last] } {
            let mut block = nitro_port::buf::BufMut::zeroed(SUPERBLOCK_BYTES);
            superblock.encode(&mut block);
            self.flash.write(offset, block.freeze()).await.map_err(Error::Flash)?;
            self.metrics.ssd_written_superblock_bytes.add(SUPERBLOCK_BYTES as u64);
            // One after the other: a crash leaves at least one whole.
            self.flash.flush().await.map_err(Error::Flash)?;
            if offset == first {
                self.first_superblock_whole.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Writes the superblock again, where the device has changed its size: the second copy stands at its end.
    ///
    /// # Errors
    /// [`Error::Flash`].
    pub async fn rewrite_superblock(&self) -> Result<(), Error> {
        self.write_superblock(&Superblock { weu_count: self.weu_count(), ..self.superblock }).await
    }

    /// Whether a journal is kept: the cache is not passed by from the start. It may have failed since.
    pub(crate) fn is_journaling(&self) -> bool {
        self.commits.is_there()
    }

    /// Has `witness` called once when the journal fails, with the reason. It is to make durable, elsewhere than on the
    /// cache device, that this cache must next be opened with
    /// [`distrust_clean`](crate::EngineSettings::distrust_clean), and to say whether it did: without, volumes in
    /// write-through refuse to write from then on, since the cache could not be told of it.
    pub fn set_witness(&self, witness: impl Fn(&str) -> bool + Send + Sync + 'static) {
        *self.witness.lock() = Some(Box::new(witness));
    }

    /// Nothing can be made durable on the cache device any more.
    pub(crate) fn fail(&self, error: &dyn std::fmt::Display) {
        let reason = error.to_string();
        let witness = self.witness.lock().take();
        self.outlived.store(witness.is_some_and(|witness| witness(&reason)), Ordering::SeqCst);
        self.ledger.fail(&reason);
        if let Some(log) = &self.log {
            log.wake();
        }
        self.watch.give_up(error);
        self.room.notify(usize::MAX);
    }

    /// Whether origins may be written to without the journal's knowing of it.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the journal has failed, and nobody would know it after a restart.
    pub(crate) fn check_outlived(&self) -> Result<(), Error> {
        match self.ledger.failed() {
            Some(reason) if !self.outlived.load(Ordering::SeqCst) => Err(Error::Poisoned { reason }),
            _ => Ok(()),
        }
    }

    /// The unit of writes to the device, in bytes.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.flash.geometry().block_bytes.max(SECTOR_BYTES)
    }

    /// Notes when a WEU was filled, before anything is read of that filling.
    pub(crate) fn set_start(&self, weu: WeuId, start: u32) {
        if let Some(known) = self.starts.write().get_mut(weu.0 as usize) {
            *known = start;
        }
    }

    /// The start in which a WEU was filled last, modulo 2²⁴; `None`: there is no such WEU.
    pub(crate) fn start_of(&self, weu: WeuId) -> Option<u32> {
        self.starts.read().get(weu.0 as usize).map(|start| start & 0xFF_FFFF)
    }

    /// Whether a place still holds what was put there.
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

    /// Whether a slot is being given up.
    pub(crate) fn is_given_up(&self, weu: WeuId) -> bool {
        weu.0 >= self.weu_limit.load(Ordering::SeqCst)
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// The cache device.
    pub fn flash(&self) -> &F {
        &self.flash
    }

    /// From now on each class of I/O gets what it deserves.
    pub fn set_classes(&self, classes: Classes) {
        self.manager.lock().set_classes(classes);
    }

    /// Extents that can be had from it, by the class that their content was stored for.
    pub fn cached_by_class(&self) -> [u64; ClassId::COUNT] {
        self.manager.lock().cached_by_class()
    }

    /// What it is and did.
    pub fn status(&self) -> CacheStatus {
        let manager = self.manager.lock();
        let index_ram_bytes = manager.index_ram_bytes() as u64;
        let stats = Stats { index_ram_bytes, ..manager.stats() };
        drop(manager);
        let failed = self.ledger.failed();
        CacheStatus {
            health: if failed.is_some() && stats.dirty_extents > 0 { Health::Failed } else { self.watch.state() },
            failed: failed.map(|reason| reason.to_string()),
            restoring: self.is_restoring(),
            open_regions: self.regions.count(),
            dirty_queue_bytes: self.dirty_queue.bytes(),
            log: self.log_status(),
            manager: stats,
            engine: self.metrics.snapshot(),
            insert_queue_bytes: self.queue.bytes(),
            ram_cache_bytes: self.ram.lock().bytes(),
        }
    }

    /// Where the bytes of its write-evict units are.
    pub fn space(&self) -> Space {
        let (weus, mut space) = (self.weu_count(), Space::default());
        for first in (0..weus).step_by(WEUS_PER_LOCK as usize) {
            self.manager.lock().add_space(first..first + WEUS_PER_LOCK, &mut space);
        }
        space
    }

    /// Every `stride`-th of its write-evict units.
    pub fn units(&self, stride: u32) -> Vec<Unit> {
        let (weus, stride) = (self.weu_count(), stride.max(1));
        let mut units = Vec::with_capacity((weus / stride) as usize + 1);
        let mut first = 0;
        while first < weus {
            let end = first.saturating_add(stride.saturating_mul(WEUS_PER_LOCK)).min(weus);
            units.extend(self.manager.lock().units((first..end).step_by(stride as usize)));
            first = end;
        }
        units
    }

    /// Ends the insertion workers once they have done what is queued, and refuses further work.
    pub fn close(&self) {
        self.queue.close();
        self.dirty_queue.close();
    }

    /// Ends when nothing waits for insertion.
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

    /// The bytes of a WEU that hold all of some locations, in whole blocks of the device.
    fn span(&self, wanted: &[(ExtentKey, Location)]) -> Range<u32> {
        let block = self.flash.geometry().block_bytes.max(SECTOR_BYTES);
        let (mut start, mut end) = (u32::MAX, 0);
        for (_, location) in wanted {
            let sectors = location.span();
            (start, end) = (start.min(sectors.start), end.max(sectors.end));
        }
        start / block * block..end.next_multiple_of(block)
    }

    /// Reads stored extents that lie near one another in one WEU: `None` for each that could not be had, be it that
    /// its WEU was refilled meanwhile, its checksum is wrong, or the device failed. Those are counted, and forgotten by
    /// the manager.
    #[expect(clippy::manual_async_fn, reason = "the arguments of an async fn take room in its future twice")]
    pub(crate) fn fetch(&self, wanted: &[(ExtentKey, Location)]) -> impl Future<Output = Fetched> {
        async move {
            if let Some(fetched) = wanted.iter().map(|(_, location)| self.without_reading(location)).collect() {
                return fetched;
            }
            let (offset, len) = self.span_to_read(wanted);
            let result = self.flash.read(offset, len).await;
            let (fetched, useless) = self.take_out(wanted, result);
            if useless.is_empty() { fetched } else { Box::pin(self.without(fetched, useless)).await }
        }
    }

    /// Has the manager forget what is `useless`.
    async fn without(&self, fetched: Fetched, useless: Vec<(ExtentKey, Location)>) -> Fetched {
        self.forget(&useless).await;
        fetched
    }

    /// Extents that need no read of the device; `None` for those that do. Runs of several have none of them.
    fn without_reading(&self, location: &Location) -> Option<Option<Bytes>> {
        if location.sectors == 0 {
            return Some(Some(self.zero_extent.clone()));
        }
        // One that was in RAM when asked for may be on the SSD by now.
        let (encoding, payload) = location.in_ram.then(|| self.resident.get(location)).flatten()?;
        Some(decode(encoding, payload, self.extent_bytes()))
    }

    /// Where on the device to read for some extents of one WEU, and how many bytes.
    fn span_to_read(&self, wanted: &[(ExtentKey, Location)]) -> (u64, usize) {
        let (span, weu) = (self.span(wanted), wanted.first().map_or(WeuId(0), |(_, first)| first.weu));
        self.metrics.ssd_reads.add(1);
        self.metrics.ssd_read_bytes.add(span.len() as u64);
        (self.slot_offset(weu) + u64::from(span.start), span.len())
    }

    /// Takes extents out of what was read for them; also those that are to be forgotten.
    fn take_out(
        &self,
        wanted: &[(ExtentKey, Location)],
        result: Result<Bytes, DeviceError>,
    ) -> (Fetched, Vec<(ExtentKey, Location)>) {
        let Some((_, first)) = wanted.first() else { return Default::default() };
        let none = || wanted.iter().map(|_| None).collect();
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                self.metrics.ssd_read_errors.add(1);
                self.watch.read_failed(&error);
                return (none(), wanted.to_vec());
            }
        };
        self.watch.read_ok();
        // The generation is checked after the bytes were read: a refill raises it before it writes.
        if !self.manager.lock().is_current(first.weu, first.generation) {
            self.metrics.outrun_reads.add(1);
            return (none(), Vec::new());
        }
        let start = self.span(wanted).start;
        let fetched: Fetched = match wanted {
            [(_, location)] => Fetched::from_iter([self.unpack(location, bytes, start)]),
            _ => wanted.iter().map(|(_, location)| self.unpack(location, bytes.clone(), start)).collect(),
        };
        let corrupt = wanted.iter().zip(&fetched).filter(|(_, fetched)| fetched.is_none());
        let corrupt: Vec<_> = corrupt.map(|(wanted, _)| *wanted).collect();
        self.metrics.corrupt_extents.add(corrupt.len() as u64);
        (fetched, corrupt)
    }

    /// Takes a stored extent out of `bytes`, which were read from byte `start` of its WEU on.
    fn unpack(&self, location: &Location, mut bytes: Bytes, start: u32) -> Option<Bytes> {
        bytes.advance(((location.offset - start) as usize).min(bytes.len()));
        match location.raw_crc {
            Some(crc) => {
                bytes.truncate(self.extent_bytes());
                (bytes.len() == self.extent_bytes() && crc32c(&bytes) == crc).then_some(bytes)
            }
            None => payload_range(&self.place(location), &bytes).and_then(|(encoding, payload)| {
                bytes.truncate(payload.end);
                bytes.advance(payload.start);
                decode(encoding, bytes, self.extent_bytes())
            }),
        }
    }

    /// Where a WEU begins on the device.
    pub(crate) fn slot_offset(&self, weu: WeuId) -> u64 {
        self.superblock.data_offset + u64::from(weu.0) * u64::from(self.superblock.weu_bytes)
    }

    pub(crate) fn place(&self, location: &Location) -> Place {
        self.place_at(location.weu, location.generation, location.offset)
    }

    pub(crate) fn place_at(&self, weu: WeuId, generation: Generation, offset: u32) -> Place {
        let start = self.starts.read().get(weu.0 as usize).copied().unwrap_or(self.start);
        Place { epoch: self.superblock.epoch, start, weu, generation, offset }
    }

    /// The largest origin whose extents all have a number, in bytes.
    pub fn origin_bytes_max(&self) -> u64 {
        (ExtentIndex::MAX.0 + 1).saturating_mul(self.extent_bytes() as u64)
    }

    /// Whether an origin of that size can be served.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check_origin_size(&self, size_bytes: u64) -> Result<(), Error> {
        let size_bytes_max = self.origin_bytes_max();
        if size_bytes > size_bytes_max { Err(Error::TooLarge { size_bytes, size_bytes_max }) } else { Ok(()) }
    }

    /// Forgets what is cached of an object of that size and is not dirty, in time that grows with what is cached or with
    /// the object, whichever is less.
    pub(crate) async fn forget_object(&self, object: ObjectId, size_bytes: u64) {
        let extents = size_bytes.div_ceil(self.superblock.extent_bytes.into()).min(ExtentIndex::MAX.0 + 1);
        let step = self.ledger.step(FORGET_BYTES, EXTENTS_PER_LOCK);
        let step_bytes = step as usize * FORGET_BYTES;
        // While entries are still being read, each extent must be known to be void.
        if self.is_restoring() || extents <= self.manager.lock().stats().cached_extents {
            for first in (0..extents).step_by(step as usize) {
                let keys = (first..extents.min(first + step)).map(|index| ExtentKey::new(object, ExtentIndex(index)));
                self.telling(step_bytes, |manager| keys.for_each(|key| manager.disown(key))).await;
                yield_now().await;
            }
            return;
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

    /// Does something to the manager that may make it note forgotten extents, as soon as there is room for `bytes` bytes of
    /// records: [`FORGET_BYTES`] for each extent. The future must not be held up by what a commit waits for.
    pub(crate) async fn telling<T>(&self, bytes: usize, change: impl FnOnce(&mut CacheManager) -> T) -> T {
        self.ledger.tell(bytes as u64, |room| room.noting(&mut self.manager.lock(), change)).await
    }

    /// Removes entries that turned out useless, unless they have been replaced since.
    async fn forget(&self, wanted: &[(ExtentKey, Location)]) {
        let step = self.ledger.step(FORGET_BYTES, EXTENTS_PER_LOCK) as usize;
        for some in wanted.chunks(step) {
            self.telling(some.len() * FORGET_BYTES, |manager| {
                for (key, location) in some {
                    if manager.peek(*key).is_some_and(|found| found.is_same(location)) {
                        manager.disown(*key);
                    }
                }
            })
            .await;
        }
    }
}

/// Extents fetched from the cache, in the order asked for.
pub(crate) type Fetched = smallvec::SmallVec<[Option<Bytes>; 1]>;
