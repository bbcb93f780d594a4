//! The index of fingerprints on a part of the cache device, which is searched after the manager's index in RAM.

use crate::export::ServedCache;
use futures_util::future::join4;
use nitro_cache::IndexKind;
use nitro_config::{CacheConfig, FingerprintIndexName, IndexPlan};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::{CompioClock, SliceDevice};
use nitro_engine::{ContentPlace, EngineSettings, FingerprintIndex, IndexRelay};
use nitro_index::bufferhash::{BufferHash, Eviction};
use nitro_index::silt::{Rates, Silt};
use nitro_index::{Counters, FlashIndex, Kind, kind_of};
use nitro_port::{Device, DeviceError, Geometry};
use nitro_units::Fingerprint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Conversions and merges leave most of the SSD to the clients.
const RATES: Rates = Rates { idle_bytes_per_second: 256 << 20, busy_bytes_per_second: 16 << 20 };
/// How often new entries are made durable.
const SYNC_EVERY: Duration = Duration::from_secs(60);
/// Maximum interval at which new entries are passed to the index.
const HEAR_EVERY: Duration = Duration::from_secs(1);

/// The cache's device, for the index.
struct CacheFlash(Arc<ServedCache>);

impl Device for CacheFlash {
    fn geometry(&self) -> Geometry {
        self.0.devices().geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<bytes::Bytes, DeviceError> {
        self.0.devices().read(offset, len).await
    }

    async fn write(&self, offset: u64, data: bytes::Bytes) -> Result<(), DeviceError> {
        self.0.devices().write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.0.devices().flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.0.devices().discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.0.devices().write_zeroes(offset, len, may_unmap).await
    }
}

type Part = Arc<SliceDevice<CacheFlash>>;

/// An index that is open.
enum Index {
    BufferHash(BufferHash<Part>),
    Silt(Silt<Part>),
}

impl Index {
    async fn get(&self, key: &[u8]) -> Result<Option<nitro_index::Value>, nitro_index::Error> {
        match self {
            Self::BufferHash(index) => index.get(key).await,
            Self::Silt(index) => index.get(key).await,
        }
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), nitro_index::Error> {
        match self {
            Self::BufferHash(index) => index.insert(key, value).await,
            Self::Silt(index) => index.insert(key, value).await,
        }
    }

    async fn sync(&self) -> Result<(), nitro_index::Error> {
        match self {
            Self::BufferHash(index) => index.sync().await,
            Self::Silt(index) => index.sync().await,
        }
    }

    /// Lets merges drop the entries of evicted content, in an index that does not evict entries itself.
    fn leaving_out_stale(self, cache: &Arc<ServedCache>) -> Self {
        let Self::Silt(index) = self else { return self };
        let cache = Arc::clone(cache);
        Self::Silt(index.keeping(Arc::new(move |_, value| {
            value.try_into().is_ok_and(|value| cache.holds(&ContentPlace::decode(value)))
        })))
    }

    /// Whether it is of the configured kind.
    fn fits(&self, plan: &IndexPlan) -> bool {
        matches!((self, plan), (Self::BufferHash(_), IndexPlan::BufferHash(_)) | (Self::Silt(_), IndexPlan::Silt(_)))
    }

    /// Its background work, as long as it is polled.
    async fn work(&self) -> Result<(), nitro_index::Error> {
        match self {
            Self::BufferHash(_) => std::future::pending().await,
            Self::Silt(index) => index.run_background(&CompioClock::new()).await,
        }
    }

    fn counters(&self) -> Counters {
        match self {
            Self::BufferHash(index) => index.counters(),
            Self::Silt(index) => index.counters(),
        }
    }
}

/// An index on flash that is open, or is being opened.
pub struct FlashFingerprints {
    name: String,
    /// The sizes for a new index, if there is none yet or it is damaged.
    plan: IndexPlan,
    seed: u64,
    cache: Arc<ServedCache>,
    part: Part,
    index: OnceLock<Index>,
    /// The relay through which the insertion thread uses the index.
    relay: IndexRelay,
    errors: AtomicU64,
}

/// The state and counters of an index on flash.
#[derive(Debug, Clone, Copy)]
pub struct FlashIndexStatus {
    /// The index is open.
    pub is_open: bool,
    pub flash_bytes: u64,
    pub counters: Counters,
    /// Requests that failed.
    pub errors: u64,
}

impl FlashFingerprints {
    /// The index of a cache that was just created or opened; `None`: it has no index on flash, or does not use it.
    pub(super) async fn of(
        name: &str,
        config: &CacheConfig,
        cache: &Arc<ServedCache>,
        seed: u64,
    ) -> Result<Option<Self>, Error> {
        let manager = &cache.settings().manager;
        let is_in_ram = config.fingerprint_index == Some(FingerprintIndexName::Ram) || manager.index == IndexKind::Lean;
        if is_in_ram || !manager.dedup {
            return Ok(None);
        }
        let Some(area) = cache.index_area() else { return Ok(None) };
        let name = format!("cache {name}: fingerprint index");
        let part = SliceDevice::new(CacheFlash(Arc::clone(cache)), area.offset, area.len).map_err(|e| {
            Error::with_sources(&name, &e).or("set fingerprint_index = \"ram\" to serve the cache without it")
        })?;
        let kind = match config.fingerprint_index.and_then(FingerprintIndexName::kind) {
            Some(wanted) => wanted,
            // As it was made.
            None => kind_of(&part).await.unwrap_or(Kind::BufferHash),
        };
        let plan = plan_within(&name, kind, config, cache.settings(), area.len)?;
        let (flash, ram) = (Size(plan.flash_bytes()), Size(plan.ram_bytes()));
        nitro_console::output::note!("{name}: {flash} of the SSD, and {ram} of RAM besides");
        let (part, relay) = (Arc::new(part), IndexRelay::default());
        let (index, errors) = (OnceLock::new(), AtomicU64::new(0));
        Ok(Some(Self { name, plan, seed, cache: Arc::clone(cache), part, index, relay, errors }))
    }

