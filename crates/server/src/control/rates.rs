//! Activity of volumes between two points in time, as rates per second.

use super::protocol::{Cache, Latency, Status, Volume};
use super::quantile::{Cumulative, quantile_us};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a MiB.
const MIB: f64 = (1 << 20) as f64;

/// The name of the sum of all volumes.
pub const TOTAL: &str = "total";

/// One volume over one interval. Columns about the SSD are those of its cache, if no other volume has that cache, or of all caches.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub volume: String,
    /// Unix time at the interval's end.
    pub time: u64,
    /// Length of the interval.
    pub seconds: f64,
    /// Requests.
    pub reads_per_second: f64,
    /// MiB read.
    pub read_mib_per_second: f64,
    /// Percentage of extents that were hits; absent without reads.
    pub hit_percent: Option<f64>,
    /// Mean of the reads; of those answered at once from the RAM cache, one in 64 is timed.
    pub read_mean_ms: Option<f64>,
    /// 99th percentile of the reads, accurate to a bucket, which is a third of the value wide.
    pub read_p99_ms: Option<f64>,
    /// Requests.
    pub writes_per_second: f64,
    /// As of reads.
    pub write_mib_per_second: f64,
    /// Mean of the timed writes.
    pub write_mean_ms: Option<f64>,
    /// As of reads.
    pub write_p99_ms: Option<f64>,
    /// Requests of the origin.
    pub origin_reads_per_second: f64,
    /// Requests of the origin.
    pub origin_writes_per_second: f64,
    /// Of the volume's cache.
    pub ssd_read_mib_per_second: Option<f64>,
    /// Of the volume's cache.
    pub ssd_write_mib_per_second: Option<f64>,
    /// Fills that the cache dropped.
    pub drops_per_second: Option<f64>,
    /// Dirty data at the end of the interval.
    pub dirty_mib: f64,
    /// MiB written back to the origin.
    pub destage_mib_per_second: f64,
    /// Requests that waited for the volume's limits, in the mean of the interval.
    pub limit_waiting: f64,
    /// Writes that were slowed for lack of room for dirty data, in the same sense.
    pub dirty_waiting: f64,
    /// For lack of room in the journal or the write log.
    pub journal_waiting: f64,
    /// For lack of RAM.
    pub ram_waiting: f64,
}

/// The activity of each volume between two points in time.
#[must_use]
pub fn rows(before: &Status, now: &Status) -> Vec<Row> {
    let seconds = (now.server.uptime_seconds - before.server.uptime_seconds).max(1e-3);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (no_volume, no_cache) = (Volume::default(), Cache::default());
    // What several volumes share is told once, of all.
    let is_alone = |volume: &Volume| now.volumes.iter().filter(|other| other.cache == volume.cache).count() == 1;
    let row = |volume: &Volume| {
        let then = before.volumes.iter().find(|v| v.name == volume.name).unwrap_or(&no_volume);
        let cache = now.caches.iter().find(|c| c.name == volume.cache).unwrap_or(&no_cache);
        let cache_then = before.caches.iter().find(|c| c.name == volume.cache).unwrap_or(&no_cache);
        let (then, now) = (Sample { volume: then, cache: cache_then }, Sample { volume, cache });
        let row = Row { time, ..difference(then, now, seconds) };
        match is_alone(volume) {
            true => row,
            false => {
                Row { ssd_read_mib_per_second: None, ssd_write_mib_per_second: None, drops_per_second: None, ..row }
            }
        }
    };
    now.volumes.iter().map(row).collect()
}

/// The sum of all volumes.
#[must_use]
pub fn total(before: &Status, now: &Status) -> Row {
    let seconds = (now.server.uptime_seconds - before.server.uptime_seconds).max(1e-3);
    let sums = |status: &Status| {
        let volume = status.volumes.iter().fold(Volume::default(), sum_volumes);
        (volume, status.caches.iter().fold(Cache::default(), sum_caches))
    };
    let (then, now) = (sums(before), sums(now));
    let sample = |(volume, cache)| Sample { volume, cache };
    let total = difference(sample((&then.0, &then.1)), sample((&now.0, &now.1)), seconds);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Row { volume: TOTAL.to_owned(), time, ..total }
}

fn sum_volumes(sum: Volume, v: &Volume) -> Volume {
    Volume {
        counters: sum.counters.plus(&v.counters),
        dirty_bytes: sum.dirty_bytes + v.dirty_bytes,
        destaged_bytes: sum.destaged_bytes + v.destaged_bytes,
        waits: sum.waits.plus(&v.waits),
        read_hit_latency: sum_latencies(sum.read_hit_latency, v.read_hit_latency),
        read_miss_latency: sum_latencies(sum.read_miss_latency, v.read_miss_latency),
        write_latency: sum_latencies(sum.write_latency, v.write_latency),
        ..sum
    }
}

fn sum_caches(sum: Cache, c: &Cache) -> Cache {
    Cache { counters: sum.counters.plus(&c.counters), ..sum }
}

/// Mean and counts of two latencies; percentiles are not computed.
fn sum_latencies(a: Latency, b: Latency) -> Latency {
    let count = a.count + b.count;
    let total_us = a.mean_us * a.count as f64 + b.mean_us * b.count as f64;
    let mut at_most = a.at_most;
    at_most.iter_mut().zip(b.at_most).for_each(|(sum, more)| *sum += more);
    Latency { count, mean_us: if count > 0 { total_us / count as f64 } else { 0.0 }, at_most, ..Latency::default() }
}

