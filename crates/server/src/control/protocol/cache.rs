//! What a server tells of a cache.

use nitro_cache::weu::Space;
use serde::{Deserialize, Serialize};

/// A cache. Ratios are 1 where nothing was inserted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Its name.
    pub name: String,
    /// Where it is; empty: there is no cache.
    pub path: String,
    /// Its UUID.
    pub uuid: String,
    /// `caching`, `pass-through` (its device was given up), `failed` (and some dirty data with it), or `none` (there is no
    /// cache).
    pub health: String,
    /// Why nothing can be made durable on the SSD any more.
    pub failed: Option<String>,
    /// The write log, if there is one.
    pub log: Option<Log>,
    /// The index of fingerprints on the SSD, if there is one.
    pub flash_index: Option<FlashIndex>,
    /// Of a stopped cache: the UUID of the write log that may hold writes which are nowhere else.
    pub log_needed: Option<String>,
    /// Clean entries are still coming back after the start.
    pub loading: bool,
    /// What the start found; zeroes for a cache that was made anew.
    pub recovered: Recovered,
    /// The volumes that it knows.
    pub volumes: Vec<KnownVolume>,
    /// What the origins have not got.
    pub dirty_bytes: u64,
    /// Write-evict units that may not be evicted, because of dirty data.
    pub weus_pinned: u64,
    /// Commits: times that the journal was written.
    pub commits: u64,
    /// Snapshots with which the journal began anew.
    pub journal_snapshots: u64,
    /// Regions opened for writing.
    pub regions_opened: u64,
    /// Regions that are open: what is cached of them is read anew after a power cut.
    pub regions_open: u64,
    /// Times that a write waited for room for dirty data.
    pub dirty_stalls: u64,
    /// SSD space for write-evict units.
    pub capacity_bytes: u64,
    /// Bytes of volumes that can be had from the cache.
    pub cached_bytes: u64,
    /// The classes that it was brought for; empty: nothing was classified.
    pub classes: Vec<ClassOfContents>,
    /// What stays in it from when it is there.
    pub pins: Vec<Pin>,
    /// Bytes of these, and of them, those that are there.
    pub pins_bytes: u64,
    /// Bytes of pinned extents that are cached.
    pub pins_cached_bytes: u64,
    /// Where the capacity is.
    pub space: Space,
    /// What caches of other sizes would hit.
    pub what_if: Vec<WhatIf>,
    /// Cached bytes over the SSD space that holds them.
    pub effective_capacity: f64,
    /// Extent look-ups answered, and not, by the index.
    pub hits: u64,
    /// Look-ups that the index did not answer.
    pub misses: u64,
    /// Inserted bytes over those that were not duplicates; those over what was stored of them.
    pub dedup_ratio: f64,
    /// Bytes inserted that were not duplicates, over what was stored of them.
    pub compression_ratio: f64,
    /// Extents inserted.
    pub insertions: u64,
    /// New contents that the policy of admission refused.
    pub rejections: u64,
    /// Bytes of the extents inserted.
    pub inserted_bytes: u64,
    /// Write-evict units.
    pub weus: u64,
    /// Of them, free ones.
    pub weus_free: u64,
    /// Write-evict units evicted.
    pub weus_evicted: u64,
    /// Extents copied forward before their units were evicted.
    pub forwarded: u64,
    /// Hits by where they came from, in extents.
    pub ram_hits: u64,
    /// Extents found on their way to the SSD.
    pub pending_hits: u64,
    /// Extents found read ahead.
    pub readahead_hits: u64,
    /// SSD traffic; writes by cause.
    pub ssd_reads: u64,
    /// Bytes read from the SSD.
    pub ssd_read_bytes: u64,
    /// Written: contents.
    pub ssd_written_payload_bytes: u64,
    /// Written: headers of units and of contents.
    pub ssd_written_header_bytes: u64,
    /// Written: what fills blocks up.
    pub ssd_written_padding_bytes: u64,
    /// Written: superblocks.
    pub ssd_written_superblock_bytes: u64,
    /// Written: the journal.
    pub ssd_written_journal_bytes: u64,
    /// How the SSD's life goes.
    pub endurance: Endurance,
    /// Fills that did not reach the SSD: the queue was full; their extent was written to.
    pub fills_dropped: u64,
    /// Fills whose extent was written to meanwhile.
    pub fills_voided: u64,
    /// With `verify_duplicates`: extents that were compared with what was cached of their fingerprint; those that were other.
    pub duplicates_compared: u64,
    /// Extents whose fingerprint was that of other bytes.
    pub duplicate_mismatches: u64,
    /// Faults, each of which the origin made up for.
    pub corrupt_extents: u64,
    /// Reads of the SSD that failed.
    pub ssd_read_errors: u64,
    /// Writes of the SSD that failed.
    pub ssd_write_errors: u64,
    /// RAM.
    pub insert_queue_bytes: u64,
    /// Dirty data on its way into the cache.
    pub dirty_queue_bytes: u64,
    /// Extents in the RAM cache.
    pub ram_cache_bytes: u64,
    /// The cache manager's tables.
    pub index_ram_bytes: u64,
}