    /// Its maximum RAM, in bytes.
    pub(super) fn ram_bytes(&self) -> u64 {
        self.plan.ram_bytes()
    }

    /// Opens the index, answers look-ups, and makes new entries durable from time to time, as long as it is polled.
    /// Without an index, contents that are not known in RAM count as new.
    pub(super) async fn tend(&self, sleep: impl AsyncFn(Duration)) {
        match self.open().await {
            Ok(index) => {
                tracing::info!("{}: open, with {} entries", self.name, index.counters().entries);
                let _ = self.index.set(index);
            }
            Err(error) => {
                self.failed(&error);
                return std::future::pending().await;
            }
        }
        let syncing = async {
            loop {
                sleep(SYNC_EVERY).await;
                self.sync().await;
            }
        };
        let working = async {
            if let Some(index) = self.index.get()
                && let Err(error) = index.work().await
            {
                self.failed(&error);
            }
            std::future::pending::<()>().await;
        };
        // What insertion said last, though it asked nothing since.
        let hearing = async {
            loop {
                sleep(HEAR_EVERY).await;
                self.relay.wake();
            }
        };
        join4(syncing, working, hearing, self.relay.serve(&Opened(self))).await;
    }

    /// Waits until the index has all inserted entries.
    pub(super) async fn settled(&self) {
        self.relay.settled().await;
    }

    async fn open(&self) -> Result<Index, nitro_index::Error> {
        let part = || Arc::clone(&self.part);
        let opened = match kind_of(&self.part).await {
            Ok(Kind::BufferHash) => BufferHash::open(part(), Eviction::Fifo).await.map(Index::BufferHash),
            Ok(Kind::Silt) => Silt::open(part(), RATES).await.map(Index::Silt),
            Err(error) => Err(error),
        };
        match opened {
            // One that was made for less RAM, or more, or for a cache of another size, is as good.
            Ok(index) if index.fits(&self.plan) => return Ok(index.leaving_out_stale(&self.cache)),
            Ok(_) | Err(nitro_index::Error::NotAnIndex(_)) => {}
            Err(error @ nitro_index::Error::Device(_)) => return Err(error),
            Err(error) => tracing::warn!("{}", Error::with_sources(&self.name, &error).or("a new index is created")),
        }
        match self.plan {
            IndexPlan::BufferHash(plan) => {
                BufferHash::create(part(), plan, Eviction::Fifo, self.seed).await.map(Index::BufferHash)
            }
            IndexPlan::Silt(plan) => Silt::create(part(), plan, RATES, self.seed).await.map(Index::Silt),
        }
        .map(|index| index.leaving_out_stale(&self.cache))
    }

    /// Makes new entries durable.
    pub(super) async fn sync(&self) {
        if let Some(index) = self.index.get()
            && let Err(error) = index.sync().await
        {
            self.failed(&error);
        }
    }

    pub fn status(&self) -> FlashIndexStatus {
        FlashIndexStatus {
            is_open: self.index.get().is_some(),
            flash_bytes: self.plan.flash_bytes(),
            counters: self.index.get().map_or_else(Counters::default, Index::counters),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }

    fn failed(&self, error: &nitro_index::Error) {
        if self.errors.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!("{}; duplicates of contents in it are stored again", Error::with_sources(&self.name, error));
        }
    }
}

/// The sizes of an index that fits into `bytes`: the cache may have been resized since it was created, or may be
/// allowed more RAM.
fn plan_within(
    name: &str,
    kind: Kind,
    config: &CacheConfig,
    settings: &EngineSettings,
    bytes: u64,
) -> Result<IndexPlan, Error> {
    let mut entries = IndexPlan::entries(settings);
    loop {
        let plan = IndexPlan::for_entries(kind, config, entries).map_err(|e| refused(name, &e))?;
        if plan.flash_bytes() <= bytes {
            return Ok(plan);
        }
        entries = (entries * 15 / 16).max(1);
    }
}

/// The error for configured sizes that are invalid.
pub(super) fn refused(what: &str, error: &nitro_index::Error) -> Error {
    let error = Error::with_sources(what, error);
    error.or("give more fingerprint_index_ram, leave it out, or keep all fingerprints in RAM (fingerprint_index = ram)")
}

impl FingerprintIndex for FlashFingerprints {
    async fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        self.relay.find(fingerprint).await
    }

    async fn note(&self, fingerprint: &Fingerprint, place: ContentPlace) {
        self.relay.note(fingerprint, place).await;
    }
}

/// The index itself, for the thread that tends it.
struct Opened<'a>(&'a FlashFingerprints);

impl FingerprintIndex for Opened<'_> {
    async fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        let found = self.0.index.get()?.get(&fingerprint.0).await;
        let value = found.unwrap_or_else(|error| {
            self.0.failed(&error);
            None
        })?;
        Some(ContentPlace::decode(value[..].try_into().ok()?))
    }

    async fn note(&self, fingerprint: &Fingerprint, place: ContentPlace) {
        let Some(index) = self.0.index.get() else { return };
        if let Err(error) = index.insert(&fingerprint.0, &place.encode()).await {
            self.0.failed(&error);
        }
    }
}
