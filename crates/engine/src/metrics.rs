//! The engine's metrics: names, units and meanings are defined only here.

use hdrhistogram::Histogram;
use nitro_cache::class::Barred;
use nitro_units::ClassId;
use nitro_units::counters;
pub use nitro_units::{Counted, Counter};
use parking_lot::Mutex;
use serde::Serialize;
use std::time::Duration;

counters! {
    /// Counters of a cache.
    pub struct CacheMetrics / CacheCounters {
        /// Extents answered from the RAM cache.
        {hits place ram} ram_hits,
        /// Extents answered from data that wait for insertion.
        {hits place pending} pending_hits,
        /// Extents answered from data read ahead.
        {hits place readahead} readahead_hits,
        /// Reads of the cache device.
        ssd_reads,
        /// Bytes read from the cache device.
        ssd_read_bytes,
        /// Payload bytes of extents written to the cache device.
        {ssd_written cause payload} ssd_written_payload_bytes,
        /// Bytes of WEU headers and extent prefixes written to the cache device.
        {ssd_written cause header} ssd_written_header_bytes,
        /// Bytes of alignment and unused WEU ends written to the cache device.
        {ssd_written cause padding} ssd_written_padding_bytes,
        /// Bytes of superblocks written to the cache device.
        {ssd_written cause superblock} ssd_written_superblock_bytes,
        /// Bytes of the journal written to the cache device.
        {ssd_written cause journal} ssd_written_journal_bytes,
        /// Bytes of evicted units that the cache device was told of (TRIM).
        ssd_discarded_bytes,
        /// Commits: flushes of the cache device that made data or journal records durable.
        commits,
        /// Journal snapshots, each of which begins another half of the journal.
        journal_snapshots,
        /// Write-intent regions opened: for each, a write waited for a commit.
        regions_opened,
        /// Dirty extents that were lost with one of several devices.
        [loss] device_lost_extents,
        /// Times that a write waited for room for dirty data.
        [wait] dirty_stalls,
        /// Fills dropped because the insertion queue was full.
        {fills_left_out reason dropped} fills_dropped,
        /// Fills dropped because their extent was written to in the meantime.
        {fills_left_out reason voided} fills_voided,
        /// Duplicates that only the fingerprint index on flash knew.
        flash_index_duplicates,
        /// Tables of units that were read to compare a fingerprint (lean index).
        unit_tables_read,
        /// Tags that belonged to another fingerprint: the content counted as new (lean index).
        false_tags,
        /// Extents whose bytes were compared with those of the same fingerprint (`verify_duplicates`).
        duplicates_compared,
        /// Compared extents that had different bytes: they were stored separately.
        duplicate_mismatches,
        /// Stored extents with a wrong checksum or encoding; each was read from the origin.
        [loss] {ssd_errors kind corrupt} corrupt_extents,
        /// Stored extents whose WEU was refilled while they were being read.
        outrun_reads,
        /// Failed reads of the cache device.
        [loss] {ssd_errors kind read} ssd_read_errors,
        /// Failed writes of the cache device.
        [loss] {ssd_errors kind write} ssd_write_errors,
    }
}

impl CacheMetrics {
    /// A write waits for room for dirty data.
    pub(crate) fn write_waits(&self) {
        self.dirty_stalls.add(1);
    }
}

impl CacheCounters {
    /// All bytes that were written to the cache device.
    #[must_use]
    pub const fn ssd_written_bytes(&self) -> u64 {
        self.ssd_written_payload_bytes
            + self.ssd_written_header_bytes
            + self.ssd_written_padding_bytes
            + self.ssd_written_superblock_bytes
            + self.ssd_written_journal_bytes
    }
}

