//! Opening caches: an existing one with its contents, or a new one.

use super::classes::ServedClasses;
use super::detect::VolumeDetector;
use super::device::{CacheDevice, OriginDevice};
use super::devices::{self, Stores};
use super::flash_index::FlashFingerprints;
use super::log;
use super::outlive::{self, Machine};
use super::plan;
use super::witness;
use crate::device_error::device_error;
use crate::export::{ServedCache, ServedVolume};
use crate::origins::Uuid;
use nitro_cache::settings::{EXTENT_BYTES, WEU_BYTES, WEU_COUNT_MIN};
use nitro_config::{CacheConfig, CacheStore, Config};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::{AnyDevice, CompioClock, ErrorKind, FileDevice, FileOptions, RamDevice};
use nitro_engine::{
    EngineSettings, Flash, LogDevice, MissingLog, Recovered, Volume, VolumeEntry, VolumeOptions, WriteMode,
};
use nitro_port::Device;
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A cache that is served, with the state that the engine does not have.
pub struct CacheEntry {
    /// Its name in the configuration.
    pub name: String,
    /// The cache.
    pub cache: Arc<ServedCache>,
    /// The path of the cache, or of the first of its devices; `None`: there is no cache.
    pub path: Option<PathBuf>,
    /// The paths of its devices by their numbers; empty: not known.
    pub device_paths: Vec<PathBuf>,
    /// The cache's UUID.
    pub uuid: Uuid,
    /// The configured size in bytes, if it is another than the cache was opened with.
    pub(super) other_size: Option<u64>,
    /// It is being resized.
    pub(super) resizing: AtomicBool,
    /// Where its write log is.
    pub log_path: Option<PathBuf>,
    /// The write log that may hold writes which are not in the cache, if the cache is examined without it.
    pub log_missing: Option<Uuid>,
    /// The classes of I/O and their policies.
    pub classes: ServedClasses,
    /// Its settings in force.
    pub(super) config: Mutex<CacheConfig>,
    /// Its index of fingerprints on flash.
    pub flash_index: Option<FlashFingerprints>,
    /// What its start found; `None`: it was newly created.
    pub recovered: Option<Recovered>,
}

impl CacheEntry {
    /// A cache without optional parts.
    fn new(name: &str, cache: Arc<ServedCache>, uuid: Uuid) -> Self {
        Self {
            name: name.to_owned(),
            cache,
            path: None,
            device_paths: Vec::new(),
            uuid,
            other_size: None,
            resizing: AtomicBool::new(false),
            log_path: None,
            log_missing: None,
            classes: ServedClasses::default(),
            config: Mutex::default(),
            flash_index: None,
            recovered: None,
        }
    }

    /// Whether classes are detected in its volumes' blocks.
    pub(super) fn detects(&self) -> bool {
        self.path.is_some() && self.config.lock().detects()
    }

    /// The detector for a volume of `volume_bytes`, with logical blocks of `block_bytes`; with a scan at the given rate, in
    /// bytes a second.
    pub fn detector(
        self: &Arc<Self>,
        volume_bytes: u64,
        block_bytes: u32,
        scan: Option<Size>,
    ) -> Option<Arc<VolumeDetector>> {
        self.detects().then(|| Arc::new(VolumeDetector::new(self, volume_bytes, block_bytes, scan)))
    }

    /// The cache's entry for a volume, by name.
    pub(super) fn known(&self, volume: &str) -> Option<(ObjectId, VolumeEntry)> {
        self.cache.volumes().into_iter().find(|(_, entry)| entry.name == volume)
    }

    /// A volume without its origin, whose dirty data are discarded.
    pub(super) fn without_origin(&self, object: ObjectId, entry: &VolumeEntry) -> Arc<ServedVolume> {
        without_origin(&self.cache, object, entry)
    }

    /// Bytes of a volume's dirty data.
    pub fn dirty_bytes(&self, object: ObjectId, entry: &VolumeEntry) -> u64 {
        dirty_bytes(&self.cache, object, entry)
    }

    /// Drops all data of a volume, including dirty data. Needs the cache's workers.
    pub(super) async fn discard(&self, object: ObjectId, entry: &VolumeEntry) -> Result<(), Error> {
        let fail = |e| Error::with_sources(format_args!("cache {}", self.name), &e).or("check the cache device");
        let volume = self.without_origin(object, entry);
        match volume.destage_all().await {
            // Discarded below.
            Err(nitro_engine::Error::Lost { .. }) => {}
            destaged => destaged.map_err(fail)?,
        }
        volume.discard_dirty().await.map_err(fail)?;
        self.cache.forget_volume(object).await.map_err(fail)
    }
}

