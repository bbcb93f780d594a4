//! All metrics. Those of counters follow from the rows that declare the counters; each other one has a row here.

use crate::control::protocol::{
    Cache, CacheDevice, ClassOfContents, Endurance, Latency, Log, Status, Store, StoreSsd, Volume,
};
use crate::export::WaitCounters;
use nitro_cache::Stats;
use nitro_engine::metrics::{CacheCounters, ClassCounters, VolumeCounters};
use nitro_nbd::client::NbdCounters;
use nitro_s3::S3Counters;
use nitro_units::{Counted, Growth};
use std::borrow::Cow;
use std::sync::LazyLock;

/// The kind of a metric (OpenMetrics 1.0, §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from the server's start; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts below bounds, a count and a sum.
    Histogram,
}

/// A unit, which is the end of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or 0 and 1.
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A quotient of two quantities.
    Ratio,
}

impl Unit {
    /// The unit of a counter, and its name without it: `_bytes`, or `_us`, which metrics have in seconds.
    pub(super) fn of(counted: &Counted) -> (&'static str, Self) {
        let end = |end, unit| counted.name.strip_suffix(end).map(|stem| (stem, unit));
        end("_bytes", Self::Bytes).or_else(|| end("_us", Self::Seconds)).unwrap_or((counted.name, Self::None))
    }

    /// The suffix of names.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "_bytes",
            Self::Seconds => "_seconds",
            Self::Ratio => "_ratio",
        }
    }
}

/// Values of a metric, each with the value of its label.
type Parts = Vec<(&'static str, f64)>;

/// The source of a metric's samples, which also determines their labels.
pub(super) enum Samples {
    /// One, without labels.
    Server(fn(&Status) -> f64),
    /// One, with the program's version as label.
    Version,
    /// One for each cache that there is.
    Cache(fn(&Cache) -> f64),
    /// One for each cache to which it applies.
    SomeCaches(fn(&Cache) -> Option<f64>),
    /// Several for each cache, by another label.
    CacheParts(&'static str, fn(&Cache) -> Parts),
    /// One for each device of each cache that has several.
    CacheDevice(fn(&CacheDevice) -> f64),
    /// One for each class of a cache's contents.
    CacheClass(fn(&ClassOfContents) -> f64),
    /// One for each volume.
    Volume(fn(&Volume) -> f64),
    /// One for each volume to which it applies.
    SomeVolumes(fn(&Volume) -> Option<f64>),
    /// One for each store.
    Store(fn(&Store) -> f64),
    /// Several for each store to which they apply, by another label.
    StoreParts(&'static str, fn(&Store) -> Parts),
    /// Counters of each thing of a kind.
    Counted(Scope, Vec<&'static Counted>),
    /// Latencies of each volume, by another label.
    Latencies(&'static str, fn(&Volume) -> Vec<(&'static str, Latency)>),
}

/// What has counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Cache,
    Volume,
    /// The requests of a class to a volume, if anything was classified.
    VolumeClass,
    /// The connections to the NBD server of a volume's origin.
    VolumeNbd,
    /// The requests to the S3 server of a volume's origin.
    VolumeS3,
    Store,
}

impl Scope {
    /// All of them.
    pub(super) const ALL: [Self; 6] =
        [Self::Cache, Self::Volume, Self::VolumeClass, Self::VolumeNbd, Self::VolumeS3, Self::Store];

    /// Its name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Volume => "volume",
            Self::VolumeClass => "volume_class",
            Self::VolumeNbd => "volume_nbd",
            Self::VolumeS3 => "volume_bucket",
            Self::Store => "store",
        }
    }

    /// The labels that name one.
    pub(super) const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Cache => &["cache"],
            Self::Volume | Self::VolumeNbd | Self::VolumeS3 => &["volume"],
            Self::VolumeClass => &["volume", "class"],
            Self::Store => &["store"],
        }
    }

    /// Its counters.
    pub(super) fn counters(self) -> impl Iterator<Item = &'static Counted> {
        let [one, other]: [&[Counted]; 2] = match self {
            Self::Cache => [CacheCounters::ALL, Stats::ALL],
            Self::Volume => [VolumeCounters::ALL, WaitCounters::ALL],
            Self::VolumeClass => [ClassCounters::ALL, &[]],
            Self::VolumeNbd => [NbdCounters::ALL, &[]],
            Self::VolumeS3 => [S3Counters::ALL, &[]],
            Self::Store => [nitro_cos::Counters::ALL, nitro_shares::Counters::ALL],
        };
        one.iter().chain(other)
    }

    /// The metrics of its counters: one for each, or for those that are parts of one.
    fn metrics(self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        for counted in self.counters() {
            let (stem, unit) = Unit::of(counted);
            let name = format!("nitro_{}_{}", self.name(), counted.part.map_or(stem, |part| part.family));
            let known = metrics.iter_mut().find(|metric| metric.name == name && metric.unit == unit);
            if let Some(Metric { samples: Samples::Counted(_, values), .. }) = known {
                values.push(counted);
                continue;
            }
            let family = FAMILIES.iter().find(|(family, _)| counted.part.is_some() && *family == name);
            let help = family.map_or(counted.meaning.trim_end_matches('.'), |(_, help)| help);
            metrics.push(Metric {
                name: Cow::Owned(name),
                kind: if counted.growth == Growth::Counter { Kind::Counter } else { Kind::Gauge },
                unit,
                help,
                samples: Samples::Counted(self, vec![counted]),
            });
        }
        metrics
    }
}

