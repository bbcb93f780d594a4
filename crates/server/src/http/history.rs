//! The last hours, in a ring of fixed size: rates and levels of the whole server, rates by volume and by class.

use super::window::{Marks, Window};
use crate::control::protocol::Status;
use crate::control::rates::activity::{Activity, earlier, seconds};
use crate::origins::unix_seconds;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often a sample is taken.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Samples that are kept: six hours.
pub(super) const SAMPLES_MAX: usize = 2160;
/// Volumes and classes that have columns of their own.
const VOLUMES_MAX: usize = 16;
const CLASSES_MAX: usize = 32;
/// Maximum number of points of a span.
const POINTS_MAX: usize = 360;
/// The maximum RAM of the history.
pub(super) const HISTORY_BYTES: u64 = 1 << 20;

/// The columns of the whole server. Rates are per second, extents; latencies in microseconds.
pub(super) const SERIES: [&str; 29] = [
    "read_hits",
    "read_misses",
    "reads",
    "writes",
    "read_bytes",
    "write_bytes",
    "origin_reads",
    "origin_writes",
    "ssd_read_bytes",
    "ssd_written_bytes",
    "destaged_bytes",
    "dirty_bytes",
    "deduplication",
    "compression",
    "missed_cold",
    "missed_evicted",
    "missed_overwritten",
    "missed_refused",
    "missed_dropped",
    "missed_invalidated",
    "missed_stream",
    "read_hit_p50_us",
    "read_hit_p99_us",
    "read_miss_p50_us",
    "read_miss_p99_us",
    "write_p50_us",
    "write_p99_us",
    "flush_p50_us",
    "flush_p99_us",
];
/// The first column of volumes, two each: reads, writes; and of classes: both.
const VOLUMES_AT: usize = SERIES.len();
const CLASSES_AT: usize = VOLUMES_AT + 2 * VOLUMES_MAX;
pub(super) const COLUMNS: usize = CLASSES_AT + CLASSES_MAX;

const _: () = assert!((SAMPLES_MAX * (COLUMNS * size_of::<f32>() + size_of::<u64>())) as u64 <= HISTORY_BYTES);

/// The ring.
#[derive(Default)]
pub(super) struct History {
    /// Unix times, and a row of columns for each; NaN: there is no value.
    times: Vec<u64>,
    rows: Vec<f32>,
    /// Where the oldest is, once the ring is full.
    oldest: usize,
    volumes: Vec<String>,
    classes: Vec<String>,
    before: Option<Arc<Status>>,
    marks: Marks,
}

/// The first columns: what all volumes did, and its levels.
fn of_all(before: &Status, now: &Status) -> [f32; SERIES.len()] {
    let all = Activity::of_all(before, now);
    let caches = || now.caches.iter().filter(|cache| cache.health != "none");
    let counted = [
        all.read_hit_extents,
        all.read_not_hit_extents,
        all.reads,
        all.writes,
        all.read_bytes,
        all.write_bytes,
        all.origin_reads,
        all.origin_writes,
        all.ssd_read_bytes,
        all.ssd_written_bytes,
        all.destaged_bytes,
    ];
    let levels = [
        now.volumes.iter().map(|v| v.dirty_bytes).sum::<u64>() as f32,
        mean(caches().map(|cache| cache.dedup_ratio)),
        mean(caches().map(|cache| cache.compression_ratio)),
    ];
    let times = [all.read_hit, all.read_miss, all.write, all.flush];
    let times = times.into_iter().flat_map(|t| [t.p50_us, t.p99_us]).map(|us| us.map_or(f32::NAN, |us| us as f32));
    let counted = counted.into_iter().map(|rate| rate as f32);
    let missed = all.missed.into_iter().map(|rate| rate as f32);
    let mut columns = [f32::NAN; SERIES.len()];
    let values = counted.chain(levels).chain(missed).chain(times);
    columns.iter_mut().zip(values).for_each(|(column, value)| *column = value);
    columns
}

/// Reads and writes of each class, over all volumes.
fn requests_by_class(status: &Status) -> BTreeMap<&str, u64> {
    let mut classes = BTreeMap::new();
    for class in status.volumes.iter().flat_map(|v| &v.classes) {
        *classes.entry(class.name.as_str()).or_default() += class.counters.reads + class.counters.writes;
    }
    classes
}

impl History {
    /// An empty one with columns for these volumes and classes; `None`: there are too many.
    pub(super) fn with_names(volumes: Vec<String>, classes: Vec<String>) -> Option<Self> {
        let fits = volumes.len() <= VOLUMES_MAX && classes.len() <= CLASSES_MAX;
        fits.then(|| Self { volumes, classes, ..Self::default() })
    }

