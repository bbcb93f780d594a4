//! The status of a volume, and of one offset of it.

use super::{Latency, WaitCounters};
use crate::origins::OriginCounters;
use nitro_cache::Missed;
use nitro_cache::admission::WritePolicy;
use nitro_engine::metrics::{ClassCounters, VolumeCounters};
use nitro_units::Counted;
use serde::{Deserialize, Serialize};

/// The state of detection for a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detection {
    /// File systems that were found; 0: there are none of a known kind, they are encrypted, or none was seen yet.
    pub file_systems: u64,
    /// Inodes that were read.
    pub inodes: u64,
    /// Ranges of the volume whose use is known.
    pub ranges: u64,
    /// Ranges that were dropped because there was no RAM for them.
    pub forgotten: u64,
    /// RAM that it takes.
    pub ram_bytes: u64,
    /// The scan of the volume's metadata; `None`: no scan is configured.
    pub scan: Option<Scan>,
}

/// A scan of a volume's metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scan {
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that are still to be read, as far as known.
    pub left_bytes: u64,
    /// Whether it has ended.
    pub done: bool,
}

/// The requests of one class to a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassOfRequests {
    /// Its number; 0: not classified.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// What was asked of it.
    #[serde(flatten)]
    pub counters: ClassCounters,
}

/// The consistent points of a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// The last point that the origin has, or that its redo file has whole; 0: there was none.
    pub number: u64,
    /// When it was frozen, in seconds since 1970; 0: there was none.
    pub unix_seconds: f64,
    /// For how long there have been writes that are in no point: what is given up if the host is lost now.
    pub age_seconds: f64,
    /// The age from which on writes are slowed.
    pub max_age_seconds: f64,
    /// Bytes of dirty data from which on writes are slowed.
    pub max_bytes: u64,
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
    /// Size of its logical blocks in bytes: the least that a client can write.
    pub block_bytes: u32,
    /// Writes are refused.
    pub read_only: bool,
    /// The origin's path.
    pub origin: String,
    /// `write-through` or `write-back`.
    pub mode: String,
    /// The domain within which it shares cached contents; `null`: it shares them with all volumes without a domain.
    pub dedup_domain: Option<String>,
    /// The class of requests without a class; 0: not classified.
    pub class: u8,
    /// Which written content is cached.
    pub write_policy: WritePolicy,
    /// Caching of read misses is paused.
    #[serde(default)]
    pub fill_paused: bool,
    /// Requests by class; empty: nothing was classified.
    pub classes: Vec<ClassOfRequests>,
    /// The state of detection; `None`: it is switched off.
    pub detection: Option<Detection>,
    /// Dirty data: bytes that are not in the origin yet.
    pub dirty_bytes: u64,
    /// Age of the oldest dirty data, 0 if there are none; `None`: not known.
    pub dirty_age_seconds: Option<f64>,
    /// Its consistent points; `None`: it reaches none.
    pub point: Option<Point>,
    /// Dirty data that cannot be read from the cache any more.
    pub lost_bytes: u64,
    /// The first of those ranges, as offset and length.
    pub lost_ranges: Vec<(u64, u64)>,
    /// Whether it uses its cache.
    pub attached: bool,
    /// Why writes are refused, if they are.
    pub poisoned: Option<String>,
    /// Time for which the origin has not answered.
    pub origin_owes_seconds: f64,
    /// Clients connected now; a block device is one.
    pub clients: u64,
    /// Its block device on the server's machine, if it has one.
    #[serde(default)]
    pub block_device: Option<String>,
    /// Bytes destaged.
    pub destaged_bytes: u64,
    /// Why destage fails, if it does.
    pub destage_error: Option<String>,
    /// The cache's SSD or write log is the cause, and not the origin.
    #[serde(default)]
    pub destage_error_of_cache: bool,
    /// For how long destage has failed.
    pub destage_failing_seconds: f64,
    /// Percentage of the cache's room for dirty data that is reserved for the volume, if it was set.
    pub dirty_share_min: Option<u8>,
    /// Percentage of the cache's room for dirty data that the volume may use.
    pub dirty_share_max: u8,
    /// Requests a second that may begin, if that is limited.
    #[serde(default)]
    pub iops: Option<u64>,
    /// Bytes a second that may be read and written, if that is limited.
    #[serde(default)]
    pub bandwidth_bytes: Option<u64>,
    /// Seconds whose unused requests and bytes may be used later.
    #[serde(default)]
    pub burst_seconds: u64,
    /// Requests that wait for these limits now.
    #[serde(default)]
    pub waiting_limit: u64,
    /// Writes that are slowed now, because the room for dirty data, the journal or RAM runs out.
    #[serde(default)]
    pub waiting_room: u64,
    /// How clients have waited since the start.
    #[serde(flatten)]
    pub waits: WaitCounters,
    /// Missed extents of reads, by cause.
    #[serde(default)]
    pub missed: Missed,
    /// Latency of read hits; of reads answered at once from the RAM cache, one in 64 is timed and counted for all.
    pub read_hit_latency: Latency,
    /// Latency of reads that the origin answered at least in part.
    pub read_miss_latency: Latency,
    /// Latency of writes.
    pub write_latency: Latency,
    /// Latency of flushes.
    pub flush_latency: Latency,
    /// The counters since the start; docs/METRICS.md has their meanings.
    #[serde(flatten)]
    pub counters: VolumeCounters,
    /// Of the requests to the machine of its origin, if that is another one.
    #[serde(flatten)]
    pub origin_counters: OriginCounters,
}

impl Volume {
    /// All its counters with their values.
    pub fn counted(&self) -> impl Iterator<Item = (&'static Counted, u64)> + use<> {
        self.counters.each().chain(self.waits.each())
    }
}

/// What the cache knows about one extent of a volume.
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
    /// Its newest content is not in the origin yet.
    pub dirty: bool,
    /// The RAM cache has it.
    pub in_ram: bool,
    /// It waits for its insertion.
    pub pending: bool,
    /// It is pinned.
    #[serde(default)]
    pub pinned: bool,
    /// Its position on the SSD.
    pub stored: Option<Stored>,
    /// Why it is not on the SSD: `evicted`, `overwritten`, `refused`, `dropped` or `invalidated`; none: it was never
    /// there, or the cause was forgotten.
    pub gone: Option<String>,
}

/// The position of an extent on the SSD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The number of its write-evict unit.
    pub weu: u32,
    /// Bytes read for it; 0: it is all zero.
    pub read_bytes: u64,
    /// Its unit is still in RAM: it is being filled or written.
    pub on_its_way: bool,
    /// The lane of its unit: `main`, or `side` (on probation).
    pub lane: String,
    /// How often it was used since its unit became full, up to 3.
    pub heat: u8,
    /// The class with which it was cached; 0: none.
    pub class: u8,
    /// The class's name.
    pub class_name: String,
    /// Where the class comes from: `blocks` (the file system), `pattern` (of the requests), `request` (its client, a
    /// rule, or the volume's class), or `none`.
    pub class_source: String,
}
