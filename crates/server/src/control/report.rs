//! The engine's counters in the form of the control protocol.

use super::protocol::{
    Cache, CacheDevice, ClassOfContents, ClassOfRequests, Detection, Endurance, Explanation, FlashIndex, KnownVolume,
    Latency, Log, Point, ReactorLoad, Recording, Recovered, Scan, Server, Spans, Status, Store, StoreSsd, Stored,
    Volume, WhatIf,
};
use crate::cos::CosStore;
use crate::export::VolumeExport;
use crate::origins;
use crate::serve::{CacheEntry, FlashIndexStatus, Seen, Served, VolumeDetector, host_name, mode_of_byte, ram_need};
use nitro_cache::admission::Lane;
use nitro_cache::weu::Space;
use nitro_cache::{Missed, builtin, curve};
use nitro_console::error::{Error, why};
use nitro_console::logging;
use nitro_cos::SsdState;
use nitro_engine::{Classifier, DeviceCounters, DeviceStatus, EnduranceStatus, Explained, PointStatus, metrics};
use nitro_port::Device;
use nitro_units::ClassId;
use serde::Serialize;
use serde_json::Value;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Maximum number of lost ranges listed for a volume.
const LOST_RANGES_MAX: usize = 100;

/// The server's present state.
pub fn status(served: &Served) -> Status {
    let (threads, insert_threads) = served.threads();
    Status {
        server: Server {
            host: host_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: served.started.elapsed().as_secs_f64(),
            connections: served.connections.now() as u64,
            connections_total: served.connections.total() as u64,
            threads: threads as u64,
            reactors: served.loads().into_iter().map(reactor).collect(),
            insert_threads: insert_threads as u64,
            uris: served.uris(),
            config_file: served.in_force.source.as_ref().map(|source| source.file.clone()),
            recording: served.recorder.as_ref().map(|recorder| {
                let (path, requests, dropped) = recorder.progress();
                Recording { path: path.display().to_string(), requests, dropped }
            }),
            spans: served.spans.as_ref().map(|spans| {
                let ((url, sample), (sent, dropped)) = (spans.target(), spans.progress());
                Spans { url: url.to_string(), sample, sent, dropped }
            }),
            etcd: served.standing.as_ref().map(|standing| standing.told(|name| served.volume(name).is_some())),
            log_lines_left_out: logging::lines_left_out(),
            log_lines_limited: logging::lines_limited(),
            http_wrong_tokens: served.http_wrong_tokens.load(Ordering::Relaxed),
        },
        ram: ram_need(served),
        caches: served.caches.values().map(|entry| served_cache(served, entry)).collect(),
        volumes: served.all().iter().map(|export| volume_status(served, export)).collect(),
        stores: origins::open_stores().iter().map(|(path, open)| store(served, path, open)).collect(),
    }
}

fn reactor(Seen { busy, clients, .. }: Seen) -> ReactorLoad {
    ReactorLoad { clients: clients as u64, busy_percent: busy as f64 / 10.0 }
}

fn store(served: &Served, path: &Path, open: &CosStore) -> Store {
    let ssd = open.ssd_stats().map(|ssd| StoreSsd {
        failed: match ssd.state {
            SsdState::Failed { why } => Some(why),
            SsdState::Kept | SsdState::Emptied { .. } => None,
        },
        written_bytes: ssd.written_bytes,
        read_errors: ssd.read_errors,
        damaged: ssd.damaged,
    });
    let operations = served.jobs.of_store(path);
    let shares = open.device().counters();
    Store {
        path: path.display().to_string(),
        poisoned: open.poisoned(),
        size_bytes: open.size_bytes(),
        max_bytes: open.grows_to(),
        counters: open.counters(),
        shares,
        ssd,
        operations,
    }
}

/// A cache, and the requests to it by class.
fn served_cache(served: &Served, entry: &CacheEntry) -> Cache {
    let mut cache = cache_status(entry, |name| served.volume(name).is_some());
    for export in served.all().iter().filter(|export| export.entry.name == entry.name) {
        for (of, asked) in export.volume.class_counters() {
            let Some(class) = cache.classes.iter_mut().find(|class| class.id == of.number()) else { continue };
            class.requests = class.requests.plus(&asked);
        }
    }
    cache
}

fn cache_device(entry: &CacheEntry, device: &DeviceStatus) -> CacheDevice {
    let path = entry.device_paths.get(device.number as usize);
    let DeviceCounters { reads, read_bytes, writes, written_bytes, errors } = device.counters;
    CacheDevice {
        number: device.number,
        path: path.map_or_else(String::new, |path| path.display().to_string()),
        health: word(&device.health),
        reason: device.reason.clone(),
        size_bytes: device.size_bytes,
        space: device.space,
        reads,
        read_bytes,
        writes,
        written_bytes,
        errors,
    }
}