    /// The volumes and classes that have columns.
    pub(super) fn names(&self) -> (&[String], &[String]) {
        (&self.volumes, &self.classes)
    }

    /// Unix times and rows, the oldest first.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, &[f32])> {
        self.order().map(|row| (self.times[row], &self.rows[row * COLUMNS..][..COLUMNS]))
    }

    /// The places of the rows, the oldest first.
    fn order(&self) -> impl Iterator<Item = usize> {
        let count = self.times.len();
        (0..count).map(move |i| (self.oldest + i) % count)
    }

    /// Adds the present state.
    pub(super) fn add(&mut self, now: &Arc<Status>) {
        self.marks.add(now);
        let before = self.before.replace(Arc::clone(now));
        if let Some(before) = before.filter(|then| then.server.uptime_seconds < now.server.uptime_seconds) {
            let row = self.row(&before, now);
            self.push(unix_seconds(), &row);
        }
    }

    fn row(&mut self, before: &Status, now: &Status) -> [f32; COLUMNS] {
        let seconds = seconds(before, now);
        let rate = |then: u64, now: u64| (now.saturating_sub(then) as f64 / seconds) as f32;
        let mut row = [f32::NAN; COLUMNS];
        row[..SERIES.len()].copy_from_slice(&of_all(before, now));
        for v in &now.volumes {
            let Some(at) = column(&mut self.volumes, &v.name, VOLUMES_MAX) else { continue };
            let then = earlier(before, v).map(|then| then.counters).unwrap_or_default();
            row[VOLUMES_AT + 2 * at] = rate(then.reads, v.counters.reads);
            row[VOLUMES_AT + 2 * at + 1] = rate(then.writes, v.counters.writes);
        }
        let then = requests_by_class(before);
        for (name, requests) in requests_by_class(now) {
            let Some(at) = column(&mut self.classes, name, CLASSES_MAX) else { continue };
            row[CLASSES_AT + at] = rate(then.get(name).copied().unwrap_or(0), requests);
        }
        row
    }

    /// Adds a row.
    pub(super) fn push(&mut self, time: u64, row: &[f32; COLUMNS]) {
        if self.times.len() < SAMPLES_MAX {
            if self.times.is_empty() {
                self.times.reserve_exact(SAMPLES_MAX);
                self.rows.reserve_exact(SAMPLES_MAX * COLUMNS);
            }
            self.times.push(time);
            self.rows.extend_from_slice(row);
            return;
        }
        let at = self.oldest;
        self.times[at] = time;
        self.rows[at * COLUMNS..][..COLUMNS].copy_from_slice(row);
        self.oldest = (at + 1) % SAMPLES_MAX;
    }

    /// The last `seconds`, as at most 360 points. A point is the mean of its samples, or for a 99th percentile the
    /// maximum.
    pub(super) fn tell(&self, seconds: u64) -> Told<'_> {
        let count = self.times.len();
        let wanted = usize::try_from(seconds / SAMPLE_EVERY.as_secs()).unwrap_or(usize::MAX).clamp(1, SAMPLES_MAX);
        let newest = self.order().last().map_or(0, |row| self.times[row]);
        // Between rows of an earlier process and those of this one may be any time.
        let is_recent =
            |row: &usize| newest.saturating_sub(self.times[*row]) < seconds.saturating_add(SAMPLE_EVERY.as_secs());
        let order: Vec<usize> = self.order().skip(count.saturating_sub(wanted)).filter(is_recent).collect();
        let together = order.len().div_ceil(POINTS_MAX).max(1);
        let points: Vec<&[usize]> = order.chunks(together).collect();
        let series = |column: usize, fold: fn(&mut dyn Iterator<Item = f32>) -> f32| {
            let value = |rows: &&[usize]| Value(fold(&mut rows.iter().map(|row| self.rows[row * COLUMNS + column])));
            points.iter().map(value).collect::<Vec<_>>()
        };
        let named = |(column, name): (usize, &&'static str)| {
            let fold = if name.ends_with("p99_us") { largest } else { mean_of };
            (*name, series(column, fold))
        };
        let volume = |(at, name): (usize, &String)| {
            let at = VOLUMES_AT + 2 * at;
            (name.clone(), Requests { reads: series(at, mean_of), writes: series(at + 1, mean_of) })
        };
        let class = |(at, name): (usize, &String)| (name.clone(), series(CLASSES_AT + at, mean_of));
        Told {
            step_seconds: SAMPLE_EVERY.as_secs() * together as u64,
            times: points.iter().filter_map(|rows| rows.last()).map(|row| self.times[*row]).collect(),
            series: SERIES.iter().enumerate().map(named).collect(),
            volumes: self.volumes.iter().enumerate().map(volume).collect(),
            classes: self.classes.iter().enumerate().map(class).collect(),
            window: self.marks.window(seconds),
        }
    }
}