fn counts(latency: &Latency) -> Cumulative<'_> {
    Cumulative { at_most: &latency.at_most, all: latency.count }
}

/// The 99th percentile of the requests between two points in time.
fn p99_ms(then: &Latency, now: &Latency) -> Option<f64> {
    quantile_us(counts(then), counts(now), 0.99).map(|us| us / 1000.0)
}

/// A volume and its cache at one time.
struct Sample<'a> {
    volume: &'a Volume,
    cache: &'a Cache,
}

fn difference(then: Sample<'_>, now: Sample<'_>, seconds: f64) -> Row {
    let (Sample { volume: then, cache: cache_then }, Sample { volume: now, cache }) = (then, now);
    let rate = |then: u64, now: u64| now.saturating_sub(then) as f64 / seconds;
    let mebibytes = |then: u64, now: u64| rate(then, now) / MIB;
    let waiting = |then: u64, now: u64| rate(then, now) / 1e6;
    let hits = now.counters.read_hit_extents.saturating_sub(then.counters.read_hit_extents);
    let extents = now.counters.read_extents().saturating_sub(then.counters.read_extents());
    let drops = |c: &Cache| c.counters.fills_dropped;
    Row {
        volume: now.name.clone(),
        time: 0,
        seconds,
        reads_per_second: rate(then.counters.reads, now.counters.reads),
        read_mib_per_second: mebibytes(then.counters.read_bytes, now.counters.read_bytes),
        hit_percent: (extents > 0).then(|| 100.0 * hits as f64 / extents as f64),
        read_mean_ms: mean_ms(&[
            (then.read_hit_latency, now.read_hit_latency),
            (then.read_miss_latency, now.read_miss_latency),
        ]),
        read_p99_ms: p99_ms(
            &sum_latencies(then.read_hit_latency, then.read_miss_latency),
            &sum_latencies(now.read_hit_latency, now.read_miss_latency),
        ),
        writes_per_second: rate(then.counters.writes, now.counters.writes),
        write_mib_per_second: mebibytes(then.counters.write_bytes, now.counters.write_bytes),
        write_mean_ms: mean_ms(&[(then.write_latency, now.write_latency)]),
        write_p99_ms: p99_ms(&then.write_latency, &now.write_latency),
        origin_reads_per_second: rate(then.counters.origin_reads, now.counters.origin_reads),
        origin_writes_per_second: rate(then.counters.origin_writes, now.counters.origin_writes),
        ssd_read_mib_per_second: Some(mebibytes(cache_then.counters.ssd_read_bytes, cache.counters.ssd_read_bytes)),
        ssd_write_mib_per_second: Some(mebibytes(
            cache_then.counters.ssd_written_bytes(),
            cache.counters.ssd_written_bytes(),
        )),
        drops_per_second: Some(rate(drops(cache_then), drops(cache))),
        dirty_mib: now.dirty_bytes as f64 / MIB,
        destage_mib_per_second: mebibytes(then.destaged_bytes, now.destaged_bytes),
        limit_waiting: waiting(then.waits.limit_waited_us, now.waits.limit_waited_us),
        dirty_waiting: waiting(then.waits.dirty_waited_us, now.waits.dirty_waited_us),
        journal_waiting: waiting(then.waits.journal_waited_us, now.waits.journal_waited_us),
        ram_waiting: waiting(then.waits.ram_waited_us, now.waits.ram_waited_us),
    }
}

/// The mean of the requests between two points in time.
fn mean_ms(spans: &[(Latency, Latency)]) -> Option<f64> {
    let count: u64 = spans.iter().map(|(then, now)| now.count.saturating_sub(then.count)).sum();
    let total_us = |l: &Latency| l.mean_us * l.count as f64;
    let sum_us: f64 = spans.iter().map(|(then, now)| total_us(now) - total_us(then)).sum();
    (count > 0).then(|| (sum_us / count as f64 / 1000.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_engine::metrics::VolumeCounters;

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let volume = |reads, count, mean_us| Volume {
            name: "vm".into(),
            counters: VolumeCounters {
                reads,
                read_bytes: reads << 20,
                read_hit_extents: reads,
                ..VolumeCounters::default()
            },
            read_hit_latency: Latency { count, mean_us, ..Latency::default() },
            ..Volume::default()
        };
        let (then, now, cache) = (volume(10, 10, 1000.0), volume(30, 20, 2000.0), Cache::default());
        let sample = |volume| Sample { volume, cache: &cache };
        let row = difference(sample(&then), sample(&now), 2.0);
        assert_eq!((row.reads_per_second, row.read_mib_per_second, row.hit_percent), (10.0, 10.0, Some(100.0)));
        assert_eq!((row.read_mean_ms, row.write_mean_ms), (Some(3.0), None));
    }

    #[test]
    fn the_total_is_of_all_volumes() {
        let volume = |name: &str, reads| Volume {
            name: name.into(),
            counters: VolumeCounters { reads, ..VolumeCounters::default() },
            ..Volume::default()
        };
        let mut now = Status { volumes: vec![volume("a", 4), volume("b", 6)], ..Status::default() };
        now.server.uptime_seconds = 2.0;
        let total = total(&Status::default(), &now);
        assert_eq!((total.reads_per_second, total.volume.as_str()), (5.0, TOTAL));
        assert!(total.ssd_read_mib_per_second.is_some());
        let shared =
            |status: &Status| rows(&Status::default(), status).into_iter().all(|row| row.drops_per_second.is_none());
        assert!(shared(&now), "what the volumes of a cache share is told in the total alone");
        now.volumes.pop();
        assert!(!shared(&now));
    }
}
