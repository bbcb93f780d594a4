//! The status of a cache.

use nitro_cache::Stats;
use nitro_cache::weu::Space;
use nitro_console::size::Size;
use nitro_engine::metrics::{CacheCounters, ClassCounters};
use nitro_units::Counted;
use serde::{Deserialize, Serialize};

/// A cache. Ratios are 1 if nothing was inserted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Its name.
    pub name: String,
    /// The path, or that of the first of several devices; empty: there is no cache.
    pub path: String,
    /// Each of several devices; empty: there is one.
    pub devices: Vec<CacheDevice>,
    /// Its UUID.
    pub uuid: String,
    /// `caching`, `degraded` (one of several devices is lost), `pass-through` (its device failed and is not used any more), `failed` (the device failed with dirty
    /// data), or `none` (there is no cache).
    pub health: String,
    /// Why nothing can be made durable on the SSD any more.
    pub failed: Option<String>,
    /// The write log, if there is one.
    pub log: Option<Log>,
    /// The index of fingerprints on the SSD, if there is one.
    pub flash_index: Option<FlashIndex>,
    /// For a stopped cache: the UUID of the write log that may hold writes which are not in the cache.
    pub log_needed: Option<String>,
    /// Clean entries are still being restored after the start.
    pub loading: bool,
    /// What the start found; zeroes for a cache that was newly created.
    pub recovered: Recovered,
    /// The volumes that the cache knows.
    pub volumes: Vec<KnownVolume>,
    /// Dirty data: bytes that are not in the origins yet.
    pub dirty_bytes: u64,
    /// Write-intent regions that are open: after a power cut, their cached data are read from the origin again.
    pub regions_open: u64,
    /// SSD space for write-evict units.
    pub capacity_bytes: u64,
    /// Bytes of volumes that the cache holds.
    pub cached_bytes: u64,
    /// Cached data by class; empty: nothing was classified.
    pub classes: Vec<ClassOfContents>,
    /// The pinned ranges.
    pub pins: Vec<Pin>,
    /// Bytes of the pinned ranges.
    pub pins_bytes: u64,
    /// Bytes of pinned extents that are cached.
    pub pins_cached_bytes: u64,
    /// The use of the capacity.
    pub space: Space,
    /// Estimated hit ratios of caches of other sizes: 0.5, 1, 2 and 4 times this one's.
    pub what_if: Vec<WhatIf>,
    /// The same for 0.25 to 8 times this one's size, four sizes for each doubling.
    pub hit_curve: Vec<WhatIf>,
    /// Cached bytes divided by the SSD space that holds them.
    pub effective_capacity: f64,
    /// Inserted bytes divided by inserted bytes that were not duplicates.
    pub dedup_ratio: f64,
    /// Inserted bytes that were not duplicates, divided by the bytes stored for them.
    pub compression_ratio: f64,
    /// Wear of the SSD.
    pub endurance: Endurance,
    /// Whether the SSD is told of evicted units (TRIM): `evicted`, `off`, or `off: ` and the reason.
    pub discard: String,
    /// RAM of clean data that wait for insertion.
    pub insert_queue_bytes: u64,
    /// RAM of dirty data that wait for insertion.
    pub dirty_queue_bytes: u64,
    /// RAM of extents in the RAM cache.
    pub ram_cache_bytes: u64,
    /// The counters of the engine since the start; docs/METRICS.md has their meanings.
    #[serde(flatten)]
    pub counters: CacheCounters,
    /// The counters of the cache manager.
    #[serde(flatten)]
    pub manager: Stats,
}

/// One of the devices of a cache that has several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheDevice {
    /// Its number, from 0: write-evict unit *n* is on device *n* modulo the number of devices.
    pub number: u32,
    /// Its path; empty: not known.
    pub path: String,
    /// `caching`, or `lost` (it failed or was missing, and is not used until the cache is formatted).
    pub health: String,
    /// Why it is lost.
    pub reason: Option<String>,
    /// Its size in bytes; 0: it is not there.
    pub size_bytes: u64,
    /// The use of the space of its write-evict units.
    pub space: Space,
    /// Number of reads since the start.
    pub reads: u64,
    /// Bytes read since the start.
    pub read_bytes: u64,
    /// Number of writes since the start.
    pub writes: u64,
    /// Bytes written since the start, without superblocks.
    pub written_bytes: u64,
    /// Reads and writes that failed since the start.
    pub errors: u64,
}

