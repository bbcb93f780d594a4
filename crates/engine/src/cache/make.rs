//! Creation of caches: the layout of the device, and the superblock that describes it.

use super::Cache;
use crate::classify::Classifiers;
use crate::discard::Discards;
use crate::doubts::{Before, Doubts};
use crate::endurance::Spending;
use crate::error::Error;
use crate::fingerprints::Moved;
use crate::flash::Flash;
use crate::format::FormatError;
use crate::format::superblock::{DEVICES_MAX, DevicePlace, SUPERBLOCK_BYTES, Superblock};
use crate::health::DeviceHealth;
use crate::insert::{InsertQueue, Order, UnitTables, Writes};
use crate::journal::{Area, Halves, Identity, Journal};
use crate::metrics::CacheMetrics;
use crate::resident::Resident;
use crate::settings::{EngineSettings, Live, LiveSettings};
use crate::volume::{Regions, Registry};
use crate::write_log::{LogDevice, MissingLog};
use crate::writeback::{Commits, Ledger, Shares};
use event_listener::Event;
use nitro_cache::ram::{Ahead, RamCache};
use nitro_cache::settings::WEU_COUNT_MIN;
use nitro_cache::{CacheManager, SettingError, Settings};
use nitro_port::latch::Latch;
use nitro_port::{Clock, Device};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

/// The start of the journal. Other programs may by mistake write to the area before it (partition tables, labels,
/// filesystems' superblocks).
const JOURNAL_OFFSET: u64 = 1 << 20;

/// Alignment of an index of fingerprints, for erase blocks.
const INDEX_ALIGNMENT_BYTES: u64 = 128 << 10;

impl<F: Device, C: Clock> Cache<F, C> {
    /// Bytes of a device that WEUs cannot use: superblock and journal, rounded up to a whole WEU, and the superblock's
    /// second copy.
    #[must_use]
    pub fn overhead_bytes(settings: &EngineSettings) -> u64 {
        Self::data_offset(settings) + SUPERBLOCK_BYTES as u64
    }

    fn data_offset(settings: &EngineSettings) -> u64 {
        let index = Self::index_area_of(settings);
        (index.offset + index.len).next_multiple_of(settings.manager.weu_bytes.into())
    }

    /// The area of the index of fingerprints on flash.
    fn index_area_of(settings: &EngineSettings) -> Area {
        let journal_end = JOURNAL_OFFSET + settings.journal_counts().area_bytes();
        match settings.index_bytes {
            0 => Area { offset: journal_end, len: 0 },
            len => Area { offset: journal_end.next_multiple_of(INDEX_ALIGNMENT_BYTES), len },
        }
    }

    /// Formats `flash` and starts an empty cache on it. `uuid` is the identity of the cache. `epoch` must be random: it
    /// distinguishes stored extents from those of an earlier formatting.
    ///
    /// # Errors
    /// [`Error::Setting`]: the settings do not fit the device; [`Error::Flash`]: a write fails.
    pub async fn format(
        flash: F,
        clock: C,
        settings: EngineSettings,
        uuid: [u8; 16],
        epoch: u64,
    ) -> Result<Arc<Self>, Error> {
        Box::pin(Self::format_logged(flash, None, MissingLog::Refuse, clock, settings, uuid, epoch)).await
    }

    /// As [`format`](Self::format), with a write log, in which writes in write-back are durable when they are
    /// acknowledged. The log's device must not hold the log of another cache, unless `missing` allows its loss.
    ///
    /// # Errors
    /// As [`format`](Self::format); [`Error::LogForeign`]; [`Error::Log`]: the log device fails.
    pub async fn format_logged(
        flash: F,
        log: Option<LogDevice<F>>,
        missing: MissingLog,
        clock: C,
        settings: EngineSettings,
        uuid: [u8; 16],
        epoch: u64,
    ) -> Result<Arc<Self>, Error> {
        Box::pin(Self::format_devices(vec![flash], log, missing, clock, settings, uuid, epoch)).await
    }

