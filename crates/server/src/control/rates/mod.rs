//! Activity of volumes between two points in time, as rates per second.

pub(crate) mod activity;

use super::protocol::{Cache, Status, Volume};
use crate::origins::unix_seconds;
use activity::{Activity, Sample, earlier, earlier_cache, seconds};
use serde::Serialize;

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
    let (seconds, time) = (seconds(before, now), unix_seconds());
    let (no_volume, no_cache) = (Volume::default(), Cache::default());
    // What several volumes share is told once, of all.
    let is_alone = |volume: &Volume| now.volumes.iter().filter(|other| other.cache == volume.cache).count() == 1;
    let row = |volume: &Volume| {
        let then = earlier(before, volume).unwrap_or(&no_volume);
        let cache = now.caches.iter().find(|c| c.name == volume.cache).unwrap_or(&no_cache);
        let cache_then = earlier_cache(before, cache).unwrap_or(&no_cache);
        let (then, now) = (Sample { volume: then, cache: cache_then }, Sample { volume, cache });
        let activity = Activity::between(then, now, seconds);
        let row = Row::of(&volume.name, time, volume.dirty_bytes, &activity);
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
    let dirty_bytes = now.volumes.iter().map(|v| v.dirty_bytes).sum();
    Row::of(TOTAL, unix_seconds(), dirty_bytes, &Activity::of_all(before, now))
}

impl Row {
    fn of(volume: &str, time: u64, dirty_bytes: u64, activity: &Activity) -> Self {
        let ms = |us: Option<f64>| us.map(|us| us / 1000.0);
        let [limit_waiting, dirty_waiting, journal_waiting, ram_waiting] = activity.waiting;
        Self {
            volume: volume.to_owned(),
            time,
            seconds: activity.seconds,
            reads_per_second: activity.reads,
            read_mib_per_second: activity.read_bytes / MIB,
            hit_percent: activity.hit_percent,
            read_mean_ms: ms(activity.read.mean_us),
            read_p99_ms: ms(activity.read.p99_us),
            writes_per_second: activity.writes,
            write_mib_per_second: activity.write_bytes / MIB,
            write_mean_ms: ms(activity.write.mean_us),
            write_p99_ms: ms(activity.write.p99_us),
            origin_reads_per_second: activity.origin_reads,
            origin_writes_per_second: activity.origin_writes,
            ssd_read_mib_per_second: Some(activity.ssd_read_bytes / MIB),
            ssd_write_mib_per_second: Some(activity.ssd_written_bytes / MIB),
            drops_per_second: Some(activity.fills_dropped),
            dirty_mib: dirty_bytes as f64 / MIB,
            destage_mib_per_second: activity.destaged_bytes / MIB,
            limit_waiting,
            dirty_waiting,
            journal_waiting,
            ram_waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Latency;
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
        let row = Row::of("vm", 0, 0, &Activity::between(sample(&then), sample(&now), 2.0));
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
    #[test]
    fn what_was_removed_and_added_again_begins_at_zero_and_what_is_gone_takes_nothing_away() {
        let volume = |name: &str, reads| Volume {
            name: name.into(),
            counters: VolumeCounters { reads, ..VolumeCounters::default() },
            ..Volume::default()
        };
        let before = Status { volumes: vec![volume("a", 100), volume("b", 50), volume("c", 7)], ..Status::default() };
        let mut now = Status { volumes: vec![volume("a", 104), volume("b", 6)], ..Status::default() };
        now.server.uptime_seconds = 2.0;
        let each: Vec<_> = rows(&before, &now).iter().map(|row| row.reads_per_second).collect();
        assert_eq!((each, total(&before, &now).reads_per_second), (vec![2.0, 3.0], 5.0));
    }
}