/// The index of a name's column; a new one if there is room.
fn column(names: &mut Vec<String>, name: &str, max: usize) -> Option<usize> {
    if let Some(at) = names.iter().position(|known| known == name) {
        return Some(at);
    }
    (names.len() < max).then(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

fn mean(values: impl Iterator<Item = f64>) -> f32 {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { f32::NAN } else { (sum / f64::from(count)) as f32 }
}

fn mean_of(values: &mut dyn Iterator<Item = f32>) -> f32 {
    mean(values.filter(|value| !value.is_nan()).map(f64::from))
}

fn largest(values: &mut dyn Iterator<Item = f32>) -> f32 {
    values.fold(f32::NAN, f32::max)
}

/// A span of the history.
#[derive(Debug, Serialize)]
pub(super) struct Told<'a> {
    step_seconds: u64,
    /// Unix times of the points' ends.
    times: Vec<u64>,
    series: BTreeMap<&'a str, Vec<Value>>,
    volumes: BTreeMap<String, Requests>,
    classes: BTreeMap<String, Vec<Value>>,
    /// Sums of each volume.
    window: Window<'a>,
}

#[derive(Debug, Serialize)]
struct Requests {
    reads: Vec<Value>,
    writes: Vec<Value>,
}

/// A number with four digits; NaN is null.
#[derive(Debug, Clone, Copy)]
struct Value(f32);

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.0.is_finite() {
            return serializer.serialize_none();
        }
        let value = f64::from(self.0);
        let scale = 10f64.powf(3.0 - value.abs().max(1e-9).log10().floor());
        let rounded = (value * scale).round() / scale;
        if rounded.abs() < 9e15 && rounded.fract() == 0.0 {
            return serializer.serialize_i64(rounded as i64);
        }
        serializer.serialize_f64(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::{Latency, Server, Volume};
    use nitro_engine::metrics::VolumeCounters;

    fn status(uptime_seconds: f64, reads: u64) -> Status {
        let mut latency = Latency { count: reads, ..Latency::default() };
        latency.at_most[13..].fill(reads);
        let volume = Volume {
            name: "vm".into(),
            counters: VolumeCounters { reads, read_hit_extents: 2 * reads, ..VolumeCounters::default() },
            read_hit_latency: latency,
            ..Volume::default()
        };
        Status { server: Server { uptime_seconds, ..Server::default() }, volumes: vec![volume], ..Status::default() }
    }

    #[test]
    fn rates_are_differences_and_the_ring_keeps_the_newest() {
        let mut history = History::default();
        for i in 0..=SAMPLES_MAX as u64 + 50 {
            history.add(&Arc::new(status(10.0 * i as f64, 1000 * i)));
        }
        let told = serde_json::to_value(history.tell(u64::MAX)).unwrap();
        assert_eq!(told["series"]["reads"][0], 100);
        assert_eq!(told["series"]["read_hits"][0], 200);
        assert_eq!(told["volumes"]["vm"]["reads"][0], 100);
        assert_eq!(told["series"]["dirty_bytes"][0], 0);
        assert!(told["series"]["write_p50_us"][0].is_null());
        let p99 = told["series"]["read_hit_p99_us"][0].as_f64().unwrap();
        assert!((1000.0..=1500.0).contains(&p99), "{p99}");
        assert_eq!(history.times.len(), SAMPLES_MAX);
        let points = told["times"].as_array().unwrap().len();
        assert!(points <= POINTS_MAX && points * told["step_seconds"].as_u64().unwrap() as usize >= SAMPLES_MAX * 10);
        assert_eq!(history.tell(60).times.len(), 6);
        assert!(History::default().tell(60).times.is_empty());
    }

    #[test]
    fn its_ram_is_bounded_whatever_names_there_are() {
        let mut history = History::default();
        for i in 0..100 {
            let mut status = status(10.0 * f64::from(i), 5);
            status.volumes[0].name = format!("v{i}");
            history.add(&Arc::new(status));
        }
        assert_eq!(history.volumes.len(), VOLUMES_MAX);
        assert!((history.rows.capacity() * 4 + history.times.capacity() * 8) as u64 <= HISTORY_BYTES);
    }
}