fn without_origin(cache: &Arc<ServedCache>, object: ObjectId, entry: &VolumeEntry) -> Arc<ServedVolume> {
    let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteThrough };
    // The size comes from the cache device.
    let size_bytes = entry.origin_bytes.min(cache.origin_bytes_max());
    Volume::new(Arc::clone(cache), OriginDevice::Nowhere(size_bytes), options)
}

fn dirty_bytes(cache: &Arc<ServedCache>, object: ObjectId, entry: &VolumeEntry) -> u64 {
    without_origin(cache, object, entry).dirty_extents() * u64::from(cache.settings().manager.extent_bytes)
}

/// Opens or creates a cache; for a server, if one is given.
pub(super) async fn open(
    name: &str,
    config: &CacheConfig,
    server: Option<&Config>,
    discard_dirty: bool,
) -> Result<CacheEntry, Error> {
    let paths = config.path.paths();
    let Some(path) = paths.first() else { return no_cache(name, config) };
    let what = format!("cache {}", config.path.shown());
    check_new_size(&what, config)?;
    log::check(config)?;
    log::check_unused(config)?;
    let classes = ServedClasses::open(config)?;
    let store = devices::open(paths, config)?;
    let machine = server.and_then(|server| Machine::of(server, name, paths));
    let random = random().map_err(|e| Error::new("/dev/urandom", e))?;
    let opening = Opening { name, what: &what, config, machine, random: &random, classes: &classes, discard_dirty };
    let mut entry = if store.holds_cache && !config.format {
        opening.restart(store).await?
    } else {
        let store = if store.holds_cache { check_clean(&what, config, store, discard_dirty).await? } else { store };
        opening.create(store).await?
    };
    entry.classes = classes;
    entry.config = Mutex::new(config.clone());
    entry.flash_index = FlashFingerprints::of(name, config, &entry.cache, random.index_seed).await?;
    entry.path = Some(path.clone());
    entry.log_path.clone_from(&config.write_log);
    Ok(entry)
}

/// Checks the size of a cache whose files do not exist, before files of that size are made.
fn check_new_size(what: &str, config: &CacheConfig) -> Result<(), Error> {
    let paths = config.path.paths();
    match config.size.filter(|_| paths.iter().all(|path| !path.exists())) {
        Some(size) => plan::settings(what, config, size.0 / paths.len() as u64).map(drop),
        None => Ok(()),
    }
}

/// A cache to be opened or created on a device.
struct Opening<'a> {
    name: &'a str,
    what: &'a str,
    config: &'a CacheConfig,
    machine: Option<Machine>,
    random: &'a Random,
    classes: &'a ServedClasses,
    discard_dirty: bool,
}