counters! {
    /// Counters of a volume.
    pub struct VolumeMetrics / VolumeCounters {
        /// Read requests.
        {requests operation read} reads,
        /// Bytes of read requests.
        {request operation read} read_bytes,
        /// Extents of read requests that came from RAM or SSD.
        {read_extents result hit} read_hit_extents,
        /// Extents of read requests that came from the origin.
        {read_extents result miss} read_miss_extents,
        /// Extents of read requests that were found in the cache by the origin's recipe.
        recipe_hit_extents,
        /// Missed extents: the cache never had them, or does not remember them.
        {missed_extents cause cold} missed_cold,
        /// Missed extents whose units were evicted.
        {missed_extents cause evicted} missed_evicted,
        /// Missed extents that were overwritten or trimmed, and whose new content is not cached.
        {missed_extents cause overwritten} missed_overwritten,
        /// Missed extents that the policy of admission refused.
        {missed_extents cause refused} missed_refused,
        /// Missed extents that were dropped because the insertion queue was full.
        {missed_extents cause dropped} missed_dropped,
        /// Missed extents that were invalidated: another program changed the volume, or their bytes could not be read.
        {missed_extents cause invalidated} missed_invalidated,
        /// Missed extents of a sequential stream, which is kept off the SSD.
        {missed_extents cause stream} missed_stream,
        /// Extents that joined a read of the origin already in progress.
        {read_extents result joined} read_joined_extents,
        /// Extents read ahead of sequential streams.
        readahead_extents,
        /// Extents of sequential streams kept from the SSD.
        bypassed_extents,
        /// Write requests.
        {requests operation write} writes,
        /// Bytes of write requests.
        {request operation write} write_bytes,
        /// Extents written in part, in write-through, that were cached.
        {partial_writes result merged} partial_merged,
        /// Extents written in part whose merge with an earlier part still waited.
        {partial_writes result joined} partial_joined,
        /// Extents written in part that were not cached, and of which earlier parts had the rest.
        {partial_writes result completed} partial_completed,
        /// Extents written in part that were not cached, and whose rest was not known.
        {partial_writes result left} partial_left,
        /// Extents written in part that were read from the origin, because they were worth it.
        partial_fetched,
        /// Extents that were to be read from the origin after a part was written, but too many waited.
        partial_fetches_dropped,
        /// Trim requests.
        {requests operation trim} trims,
        /// Write-zeroes requests.
        {requests operation write_zeroes} write_zeroes,
        /// Flush requests.
        {requests operation flush} flushes,
        /// Reads of the origin.
        {origin_requests operation read} origin_reads,
        /// Bytes read from the origin.
        {origin operation read} origin_read_bytes,
        /// Bytes of those read from the origin that lay between the wanted ones, and were thrown away: to read through them
        /// costs less than another request.
        origin_gap_bytes,
        /// Writes of the origin.
        {origin_requests operation write} origin_writes,
        /// Bytes written to the origin.
        {origin operation write} origin_written_bytes,
        /// Writes of the origin by destage.
        destage_writes,
        /// Extents destaged.
        destaged_extents,
        /// Consistent points that the origin has reached.
        points,
        /// Of these points, and of those that failed, the ones that were frozen between two writes, since no FLUSH came in time.
        points_unflushed,
        /// Rounds of destage in which the origin refused a write.
        [loss] destage_failures,
        /// Requests given up because the origin did not answer in time.
        [loss] origin_timeouts,
        /// Requests that failed.
        [loss] errors,
        /// Of the requests that failed, those for which the cache's SSD or write log was the cause.
        errors_of_cache,
    }
}

impl VolumeCounters {
    /// Extents of read requests.
    #[must_use]
    pub const fn read_extents(&self) -> u64 {
        self.read_hit_extents + self.read_not_hit_extents()
    }

    /// Extents of read requests that came from the origin, by their own read of it or by one already in progress.
    #[must_use]
    pub const fn read_not_hit_extents(&self) -> u64 {
        self.read_miss_extents + self.read_joined_extents
    }
}

counters! {
    /// Counters of the requests of one class to a volume.
    pub struct ClassMetrics / ClassCounters {
        /// Read requests.
        {requests operation read} reads,
        /// Bytes of read requests.
        {request operation read} read_bytes,
        /// Extents of read requests.
        read_extents,
        /// Of those, extents that were looked for and found in RAM or SSD.
        read_hit_extents,
        /// Write requests.
        {requests operation write} writes,
        /// Bytes of write requests.
        {request operation write} write_bytes,
        /// Written extents that went around the cache in write-back: the class is never cached.
        {around_extents rule never} around_never,
        /// Written extents that went around the cache in write-back: the class is not cached when it is written.
        {around_extents rule write_allocate} around_write_allocate,
        /// Written extents that went around the cache in write-back: too much of the cache is dirty for the class.
        {around_extents rule while_clean} around_while_clean,
        /// Written extents that went around the cache in write-back: the first access of the class to them.
        {around_extents rule second_access} around_second_access,
        /// Written extents that went around the cache in write-back: the class has its maximum.
        {around_extents rule max_percent} around_max_percent,
    }
}

impl ClassCounters {
    /// Written extents that went around the cache in write-back.
    #[must_use]
    pub const fn around_extents(&self) -> u64 {
        self.around_never
            + self.around_write_allocate
            + self.around_while_clean
            + self.around_second_access
            + self.around_max_percent
    }
}

/// Counters of the requests to a volume, by class.
#[derive(Debug, Default)]
pub(crate) struct ClassesMetrics([ClassMetrics; ClassId::COUNT]);

impl ClassesMetrics {
    /// Counts a read of so many bytes, and of `extents`, of which `hits` were found.
    pub(crate) fn read(&self, class: ClassId, bytes: u64, hits: u64, extents: u64) {
        let metrics = &self.0[class.index()];
        metrics.reads.add(1);
        metrics.read_bytes.add(bytes);
        metrics.read_extents.add(extents);
        metrics.read_hit_extents.add(hits);
    }

    /// Counts a write of so many bytes.
    pub(crate) fn written(&self, class: ClassId, bytes: u64) {
        let metrics = &self.0[class.index()];
        metrics.writes.add(1);
        metrics.write_bytes.add(bytes);
    }

    /// Counts an extent that goes around the cache by a rule of its class.
    pub(crate) fn around(&self, class: ClassId, rule: Barred) {
        let metrics = &self.0[class.index()];
        let counter = match rule {
            Barred::Never => &metrics.around_never,
            Barred::Source => &metrics.around_write_allocate,
            Barred::NotClean => &metrics.around_while_clean,
            Barred::FirstAccess => &metrics.around_second_access,
            Barred::Maximum => &metrics.around_max_percent,
        };
        counter.add(1);
    }

