//! The control protocol, version 1: over a unix socket of mode 0600, the client sends one JSON object in a line, the server
//! answers with one in a line, any number of times. Requests are at most [`REQUEST_BYTES_MAX`] long.
//!
//! ```text
//! {"version":1,"command":"status"}
//! {"version":1,"status":{"server":{…},"caches":[{…}],"volumes":[{…}]}}
//! {"version":1,"error":"…"}
//! ```
//! Fields may be added within a version; clients ignore those they do not know. Counters run from the server's start.

use serde::{Deserialize, Serialize};

/// The version spoken here.
pub(crate) const VERSION: u32 = 1;
/// Longest request in bytes, its newline included.
pub(crate) const REQUEST_BYTES_MAX: usize = 4096;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) version: u32,
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Command {
    Status,
}

/// What the server answers: one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// All that a server tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) server: Server,
    pub(crate) caches: Vec<Cache>,
    pub(crate) volumes: Vec<Volume>,
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
}

/// A cache. Ratios are 1 where nothing was inserted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cache {
    pub(crate) name: String,
    /// `caching`, `pass-through` (its device was given up), or `none` (there is no cache).
    pub(crate) health: String,
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
    /// Fills that did not reach the SSD: the queue was full; their extent was written to.
    pub(crate) fills_dropped: u64,
    pub(crate) fills_voided: u64,
    /// Faults, each of which the origin made up for.
    pub(crate) corrupt_extents: u64,
    pub(crate) ssd_read_errors: u64,
    pub(crate) ssd_write_errors: u64,
    /// RAM.
    pub(crate) insert_queue_bytes: u64,
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
    }
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) name: String,
    /// The cache's name.
    pub(crate) cache: String,
    pub(crate) size_bytes: u64,
    pub(crate) read_only: bool,
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
        let response = Response { version: VERSION, status: None, error: Some("no".into()) };
        assert_eq!(serde_json::to_string(&response).unwrap(), r#"{"version":1,"error":"no"}"#);
        let later = r#"{"version":1,"error":"no","news":7}"#;
        assert_eq!(serde_json::from_str::<Response>(later).unwrap(), response);
    }
}