impl CacheDevice {
    /// The device in a line: `0 /dev/nvme0n1, 894G: caching, 312G live, ...`.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { number, path, health, size_bytes, space, read_bytes, written_bytes, errors, .. } = self;
        let mut line = format!("{number} {path}, {}: {health}", Size(*size_bytes));
        if let Some(reason) = &self.reason {
            line += &format!(" ({reason})");
        } else {
            let (live, dirty) = (Size(space.live_bytes + space.pinned_bytes), Size(space.pinned_bytes));
            line += &format!(", {live} in use, {dirty} pinned by dirty data");
        }
        line += &format!("; {} read, {} written", Size(*read_bytes), Size(*written_bytes));
        if *errors > 0 {
            line += &format!(", {errors} errors");
        }
        line
    }
}

/// The estimated hit ratio that an LRU cache of another size would have for the recently read extents (SHARDS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhatIf {
    /// The size as a multiple of this cache's size.
    pub size: f64,
    /// Bytes on the SSD.
    pub capacity_bytes: u64,
    /// Hits divided by reads, in extents: from 0 to 1.
    pub hit_ratio: f64,
}

/// Wear of an SSD.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Endurance {
    /// Bytes written in a day, at the mean rate of the last day, or of the time since the start; absent in its first hour.
    pub written_bytes_per_day: Option<u64>,
    /// Bytes that may be written in a day, if an endurance is configured.
    pub budget_bytes_per_day: Option<u64>,
    /// Unused budget, which may be written in addition; negative: the budget is exceeded by so many bytes.
    pub saved_bytes: i64,
    /// Years until the rated endurance of the SSD is used up at this rate, if an endurance is configured.
    pub years: Option<f64>,
    /// How much the write budget restrains insertion: from 1 (nothing is refused) to nearly 0.
    pub openness: f64,
    /// Extents that were refused because of the write budget.
    pub spared: u64,
}

impl Cache {
    /// All its counters with their values.
    pub fn counted(&self) -> impl Iterator<Item = (&'static Counted, u64)> + use<> {
        self.counters.each().chain(self.manager.each())
    }
}

/// An index of fingerprints on the SSD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlashIndex {
    /// The index is open; after a start it has to be read first.
    pub open: bool,
    /// Fingerprints in the index, including those of evicted content.
    pub entries: u64,
    /// Bytes that it takes on the SSD.
    pub flash_bytes: u64,
    /// Bytes that it takes in RAM.
    pub ram_bytes: u64,
    /// Duplicates that only this index found.
    pub duplicates: u64,
    /// Look-ups that found the fingerprint.
    pub hits: u64,
    /// Look-ups that the index did not answer.
    pub misses: u64,
    /// Pages read for look-ups.
    pub reads: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Pages with a wrong checksum.
    pub corrupt_pages: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// A write log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    /// Its path.
    pub path: String,
    /// In use: writes in write-back are durable when they are acknowledged.
    pub active: bool,
    /// Why the log is not in use any more.
    pub failed: Option<String>,
    /// The size of its ring.
    pub ring_bytes: u64,
    /// Bytes of it that are still needed.
    pub used_bytes: u64,
    /// Batches written.
    pub batches: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Times that writers waited for room.
    pub stalls: u64,
}

/// A volume in the registry of its cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownVolume {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// `write-through` or `write-back`: the mode in which it was last served.
    pub mode: String,
    /// Dirty data: bytes that are not in the origin yet.
    pub dirty_bytes: u64,
    /// It is being served.
    pub served: bool,
}

/// What a start found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovered {
    /// Dirty data: bytes that are not in the origin yet.
    pub dirty_bytes: u64,
    /// Dirty data that cannot be read any more.
    pub lost_bytes: u64,
    /// Dirty data that were restored from the write log.
    pub replayed_bytes: u64,
    /// Write-intent regions that were open: their cached data are read from the origin again.
    pub open_regions: u64,
    /// Only the program had ended, not the machine: of those regions, only extents with writes in progress are read
    /// again.
    pub outlived: bool,
}

/// A pinned range of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Its name.
    pub volume: String,
    /// The first byte.
    pub offset: u64,
    /// The length, in whole extents.
    pub length: u64,
}

/// The cached data and the requests of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassOfContents {
    /// Its number; 0: not classified.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// Priority: `low` (evicted first), `normal`, `high`, `highest`.
    pub priority: String,
    /// When new content is cached: `always`, `while-clean`, `second-access`, `never`.
    pub allocation: String,
    /// Whether data of read misses are cached.
    pub read_allocate: bool,
    /// Whether written data are cached.
    pub write_allocate: bool,
    /// Percentage of the cache below which the class is evicted last.
    pub min_percent: u8,
    /// Percentage of the cache above which its own units are evicted first.
    pub max_percent: u8,
    /// Bytes of volumes that the cache holds.
    pub cached_bytes: u64,
    /// What was asked of it, of all served volumes.
    #[serde(flatten)]
    pub requests: ClassCounters,
}