/// The status of a cache; `is_served` tells whether a volume is served.
pub fn cache_status(entry: &CacheEntry, is_served: impl Fn(&str) -> bool) -> Cache {
    let cache = &entry.cache;
    let status = cache.status();
    let (stats, counters, settings) = (&status.manager, &status.engine, &cache.settings().manager);
    let absent = cache.devices().geometry().size_bytes == 0;
    let extent_bytes = u64::from(settings.extent_bytes);
    let cached_bytes = stats.cached_extents * extent_bytes;
    let (pinned_extents, pinned_cached) = cache.pinned_extents();
    let used_bytes = (stats.weus - stats.weus_free) * u64::from(settings.weu_bytes);
    Cache {
        name: entry.name.clone(),
        health: if absent { "none".to_owned() } else { word(&status.health) },
        path: entry.path.as_deref().map_or_else(String::new, |path| path.display().to_string()),
        devices: status.devices.iter().map(|device| cache_device(entry, device)).collect(),
        uuid: if absent { String::new() } else { entry.uuid.to_string() },
        failed: status.failed.clone(),
        log: status.log.map(|log| log_status(entry, log)),
        flash_index: entry
            .flash_index
            .as_ref()
            .map(|index| flash_index(&index.status(), counters.flash_index_duplicates)),
        log_needed: entry.log_missing.map(|uuid| uuid.to_string()),
        loading: !absent && status.restoring,
        recovered: entry.recovered.map_or_else(Recovered::default, |found| Recovered {
            dirty_bytes: found.dirty_extents * extent_bytes,
            lost_bytes: found.lost_extents * extent_bytes,
            replayed_bytes: found.replayed_extents * extent_bytes,
            open_regions: found.open_regions,
            outlived: found.outlived,
        }),
        volumes: known_volumes(entry, is_served),
        dirty_bytes: stats.dirty_extents * extent_bytes,
        regions_open: status.open_regions,
        capacity_bytes: if absent { 0 } else { stats.weus * u64::from(settings.weu_bytes) },
        cached_bytes,
        classes: if absent { Vec::new() } else { classes_of_contents(entry, extent_bytes) },
        pins: if absent { Vec::new() } else { entry.pins() },
        pins_bytes: pinned_extents * extent_bytes,
        pins_cached_bytes: pinned_cached * extent_bytes,
        space: if absent { Space::default() } else { cache.space() },
        what_if: if absent { Vec::new() } else { what_if(cache.what_if(), stats.weus * u64::from(settings.weu_bytes)) },
        hit_curve: if absent {
            Vec::new()
        } else {
            what_if(cache.hit_curve(), stats.weus * u64::from(settings.weu_bytes))
        },
        effective_capacity: if used_bytes == 0 { 1.0 } else { cached_bytes as f64 / used_bytes as f64 },
        dedup_ratio: stats.dedup_ratio(),
        compression_ratio: stats.compression_ratio(),
        endurance: endurance(&cache.endurance(), stats.spared),
        discard: if absent { String::new() } else { status.discard.clone() },
        insert_queue_bytes: status.insert_queue_bytes,
        dirty_queue_bytes: status.dirty_queue_bytes,
        ram_cache_bytes: status.ram_cache_bytes,
        counters: *counters,
        manager: *stats,
    }
}

fn what_if(points: Vec<curve::WhatIf>, capacity_bytes: u64) -> Vec<WhatIf> {
    let told = |point: curve::WhatIf| WhatIf {
        size: point.size,
        capacity_bytes: (point.size * capacity_bytes as f64) as u64,
        hit_ratio: point.hit_ratio,
    };
    points.into_iter().map(told).collect()
}

fn endurance(status: &EnduranceStatus, spared: u64) -> Endurance {
    let per_year = status.written_per_day.map(|day| 365.0 * day).filter(|year| *year > 0.0);
    let years = status.endurance.zip(per_year).map(|(endurance, year)| endurance.rated_bytes as f64 / year);
    Endurance {
        written_bytes_per_day: status.written_per_day.map(|bytes| bytes as u64),
        budget_bytes_per_day: status.endurance.map(|endurance| endurance.bytes_per_day),
        saved_bytes: status.saved_bytes as i64,
        years,
        openness: status.openness,
        spared,
    }
}

fn flash_index(status: &FlashIndexStatus, duplicates: u64) -> FlashIndex {
    let FlashIndexStatus { is_open, flash_bytes, counters, errors } = *status;
    FlashIndex {
        open: is_open,
        entries: counters.entries,
        flash_bytes,
        ram_bytes: counters.ram_bytes,
        duplicates,
        hits: counters.hits,
        misses: counters.misses,
        reads: counters.hit_reads + counters.miss_reads,
        written_bytes: counters.written_bytes,
        corrupt_pages: counters.corrupt_pages,
        errors,
    }
}

