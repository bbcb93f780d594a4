//! The engine's counters as the control protocol tells them.

use super::protocol::{Cache, Latency, Server, Status, Volume};
use crate::export::{ServedCache, VolumeExport};
use crate::serve::Served;
use nitro_engine::Health;
use nitro_engine::metrics;
use nitro_engine::port::Device;

/// The server's state now.
pub(crate) fn status(served: &Served) -> Status {
    Status {
        server: Server {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: served.started.elapsed().as_secs_f64(),
            connections: served.connections.now() as u64,
            connections_total: served.connections.total() as u64,
            uris: served.uris.clone(),
        },
        caches: served.caches.iter().map(|(name, cache)| cache_status(name, cache)).collect(),
        volumes: served.volumes.iter().map(|(cache, export)| volume_status(cache, export)).collect(),
    }
}

fn cache_status(name: &str, cache: &ServedCache) -> Cache {
    let status = cache.status();
    let (stats, counters, settings) = (&status.manager, &status.engine, &cache.settings().manager);
    let absent = cache.flash().geometry().size_bytes == 0;
    let cached_bytes = stats.cached_extents * u64::from(settings.extent_bytes);
    let used_bytes = (stats.weus - stats.weus_free) * u64::from(settings.weu_bytes);
    Cache {
        name: name.to_owned(),
        health: match status.health {
            _ if absent => "none",
            Health::Caching => "caching",
            Health::PassThrough => "pass-through",
        }
        .to_owned(),
        capacity_bytes: if absent { 0 } else { settings.cache_bytes },
        cached_bytes,
        effective_capacity: if used_bytes == 0 { 1.0 } else { cached_bytes as f64 / used_bytes as f64 },
        hits: stats.hits,
        misses: stats.misses,
        dedup_ratio: stats.dedup_ratio(),
        compression_ratio: stats.compression_ratio(),
        insertions: stats.insertions,
        inserted_bytes: stats.inserted_bytes,
        weus: stats.weus,
        weus_free: stats.weus_free,
        weus_evicted: stats.weus_evicted,
        ram_hits: counters.ram_hits,
        pending_hits: counters.pending_hits,
        readahead_hits: counters.readahead_hits,
        ssd_reads: counters.ssd_reads,
        ssd_read_bytes: counters.ssd_read_bytes,
        ssd_written_payload_bytes: counters.ssd_written_payload_bytes,
        ssd_written_header_bytes: counters.ssd_written_header_bytes,
        ssd_written_padding_bytes: counters.ssd_written_padding_bytes,
        ssd_written_superblock_bytes: counters.ssd_written_superblock_bytes,
        fills_dropped: counters.fills_dropped,
        fills_voided: counters.fills_voided,
        corrupt_extents: counters.corrupt_extents,
        ssd_read_errors: counters.ssd_read_errors,
        ssd_write_errors: counters.ssd_write_errors,
        insert_queue_bytes: status.insert_queue_bytes,
        ram_cache_bytes: status.ram_cache_bytes,
        index_ram_bytes: stats.index_ram_bytes,
    }
}

fn volume_status(cache: &str, export: &VolumeExport) -> Volume {
    let (counters, latencies) = (export.volume.counters(), export.volume.latencies());
    Volume {
        name: export.name.clone(),
        cache: cache.to_owned(),
        size_bytes: export.volume.size_bytes(),
        read_only: export.volume.read_only(),
        reads: counters.reads,
        read_bytes: counters.read_bytes,
        writes: counters.writes,
        write_bytes: counters.write_bytes,
        trims: counters.trims,
        write_zeroes: counters.write_zeroes,
        flushes: counters.flushes,
        errors: counters.errors,
        read_hit_extents: counters.read_hit_extents,
        read_miss_extents: counters.read_miss_extents,
        read_joined_extents: counters.read_joined_extents,
        readahead_extents: counters.readahead_extents,
        bypassed_extents: counters.bypassed_extents,
        origin_reads: counters.origin_reads,
        origin_read_bytes: counters.origin_read_bytes,
        origin_writes: counters.origin_writes,
        origin_written_bytes: counters.origin_written_bytes,
        read_hit_latency: latencies.read_hit.into(),
        read_miss_latency: latencies.read_miss.into(),
        write_latency: latencies.write.into(),
        flush_latency: latencies.flush.into(),
    }
}

impl From<metrics::Latency> for Latency {
    fn from(latency: metrics::Latency) -> Self {
        let metrics::Latency { count, mean_us, p50_us, p90_us, p99_us, p999_us, max_us } = latency;
        Self { count, mean_us, p50_us, p90_us, p99_us, p999_us, max_us }
    }
}
