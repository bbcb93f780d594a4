//! What a server tells of a volume, and of one place of it.

use super::Latency;
use nitro_cache::Missed;
use nitro_cache::admission::WritePolicy;
use serde::{Deserialize, Serialize};

/// What the blocks of a volume say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detection {
    /// File systems that were found; 0: there are none of the kinds that are known, they are encrypted, or none was seen yet.
    pub file_systems: u64,
    /// Inodes that were read.
    pub inodes: u64,
    /// Stretches of the volume of which it is known what they are.
    pub ranges: u64,
    /// Stretches for which there was no RAM.
    pub forgotten: u64,
    /// RAM that it takes.
    pub ram_bytes: u64,
    /// The scan of the volume's metadata; `None`: nobody asked for one.
    pub scan: Option<Scan>,
}

/// A scan of a volume's metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scan {
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it has still to read, as far as is known.
    pub left_bytes: u64,
    /// Whether it has ended.
    pub done: bool,
}

/// What requests of one class asked of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassOfRequests {
    /// Its number; 0: those that were not classified.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// Reads.
    pub reads: u64,
    /// Bytes of reads.
    pub read_bytes: u64,
    /// Extents of reads.
    pub read_extents: u64,
    /// Of those, extents that were found in RAM or SSD.
    pub read_hit_extents: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of writes.
    pub write_bytes: u64,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The cache's name.
    pub cache: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// The origin's path.
    pub origin: String,
    /// `write-through` or `write-back`.
    pub mode: String,
    /// With which volumes it shares cached contents; `null`: with all that name none.
    pub dedup_domain: Option<String>,
    /// The class of requests that do not say theirs; 0: not classified.
    pub class: u8,
    /// Which written content is cached.
    pub write_policy: WritePolicy,
    /// What reads bring is not cached for the time being.
    #[serde(default)]
    pub fill_paused: bool,
    /// What was asked for, by class; empty: nothing was classified.
    pub classes: Vec<ClassOfRequests>,
    /// What its blocks say; `None`: nobody looks.
    pub detection: Option<Detection>,
    /// What the origin has not got.
    pub dirty_bytes: u64,
    /// Age of the oldest of it, 0 if there is none; `None`: not known.
    pub dirty_age_seconds: Option<f64>,
    /// Of it, what cannot be read in the cache any more; the first such ranges, as offset and length.
    pub lost_bytes: u64,
    /// The first of those ranges, as offset and length.
    pub lost_ranges: Vec<(u64, u64)>,
    /// Whether it goes through its cache.
    pub attached: bool,
    /// Why writes are refused, if they are.
    pub poisoned: Option<String>,
    /// For how long the origin has owed an answer.
    pub origin_owes_seconds: f64,
    /// Requests that the origin did not answer in time.
    pub origin_timeouts: u64,
    /// Clients connected now.
    pub clients: u64,
    /// Destage.
    pub destaged_bytes: u64,
    /// Writes of the origin for destage.
    pub destage_writes: u64,
    /// Why destage fails, if it does; for how long it has, and how often it has failed since the start.
    pub destage_error: Option<String>,
    /// For how long destage has failed.
    pub destage_failing_seconds: f64,
    /// How often it has failed since the start.
    pub destage_failures: u64,
    /// Percentages of the cache's room for dirty data: what is kept for the volume, if it was set, and what it may take.
    pub dirty_share_min: Option<u8>,
    /// See [`dirty_share_max`](Volume::dirty_share_max).
    pub dirty_share_max: u8,
    /// Requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests to trim.
    pub trims: u64,
    /// Requests to write zeroes.
    pub write_zeroes: u64,
    /// Requests to flush.
    pub flushes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Extents of reads by where they came from.
    pub read_hit_extents: u64,
    /// Extents read from the origin.
    pub read_miss_extents: u64,
    /// Of the misses: found in the cache by the fingerprint that the origin's recipe told.
    #[serde(default)]
    pub recipe_hit_extents: u64,
    /// Extents that reads looked for in vain, by why they were not cached.
    #[serde(default)]
    pub missed: Missed,
    /// Extents that another request was reading already.
    pub read_joined_extents: u64,
    /// Extents read ahead.
    pub readahead_extents: u64,
    /// Extents that were not cached, being part of a sequential stream.
    pub bypassed_extents: u64,
    /// Origin traffic.
    pub origin_reads: u64,
    /// Bytes read from it.
    pub origin_read_bytes: u64,
    /// Writes to it.
    pub origin_writes: u64,
    /// Bytes written to it.
    pub origin_written_bytes: u64,
    /// Reads answered at once from the RAM cache are not timed.
    pub read_hit_latency: Latency,
    /// Of reads that the origin answered, in part at least.
    pub read_miss_latency: Latency,
    /// Of writes.
    pub write_latency: Latency,
    /// Of flushes.
    pub flush_latency: Latency,
}

/// What the cache knows of one place of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The volume's name.
    pub volume: String,
    /// First byte of the extent.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether the cache can answer a read of it.
    pub cached: bool,
    /// The origin has not got its newest content.
    pub dirty: bool,
    /// The RAM cache has it.
    pub in_ram: bool,
    /// It is on its way into the cache.
    pub pending: bool,
    /// It stays in the cache once it is there.
    #[serde(default)]
    pub pinned: bool,
    /// Where on the SSD it is.
    pub stored: Option<Stored>,
    /// Why it is not on the SSD: `evicted`, `overwritten`, `refused`, `dropped` or `invalidated`; none: it never was, or that is
    /// forgotten.
    pub gone: Option<String>,
}

/// Where an extent is on the SSD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The number of its write-evict unit.
    pub weu: u32,
    /// Bytes read for it; 0: it is all zero.
    pub read_bytes: u64,
    /// Its unit is still in RAM: being filled, or on its way to the SSD.
    pub on_its_way: bool,
    /// Its unit was opened for what is expected to stay (`main`) or for the rest (`side`: on probation).
    pub lane: String,
    /// How often it was used again since its unit is full, up to 3.
    pub heat: u8,
    /// The class that it was brought for; 0: none.
    pub class: u8,
    /// The class's name.
    pub class_name: String,
}
