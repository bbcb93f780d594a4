//! The control protocol, version 1: over a unix socket of mode 0600, the client sends one JSON object in a line, the server
//! answers with one in a line, any number of times. Requests are at most [`REQUEST_BYTES_MAX`] long.
//!
//! ```text
//! {"version":1,"command":"status"}
//! {"version":1,"status":{"server":{…},"caches":[{…}],"volumes":[{…}]}}
//! {"version":1,"command":{"flush":{"volume":"vm","wait":true}}}
//! {"version":1,"done":{"message":"…","dirty_bytes":0,"uris":[]}}
//! {"version":1,"error":"…"}
//! ```
//! A command that takes its time is answered at its end, and goes on if its client leaves; `status` on another
//! connection tells how far it is. Commands and fields may be added within a version; clients ignore those they do not know. Counters run from the server's start.

use crate::config::Emulation;
use crate::cos::CosAction;
use nitro_engine::WriteMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version spoken here.
pub(crate) const VERSION: u32 = 1;
/// Longest request in bytes, its newline included.
pub(crate) const REQUEST_BYTES_MAX: usize = 16 << 10;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) version: u32,
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Command {
    Status,
    /// Brings an origin up to date; answered at once, or when it is.
    Flush {
        volume: String,
        wait: bool,
    },
    VolumeSet {
        volume: String,
        /// As it is if not given.
        mode: Option<WriteMode>,
        /// Percentages of the cache's room for dirty data; as they are if not given.
        #[serde(default)]
        dirty_share_min: Option<u8>,
        #[serde(default)]
        dirty_share_max: Option<u8>,
    },
    VolumeAdd(AddVolume),
    VolumeRemove {
        volume: String,
        force_discard_dirty: bool,
    },
    /// Has the origin serve alone, brought up to date.
    CacheDetach {
        cache: String,
        volume: String,
    },
    /// Undoes that.
    CacheAttach {
        cache: String,
        volume: String,
    },
    CacheResize {
        cache: String,
        size_bytes: u64,
    },
    /// Something with a deduplicating store that the server has open; the message is what is to be printed.
    Cos {
        store: PathBuf,
        action: CosAction,
    },
}

/// A volume that is to be served, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AddVolume {
    pub(crate) volume: String,
    /// The cache's name; may be left out where there is only one.
    pub(crate) cache: Option<String>,
    /// As the server is to open it.
    pub(crate) origin: PathBuf,
    /// Write-through if not given.
    pub(crate) mode: Option<WriteMode>,
    pub(crate) read_only: bool,
    pub(crate) description: String,
    /// With which volumes it shares cached contents.
    #[serde(default)]
    pub(crate) dedup_domain: Option<String>,
    pub(crate) emulate_disk: Option<Emulation>,
    #[serde(default)]
    pub(crate) dirty_share_min: Option<u8>,
    #[serde(default)]
    pub(crate) dirty_share_max: Option<u8>,
    pub(crate) force_discard_dirty: bool,
}

/// What a command came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// One line for people.
    pub(crate) message: String,
    /// Of the volume, now.
    pub(crate) dirty_bytes: u64,
    /// Where a volume that was added is served.
    pub(crate) uris: Vec<String>,
}

/// What the server answers: one of the three.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) done: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// All that a server tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) server: Server,
    /// The RAM that the process may come to take.
    #[serde(default)]
    pub(crate) ram: Ram,
    pub(crate) caches: Vec<Cache>,
    pub(crate) volumes: Vec<Volume>,
}

/// The RAM that the process may come to take, and what it takes now, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ram {
    /// The sum of the parts.
    pub(crate) need_bytes: u64,
    pub(crate) parts: Vec<RamPart>,
    /// Resident now, as the kernel counts it (`VmRSS`); 0: unknown.
    pub(crate) resident_bytes: u64,
}

/// Something that takes RAM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RamPart {
    pub(crate) name: String,
    /// The most that it takes.
    pub(crate) bytes: u64,
}

/// The process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// Of the program.
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_seconds: f64,
    /// Clients connected now, and since the start.
    pub(crate) connections: u64,
    pub(crate) connections_total: u64,
    pub(crate) uris: Vec<String>,
    /// What clients ask for is recorded.
    #[serde(default)]
    pub(crate) recording: Option<Recording>,
    /// Lines of the log that were left out, since nobody read standard error fast enough.
    #[serde(default)]
    pub(crate) log_lines_left_out: u64,
}

/// A recording under way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    pub(crate) path: String,
    /// Requests recorded, and those left out because the recorder did not keep up, or cannot write any more.
    pub(crate) requests: u64,
    pub(crate) dropped: u64,
}