impl Opening<'_> {
    /// Opens the cache that the device holds.
    async fn restart(self, store: Stores) -> Result<CacheEntry, Error> {
        let Self { name, what, config, machine, random, classes, discard_dirty } = self;
        let (flash, device_paths) = store.assemble(what, false).await?;
        let log = log::open(name, config, random.log_uuid)?;
        let logged = Logged { log, missing: missing_log(discard_dirty) };
        let prepare = |settings: &mut EngineSettings, uuid| {
            check_to_serve(what, settings, classes)?;
            settings.crash_memory = outlive::memory(uuid, machine);
            plan::announce(name, settings);
            Ok(())
        };
        let opened = reopen(what, config, flash, random.seed, logged, prepare).await;
        let opened = opened_or_dirty(config, opened).await;
        let Reopened { cache, recovered, uuid, other_size } = opened?;
        let extent = u64::from(cache.settings().manager.extent_bytes);
        let dirty = match (recovered.dirty_extents, recovered.lost_extents) {
            (0, _) => "nothing is dirty".to_owned(),
            (dirty, 0) => format!("{} are dirty", Size(dirty * extent)),
            (dirty, lost) => format!("{} are dirty, and {} of them lost", Size(dirty * extent), Size(lost * extent)),
        };
        let anew = match recovered.open_regions {
            0 => String::new(),
            count if recovered.outlived => {
                format!(
                    "; {count} regions of 16 MiB were being written to: extents with writes in progress are read again"
                )
            }
            count => format!("; {count} regions of 16 MiB were being written to, and are read again"),
        };
        let logged = match recovered.replayed_extents {
            0 => String::new(),
            count => format!(", {} were recovered from the write log", Size(count * extent)),
        };
        tracing::info!(
            "cache {name}: opened with its contents (volumes known: {}; {dirty}{logged}{anew}); clean data are restored while it serves",
            cache.volumes().len(),
        );
        Ok(CacheEntry { device_paths, other_size, recovered: Some(recovered), ..CacheEntry::new(name, cache, uuid) })
    }

    /// Formats the device.
    async fn create(self, store: Stores) -> Result<CacheEntry, Error> {
        let Self { name, what, config, machine, random, classes, discard_dirty } = self;
        let mut settings = plan::settings(what, config, store.size_bytes)?;
        settings.manager.seed = random.seed;
        check_to_serve(what, &mut settings, classes)?;
        settings.crash_memory = outlive::memory(Uuid(random.uuid), machine);
        plan::announce(name, &settings);
        let (log, missing) = (log::open(name, config, random.log_uuid)?, missing_log(discard_dirty));
        let clock = CompioClock::new();
        let cache = ServedCache::format_devices(store.all(), log, missing, clock, settings, random.uuid, random.epoch)
            .await
            .map_err(|error| match log::is_about(&error) {
                true => log::error(what, &error),
                false => Error::with_sources(what, &error).or("check the cache device"),
            })?;
        witness::install(&cache, Uuid(random.uuid));
        tracing::info!("cache {name}: formatted");
        let device_paths = config.path.paths().to_vec();
        Ok(CacheEntry { device_paths, ..CacheEntry::new(name, cache, Uuid(random.uuid)) })
    }
}

/// The write log of a cache.
struct Logged {
    log: Option<LogDevice<CacheDevice>>,
    missing: MissingLog,
}

impl Logged {
    fn without(missing: MissingLog) -> Self {
        Self { log: None, missing }
    }
}

fn missing_log(discard: bool) -> MissingLog {
    if discard { MissingLog::Discard } else { MissingLog::Refuse }
}

/// Why a cache is not opened.
enum Refusal {
    /// The cache needs its write log.
    Log(Uuid, Error),
    /// Devices with dirty data are missing.
    Missing(Error),
    /// It does not go with its configuration.
    Unfit(Error),
    Other(Error),
}

