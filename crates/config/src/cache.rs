//! `[cache.NAME]`

use super::endurance::DriveEndurance;
use super::index_plan::IndexPlan;
use super::span::Span;
use nitro_cache::Settings;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::destage::DestageKind;
use nitro_cache::eviction::EvictionKind;
use nitro_console::size::Size;
use nitro_engine::{EngineSettings, WriteMode};
use nitro_index::Kind;
use nitro_port::codec::{Compression, FingerprintHash};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::PathBuf;

/// The default of `fingerprint_index_ratio` with an index on flash.
pub const FLASH_INDEX_RATIO: u8 = 10;

/// A cache: its location on the SSD and its settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// A file or block device, a list of them, or `none` to serve the origin without a cache.
    pub path: CacheStore,
    /// Size in bytes; default: that of the file or device.
    pub size: Option<Size>,
    /// A write log: a file or block device with fast flushes, which makes writes in write-back durable when they are
    /// acknowledged.
    pub write_log: Option<PathBuf>,
    /// Bytes of the write log's device to use; required to create a file; default: all.
    pub write_log_size: Option<Size>,
    /// How writes are acknowledged.
    #[serde(default)]
    pub mode: Mode,
    /// RAM for whole extents in front of the SSD.
    pub ram: Option<Size>,
    /// See [`nitro_cache::settings::EXTENT_BYTES`].
    pub extent_size: Option<Size>,
    /// See [`nitro_cache::settings::WEU_BYTES`].
    pub weu_size: Option<Size>,
    /// Find duplicates; default: on.
    pub dedup: Option<bool>,
    /// How extents are compressed.
    #[serde(default)]
    pub compression: CompressionName,
    /// The hash function of fingerprints; default: that of the existing cache, otherwise BLAKE3.
    pub fingerprint: Option<FingerprintName>,
    /// Treat an extent as a duplicate only after its bytes were compared with the cached ones.
    #[serde(default)]
    pub verify_duplicates: bool,
    /// See [`nitro_cache::settings::FINGERPRINT_INDEX_RATIO`].
    pub fingerprint_index_ratio: Option<u8>,
    /// The index for fingerprints that are not in RAM; default: that of the existing cache, otherwise none.
    pub fingerprint_index: Option<FingerprintIndexName>,
    /// RAM of the index on flash; default: four bytes for each entry.
    pub fingerprint_index_ram: Option<Size>,
    /// RAM in which clean content waits before it goes to the SSD; default: 6 % of the cache, at most 64 MiB; 0:
    /// content does not wait.
    pub staging: Option<Size>,
    /// The limit of bytes written to the SSD, in the vendor's units; default: no limit.
    pub endurance: Option<DriveEndurance>,
    /// The size of the SSD of which the cache is a part; default: the size of the cache.
    pub drive_size: Option<Size>,
    /// Which new content is admitted: `probation`, `all`, `second-miss`, `by-source`, `two-level`,
    /// `two-level-static`.
    pub admission: Option<AdmissionKind>,
    /// Which dirty extents are destaged next: `elevator`, `oldest`.
    pub destage: Option<DestageKind>,
    /// Which write-evict unit is evicted next: `heat`, `lru`, `fifo`.
    pub eviction: Option<EvictionKind>,
    /// The table of classes: a preset, or a file; default: all classes are treated alike.
    pub classes: Option<PathBuf>,
    /// Classify the volumes' blocks by parsing file systems: metadata, and files by size.
    #[serde(default = "on")]
    pub detect: bool,
    /// Classify content that has no other class by the pattern of the requests: scan, read-once, random.
    #[serde(default)]
    pub patterns: bool,
    /// Consecutive bytes after which a stream of reads is sequential and its data are kept off the SSD; 0: never.
    pub sequential_threshold: Option<Size>,
    /// Percentage of the cache that may be dirty before destage starts independent of the age of the data.
    pub dirty_start: Option<u8>,
    /// Percentage of the cache at which writers wait for destage.
    pub dirty_max: Option<u8>,
    /// Age at which dirty data are destaged.
    pub dirty_age: Option<Span>,
    /// How long a write waits for room in the cache after destage of its volume began to fail.
    pub dirty_wait: Option<Span>,
    /// How long a request waits for an origin that does not answer, before it fails; default: without limit.
    pub origin_timeout: Option<Span>,
    /// Format the device even if it holds a cache or other data; these are lost.
    #[serde(default)]
    pub format: bool,
}