fn log_status(entry: &CacheEntry, status: nitro_engine::LogStatus) -> Log {
    let nitro_engine::LogStatus { active, failed, ring_bytes, used_bytes, batches, written_bytes, stalls } = status;
    let path = entry.log_path.as_deref().map_or_else(String::new, |path| path.display().to_string());
    Log { path, active, failed, ring_bytes, used_bytes, batches, written_bytes, stalls }
}

fn known_volumes(entry: &CacheEntry, is_served: impl Fn(&str) -> bool) -> Vec<KnownVolume> {
    let known = |(object, known): (_, nitro_engine::VolumeEntry)| KnownVolume {
        dirty_bytes: entry.dirty_bytes(object, &known),
        size_bytes: known.origin_bytes,
        mode: mode_of_byte(known.mode).to_string(),
        served: is_served(&known.name),
        name: known.name,
    };
    entry.cache.volumes().into_iter().map(known).collect()
}

/// The word by which an engine's enumeration is serialized.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}

/// The contents of a cache by class, if anything was classified.
fn classes_of_contents(entry: &CacheEntry, extent_bytes: u64) -> Vec<ClassOfContents> {
    let (table, extents) = (entry.classes.table(), entry.cache.cached_by_class());
    let told = |class: ClassId| {
        let policy = table.classes.of(class);
        ClassOfContents {
            id: class.number(),
            name: table.name(class),
            priority: policy.priority.name().to_owned(),
            allocation: policy.allocation.name().to_owned(),
            read_allocate: policy.on_read,
            write_allocate: policy.on_write,
            min_percent: policy.min_percent,
            max_percent: policy.max_percent,
            cached_bytes: extents[class.index()] * extent_bytes,
            ..ClassOfContents::default()
        }
    };
    let by_patterns = entry.cache.settings().manager.patterns;
    let is_told = |class: &ClassId| {
        extents[class.index()] > 0 || table.knows(*class) || by_patterns && builtin::is_of_pattern(*class)
    };
    let all: Vec<_> = ClassId::all().filter(is_told).map(told).collect();
    if all.iter().any(|held| held.id > 0 || table.knows(ClassId::UNCLASSIFIED)) { all } else { Vec::new() }
}

/// The requests to a volume by class, if anything was classified.
fn classes_of_requests(export: &VolumeExport) -> Vec<ClassOfRequests> {
    let table = export.entry.classes.table();
    let asked = |(class, counters): (ClassId, metrics::ClassCounters)| ClassOfRequests {
        id: class.number(),
        name: table.name(class),
        counters,
    };
    let all: Vec<_> = export.volume.class_counters().into_iter().map(asked).collect();
    if all.iter().any(|asked| asked.id > 0) { all } else { Vec::new() }
}

fn detection(detector: &VolumeDetector) -> Detection {
    let nitro_detect::Counters { systems, inodes, ranges, forgotten, ram_bytes } = detector.counters();
    let scan = detector.scan.as_ref().map(|scan| Scan {
        read_bytes: scan.read_bytes(),
        left_bytes: detector.bytes_to_scan(),
        done: scan.is_done(),
    });
    Detection { file_systems: systems, inodes, ranges, forgotten, ram_bytes, scan }
}