/// A cache. Ratios are 1 where nothing was inserted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cache {
    pub(crate) name: String,
    /// Where it is; empty: there is no cache.
    pub(crate) path: String,
    pub(crate) uuid: String,
    /// `caching`, `pass-through` (its device was given up), `failed` (and some dirty data with it), or `none` (there is no
    /// cache).
    pub(crate) health: String,
    /// Why nothing can be made durable on the SSD any more.
    pub(crate) failed: Option<String>,
    /// The write log, if there is one.
    pub(crate) log: Option<Log>,
    /// The index of fingerprints on the SSD, if there is one.
    pub(crate) flash_index: Option<FlashIndex>,
    /// Of a stopped cache: the UUID of the write log that may hold writes which are nowhere else.
    pub(crate) log_needed: Option<String>,
    /// Clean entries are still coming back after the start.
    pub(crate) loading: bool,
    /// What the start found; zeroes for a cache that was made anew.
    pub(crate) recovered: Recovered,
    /// The volumes that it knows.
    pub(crate) volumes: Vec<KnownVolume>,
    /// What the origins have not got.
    pub(crate) dirty_bytes: u64,
    /// Write-evict units that may not be evicted, because of dirty data.
    pub(crate) weus_pinned: u64,
    /// Commits: flushes of the SSD; snapshots with which the journal began anew; regions opened for writing; times that a
    /// write waited for room.
    pub(crate) commits: u64,
    pub(crate) journal_snapshots: u64,
    pub(crate) regions_opened: u64,
    /// Regions that are open: what is cached of them is read anew after a power cut.
    pub(crate) regions_open: u64,
    pub(crate) dirty_stalls: u64,
    /// SSD space for write-evict units.
    pub(crate) capacity_bytes: u64,
    /// Bytes of volumes that can be had from the cache.
    pub(crate) cached_bytes: u64,
    /// Cached bytes over the SSD space that holds them.
    pub(crate) effective_capacity: f64,
    /// Extent look-ups answered, and not, by the index.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Inserted bytes over those that were not duplicates; those over what was stored of them.
    pub(crate) dedup_ratio: f64,
    pub(crate) compression_ratio: f64,
    pub(crate) insertions: u64,
    pub(crate) inserted_bytes: u64,
    pub(crate) weus: u64,
    pub(crate) weus_free: u64,
    pub(crate) weus_evicted: u64,
    /// Hits by where they came from, in extents.
    pub(crate) ram_hits: u64,
    pub(crate) pending_hits: u64,
    pub(crate) readahead_hits: u64,
    /// SSD traffic; writes by cause.
    pub(crate) ssd_reads: u64,
    pub(crate) ssd_read_bytes: u64,
    pub(crate) ssd_written_payload_bytes: u64,
    pub(crate) ssd_written_header_bytes: u64,
    pub(crate) ssd_written_padding_bytes: u64,
    pub(crate) ssd_written_superblock_bytes: u64,
    pub(crate) ssd_written_journal_bytes: u64,
    /// Fills that did not reach the SSD: the queue was full; their extent was written to.
    pub(crate) fills_dropped: u64,
    pub(crate) fills_voided: u64,
    /// With `verify_duplicates`: extents that were compared with what was cached of their fingerprint; those that were other.
    pub(crate) duplicates_compared: u64,
    pub(crate) duplicate_mismatches: u64,
    /// Faults, each of which the origin made up for.
    pub(crate) corrupt_extents: u64,
    pub(crate) ssd_read_errors: u64,
    pub(crate) ssd_write_errors: u64,
    /// RAM.
    pub(crate) insert_queue_bytes: u64,
    pub(crate) dirty_queue_bytes: u64,
    pub(crate) ram_cache_bytes: u64,
    pub(crate) index_ram_bytes: u64,
}

impl Cache {
    /// All that was written to the SSD.
    pub(crate) fn ssd_written_bytes(&self) -> u64 {
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
pub(crate) struct FlashIndex {
    /// It answers; after a start it is read first.
    pub(crate) open: bool,
    /// Fingerprints in it, those of what has been evicted since included.
    pub(crate) entries: u64,
    pub(crate) flash_bytes: u64,
    pub(crate) ram_bytes: u64,
    /// Duplicates that only it knew.
    pub(crate) duplicates: u64,
    /// Fingerprints that it was asked for and knew, or did not, and pages read for that.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) reads: u64,
    pub(crate) written_bytes: u64,
    /// Pages that failed their checksum, and requests that failed.
    pub(crate) corrupt_pages: u64,
    pub(crate) errors: u64,
}

/// A write log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Log {
    pub(crate) path: String,
    /// In use: writes in write-back are durable when they are acknowledged.
    pub(crate) active: bool,
    /// Why it is not any more.
    pub(crate) failed: Option<String>,
    /// Its size, and what of it is still needed.
    pub(crate) ring_bytes: u64,
    pub(crate) used_bytes: u64,
    /// Batches of writes, their bytes, and times that writers waited for room.
    pub(crate) batches: u64,
    pub(crate) written_bytes: u64,
    pub(crate) stalls: u64,
}

/// A volume, as its cache knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KnownVolume {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    /// `write-through` or `write-back`, as it was last served.
    pub(crate) mode: String,
    pub(crate) dirty_bytes: u64,
    /// It is being served.
    pub(crate) served: bool,
}

