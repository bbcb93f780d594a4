//! The outcome of a simulation.

use crate::by_class::{self, ByClass, ClassMeasures};
use crate::model::Totals;
use crate::settings::Settings;
use nitro_cache::Missed;
use nitro_units::ClassId;
use serde::{Deserialize, Serialize};

/// The running counts of requests and extents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) reads: u64,
    pub(crate) read_hits: u64,
    pub(crate) writes: u64,
    pub(crate) trims: u64,
    pub(crate) flushes: u64,
    pub(crate) extents: u64,
    pub(crate) read_extents: u64,
    pub(crate) read_extent_hits: u64,
    pub(crate) ram_hits: u64,
    pub(crate) readahead_hits: u64,
    pub(crate) readahead_extents: u64,
    pub(crate) content_hits: u64,
    pub(crate) partial_writes: u64,
    pub(crate) merged_extents: u64,
    pub(crate) completed_extents: u64,
    pub(crate) fetched_extents: u64,
    pub(crate) bypassed_extents: u64,
    pub(crate) destaged_extents: u64,
    pub(crate) around_extents: u64,
    pub(crate) destage_writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) missed: Missed,
}

/// Response times in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
}

/// Throughput and response times in a window of virtual time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Virtual seconds from the window's first request to the end of its last.
    pub seconds: f64,
    /// Reads and writes per second (§5.1).
    pub iops: f64,
    /// Response times of read requests (§5.1, RRT).
    pub read_response: Latency,
    /// Response times of write requests.
    pub write_response: Latency,
    /// The share of time in which the origin's disks were busy, 0 to 1.
    pub disks_busy: f64,
    /// The share of time in which the SSD had requests, 0 to 1.
    #[serde(default)]
    pub ssd_busy: f64,
}

/// Measurements of a window of the trace. A ratio without data is 0, or 1 for deduplication, compression and write
/// amplification.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measures {
    /// The time of the window's beginning, in seconds since the trace's first request.
    pub begin_s: f64,
    /// The time of the window's last request, in seconds since the trace's first request.
    pub end_s: f64,
    /// The number of reads, writes and trims.
    pub requests: u64,
    /// The number of read requests.
    pub reads: u64,
    /// The number of read requests for which all extents were cached (§5.1).
    pub read_hits: u64,
    /// Read hits over reads.
    pub read_hit_ratio: f64,
    /// The number of write requests.
    pub writes: u64,
    /// The number of trim requests.
    pub trims: u64,
    /// The number of flush requests.
    #[serde(default)]
    pub flushes: u64,
    /// The number of extents that requests touched.
    pub extents: u64,
    /// The number of extents read.
    pub read_extents: u64,
    /// The number of extents read that were cached.
    pub read_extent_hits: u64,
    /// `read_extent_hits` over `read_extents`.
    pub read_extent_hit_ratio: f64,
    /// The number of `read_extent_hits` that were in the RAM cache.
    #[serde(default)]
    pub ram_hits: u64,
    /// The number of `read_extent_hits` of sequential streams, which were read ahead or kept in RAM only.
    #[serde(default)]
    pub readahead_hits: u64,
    /// The number of extents read ahead of sequential streams.
    #[serde(default)]
    pub readahead_extents: u64,
    /// The number of extents read that were found by their content (recipes).
    pub content_hits: u64,
    /// The number of writes of a part of an extent.
    pub partial_writes: u64,
    /// The number of these whose extent was cached.
    #[serde(default)]
    pub merged_extents: u64,
    /// The number of these that, with earlier ones, made up a whole extent that was not cached.
    #[serde(default)]
    pub completed_extents: u64,
    /// The number of extents read from the origin to complete such writes.
    pub fetched_extents: u64,
    /// The number of extents that reads missed, by the reason why they were not cached; unknown without write-evict
    /// units.
    #[serde(default, skip_serializing_if = "is_none_missed")]
    pub missed: Missed,
    /// The number of extents of sequential streams that bypassed the cache.
    pub bypassed_extents: u64,
    /// The number of dirty extents written to the origin, in write-back.
    #[serde(default)]
    pub destaged_extents: u64,
    /// In write-back, written extents whose class kept them out of the cache.
    #[serde(default)]
    pub around_extents: u64,
    /// The number of writes to the origin for these extents.
    #[serde(default)]
    pub destage_writes: u64,
    /// Bytes read by requests.
    pub read_bytes: u64,
    /// Bytes written by requests.
    pub written_bytes: u64,
    /// Bytes inserted into the cache, over those whose content was new (§5.1).
    pub dedup_ratio: f64,
    /// Bytes whose content was new, over the bytes stored for them (§5.1).
    pub compression_ratio: f64,
    /// Bytes of the extents inserted.
    pub inserted_bytes: u64,
    /// Bytes of the extents inserted whose content was new.
    pub unique_bytes: u64,
    /// Bytes of the latter after compression.
    pub stored_bytes: u64,
    /// Bytes written to the SSD by the cache.
    pub ssd_bytes_written: u64,
    /// Pages programmed by the SSD for each page that the cache wrote.
    pub write_amplification: f64,
    /// Erase blocks erased (§5.1).
    pub erasures: u64,
    /// The number of write-evict units evicted; of extents, for caches without such units.
    pub evictions: u64,
    /// The number of extents copied forward from units before their eviction.
    pub forwarded_extents: u64,
    /// The number of fingerprints dropped from a partial index for lack of room.
    pub fingerprints_evicted: u64,
    /// The number of extents cached at the end of the window, duplicates included.
    pub cached_extents: u64,
    /// Measurements by class; empty if nothing was classified.
    #[serde(default)]
    pub classes: Vec<ClassMeasures>,
    /// Throughput and response times, if timing is modelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pace: Option<Pace>,
}