/// What a cache of another size would hit of the extents that this one was asked for of late, with LRU (SHARDS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhatIf {
    /// The size, in sizes of this cache: 0.5, 1, 2 and 4.
    pub size: f64,
    /// Bytes on the SSD.
    pub capacity_bytes: u64,
    /// Extents hit over those read, from 0 to 1.
    pub hit_ratio: f64,
}

/// How an SSD's life goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Endurance {
    /// Bytes written in a day, at the mean rate of the last day, or of the time since the start.
    pub written_bytes_per_day: u64,
    /// Bytes that may be written in a day, where that was configured.
    pub budget_bytes_per_day: Option<u64>,
    /// Bytes that may be written beyond that; negative: so many were written too much.
    pub saved_bytes: i64,
    /// Years in which all that the SSD is rated for is written at this rate, where that was configured.
    pub years: Option<f64>,
    /// From 1, nothing is refused to spare writes, down to nearly 0.
    pub openness: f64,
    /// Extents that were refused to spare writes.
    pub spared: u64,
}

impl Cache {
    /// All that was written to the SSD.
    pub fn ssd_written_bytes(&self) -> u64 {
        self.ssd_written_payload_bytes
            + self.ssd_written_header_bytes
            + self.ssd_written_padding_bytes
            + self.ssd_written_superblock_bytes
            + self.ssd_written_journal_bytes
    }
}

/// An index of fingerprints on the SSD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlashIndex {
    /// It answers; after a start it is read first.
    pub open: bool,
    /// Fingerprints in it, those of what has been evicted since included.
    pub entries: u64,
    /// Bytes that it takes on the SSD.
    pub flash_bytes: u64,
    /// Bytes that it takes in RAM.
    pub ram_bytes: u64,
    /// Duplicates that only it knew.
    pub duplicates: u64,
    /// Fingerprints that it was asked for and knew, or did not, and pages read for that.
    pub hits: u64,
    /// Look-ups that the index did not answer.
    pub misses: u64,
    /// Requests to read.
    pub reads: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Pages that failed their checksum, and requests that failed.
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
    /// Why it is not any more.
    pub failed: Option<String>,
    /// Its size, and what of it is still needed.
    pub ring_bytes: u64,
    /// Bytes of it that are still needed.
    pub used_bytes: u64,
    /// Batches of writes, their bytes, and times that writers waited for room.
    pub batches: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Times that writers waited for room.
    pub stalls: u64,
}

/// A volume, as its cache knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownVolume {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// `write-through` or `write-back`, as it was last served.
    pub mode: String,
    /// What the origin has not got.
    pub dirty_bytes: u64,
    /// It is being served.
    pub served: bool,
}

/// What a start found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovered {
    /// What the origin has not got.
    pub dirty_bytes: u64,
    /// Dirty data that cannot be read any more.
    pub lost_bytes: u64,
    /// What the write log brought back, dirty too.
    pub replayed_bytes: u64,
    /// Regions that were being written to: what was cached of them is read anew.
    pub open_regions: u64,
    /// The program alone had ended: of those regions, only what was under way is read anew.
    pub outlived: bool,
}

/// Bytes of a volume that stay in its cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Its name.
    pub volume: String,
    /// The first byte.
    pub offset: u64,
    /// How many: whole extents.
    pub length: u64,
}

/// What a cache holds for one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassOfContents {
    /// Its number; 0: what was not classified.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// What is evicted first: `low`, `normal`, `high`, `highest`.
    pub priority: String,
    /// When new content is taken: `always`, `while-clean`, `second-access`, `never`.
    pub allocation: String,
    /// Whether what was read and missing is taken.
    pub read_allocate: bool,
    /// Whether what was written is taken.
    pub write_allocate: bool,
    /// Percent of the cache that it loses last.
    pub min_percent: u8,
    /// Percent of the cache above which its own units go first.
    pub max_percent: u8,
    /// Bytes of volumes that can be had from the cache.
    pub cached_bytes: u64,
    /// Extents that were read by clients of volumes that are served, and found.
    pub read_hit_extents: u64,
    /// Extents that were read and not found.
    pub read_miss_extents: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub write_bytes: u64,
}