/// The meanings of metrics that several counters are parts of.
#[rustfmt::skip]
const FAMILIES: &[(&str, &str)] = &[
    ("nitro_cache_lookups", "Extents looked up in the index, by result: hit, miss"),
    ("nitro_cache_hits", "Extents found in RAM, by place: ram (RAM cache), pending (not on the SSD yet), readahead"),
    ("nitro_cache_fills_left_out", "Extents that did not reach the SSD, by reason: dropped (the queue was full), voided (they were written to meanwhile)"),
    ("nitro_cache_ssd_written", "Bytes written to the SSD, by cause: payload, header, padding, journal, superblock"),
    ("nitro_cache_ssd_errors", "Errors of the SSD, which were handled by use of the origins, by kind: read, write, corrupt (a checksum was wrong)"),
    ("nitro_volume_requests", "Requests, by operation: read, write, trim, write_zeroes, flush"),
    ("nitro_volume_request", "Bytes of requests, by operation: read, write"),
    ("nitro_volume_read_extents", "Extents of reads, by result: hit, miss, joined (another request was reading them already)"),
    ("nitro_volume_partial_writes", "Extents of which a write covered a part, in write-through, by result: merged (it was cached), joined (an earlier merge waited), completed (parts make up the whole), left (not cached, and the rest is not known)"),
    ("nitro_volume_missed_extents", "Missed extents of reads, by cause: cold (not cached recently), evicted, overwritten, refused (not admitted), dropped (the insertion queue was full), invalidated, stream"),
    ("nitro_volume_class_requests", "Requests by class, if anything was classified, by operation: read, write"),
    ("nitro_volume_class_request", "Bytes of requests by class, by operation: read, write"),
    ("nitro_volume_class_around_extents", "Written extents that went around the cache in write-back, by class and its rule: never, write_allocate, while_clean, second_access, max_percent"),
    ("nitro_volume_origin_requests", "Requests to the origin, by operation: read, write"),
    ("nitro_volume_origin", "Bytes of requests to the origin, by operation: read, write"),
    ("nitro_volume_waits", "Requests that waited before they began, by cause: limit (the volume's iops and bandwidth), dirty (little room for dirty data was left), journal (little room in the journal or the write log), ram (little RAM for data that wait for the SSD), point (the origin is behind as far as it may be)"),
    ("nitro_volume_waited", "Time for which requests waited before they began, by cause: limit, dirty, journal, ram, point"),
    ("nitro_store_disk_requests", "Requests to the store's disk while its time is shared, by work: random (clients at random), streams (backups and restores), background (no client waits for it)"),
    ("nitro_store_disk_waits", "Requests to the store's disk that waited until other work had had its share, by work: random, streams, background"),
    ("nitro_store_disk_waited", "Time for which requests to the store's disk waited for other work, by work: random, streams, background"),
    ("nitro_store_disk_cost", "Time of the store's disk that requests cost, as far as its costs are known, by work: random, streams, background"),
];