    /// Those of the classes that anything was asked of.
    pub(crate) fn counters(&self) -> Vec<(ClassId, ClassCounters)> {
        let all = ClassId::all().zip(&self.0).map(|(class, metrics)| (class, metrics.snapshot()));
        all.filter(|(_, counters)| *counters != ClassCounters::default()).collect()
    }
}

/// Percentiles of a latency, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Requests measured.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Largest.
    pub max_us: u64,
    /// Requests that took no longer than each of [`LATENCY_BOUNDS_US`], as exactly as the percentiles are known: to 1 %.
    pub at_most: [u64; LATENCY_BOUNDS_US.len()],
}

/// Bounds, in microseconds, of [`Latency::at_most`]: six for each power of ten, up to ten seconds.
pub const LATENCY_BOUNDS_US: [u64; 32] = [
    5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000,
    20_000, 30_000, 50_000, 70_000, 100_000, 150_000, 200_000, 300_000, 500_000, 1_000_000, 2_000_000, 10_000_000,
];

/// Latencies of one kind of request.
#[derive(Debug)]
pub struct LatencyRecorder(Mutex<Histogram<u64>>);

impl Default for LatencyRecorder {
    fn default() -> Self {
        // Nanoseconds to 1000 s with two digits: the bounds are constants within what the histogram accepts.
        let histogram = Histogram::new_with_bounds(1, 1_000_000_000_000, 2).or_else(|_| Histogram::new(2));
        Self(Mutex::new(histogram.expect("constant bounds")))
    }
}

impl LatencyRecorder {
    /// Records one request.
    pub fn record(&self, latency: Duration) {
        self.record_sample(latency, 1);
    }

    /// Records one request that stands for `count` alike.
    pub fn record_sample(&self, latency: Duration, count: u64) {
        self.0.lock().saturating_record_n(latency.as_nanos() as u64, count);
    }

    /// The percentiles so far.
    #[must_use]
    pub fn snapshot(&self) -> Latency {
        let h = self.0.lock();
        let us = |q: f64| h.value_at_quantile(q) / 1000;
        Latency {
            count: h.len(),
            mean_us: h.mean() / 1000.0,
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: h.max() / 1000,
            at_most: at_most(&h),
        }
    }
}

/// See [`Latency::at_most`].
fn at_most(histogram: &Histogram<u64>) -> [u64; LATENCY_BOUNDS_US.len()] {
    let mut counts = [0; LATENCY_BOUNDS_US.len()];
    for step in histogram.iter_recorded() {
        let at = LATENCY_BOUNDS_US.partition_point(|bound_us| bound_us * 1000 < step.value_iterated_to());
        if let Some(count) = counts.get_mut(at) {
            *count += step.count_at_value();
        }
    }
    let mut sum = 0;
    counts.map(|count| {
        sum += count;
        sum
    })
}

/// Of so many reads that the RAM cache answers at once, one is timed: reading the clock twice would take a part of the time.
pub const RAM_HITS_PER_TIMED: u32 = 64;

/// Latencies of a volume.
#[derive(Debug, Default)]
pub struct VolumeLatencies {
    /// Reads answered without the origin. Of those that the RAM cache answers at once, one in [`RAM_HITS_PER_TIMED`] is timed, and
    /// counted for all of them.
    pub read_hit: LatencyRecorder,
    /// Reads that needed the origin.
    pub read_miss: LatencyRecorder,
    /// Writes.
    pub write: LatencyRecorder,
    /// Flushes.
    pub flush: LatencyRecorder,
}

/// [`VolumeLatencies`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct VolumeLatencySnapshot {
    /// Reads answered without the origin.
    pub read_hit: Latency,
    /// Reads that needed the origin.
    pub read_miss: Latency,
    /// Writes.
    pub write: Latency,
    /// Flushes.
    pub flush: Latency,
}

impl VolumeLatencies {
    /// The percentiles so far.
    #[must_use]
    pub fn snapshot(&self) -> VolumeLatencySnapshot {
        VolumeLatencySnapshot {
            read_hit: self.read_hit.snapshot(),
            read_miss: self.read_miss.snapshot(),
            write: self.write.snapshot(),
            flush: self.flush.snapshot(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_below_each_bound() {
        let recorder = LatencyRecorder::default();
        for us in [4, 40, 400, 4_000, 40_000_000] {
            recorder.record(Duration::from_micros(us));
        }
        let latency = recorder.snapshot();
        let below = |us: u64| latency.at_most[LATENCY_BOUNDS_US.iter().position(|bound| *bound == us).unwrap()];
        assert_eq!([5, 30, 50, 500, 3_000, 5_000, 10_000_000].map(below), [1, 1, 2, 3, 3, 4, 4]);
        assert_eq!(latency.count, 5);
        assert!(latency.at_most.is_sorted() && LATENCY_BOUNDS_US.is_sorted());
    }
}
