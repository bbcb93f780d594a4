//! `[cache.NAME]`

use super::endurance::DriveEndurance;
use super::index_plan::IndexPlan;
use super::settings::{FIRST, on_off, settings};
use super::span::Span;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::destage::DestageKind;
use nitro_cache::eviction::EvictionKind;
use nitro_cache::partial::PartialWrites;
use nitro_cache::{IndexKind, Settings};
use nitro_console::size::Size;
use nitro_engine::{Discard, EngineSettings, WriteMode};
use nitro_index::Kind;
use nitro_port::codec::{Compression, FingerprintHash};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The default of `fingerprint_index_ratio` with an index on flash.
pub const FLASH_INDEX_RATIO: u8 = 10;

settings! {
    /// A cache: its location on the SSD and its settings.
    Cache: CacheConfig {
        /// The cache: a file (created if missing) or block device; given several times, a cache on all of them; or "none"
        #[arg(skip)]
        path: CacheStore = Paths, Restart;
        /// Size of the cache; required to create a file, otherwise the size of the file or device
        #[arg(help_heading = FIRST, long = "cache-size", value_name = "SIZE", requires = "path")]
        size: Option<Size> = Size, Live;
        /// Write log: a fast file (created if it does not exist) or block device; with it, writes in write-back are durable
        /// when they are acknowledged
        #[arg(long, value_name = "PATH", requires = "path")]
        write_log: Option<PathBuf> = Path, Restart;
        /// How much of the write log's file or device to use; required to create a file [default: all]
        #[arg(long, value_name = "SIZE", requires = "write_log")]
        write_log_size: Option<Size> = Size, Made;
        /// When a write is acknowledged: when it is in the origin (write-through) or in the cache (write-back); for
        /// volumes that set no mode [default: write-through]
        #[arg(help_heading = FIRST, long, value_enum, requires = "path", hide_possible_values = true, value_name = "write-through|write-back")]
        mode: Option<Mode> = Text, Live;
        /// Size of the RAM cache in front of the SSD, which holds whole extents [default: 64M]
        #[arg(help_heading = FIRST, long, value_name = "SIZE", requires = "path")]
        ram: Option<Size> = Size, Restart;
        /// Unit of caching, 4K to 128K; smaller extents find more duplicates and take more RAM [default: 8K]
        #[arg(long, value_name = "SIZE", requires = "path")]
        extent_size: Option<Size> = Size, Made, "4K".."128K";
        /// Unit of writing to the SSD and of eviction, 512K to 8M [default: 2M, less for a cache below 96M]
        #[arg(long, value_name = "SIZE", requires = "path")]
        weu_size: Option<Size> = Size, Made, "512K".."8M";
        /// Store equal extents once [default: on]
        #[arg(long, value_parser = on_off(), requires = "path", hide_possible_values = true, value_name = "on|off")]
        dedup: Option<bool> = Switch, Made;
        /// Compression of extents [default: lz4]
        #[arg(long, value_enum, requires = "path")]
        compression: Option<CompressionName> = Text, Live;
        /// Percentage of the cached extents whose fingerprints are kept in RAM [default: 100; 10 with an index on the SSD]
        #[arg(long, value_name = "PCT", requires = "path")]
        fingerprint_index_ratio: Option<u8> = Percent, Restart, "0".."100";
        /// What the indexes keep in RAM: exact (keys and fingerprints whole), or lean (less than half as much: packed keys, and
        /// tags of fingerprints, which are compared with those on the SSD) [default: exact]
        #[arg(long, value_name = "exact|lean", requires = "path", hide_possible_values = true)]
        index: Option<IndexKind> = Text, Restart;
        /// Where fingerprints are indexed: in RAM only (ram), or also in an index on a part of the SSD (bufferhash, silt)
        /// [default: as when the existing cache was created, otherwise ram]
        #[arg(long, value_enum, value_name = "INDEX", requires = "path")]
        fingerprint_index: Option<FingerprintIndexName> = Text, Made;
        /// RAM of the fingerprint index on the SSD [default: 4M, and for each entry 4 bytes with bufferhash, at most 1 byte
        /// with silt]
        #[arg(long, value_name = "SIZE", requires = "path")]
        fingerprint_index_ram: Option<Size> = Size, Restart;
        /// Hash function of the fingerprints; sha1 is not safe, and is refused [default: blake3]
        #[arg(long, value_enum, requires = "path")]
        fingerprint: Option<FingerprintName> = Text, Made;
        /// Treat an extent as a duplicate only after comparing its bytes with the cached ones
        #[arg(long, requires = "path")]
        #[serde(default)]
        verify_duplicates: bool = Switch, Restart;
        /// RAM in which clean data wait before they are written to the SSD, so that data that are soon overwritten are
        /// never written there; 0: none [default: 6 % of the cache, at most 64M]
        #[arg(long, value_name = "SIZE", requires = "path")]
        staging: Option<Size> = Size, Restart;
        /// Write-through: how to treat a write of a part of an extent that is not cached: worth (the extent is read from the
        /// origin after the answer if it is worth it; otherwise its parts wait in RAM until they make up the whole), merge (it
        /// stays uncached), fetch (it is always read) [default: worth]
        #[arg(long, value_name = "HOW", requires = "path")]
        partial_writes: Option<PartialWrites> = Text, Restart;
        /// Limit of the bytes written to the SSD, as in its data sheet: 0.5dwpd (drive writes per day) or 600TBW (terabytes
        /// written in five years). Close to the limit, less new content is admitted and copied forward [default: no limit]
        #[arg(long, value_name = "RATING", requires = "path")]
        endurance: Option<DriveEndurance> = Text, Live;
        /// Size of the SSD to which --endurance applies [default: that of the cache]
        #[arg(long, value_name = "SIZE", requires = "endurance")]
        drive_size: Option<Size> = Size, Live;
        /// Tell the SSD of evicted write-evict units (TRIM): evicted, or off [default: for block devices, evicted, until a discard
        /// turns out to take longer than writing a unit; for files, off]
        #[arg(long, value_enum, value_name = "evicted|off", requires = "path", hide_possible_values = true)]
        discard: Option<DiscardName> = Text, Restart;
        /// Which new content is admitted: probation (all, in separate write-evict units until it is used again), all,
        /// second-miss (extents at their second miss), by-source (all, with written content in separate write-evict units),
        /// two-level (metadata of file systems, and data that is accessed more often than the extents that would be evicted
        /// for it), two-level-static (the same with a counter of accesses for each extent of the origin, a byte each)
        /// [default: probation]
        #[arg(long, value_name = "POLICY", requires = "path")]
        admission: Option<AdmissionKind> = Text, Restart;
        /// Which write-evict unit is evicted next: heat (extents that were used again are copied forward), lru, fifo
        /// [default: heat]
        #[arg(long, value_name = "POLICY", requires = "path")]
        eviction: Option<EvictionKind> = Text, Restart;
        /// How the cache treats each class of I/O: one of the presets file-server, database, hypervisor and dss, or a file in
        /// TOML or Open-CAS's CSV; the help of nitro class load has an example [default: all classes alike]
        #[arg(long, value_name = "FILE|PRESET")]
        classes: Option<PathBuf> = Path, Live;
        /// Classify the volume's blocks by parsing ext2 to ext4, XFS, btrfs and NTFS: metadata, directories, journal, and
        /// files by size [default: on]
        #[arg(long, value_parser = on_off(), value_name = "on|off", requires = "path")]
        detect: Option<bool> = Switch, Restart;
        /// Classify what has no other class by the pattern of the requests: scan (sequential runs), read-once, random (used
        /// outside of runs: written, or read again) [default: off]
        #[arg(long, value_parser = on_off(), value_name = "on|off", requires = "path")]
        patterns: Option<bool> = Switch, Restart;
        /// Write-back: which dirty data is destaged next: elevator (by offset) or oldest (by age) [default: elevator]
        #[arg(long, value_name = "POLICY", requires = "path")]
        destage: Option<DestageKind> = Text, Restart;
        /// Number of consecutive bytes after which a stream of reads is sequential and bypasses the SSD; 0: never [default:
        /// 1M]
        #[arg(long, value_name = "SIZE", requires = "path")]
        sequential_threshold: Option<Size> = Size, Restart;
        /// Write-back: percentage of the cache that may be dirty before destage starts regardless of the age of the data
        /// [default: 20]
        #[arg(long, value_name = "PCT", requires = "path")]
        dirty_start: Option<u8> = Percent, Live, "0".."90";
        /// Write-back: percentage of the cache that may be dirty before writes wait for destage; the closer it is, the more they are
        /// slowed [default: 60]
        #[arg(long, value_name = "PCT", requires = "path")]
        dirty_max: Option<u8> = Percent, Live, "1".."90";
        /// Write-back: age at which dirty data are destaged [default: 30s]
        #[arg(long, value_name = "TIME", requires = "path")]
        dirty_age: Option<Span> = Time, Live, "0".."168h";
        /// Write-back: when destage of a volume fails, how long writes wait for room in the cache, from the first failure
        /// on, before they fail with the origin's error [default: 10s]
        #[arg(long, value_name = "TIME", requires = "path")]
        dirty_wait: Option<Span> = Time, Live, "0".."168h";
        /// How long a request waits for an origin that does not answer, before the request fails; 0: without limit
        /// [default: 0]
        #[arg(long, value_name = "TIME", requires = "path")]
        origin_timeout: Option<Span> = Time, Live, "0".."168h";
        /// Format the cache even if its file or device holds a cache or other data; these are lost
        #[arg(long, requires = "path")]
        #[serde(default)]
        format: bool = Switch, Restart;
    }
}