/// All metrics.
pub static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let counted = Scope::ALL.into_iter().flat_map(Scope::metrics);
    others().into_iter().chain(counted).collect()
});

/// A metric.
pub struct Metric {
    /// Without its unit and `_total`.
    pub(super) name: Cow<'static, str>,
    /// Its kind.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning, in a sentence without its full stop.
    pub help: &'static str,
    pub(super) samples: Samples,
}

impl Metric {
    /// The name in Prometheus. For a histogram, `_bucket`, `_count` and `_sum` are appended to it.
    #[must_use]
    pub fn full_name(&self) -> String {
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{}{total}", self.name, self.unit.suffix())
    }

    /// Whether it has the value of a counter.
    #[cfg(test)]
    pub(super) fn has(&self, scope: Scope, counted: &Counted) -> bool {
        matches!(&self.samples, Samples::Counted(of, values) if *of == scope && values.contains(&counted))
    }

    /// The names of its labels.
    #[must_use]
    pub fn labels(&self) -> Vec<&'static str> {
        match &self.samples {
            Samples::Server(_) => Vec::new(),
            Samples::Version => vec!["version"],
            Samples::Cache(_) | Samples::SomeCaches(_) => vec!["cache"],
            Samples::CacheParts(label, _) => vec!["cache", *label],
            Samples::CacheDevice(_) => vec!["cache", "device"],
            Samples::CacheClass(_) => vec!["cache", "class"],
            Samples::Volume(_) | Samples::SomeVolumes(_) => vec!["volume"],
            Samples::Latencies(label, _) => vec!["volume", *label],
            Samples::Counted(scope, values) => {
                let label = values.first().and_then(|counted| counted.part).map(|part| part.label);
                scope.labels().iter().copied().chain(label).collect()
            }
            Samples::Store(_) => vec!["store"],
            Samples::StoreParts(label, _) => vec!["store", *label],
        }
    }
}

/// Maximum numbers of caches and of volumes with metrics, in the order of their names: a server has at most about 200
/// series for each of them.
pub(super) const NAMES_MAX: usize = 256;

const fn metric(name: &'static str, kind: Kind, unit: Unit, help: &'static str, samples: Samples) -> Metric {
    Metric { name: Cow::Borrowed(name), kind, unit, help, samples }
}