fn volume_status(served: &Served, export: &VolumeExport) -> Volume {
    let extent_bytes = u64::from(export.volume.cache().settings().manager.extent_bytes);
    let lost = export.volume.lost_ranges();
    let (counters, latencies) = (export.volume.counters(), export.volume.latencies());
    let (failure, share) = (export.volume.destage_failure(), export.volume.dirty_share());
    let (rates, (waiting_limit, waiting_room)) = (export.throttle.rates(), export.throttle.waiting());
    Volume {
        name: export.name.clone(),
        cache: export.entry.name.clone(),
        size_bytes: export.volume.size_bytes(),
        block_bytes: export.block_bytes,
        read_only: export.volume.read_only(),
        origin: export.origin.display().to_string(),
        mode: export.volume.mode().to_string(),
        dedup_domain: export.dedup_domain.clone(),
        class: export.volume.class().number(),
        write_policy: export.volume.write_policy(),
        fill_paused: export.volume.fill_paused(),
        classes: classes_of_requests(export),
        detection: export.detector.as_deref().map(detection),
        dirty_bytes: export.dirty_bytes(),
        dirty_age_seconds: export.dirty_age_seconds(),
        point: export.volume.point_status().map(point),
        lost_bytes: lost.iter().map(|range| range.end - range.start).sum(),
        lost_ranges: lost.iter().take(LOST_RANGES_MAX).map(|range| (range.start, range.end - range.start)).collect(),
        attached: export.volume.is_attached(),
        poisoned: (export.identity.lost().map(str::to_owned)).or_else(|| {
            export.volume.origin().taken_over().or_else(|| export.volume.poisoned()).map(|why| why.to_string())
        }),
        origin_owes_seconds: export.volume.origin_owes().as_secs_f64(),
        clients: export.clients.now() as u64,
        block_device: served.block_devices.path(&export.name),
        destaged_bytes: counters.destaged_extents * extent_bytes,
        destage_error_of_cache: failure.as_ref().is_some_and(|failure| failure.error.is_of_cache()),
        destage_error: failure.as_ref().map(|failure| why(&failure.error)),
        destage_failing_seconds: failure.map_or(0.0, |failure| failure.age.as_secs_f64()),
        dirty_share_min: share.min_percent,
        dirty_share_max: share.max_percent,
        iops: rates.requests.map(NonZeroU64::get),
        bandwidth_bytes: rates.bytes.map(NonZeroU64::get),
        burst_seconds: rates.burst.as_secs(),
        waiting_limit: waiting_limit as u64,
        waiting_room: waiting_room as u64,
        waits: export.throttle.counters(),
        origin_counters: export.volume.origin().counters(),
        missed: missed(&counters),
        read_hit_latency: latencies.read_hit.into(),
        read_miss_latency: latencies.read_miss.into(),
        write_latency: latencies.write.into(),
        flush_latency: latencies.flush.into(),
        counters,
    }
}

fn point(status: PointStatus) -> Point {
    Point {
        number: status.last.number,
        unix_seconds: status.last.unix_ms as f64 / 1e3,
        age_seconds: status.age.as_secs_f64(),
        max_age_seconds: status.settings.max_age.as_secs_f64(),
        max_bytes: status.settings.max_bytes,
    }
}

fn missed(counters: &metrics::VolumeCounters) -> Missed {
    Missed {
        cold: counters.missed_cold,
        evicted: counters.missed_evicted,
        overwritten: counters.missed_overwritten,
        refused: counters.missed_refused,
        dropped: counters.missed_dropped,
        invalidated: counters.missed_invalidated,
        stream: counters.missed_stream,
    }
}

/// What a volume's cache knows about the extent at an offset.
///
/// # Errors
/// No volume of that name is served, or the offset is behind its end.
pub fn explanation(served: &Served, volume: &str, offset: u64) -> Result<Explanation, Error> {
    let export = served.named(volume)?;
    let explained = export.volume.explain(offset).ok_or_else(|| {
        let size_bytes = export.volume.size_bytes();
        Error::new(format_args!("offset {offset}"), format_args!("volume {volume} ends at {size_bytes}"))
    })?;
    let Explained { range, dirty, pending, in_ram, pinned, stored, gone } = explained;
    let lane = |lane| if lane == Lane::Main { "main" } else { "side" };
    Ok(Explanation {
        volume: volume.to_owned(),
        offset: range.start,
        bytes: range.end - range.start,
        cached: in_ram || pending || stored.is_some(),
        dirty,
        in_ram,
        pending,
        pinned,
        stored: stored.map(|at| Stored {
            weu: at.weu.0,
            read_bytes: at.read_bytes,
            on_its_way: at.on_its_way,
            lane: lane(at.worth.lane).to_owned(),
            heat: at.worth.heat,
            class: at.worth.class.number(),
            class_name: export.entry.classes.table().name(at.worth.class),
            class_source: class_source(&export, range.clone(), at.worth.class),
        }),
        gone: gone.map(|gone| format!("{gone:?}").to_lowercase()),
    })
}

/// Where the class of a cached extent comes from. The cache does not store this: it follows from the blocks whose use is
/// known, from the requests so far, and from the kind of the class.
fn class_source(export: &VolumeExport, range: Range<u64>, class: ClassId) -> String {
    let in_blocks = || export.detector.as_ref().and_then(|detector| detector.class_of(range.clone())) == Some(class);
    let in_requests = || {
        let volume = &export.volume;
        volume.class() == class || volume.class_counters().iter().any(|(requested, _)| *requested == class)
    };
    let source = match class {
        class if !class.is_classified() => "none",
        _ if in_blocks() => "blocks",
        _ if in_requests() => "request",
        class if builtin::is_of_pattern(class) => "pattern",
        class if builtin::name(class).is_some() => "blocks",
        _ => "request",
    };
    source.to_owned()
}

impl From<metrics::Latency> for Latency {
    fn from(latency: metrics::Latency) -> Self {
        let metrics::Latency { count, mean_us, p50_us, p90_us, p99_us, p999_us, max_us, at_most } = latency;
        Self { count, mean_us, p50_us, p90_us, p99_us, p999_us, max_us, at_most }
    }
}