impl Refusal {
    fn error(self) -> Error {
        match self {
            Self::Log(_, error) | Self::Missing(error) | Self::Unfit(error) | Self::Other(error) => error,
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// A cache that was opened on its devices.
struct Reopened {
    cache: Arc<ServedCache>,
    recovered: Recovered,
    uuid: Uuid,
    /// The configured size in bytes, if it is another one.
    other_size: Option<u64>,
}

/// The error of a cache that does not go with its configuration says what is dirty in it, and how that reaches its origin.
async fn opened_or_dirty(config: &CacheConfig, opened: Result<Reopened, Refusal>) -> Result<Reopened, Error> {
    match opened {
        Err(Refusal::Unfit(error)) => {
            let looked = look_at(config.path.paths()).await;
            Err(error.also(looked.map_or_else(|_| String::new(), |entry| dirty_in(&entry))))
        }
        opened => opened.map_err(Refusal::error),
    }
}

/// What is dirty in a stopped cache, and the steps that bring it to its origins; or that a new cache loses nothing.
fn dirty_in(entry: &CacheEntry) -> String {
    let volumes = entry.cache.volumes().into_iter();
    let dirty = volumes.map(|(object, known)| (entry.dirty_bytes(object, &known), known.name));
    let dirty: Vec<_> = dirty.filter(|(bytes, _)| *bytes > 0).collect();
    if dirty.is_empty() {
        return "nothing in it is dirty: --format (format = true) makes a new cache of it".to_owned();
    }
    let each: Vec<_> = dirty.iter().map(|(bytes, name)| format!("{} of volume {name:?}", Size(*bytes))).collect();
    format!(
        "it holds dirty data, {}: serve it with the settings that it was made with, and run nitro flush VOLUME --wait",
        each.join(", ")
    )
}

/// Checks that a cache may be served with these settings and classes.
fn check_to_serve(what: &str, settings: &mut EngineSettings, classes: &ServedClasses) -> Result<(), Error> {
    plan::check_served(what, settings)?;
    classes.settle(what, settings)?;
    plan::check_limits(settings)
}

/// Opens the cache on its devices.
async fn reopen(
    what: &str,
    config: &CacheConfig,
    flash: Flash<CacheDevice>,
    seed: u64,
    logged: Logged,
    prepare: impl FnOnce(&mut EngineSettings, Uuid) -> Result<(), Error>,
) -> Result<Reopened, Refusal> {
    let device_bytes = flash.geometry().size_bytes;
    let damaged = |e: nitro_engine::Error| {
        Error::with_sources(what, &e).or("nitro cache fsck lists the damage, nitro cache salvage extracts dirty data")
    };
    let superblock = flash.superblock().await.map_err(damaged)?;
    let mut settings = plan::existing(what, config, &superblock, device_bytes).map_err(Refusal::Unfit)?;
    settings.manager.seed = seed;
    let other_size = plan::other_size(config, &settings, &superblock);
    let uuid = Uuid(superblock.uuid);
    if witness::is_noted(uuid) {
        tracing::warn!("{what}: it had failed while its volumes were served without it: clean contents are not used");
        settings.distrust_clean = true;
    }
    check_newest(what, &flash, uuid)?;
    prepare(&mut settings, uuid).map_err(Refusal::Unfit)?;
    let Logged { log, missing } = logged;
    let opened = ServedCache::open_devices(flash, log, missing, CompioClock::new(), settings).await;
    let (cache, recovered) = opened.map_err(|error| match error {
        nitro_engine::Error::LogMissing { uuid, .. } => Refusal::Log(Uuid(uuid), log::error(what, &error)),
        nitro_engine::Error::DevicesMissing { .. } => Refusal::Missing(
            Error::new(what, &error)
                .or("make the missing devices available again, or give --force-discard-dirty to lose these data"),
        ),
        error if log::is_about(&error) => Refusal::Other(log::error(what, &error)),
        error => Refusal::Other(damaged(error)),
    })?;
    witness::install(&cache, uuid);
    Ok(Reopened { cache, recovered, uuid, other_size })
}

/// Refuses devices that are outdated: they were lost, and the cache went on without them.
fn check_newest(what: &str, flash: &Flash<CacheDevice>, uuid: Uuid) -> Result<(), Error> {
    let outdated = witness::lost(uuid) & !flash.lost_before();
    if !flash.is_striped() || outdated == 0 {
        return Ok(());
    }
    let numbers: Vec<_> = (0..flash.devices()).filter(|number| outdated >> number & 1 == 1).collect();
    let each: Vec<_> = numbers.iter().map(|number| format!("device {number}")).collect();
    let why = format!(
        "{} of the cache failed before, and the devices that it was used with since are not given",
        each.join(", ")
    );
    Err(Error::new(what, why).or("give the other devices of the cache as well"))
}

/// Opens a stopped cache for examination, without changing it. Devices of a cache that are not given count as missing.
///
/// # Errors
/// A server uses a device, or there is no cache on the devices that can be opened.
pub async fn look_at(paths: &[PathBuf]) -> Result<CacheEntry, Error> {
    let store = CacheStore::Paths(paths.to_vec());
    let (name, path) = (store.shown(), paths.first().cloned());
    let what = format!("cache {name}");
    let config = CacheConfig { ram: Some(Size(0)), ..CacheConfig::new(store) };
    let look = async |missing| {
        let (flash, paths) = devices::open_stopped(paths)?.assemble(&what, true).await?;
        let opened = reopen(&what, &config, flash, 0, Logged::without(missing), |_, _| Ok(())).await?;
        Ok((opened, paths))
    };
    let (opened, log_missing) = match look(MissingLog::Refuse).await {
        Err(Refusal::Log(uuid, _)) => (look(MissingLog::Discard).await, Some(uuid)),
        Err(Refusal::Missing(_)) => (look(MissingLog::Discard).await, None),
        opened => (opened, None),
    };
    let (Reopened { cache, recovered, uuid, .. }, device_paths) = opened.map_err(Refusal::error)?;
    let recovered = Some(recovered);
    Ok(CacheEntry { path, device_paths, log_missing, recovered, ..CacheEntry::new(&name, cache, uuid) })
}

/// Opens the device of a stopped cache for reading.
pub fn open_to_look(path: &Path) -> Result<FileDevice, Error> {
    let what = format!("cache {}", path.display());
    FileOptions::new(path).read_only(true).open().map_err(|e| match e.kind {
        ErrorKind::InUse => Error::new(what, "a server uses it")
            .or("stop the server first; nitro status and nitro cache show, without a path, ask the server"),
        _ => device_error(&what, &e),
    })
}

/// Creates a cache without a server.
pub async fn create_alone(config: &CacheConfig, discard_dirty: bool) -> Result<CacheEntry, Error> {
    let name = config.path.shown();
    for path in config.path.paths().iter().filter(|path| !config.format && path.exists()) {
        if look_at(std::slice::from_ref(path)).await.is_ok() {
            return Err(Error::new(format_args!("cache {}", path.display()), "it is a cache already")
                .or("use it as it is; --format formats it again, unless it holds dirty data"));
        }
    }
    open(&name, config, None, discard_dirty).await
}

/// Refuses to format a cache that holds dirty data. A cache that cannot be opened has none that a server could use.
async fn check_clean(what: &str, config: &CacheConfig, store: Stores, discard_dirty: bool) -> Result<Stores, Error> {
    let plain = CacheConfig { ram: Some(Size(0)), ..CacheConfig::new(config.path.clone()) };
    let missing = missing_log(discard_dirty);
    // What cannot be put together has no dirty data that a server could use.
    let opened = match store.assemble(what, true).await {
        Ok((flash, _)) => reopen(what, &plain, flash, 0, Logged::without(missing), |_, _| Ok(())).await,
        Err(error) => Err(Refusal::Other(error)),
    };
    if let Err(Refusal::Log(_, error) | Refusal::Missing(error)) = opened {
        return Err(error);
    }
    if let Ok(Reopened { cache, recovered, .. }) = opened {
        check_nothing_dirty(what, &cache, &recovered, discard_dirty)?;
    }
    // The devices went with the cache that they were opened as.
    devices::open(config.path.paths(), config)
}

/// Refuses to format a cache with dirty data, unless they are to be discarded.
fn check_nothing_dirty(
    what: &str,
    cache: &Arc<ServedCache>,
    recovered: &Recovered,
    discard_dirty: bool,
) -> Result<(), Error> {
    let total = recovered.dirty_extents * u64::from(cache.settings().manager.extent_bytes);
    if total == 0 {
        return Ok(());
    }
    let volumes = cache.volumes();
    let dirty = volumes.iter().filter(|(object, entry)| dirty_bytes(cache, **object, entry) > 0);
    let names: Vec<_> = dirty.map(|(_, entry)| entry.name.clone()).collect();
    if discard_dirty {
        tracing::warn!("{what}: {} of dirty data of {} are discarded", Size(total), names.join(", "));
        return Ok(());
    }
    let why = format!("it holds {} of dirty data of {}", Size(total), names.join(", "));
    let way_out = "serve it without --format to bring the origins up to date, or give --force-discard-dirty as well";
    Err(Error::new(what, why).or(way_out))
}

/// What a start would find of a cache.
pub(super) struct Examined {
    /// The cache for judging its volumes: itself with all writes kept in RAM, or one without contents; `None`: a server uses it.
    pub(super) entry: Option<Arc<CacheEntry>>,
    /// What an operator should know of it.
    pub(super) notes: Vec<String>,
}

/// Checks what [`open`] checks, and opens an existing cache with its writes kept in RAM. Nothing is created or changed.
pub(super) async fn rehearse(name: &str, config: &CacheConfig, discard_dirty: bool) -> Result<Examined, Error> {
    let paths = config.path.paths();
    let what = format!("cache {}", config.path.shown());
    log::check(config)?;
    let classes = ServedClasses::open(config)?;
    let empty = |settings: EngineSettings| -> Result<Option<Arc<CacheEntry>>, Error> {
        let cache = pass_through(settings).map_err(|e| Error::new(&what, e))?;
        Ok(Some(Arc::new(CacheEntry::new(name, cache, Uuid([0; 16])))))
    };
    let mut notes = Vec::new();
    if paths.is_empty() {
        return Ok(Examined { entry: empty(without_cache(config))?, notes });
    }
    check_new_size(&what, config)?;
    let missing = match devices::look(paths, config)? {
        devices::Found::Created { size_bytes, absent } => {
            let mut settings = plan::settings(&what, config, size_bytes)?;
            check_to_serve(&what, &mut settings, &classes)?;
            notes.extend(classes.without_effect(&settings));
            let of = Size(size_bytes);
            notes.extend(
                absent.iter().map(|path| format!("{} does not exist, and is created with {of}", path.display())),
            );
            // Only its volumes are judged; it needs no space of its own.
            settings.manager.cache_bytes = u64::from(settings.manager.weu_bytes) * WEU_COUNT_MIN;
            settings.index_bytes = 0;
            settings.manager.classes = Default::default();
            return Ok(Examined { entry: empty(settings)?, notes });
        }
        devices::Found::There { missing } => missing,
    };
    notes.extend(missing.iter().map(|path| format!("{} is missing: the other devices are used", path.display())));
    let Some(stores) = devices::open_unused(paths)? else {
        notes.push("a server uses it: its contents are not examined".to_owned());
        return Ok(Examined { entry: None, notes });
    };
    let (flash, device_paths) = stores.assemble(&what, true).await?;
    let logged = Logged { log: log::look(config), missing: missing_log(discard_dirty) };
    let plain = CacheConfig { ram: Some(Size(0)), ..config.clone() };
    let prepare = |settings: &mut EngineSettings, _| check_to_serve(&what, settings, &classes);
    let opened = reopen(&what, &plain, flash, 0, logged, prepare).await;
    let Reopened { cache, recovered, uuid, other_size } = match opened {
        // It would be formatted, whatever it is.
        Err(Refusal::Other(_)) if config.format => {
            return Ok(Examined { entry: empty(without_cache(config))?, notes });
        }
        opened => opened_or_dirty(config, opened).await?,
    };
    if config.format {
        check_nothing_dirty(&what, &cache, &recovered, discard_dirty)?;
        notes.push("it is formatted: its contents are lost".to_owned());
        return Ok(Examined { entry: empty(without_cache(config))?, notes });
    }
    notes.extend(classes.without_effect(cache.settings()));
    notes.extend(other_size.map(|bytes| format!("it gets the size of {} once it is served", Size(bytes))));
    let path = paths.first().cloned();
    let entry = CacheEntry { path, device_paths, recovered: Some(recovered), ..CacheEntry::new(name, cache, uuid) };
    Ok(Examined { entry: Some(Arc::new(entry)), notes })
}

/// No cache: no RAM cache, no read-ahead, and the smallest extents, so that little more is read than requested.
fn no_cache(name: &str, config: &CacheConfig) -> Result<CacheEntry, Error> {
    nitro_console::output::note!("cache {name}: none; all requests go to the origin");
    let cache = pass_through(without_cache(config)).map_err(|e| Error::new(name, e))?;
    Ok(CacheEntry::new(name, cache, Uuid([0; 16])))
}

fn without_cache(config: &CacheConfig) -> EngineSettings {
    let size_bytes = WEU_BYTES.default * WEU_COUNT_MIN;
    let plain = CacheConfig { extent_size: Some(Size(EXTENT_BYTES.min)), ..CacheConfig::new(CacheStore::None) };
    let mut settings = plain.engine_settings(size_bytes);
    settings.manager.streams.threshold_bytes = config.sequential_threshold.map_or(0, |size| size.0);
    settings.ram_cache_bytes = config.ram.map_or(0, |size| size.0);
    settings
}

fn pass_through(settings: EngineSettings) -> Result<Arc<ServedCache>, nitro_engine::Error> {
    let nothing = CacheDevice::from(AnyDevice::from(RamDevice::new(0, 1)));
    ServedCache::pass_through(nothing, CompioClock::new(), settings)
}

/// Random values that must differ between caches.
struct Random {
    uuid: [u8; 16],
    log_uuid: [u8; 16],
    epoch: u64,
    seed: u64,
    index_seed: u64,
}

fn random() -> io::Result<Random> {
    let mut file = File::open("/dev/urandom")?;
    let (mut uuid, mut log_uuid, mut numbers) = ([0; 16], [0; 16], [[0; 8]; 3]);
    file.read_exact(&mut uuid)?;
    file.read_exact(&mut log_uuid)?;
    for bytes in &mut numbers {
        file.read_exact(bytes)?;
    }
    let [epoch, seed, index_seed] = numbers.map(u64::from_le_bytes);
    Ok(Random { uuid, log_uuid, epoch, seed, index_seed })
}