fn yes(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn life(cache: &Cache) -> &Endurance {
    &cache.endurance
}

fn log(cache: &Cache, value: fn(&Log) -> u64) -> Option<f64> {
    cache.log.as_ref().map(|log| value(log) as f64)
}

/// Errors of a store's SSD, if it has one.
fn ssd_errors(store: &Store) -> Parts {
    let of = |ssd: &StoreSsd| vec![("read", ssd.read_errors as f64), ("damaged", ssd.damaged as f64)];
    store.ssd.as_ref().map_or_else(Vec::new, of)
}

use Kind::{Counter, Gauge, Histogram};
use Samples as S;
use Unit::{Bytes, None as Count, Ratio, Seconds};

/// Labels of the sizes that [`what_if`](Cache::what_if) has.
const SIZES: [&str; 4] = ["0.5", "1", "2", "4"];

/// Seconds of a year, for an SSD's life.
const YEAR_SECONDS: f64 = 365.0 * 86_400.0;

/// The metrics that are no counters of a cache, a volume or a store.
#[rustfmt::skip]
fn others() -> Vec<Metric> { vec![
    metric("nitro_build_info", Gauge, Count, "1, with the program's version", S::Version),
    metric("nitro_uptime", Gauge, Seconds, "Time since the server's start", S::Server(|s| s.server.uptime_seconds)),
    metric("nitro_ram_resident", Gauge, Bytes, "RAM that the process takes at present", S::Server(|s| s.ram.resident_bytes as f64)),
    metric("nitro_ram_need", Gauge, Bytes, "Maximum RAM that the process may take", S::Server(|s| s.ram.need_bytes as f64)),
    metric("nitro_clients", Gauge, Count, "Connections of clients, over all protocols", S::Server(|s| s.server.connections as f64)),
    metric("nitro_clients_accepted", Counter, Count, "Connections of clients since the start, over all protocols", S::Server(|s| s.server.connections_total as f64)),
    metric("nitro_log_lines_left_out", Counter, Count, "Lines of the log that were dropped because standard error was not read fast enough", S::Server(|s| s.server.log_lines_left_out as f64)),
    metric("nitro_log_lines_limited", Counter, Count, "Messages that were not logged because their kind had been logged ten times within 10 s", S::Server(|s| s.server.log_lines_limited as f64)),
    metric("nitro_recording_requests", Counter, Count, "Requests that were recorded (--record)", S::Server(|s| s.server.recording.as_ref().map_or(0, |recording| recording.requests) as f64)),
    metric("nitro_recording_dropped", Counter, Count, "Requests that were not recorded because the recorder did not keep up, or cannot write any more", S::Server(|s| s.server.recording.as_ref().map_or(0, |recording| recording.dropped) as f64)),
    metric("nitro_http_wrong_tokens", Counter, Count, "Requests for actions over HTTP that had a wrong token", S::Server(|s| s.server.http_wrong_tokens as f64)),
    metric("nitro_spans_sent", Counter, Count, "Spans of requests that the collector accepted (--otlp)", S::Server(|s| s.server.spans.as_ref().map_or(0, |spans| spans.sent) as f64)),
    metric("nitro_spans_dropped", Counter, Count, "Spans of requests that were dropped because too many waited for the collector, or because it refused them", S::Server(|s| s.server.spans.as_ref().map_or(0, |spans| spans.dropped) as f64)),
    metric("nitro_lease_left", Gauge, Seconds, "Time until this host stops serving unless etcd renews its lease; 0: etcd decides about no volume", S::Server(|s| s.server.etcd.as_ref().map_or(0.0, |etcd| etcd.left_ms as f64 / 1e3))),
    metric("nitro_volumes_waited_for", Gauge, Count, "Volumes that this host may serve and does not, since by etcd another host has them", S::Server(|s| s.server.etcd.as_ref().map_or(0, |etcd| etcd.waits_for.len()) as f64)),
    metric("nitro_volumes", Gauge, Count, "Volumes that are served", S::Server(|s| s.volumes.len() as f64)),
    metric("nitro_names_left_out", Gauge, Count, "Caches and volumes beyond the first 256, which have no metrics", S::Server(|s| (s.volumes.len().saturating_sub(NAMES_MAX) + s.caches.len().saturating_sub(NAMES_MAX)) as f64)),

    metric("nitro_cache_pass_through", Gauge, Count, "1: the SSD failed and is not used, and volumes are served from their origins", S::Cache(|c| yes(c.health == "pass-through"))),
    metric("nitro_cache_degraded", Gauge, Count, "1: one of several devices of the cache is lost, and the others are in use", S::Cache(|c| yes(c.health == "degraded"))),
    metric("nitro_cache_device_lost", Gauge, Count, "1: this one of several devices failed or was missing, and is not used until the cache is formatted", S::CacheDevice(|d| yes(d.health == "lost"))),
    metric("nitro_cache_device_size", Gauge, Bytes, "Size of each of several devices; 0: it is not there", S::CacheDevice(|d| d.size_bytes as f64)),
    metric("nitro_cache_device_live", Gauge, Bytes, "Live bytes on each of several devices, those of units with dirty data included", S::CacheDevice(|d| (d.space.live_bytes + d.space.pinned_bytes) as f64)),
    metric("nitro_cache_device_reads", Counter, Count, "Reads of each of several devices", S::CacheDevice(|d| d.reads as f64)),
    metric("nitro_cache_device_read", Counter, Bytes, "Bytes read from each of several devices", S::CacheDevice(|d| d.read_bytes as f64)),
    metric("nitro_cache_device_writes", Counter, Count, "Writes of each of several devices", S::CacheDevice(|d| d.writes as f64)),
    metric("nitro_cache_device_written", Counter, Bytes, "Bytes written to each of several devices, without superblocks", S::CacheDevice(|d| d.written_bytes as f64)),
    metric("nitro_cache_device_errors", Counter, Count, "Reads and writes of each of several devices that failed", S::CacheDevice(|d| d.errors as f64)),
    metric("nitro_cache_failed", Gauge, Count, "1: nothing can be made durable on the SSD any more", S::Cache(|c| yes(c.health == "failed" || c.failed.is_some()))),
    metric("nitro_cache_loading", Gauge, Count, "1: clean contents are still being restored after a restart", S::Cache(|c| yes(c.loading))),
    metric("nitro_cache_capacity", Gauge, Bytes, "Space for write-evict units on the SSD", S::Cache(|c| c.capacity_bytes as f64)),
    metric("nitro_cache_space", Gauge, Bytes, "Use of that space: live, overwritten, free, open (being filled), pinned (by dirty data), unread (not read since the restart), retired (could not be written)", S::CacheParts("state", |c| vec![
        ("live", c.space.live_bytes as f64), ("overwritten", c.space.overwritten_bytes as f64), ("free", c.space.free_bytes as f64),
        ("open", c.space.open_bytes as f64), ("pinned", c.space.pinned_bytes as f64), ("unread", c.space.unread_bytes as f64), ("retired", c.space.retired_bytes as f64),
    ])),
    metric("nitro_cache_cached", Gauge, Bytes, "Bytes of volumes that the cache holds", S::Cache(|c| c.cached_bytes as f64)),
    metric("nitro_cache_class_cached", Gauge, Bytes, "The same, by the class of the request that cached them, if anything was classified", S::CacheClass(|c| c.cached_bytes as f64)),
    metric("nitro_cache_effective_capacity", Gauge, Ratio, "Cached bytes divided by the used space on the SSD", S::Cache(|c| c.effective_capacity)),
    metric("nitro_cache_deduplication", Gauge, Ratio, "Inserted bytes divided by inserted bytes that were not duplicates", S::Cache(|c| c.dedup_ratio)),
    metric("nitro_cache_compression", Gauge, Ratio, "Inserted bytes that were not duplicates, divided by the bytes stored for them", S::Cache(|c| c.compression_ratio)),
    metric("nitro_cache_what_if_hits", Gauge, Ratio, "Estimated hit ratio of recently read extents in an LRU cache of this multiple of the size", S::CacheParts("size", |c| {
        let at = |label: &str| c.what_if.iter().find(|point| point.size.to_string() == label);
        SIZES.into_iter().filter_map(|label| Some((label, at(label)?.hit_ratio))).collect()
    })),
    metric("nitro_cache_dirty", Gauge, Bytes, "Dirty data: bytes that are not in the origins yet", S::Cache(|c| c.dirty_bytes as f64)),
    metric("nitro_cache_queued", Gauge, Bytes, "RAM of data that wait to be written to the SSD, by queue: clean, dirty", S::CacheParts("queue", |c| vec![
        ("clean", c.insert_queue_bytes as f64), ("dirty", c.dirty_queue_bytes as f64),
    ])),
    metric("nitro_cache_ram_cache", Gauge, Bytes, "RAM of the extents in the RAM cache", S::Cache(|c| c.ram_cache_bytes as f64)),
    metric("nitro_cache_ssd_daily_written", Gauge, Bytes, "Bytes written to the SSD in a day, at the mean rate of the last day or of the time since the start, after the first hour", S::SomeCaches(|c| life(c).written_bytes_per_day.map(|bytes| bytes as f64))),
    metric("nitro_cache_ssd_daily_budget", Gauge, Bytes, "Bytes that may be written to the SSD in a day, where an endurance is configured", S::SomeCaches(|c| life(c).budget_bytes_per_day.map(|bytes| bytes as f64))),
    metric("nitro_cache_ssd_saved", Gauge, Bytes, "Unused budget, which may be spent in addition; negative: the budget is exceeded, where an endurance is configured", S::SomeCaches(|c| life(c).budget_bytes_per_day.map(|_| life(c).saved_bytes as f64))),
    metric("nitro_cache_ssd_life", Gauge, Seconds, "Time until the rated endurance of the SSD is used up at the present rate, where an endurance is configured", S::SomeCaches(|c| life(c).years.map(|years| years * YEAR_SECONDS))),
    metric("nitro_cache_write_log_active", Gauge, Count, "1: the write log is in use, so writes in write-back are durable when they are acknowledged; where there is a write log", S::SomeCaches(|c| c.log.as_ref().map(|log| yes(log.active)))),
    metric("nitro_cache_write_log_used", Gauge, Bytes, "Bytes of the write log that are still needed", S::SomeCaches(|c| log(c, |log| log.used_bytes))),
    metric("nitro_cache_write_log_size", Gauge, Bytes, "Size of the write log", S::SomeCaches(|c| log(c, |log| log.ring_bytes))),
    metric("nitro_cache_write_log_written", Counter, Bytes, "Bytes written to the write log", S::SomeCaches(|c| log(c, |log| log.written_bytes))),
    metric("nitro_cache_fingerprint_index_entries", Gauge, Count, "Fingerprints in the index on the SSD, where there is one", S::SomeCaches(|c| c.flash_index.as_ref().map(|index| index.entries as f64))),
    metric("nitro_cache_fingerprint_index_errors", Counter, Count, "Requests of the index on the SSD that failed, and pages that were corrupt", S::SomeCaches(|c| c.flash_index.as_ref().map(|index| (index.errors + index.corrupt_pages) as f64))),
    metric("nitro_cache_recovered_lost", Gauge, Bytes, "Dirty data that the start found in the journal and could not read any more", S::Cache(|c| c.recovered.lost_bytes as f64)),

    metric("nitro_volume_size", Gauge, Bytes, "Size of the volume", S::Volume(|v| v.size_bytes as f64)),
    metric("nitro_volume_write_back", Gauge, Count, "1: in write-back; 0: in write-through", S::Volume(|v| yes(v.mode == "write-back"))),
    metric("nitro_volume_attached", Gauge, Count, "1: the volume uses its cache; 0: it is served from its origin", S::Volume(|v| yes(v.attached))),
    metric("nitro_volume_poisoned", Gauge, Count, "1: writes are refused after a failure", S::Volume(|v| yes(v.poisoned.is_some()))),
    metric("nitro_volume_clients", Gauge, Count, "Connections of clients to the volume, over all protocols", S::Volume(|v| v.clients as f64)),
    metric("nitro_volume_request_duration", Histogram, Seconds, "Durations of requests, by kind: read_hit (of reads answered at once from the RAM cache, one in 64 is timed and counted for all), read_miss, write, flush; counts are exact to 1 % of a bound", S::Latencies("kind", |v| vec![
        ("read_hit", v.read_hit_latency), ("read_miss", v.read_miss_latency), ("write", v.write_latency), ("flush", v.flush_latency),
    ])),
    metric("nitro_volume_bucket_dollars", Counter, Count, "Dollars for the requests to the bucket of the origin, at AWS's prices (see status), since it was opened", S::SomeVolumes(|v| Some(v.origin_counters.s3_bill?.dollars))),
    metric("nitro_volume_bucket_month_dollars", Gauge, Count, "Dollars for the requests of 30 days, as fast as since the origin was opened", S::SomeVolumes(|v| Some(v.origin_counters.s3_bill?.dollars_per_month))),
    metric("nitro_volume_origin_owes", Gauge, Seconds, "Time for which the origin has not answered; 0: nothing is outstanding or it answers", S::Volume(|v| v.origin_owes_seconds)),
    metric("nitro_volume_dirty", Gauge, Bytes, "Dirty data: bytes that are not in the origin yet", S::Volume(|v| v.dirty_bytes as f64)),
    metric("nitro_volume_point_age", Gauge, Seconds, "For how long there have been writes that are in no consistent point of the volume: what is given up if its host is lost with its cache", S::SomeVolumes(|v| v.point.map(|point| point.age_seconds))),
    metric("nitro_volume_point_age_max", Gauge, Seconds, "Age of the last consistent point from which on writes are slowed", S::SomeVolumes(|v| v.point.map(|point| point.max_age_seconds))),
    metric("nitro_volume_dirty_age", Gauge, Seconds, "Age of the oldest write that is not in the origin yet; 0: the origin is up to date", S::SomeVolumes(|v| v.dirty_age_seconds)),
    metric("nitro_volume_lost", Gauge, Bytes, "Dirty data that cannot be read from the cache any more", S::Volume(|v| v.lost_bytes as f64)),
    metric("nitro_volume_destaged", Counter, Bytes, "Bytes destaged to the origin", S::Volume(|v| v.destaged_bytes as f64)),
    metric("nitro_volume_destage_failing", Gauge, Seconds, "Time for which destage has been failing; 0: it does not fail", S::Volume(|v| v.destage_failing_seconds)),

    metric("nitro_store_size", Gauge, Bytes, "Size of the deduplicating store on its device", S::Store(|s| s.size_bytes as f64)),
    metric("nitro_store_max_size", Gauge, Bytes, "Size up to which it grows by itself; 0: it does not", S::Store(|s| s.max_bytes.unwrap_or(0) as f64)),
    metric("nitro_store_poisoned", Gauge, Count, "1: the deduplicating store accepts no more changes after a failure", S::Store(|s| yes(s.poisoned.is_some()))),
    metric("nitro_store_ssd_failed", Gauge, Count, "1: the SSD of the store failed and is not used", S::Store(|s| yes(s.ssd.as_ref().is_some_and(|ssd| ssd.failed.is_some())))),
    metric("nitro_store_ssd_errors", Counter, Count, "Errors of the store's SSD, which were handled by use of the disk, by kind: read, damaged (a piece failed its check)", S::StoreParts("kind", ssd_errors)),
] }

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_follow_the_conventions() {
        let names: HashSet<_> = METRICS.iter().map(Metric::full_name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in &*METRICS {
            let name = metric.full_name();
            assert!(name.starts_with("nitro_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert!(!metric.name.ends_with("_total") && !metric.help.ends_with('.'), "{name}");
            assert!(!metric.help.contains(['\n', '\\', '"', '|']), "{name}");
        }
    }

    #[test]
    fn every_counter_is_in_one_metric_and_each_family_has_its_meaning() {
        for scope in Scope::ALL {
            for counted in scope.counters() {
                assert_eq!(METRICS.iter().filter(|metric| metric.has(scope, counted)).count(), 1, "{}", counted.name);
                let family = counted.part.map(|part| format!("nitro_{}_{}", scope.name(), part.family));
                assert!(family.is_none_or(|family| FAMILIES.iter().any(|(name, _)| *name == family)), "{counted:?}");
            }
        }
        for (family, help) in FAMILIES {
            let described = METRICS.iter().find(|metric| metric.name == *family).unwrap();
            assert_eq!(described.help, *help);
            let Samples::Counted(_, values) = &described.samples else { panic!("{family}") };
            for counted in values {
                assert!(help.contains(counted.part.unwrap().value), "{help}");
            }
        }
    }
}