const fn on() -> bool {
    true
}

/// The location of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheStore {
    /// No cache: the origin is served directly, for comparison.
    None,
    /// In a file or on a block device; with several, write-evict units are spread over them in turn.
    Paths(Vec<PathBuf>),
}

impl CacheStore {
    /// The files or block devices; empty: there is no cache.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::None => &[],
            Self::Paths(paths) => paths,
        }
    }

    /// The paths for people: separated by commas.
    #[must_use]
    pub fn shown(&self) -> String {
        let each: Vec<_> = self.paths().iter().map(|path| path.display().to_string()).collect();
        each.join(", ")
    }
}

impl From<Vec<PathBuf>> for CacheStore {
    fn from(paths: Vec<PathBuf>) -> Self {
        match paths.as_slice() {
            [only] => Self::from(only.clone()),
            _ => Self::Paths(paths),
        }
    }
}

impl From<PathBuf> for CacheStore {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "none" { Self::None } else { Self::Paths(vec![path]) }
    }
}

impl<'de> Deserialize<'de> for CacheStore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrSeveral)
    }
}

/// A path, or a list of paths.
struct OneOrSeveral;

impl<'de> Visitor<'de> for OneOrSeveral {
    type Value = CacheStore;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path, or a list of paths")
    }

    fn visit_str<E>(self, path: &str) -> Result<CacheStore, E> {
        Ok(PathBuf::from(path).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CacheStore, A::Error> {
        let mut paths: Vec<PathBuf> = Vec::new();
        while let Some(path) = list.next_element()? {
            paths.push(path);
        }
        Ok(paths.into())
    }
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// When it is in the origin.
    #[default]
    WriteThrough,
    /// When it is in the cache.
    WriteBack,
}

impl From<Mode> for WriteMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::WriteThrough => Self::WriteThrough,
            Mode::WriteBack => Self::WriteBack,
        }
    }
}

impl From<WriteMode> for Mode {
    fn from(mode: WriteMode) -> Self {
        match mode {
            WriteMode::WriteThrough => Self::WriteThrough,
            WriteMode::WriteBack => Self::WriteBack,
        }
    }
}

/// How extents are compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CompressionName {
    /// Fast.
    #[default]
    Lz4,
    /// Denser, and slower to read.
    Zstd,
    /// Not at all.
    None,
}

/// Why caches with SHA-1 fingerprints are not served.
pub const SHA1_REFUSED: &str =
    "SHA-1 collisions can be computed: a client could replace a block of another volume by one of its choice";

/// The hash function of fingerprints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FingerprintName {
    /// BLAKE3, cut to 160 bits.
    #[default]
    Blake3,
    /// SHA-1, which is recognised only to be refused.
    Sha1,
}

/// The index for fingerprints that are not in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FingerprintIndexName {
    /// None: fingerprints that are not in RAM are unknown.
    Ram,
    /// BufferHash on a part of the SSD, with four bytes of RAM for each entry.
    Bufferhash,
    /// SILT on a part of the SSD, with less than a byte of RAM for each entry, but more writes.
    Silt,
}

impl FingerprintIndexName {
    /// Whether the index takes a part of the SSD.
    #[must_use]
    pub fn is_on_flash(self) -> bool {
        self != Self::Ram
    }

    /// The kind of the index, if it takes a part of the SSD.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Ram => None,
            Self::Bufferhash => Some(Kind::BufferHash),
            Self::Silt => Some(Kind::Silt),
        }
    }
}