/// The location of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheStore {
    /// No cache: the origin is served directly, for comparison.
    None,
    /// In a file or on a block device; with several, write-evict units are spread over them in turn.
    Paths(Vec<PathBuf>),
}

impl Default for CacheStore {
    /// No device, which is refused.
    fn default() -> Self {
        Self::Paths(Vec::new())
    }
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
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

/// Whether the SSD is told of evicted write-evict units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DiscardName {
    /// Of each.
    Evicted,
    /// Never.
    Off,
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
        Self { path, ..Self::default() }
    }

    /// Whether its volumes' blocks are classified by parsing file systems.
    #[must_use]
    pub fn detects(&self) -> bool {
        self.path != CacheStore::None && self.detect.unwrap_or(true)
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
        manager.index = self.index.unwrap_or_default();
        manager.eviction = self.eviction.unwrap_or_default();
        manager.patterns = self.patterns.unwrap_or(false);
        if let Some(threshold) = self.sequential_threshold {
            manager.streams.threshold_bytes = threshold.0;
        }
        let mut settings = EngineSettings::new(manager);
        settings.ram_cache_bytes = self.ram.map_or(settings.ram_cache_bytes, |size| size.0);
        let usual = Settings::usual_staging_bytes(cache_bytes);
        settings.staging_bytes = self.staging.map_or(usual, |size| size.0);
        settings.partial_writes = self.partial_writes.unwrap_or_default();
        let drive_bytes = self.drive_size.map_or(cache_bytes, |size| size.0);
        settings.endurance = self.endurance.map(|endurance| endurance.of(drive_bytes));
        settings.compression = match self.compression.unwrap_or_default() {
            CompressionName::Lz4 => Compression::Lz4,
            CompressionName::Zstd => Compression::Zstd,
            CompressionName::None => Compression::None,
        };
        settings.discard = match self.discard {
            None => Discard::default(),
            Some(DiscardName::Evicted) => Discard::Evicted,
            Some(DiscardName::Off) => Discard::Off,
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