    /// As [`format_logged`](Self::format_logged), on one device or several, over which the write-evict units are spread
    /// in turn. Journal and superblock are on each of them. The smallest device counts.
    ///
    /// # Errors
    /// As [`format_logged`](Self::format_logged); [`Error::Devices`]: none, or more than
    /// [`DEVICES_MAX`], are given.
    pub async fn format_devices(
        devices: Vec<F>,
        log: Option<LogDevice<F>>,
        missing: MissingLog,
        clock: C,
        settings: EngineSettings,
        uuid: [u8; 16],
        epoch: u64,
    ) -> Result<Arc<Self>, Error> {
        if devices.is_empty() || devices.len() > DEVICES_MAX as usize {
            let why = format!("{} devices are given; a cache has 1 to {DEVICES_MAX}", devices.len());
            return Err(Error::Devices { device: None, why });
        }
        Self::check_units(&settings.manager, devices.len() as u32)?;
        let place = DevicePlace { devices: devices.len() as u8, ..DevicePlace::ONLY };
        let superblock = Superblock { logged: log.is_some(), place, ..Self::superblock(&settings, uuid, epoch)? };
        let flash = Flash::several(devices, superblock.data_offset, superblock.weu_bytes);
        let mut cache = Self::new(flash, clock, settings, superblock)?;
        let verdict = cache.judge_log(None, log.as_ref(), missing, 0).await?;
        let identity = Identity { epoch, start: cache.start };
        let journal = Journal::create(&cache.flash, superblock.journal, identity).await.map_err(Error::Flash)?;
        cache.write_superblock(&superblock).await?;
        cache.flash.check_complete()?;
        cache.doubts.begin(&superblock, Before::Nothing);
        cache.install_log(verdict, log).await?;
        cache.commits.begin(journal);
        Ok(Arc::new(cache))
    }

    /// A cache that is never used: its volumes are served from their origins, for comparison. `flash` is neither read
    /// nor written.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn pass_through(flash: F, clock: C, settings: EngineSettings) -> Result<Arc<Self>, Error> {
        let superblock = Self::superblock(&settings, [0; 16], 0)?;
        let cache = Self::new(Flash::one(flash), clock, settings, superblock)?;
        cache.device_health.leave_out();
        cache.ledger.end();
        Ok(Arc::new(cache))
    }

    /// Checks that each of several devices has enough units to go on alone.
    pub(crate) fn check_units(settings: &Settings, devices: u32) -> Result<(), Error> {
        let least = WEU_COUNT_MIN * u64::from(devices);
        if devices <= 1 || u64::from(settings.weu_count()) >= least {
            return Ok(());
        }
        let nearest = least * u64::from(settings.weu_bytes);
        let reason = format!("is too small for {devices} devices: each needs {WEU_COUNT_MIN} write-evict units");
        Err(SettingError { name: "cache_size", value: settings.cache_bytes, reason, nearest }.into())
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
            place: DevicePlace::ONLY,
        })
    }

    pub(crate) fn new(
        flash: Flash<F>,
        clock: C,
        settings: EngineSettings,
        superblock: Superblock,
    ) -> Result<Self, Error> {
        superblock.check(&settings)?;
        let mut manager = CacheManager::new(settings.manager)?;
        manager.keep_journal();
        manager.keep_duplicates();
        manager.lose_devices(flash.lost());
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
            retired: AtomicU32::new(0),
            losses: Mutex::default(),
            loss_witness: Mutex::default(),
            has_bands: AtomicBool::new(manager.has_bands()),
            has_priorities: AtomicBool::new(manager.has_priorities()),
            restricts_writes: AtomicBool::new(manager.classes().restrict_writes()),
            manager: Mutex::new(manager),
            resident: Resident::default(),
            queue: InsertQueue::new(
                settings.insert_queue_bytes,
                settings.staging_bytes,
                settings.insertions_at_work_max(),
            ),
            order: Order::default(),
            writes: Writes::default(),
            clean_ended: Latch::default(),
            lanes: futures_util::lock::Mutex::default(),
            ram: Mutex::new(RamCache::new(settings.ram_cache_bytes)),
            ahead: Mutex::new(Ahead::new(settings.readahead_ram_bytes)),
            parts: Mutex::new(settings.parts()),
            device_health: DeviceHealth::default(),
            discards: Discards::new(settings.discard),
            moved: Moved::default(),
            unit_tables: UnitTables::new(&settings.manager),
            start: superblock.start,
            starts: RwLock::new(vec![superblock.start; superblock.weu_count as usize]),
            weu_count: AtomicU32::new(superblock.weu_count),
            weu_limit: AtomicU32::new(superblock.weu_count),
            resizing: AtomicBool::new(false),
            last_beyond: OnceLock::new(),
            seal_wanted: Event::new(),
            dirty_queue: InsertQueue::new(settings.dirty_queue_bytes, 0, usize::MAX),
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
            live: Live::new(LiveSettings::of(&settings)),
            settings,
        })
    }

    pub(crate) async fn write_superblock(&self, superblock: &Superblock) -> Result<(), Error> {
        let bytes = self.flash.write_superblock(superblock).await.map_err(Error::Flash)?;
        self.metrics.ssd_written_superblock_bytes.add(bytes);
        Ok(())
    }

    /// Writes the superblock again after the device has changed its size: the second copy is at its end.
    ///
    /// # Errors
    /// [`Error::Flash`].
    pub async fn rewrite_superblock(&self) -> Result<(), Error> {
        self.write_superblock(&Superblock { weu_count: self.weu_count(), ..self.superblock }).await
    }
}