impl From<FingerprintName> for FingerprintHash {
    fn from(name: FingerprintName) -> Self {
        match name {
            FingerprintName::Blake3 => Self::Blake3,
            FingerprintName::Sha1 => Self::Sha1,
        }
    }
}

impl CacheConfig {
    /// A cache at `path` with default settings.
    #[must_use]
    pub fn new(path: CacheStore) -> Self {
        Self {
            path,
            size: None,
            write_log: None,
            write_log_size: None,
            mode: Mode::default(),
            ram: None,
            extent_size: None,
            weu_size: None,
            dedup: None,
            compression: CompressionName::default(),
            fingerprint: None,
            verify_duplicates: false,
            fingerprint_index_ratio: None,
            fingerprint_index: None,
            fingerprint_index_ram: None,
            staging: None,
            endurance: None,
            drive_size: None,
            admission: None,
            destage: None,
            eviction: None,
            classes: None,
            detect: true,
            patterns: false,
            sequential_threshold: None,
            dirty_start: None,
            dirty_max: None,
            dirty_age: None,
            dirty_wait: None,
            origin_timeout: None,
            format: false,
        }
    }

    /// The engine's settings for a cache with `cache_bytes` for its write-evict units. Values out of range are kept;
    /// the check reports them.
    #[must_use]
    pub fn engine_settings(&self, cache_bytes: u64) -> EngineSettings {
        let bytes = |size: Size| u32::try_from(size.0).unwrap_or(u32::MAX);
        let mut manager = Settings::new(cache_bytes);
        manager.extent_bytes = self.extent_size.map_or(manager.extent_bytes, bytes);
        let usual = Settings::usual_weu_bytes(cache_bytes, manager.extent_bytes);
        manager.weu_bytes = self.weu_size.map_or(usual, bytes);
        manager.dedup = self.dedup.unwrap_or(manager.dedup);
        let on_flash = self.fingerprint_index.is_some_and(FingerprintIndexName::is_on_flash);
        let percent = if on_flash { FLASH_INDEX_RATIO } else { manager.fingerprint_index_percent };
        manager.fingerprint_index_percent = self.fingerprint_index_ratio.unwrap_or(percent);
        manager.admission = self.admission.unwrap_or_default();
        manager.destage = self.destage.unwrap_or_default();
        manager.eviction = self.eviction.unwrap_or_default();
        manager.patterns = self.patterns;
        if let Some(threshold) = self.sequential_threshold {
            manager.streams.threshold_bytes = threshold.0;
        }
        let mut settings = EngineSettings::new(manager);
        settings.ram_cache_bytes = self.ram.map_or(settings.ram_cache_bytes, |size| size.0);
        let usual = Settings::usual_staging_bytes(cache_bytes);
        settings.staging_bytes = self.staging.map_or(usual, |size| size.0);
        let drive_bytes = self.drive_size.map_or(cache_bytes, |size| size.0);
        settings.endurance = self.endurance.map(|endurance| endurance.of(drive_bytes));
        settings.compression = match self.compression {
            CompressionName::Lz4 => Compression::Lz4,
            CompressionName::Zstd => Compression::Zstd,
            CompressionName::None => Compression::None,
        };
        settings.fingerprint_hash = self.fingerprint.unwrap_or_default().into();
        settings.verify_duplicates = self.verify_duplicates;
        settings.dirty_start_percent = self.dirty_start.unwrap_or(settings.dirty_start_percent);
        settings.dirty_max_percent = self.dirty_max.unwrap_or(settings.dirty_max_percent);
        settings.dirty_wait = self.dirty_wait.map_or(settings.dirty_wait, |span| span.0);
        settings.origin_timeout = self.origin_timeout.map(|span| span.0).filter(|timeout| !timeout.is_zero());
        settings.dirty_age = self.dirty_age.map_or(settings.dirty_age, |span| span.0);
        // Where the RAM does not suffice, the check finds it.
        settings.index_bytes = IndexPlan::of(self, &settings).ok().flatten().map_or(0, |plan| plan.flash_bytes());
        settings
    }
}