/// What a start found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Recovered {
    pub(crate) dirty_bytes: u64,
    pub(crate) lost_bytes: u64,
    /// What the write log brought back, dirty too.
    pub(crate) replayed_bytes: u64,
    /// Regions that were being written to: what was cached of them is read anew.
    pub(crate) open_regions: u64,
    /// The program alone had ended: of those regions, only what was under way is read anew.
    pub(crate) outlived: bool,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Volume {
    pub(crate) name: String,
    /// The cache's name.
    pub(crate) cache: String,
    pub(crate) size_bytes: u64,
    pub(crate) read_only: bool,
    /// The origin's path.
    pub(crate) origin: String,
    /// `write-through` or `write-back`.
    pub(crate) mode: String,
    /// With which volumes it shares cached contents; `null`: with all that name none.
    pub(crate) dedup_domain: Option<String>,
    /// What the origin has not got.
    pub(crate) dirty_bytes: u64,
    /// Of it, what cannot be read in the cache any more; the first such ranges, as offset and length.
    pub(crate) lost_bytes: u64,
    pub(crate) lost_ranges: Vec<(u64, u64)>,
    /// Whether it goes through its cache.
    pub(crate) attached: bool,
    /// Why writes are refused, if they are.
    pub(crate) poisoned: Option<String>,
    /// For how long the origin has owed an answer.
    pub(crate) origin_owes_seconds: f64,
    pub(crate) origin_timeouts: u64,
    pub(crate) clients: u64,
    /// Destage.
    pub(crate) destaged_bytes: u64,
    pub(crate) destage_writes: u64,
    /// Why destage fails, if it does; for how long it has, and how often it has failed since the start.
    pub(crate) destage_error: Option<String>,
    pub(crate) destage_failing_seconds: f64,
    pub(crate) destage_failures: u64,
    /// Percentages of the cache's room for dirty data: what is kept for the volume, if it was set, and what it may take.
    pub(crate) dirty_share_min: Option<u8>,
    pub(crate) dirty_share_max: u8,
    /// Requests.
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) trims: u64,
    pub(crate) write_zeroes: u64,
    pub(crate) flushes: u64,
    pub(crate) errors: u64,
    /// Extents of reads by where they came from.
    pub(crate) read_hit_extents: u64,
    pub(crate) read_miss_extents: u64,
    /// Of the misses: found in the cache by the fingerprint that the origin's recipe told.
    #[serde(default)]
    pub(crate) recipe_hit_extents: u64,
    pub(crate) read_joined_extents: u64,
    pub(crate) readahead_extents: u64,
    pub(crate) bypassed_extents: u64,
    /// Origin traffic.
    pub(crate) origin_reads: u64,
    pub(crate) origin_read_bytes: u64,
    pub(crate) origin_writes: u64,
    pub(crate) origin_written_bytes: u64,
    /// Reads answered at once from the RAM cache are not timed.
    pub(crate) read_hit_latency: Latency,
    pub(crate) read_miss_latency: Latency,
    pub(crate) write_latency: Latency,
    pub(crate) flush_latency: Latency,
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: u64,
    pub(crate) p90_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) p999_us: u64,
    pub(crate) max_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_the_documentation_says() {
        let request = Request { version: VERSION, command: Command::Status };
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"version":1,"command":"status"}"#);
        let flush = Command::Flush { volume: "vm".into(), wait: true };
        let request = Request { version: VERSION, command: flush };
        let text = r#"{"version":1,"command":{"flush":{"volume":"vm","wait":true}}}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let response = Response { version: VERSION, status: None, done: None, error: Some("no".into()) };
        assert_eq!(serde_json::to_string(&response).unwrap(), r#"{"version":1,"error":"no"}"#);
        let later = r#"{"version":1,"error":"no","news":7}"#;
        assert_eq!(serde_json::from_str::<Response>(later).unwrap(), response);
    }
}