/// The outcome of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Measurements after the warm-up.
    #[serde(flatten)]
    pub measured: Measures,
    /// RAM of the cache's indexes at the end, in bytes: the allocations of their tables and lists, without the RAM
    /// cache.
    pub ram_bytes: u64,
    /// The part of it that lists the extents that wait in RAM before they are written to the SSD.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub staging_ram_bytes: u64,
    /// RAM of the indexes for each extent cached at the end, duplicates included; 0 if none is cached.
    #[serde(default)]
    pub ram_bytes_per_extent: f64,
    /// Bytes of the SSD that the cache used.
    pub usable_bytes: u64,
    /// The number of requests during the warm-up.
    pub warmup_requests: u64,
    /// The number of requests that are empty, or neither reads, writes, trims nor flushes.
    pub ignored_requests: u64,
    /// The number of bad records that were skipped.
    pub bad_records: u64,
    /// Measurements by period, if there are several.
    #[serde(default)]
    pub periods: Vec<Measures>,
    /// The settings of the simulation.
    pub settings: Settings,
}

fn is_none_missed(missed: &Missed) -> bool {
    missed.all() == 0
}

pub(crate) fn ratio(part: u64, whole: u64, without: f64) -> f64 {
    if whole == 0 { without } else { part as f64 / whole as f64 }
}

/// All counts from which the measurements of a window are computed, at its beginning or end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Snapshot {
    pub(crate) time_ns: u64,
    pub(crate) counts: Counts,
    pub(crate) by_class: ByClass,
    pub(crate) totals: Totals,
    pub(crate) cached_by_class: Option<[u64; ClassId::COUNT]>,
    pub(crate) extent_bytes: u32,
}

impl Measures {
    /// The measurements between two moments.
    pub(crate) fn between(begin: &Snapshot, end: &Snapshot, page_bytes: u32) -> Self {
        let (c, b) = (&end.counts, &begin.counts);
        let (cache, before) = (&end.totals.cache, &begin.totals.cache);
        let flash = end.totals.flash.since(&begin.totals.flash);
        let reads = c.reads - b.reads;
        let read_hits = c.read_hits - b.read_hits;
        let read_extents = c.read_extents - b.read_extents;
        let read_extent_hits = c.read_extent_hits - b.read_extent_hits;
        let inserted_bytes = cache.inserted_bytes - before.inserted_bytes;
        let unique_bytes = cache.unique_bytes - before.unique_bytes;
        let stored_bytes = cache.stored_bytes - before.stored_bytes;
        Self {
            begin_s: begin.time_ns as f64 / 1e9,
            end_s: end.time_ns as f64 / 1e9,
            requests: c.requests - b.requests,
            reads,
            read_hits,
            read_hit_ratio: ratio(read_hits, reads, 0.0),
            writes: c.writes - b.writes,
            trims: c.trims - b.trims,
            flushes: c.flushes - b.flushes,
            extents: c.extents - b.extents,
            read_extents,
            read_extent_hits,
            read_extent_hit_ratio: ratio(read_extent_hits, read_extents, 0.0),
            ram_hits: c.ram_hits - b.ram_hits,
            readahead_hits: c.readahead_hits - b.readahead_hits,
            readahead_extents: c.readahead_extents - b.readahead_extents,
            content_hits: c.content_hits - b.content_hits,
            partial_writes: c.partial_writes - b.partial_writes,
            merged_extents: c.merged_extents - b.merged_extents,
            completed_extents: c.completed_extents - b.completed_extents,
            fetched_extents: c.fetched_extents - b.fetched_extents,
            missed: c.missed.since(&b.missed),
            bypassed_extents: c.bypassed_extents - b.bypassed_extents,
            destaged_extents: c.destaged_extents - b.destaged_extents,
            around_extents: c.around_extents - b.around_extents,
            destage_writes: c.destage_writes - b.destage_writes,
            read_bytes: c.read_bytes - b.read_bytes,
            written_bytes: c.written_bytes - b.written_bytes,
            dedup_ratio: ratio(inserted_bytes, unique_bytes, 1.0),
            compression_ratio: ratio(unique_bytes, stored_bytes, 1.0),
            inserted_bytes,
            unique_bytes,
            stored_bytes,
            ssd_bytes_written: flash.host_writes * u64::from(page_bytes),
            write_amplification: flash.write_amplification(),
            erasures: flash.erasures,
            evictions: cache.weus_evicted - before.weus_evicted,
            forwarded_extents: cache.forwarded - before.forwarded,
            fingerprints_evicted: cache.fingerprints_evicted - before.fingerprints_evicted,
            cached_extents: cache.cached_extents,
            classes: by_class::between(
                (&begin.by_class, &end.by_class),
                end.cached_by_class.as_ref(),
                end.extent_bytes,
            ),
            pace: None,
        }
    }
}
