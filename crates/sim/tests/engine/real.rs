//! The trace through the engine, on devices in RAM.

use crate::Counted;
use crate::bytes_of::{self, BLOCK_BYTES};
use nitro_cache::destage::Watermarks;
use nitro_device::RamDevice;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device};
use nitro_sim::Settings;
use nitro_testkit::{Simulation, VirtualTime};
use nitro_trace::{Op, Request};
use nitro_units::ObjectId;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Between two requests: longer than destage waits before it looks for what is due.
const PAUSE: Duration = Duration::from_millis(1100);
/// There is more of the volume than the trace asks for: reads ahead do not come to its end.
const BEYOND_BYTES: u64 = 1 << 20;

type RamVolume = Volume<RamDevice, RamDevice, VirtualTime>;

fn settings(simulated: &Settings) -> EngineSettings {
    let marks = simulated.write_back.unwrap_or(Watermarks::USUAL);
    EngineSettings {
        dirty_start_percent: marks.start_percent,
        dirty_max_percent: marks.max_percent,
        dirty_age: Duration::from_secs(marks.age_seconds.into()),
        compression: if simulated.compress { Compression::Lz4 } else { Compression::None },
        ram_cache_bytes: simulated.ram_bytes,
        readahead_ram_bytes: simulated.readahead_ram_bytes,
        staging_bytes: simulated.staging_bytes,
        ..EngineSettings::new(simulated.manager())
    }
}

/// An origin that holds what the trace reads before it writes it, and elsewhere blocks each unlike any other.
async fn origin(requests: &[Request]) -> RamDevice {
    let end = requests.iter().map(Request::end).max().unwrap();
    let origin = RamDevice::new((end + BEYOND_BYTES).next_multiple_of(1 << 20), 4096);
    for block in 0..origin.geometry().size_bytes / BLOCK_BYTES as u64 {
        origin.write(block * BLOCK_BYTES as u64, bytes_of::unspecified(block)).await.unwrap();
    }
    let mut known = HashSet::new();
    for request in requests {
        let data = bytes_of::data(request);
        for (number, block) in request.blocks(BLOCK_BYTES as u64).enumerate() {
            let part = data.slice(number * BLOCK_BYTES..(number + 1) * BLOCK_BYTES);
            if known.insert(block) && request.op == Op::Read {
                origin.write(block * BLOCK_BYTES as u64, part).await.unwrap();
            }
        }
    }
    origin
}

/// What the engine has counted so far.
fn totals(volume: &RamVolume) -> Counted {
    let status = volume.cache().status();
    let (stats, counters) = (status.manager, volume.counters());
    Counted {
        read_hits: counters.read_hit_extents,
        read_misses: counters.read_miss_extents,
        inserted_bytes: stats.inserted_bytes,
        unique_bytes: stats.unique_bytes,
        stored_bytes: stats.stored_bytes,
        evictions: stats.weus_evicted,
        forwarded: stats.forwarded,
        fingerprints_evicted: stats.fingerprints_evicted,
        cached_extents: stats.cached_extents,
        destaged_extents: counters.destaged_extents,
        destage_writes: counters.destage_writes,
        ram_hits: status.engine.ram_hits,
        readahead_hits: status.engine.readahead_hits,
        readahead_extents: counters.readahead_extents,
        bypassed_extents: counters.bypassed_extents,
    }
}

/// `flush_every`: so many writes are made durable together, in write-back.
async fn run(
    volume: Arc<RamVolume>,
    requests: Arc<Vec<Request>>,
    flush_every: u32,
    clock: VirtualTime,
) -> Vec<Counted> {
    let writes_back = volume.mode() == WriteMode::WriteBack;
    let stages = volume.cache().settings().staging_bytes > 0;
    let mut writes = 0;
    let mut all = Vec::new();
    let mut before = totals(&volume);
    for (number, request) in requests.iter().enumerate() {
        let data = bytes_of::data(request);
        volume.set_class(request.class);
        if request.op == Op::Read {
            // As front ends ask.
            let read = match volume.try_read(request.offset, request.len) {
                Some(read) => read,
                None => volume.read(request.offset, request.len).await.unwrap(),
            };
            let read = read.concat();
            assert!(read == data, "request {number} reads what the trace says");
        } else {
            // Durable, in write-back: what it took the place of may be evicted.
            writes += 1;
            let flushes = writes_back && writes % flush_every.max(1) == 0;
            volume.write(request.offset, data, flushes).await.unwrap();
        }
        if !stages {
            volume.cache().settled().await;
        }
        // Time passes once nothing else can: destage that is due, and reading ahead, are over then.
        clock.sleep(PAUSE).await;
        let now = totals(&volume);
        all.push(Counted {
            read_hits: now.read_hits - before.read_hits,
            read_misses: now.read_misses - before.read_misses,
            inserted_bytes: now.inserted_bytes - before.inserted_bytes,
            unique_bytes: now.unique_bytes - before.unique_bytes,
            stored_bytes: now.stored_bytes - before.stored_bytes,
            evictions: now.evictions - before.evictions,
            forwarded: now.forwarded - before.forwarded,
            fingerprints_evicted: now.fingerprints_evicted - before.fingerprints_evicted,
            cached_extents: now.cached_extents,
            destaged_extents: now.destaged_extents - before.destaged_extents,
            destage_writes: now.destage_writes - before.destage_writes,
            ram_hits: now.ram_hits - before.ram_hits,
            readahead_hits: now.readahead_hits - before.readahead_hits,
            readahead_extents: now.readahead_extents - before.readahead_extents,
            bypassed_extents: now.bypassed_extents - before.bypassed_extents,
        });
        before = now;
    }
    let counters = volume.cache().status().engine;
    assert_eq!((counters.fills_dropped, counters.corrupt_extents), (0, 0));
    assert!(stages || counters.fills_voided == 0);
    all
}

/// What each request changes.
pub fn replay(requests: &Arc<Vec<Request>>, simulated: &Settings) -> Vec<Counted> {
    let simulation = Simulation::new(1);
    let settings = settings(simulated);
    let flash = RamDevice::new(simulated.cache_bytes + (64 << 20), 4096);
    let cache = simulation.run(Cache::format(flash, simulation.clock.clone(), settings, [1; 16], 9)).unwrap();
    let worker = cache.clone();
    simulation.spawn(async move { worker.insertion_worker().await });
    let kept = Arc::clone(requests);
    let origin = simulation.run(async move { origin(&kept).await });
    let mode = if simulated.write_back.is_some() { WriteMode::WriteBack } else { WriteMode::WriteThrough };
    let volume = Volume::new(cache, origin, VolumeOptions { object: ObjectId(0), read_only: false, mode });
    let (destaging, reading) = (Arc::clone(&volume), Arc::clone(&volume));
    simulation.spawn(async move { destaging.destage_worker().await });
    simulation.spawn(async move { reading.readahead_worker().await });
    simulation.run(run(volume, Arc::clone(requests), simulated.flush_every, simulation.clock.clone()))
}
