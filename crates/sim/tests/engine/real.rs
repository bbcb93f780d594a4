//! The trace through the engine, on devices in RAM.

use crate::bytes_of::{self, BLOCK_BYTES};
use crate::origin::TestOrigin;
use crate::{Counted, has_contents};
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
/// Where a trim may have opened a write-intent region: longer than it takes to be closed.
const LONG_PAUSE: Duration = Duration::from_millis(3100);
/// There is more of the volume than the trace asks for: reads ahead do not come to its end.
const BEYOND_BYTES: u64 = 1 << 20;

type TestVolume = Volume<RamDevice, TestOrigin, VirtualTime>;

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
        partial_writes: simulated.partial_writes,
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
    for request in requests.iter().filter(|request| has_contents(request)) {
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
fn totals(volume: &TestVolume) -> Counted {
    let status = volume.cache().status();
    let (stats, counters) = (status.manager, volume.counters());
    Counted {
        read_hits: counters.read_hit_extents + counters.recipe_hit_extents,
        read_misses: counters.read_miss_extents - counters.recipe_hit_extents,
        content_hits: counters.recipe_hit_extents,
        flushes: counters.flushes,
        inserted_bytes: stats.inserted_bytes,
        unique_bytes: stats.unique_bytes,
        stored_bytes: stats.stored_bytes,
        evictions: stats.weus_evicted,
        forwarded: stats.forwarded,
        fingerprints_evicted: stats.fingerprints_evicted,
        cached_extents: stats.cached_extents,
        destaged_extents: counters.destaged_extents,
        destage_writes: counters.destage_writes,
        around_extents: volume.class_counters().iter().map(|(_, counters)| counters.around_extents()).sum(),
        ram_hits: status.engine.ram_hits,
        readahead_hits: status.engine.readahead_hits,
        readahead_extents: counters.readahead_extents,
        bypassed_extents: counters.bypassed_extents,
        partial_writes: match volume.mode() {
            WriteMode::WriteThrough => [counters.partial_merged, counters.partial_completed, counters.partial_fetched],
            WriteMode::WriteBack => [0; 3],
        },
    }
}

/// When the engine inserts what it was given, and makes it durable.
#[derive(Clone, Copy)]
struct Pace {
    /// A write is made durable after this number of writes; 0: never.
    flush_every: u32,
    /// The number of requests that come before any other task runs, unless one of them misses.
    lag: u32,
    pause: Duration,
}

impl Pace {
    fn new(requests: &[Request], simulated: &Settings) -> Self {
        let has = |op| requests.iter().any(|request| request.op == op);
        let flush_every = if has(Op::Flush) { simulated.flush_every } else { simulated.flush_every.max(1) };
        let pause = if has(Op::Trim) { LONG_PAUSE } else { PAUSE };
        Self {
            flush_every: if simulated.write_back.is_some() { flush_every } else { 0 },
            lag: simulated.insertion_lag,
            pause,
        }
    }
}

/// Sends a request, and checks what it reads. `flushes`: a write is durable when it returns.
async fn send(volume: &TestVolume, request: &Request, flushes: bool) {
    let Request { op, offset, len, .. } = *request;
    match op {
        Op::Read => {
            // As front ends ask.
            let read = match volume.try_read(offset, len) {
                Some(read) => read,
                None => volume.read(offset, len).await.unwrap(),
            };
            assert!(read.concat() == bytes_of::data(request), "{request:?} reads what the trace says");
        }
        Op::Write => volume.write(offset, bytes_of::data(request), flushes).await.unwrap(),
        Op::Trim => volume.trim(offset, len, false).await.unwrap(),
        _ => volume.flush().await.unwrap(),
    }
}

async fn run(volume: Arc<TestVolume>, requests: Arc<Vec<Request>>, pace: Pace, clock: VirtualTime) -> Vec<Counted> {
    let stages = volume.cache().settings().staging_bytes > 0;
    let (mut writes, mut waiting) = (0, 0);
    let mut all = Vec::new();
    let mut before = totals(&volume);
    for request in requests.iter() {
        volume.set_class(request.class);
        writes += u32::from(request.op == Op::Write);
        // Durable, in write-back: what it took the place of may be evicted.
        send(&volume, request, pace.flush_every > 0 && writes % pace.flush_every == 0).await;
        waiting += 1;
        let missed = totals(&volume).missed() > before.missed();
        if waiting >= pace.lag || missed || matches!(request.op, Op::Flush | Op::Trim) {
            waiting = 0;
            if !stages {
                volume.cache().settled().await;
            }
            // Time passes once nothing else can: destage that is due, and reading ahead, are over then.
            clock.sleep(pace.pause).await;
        }
        let now = totals(&volume);
        all.push(now.since(&before));
        before = now;
    }
    let counters = volume.cache().status().engine;
    assert_eq!((counters.fills_dropped, counters.corrupt_extents), (0, 0));
    assert!(stages || pace.lag > 1 || counters.fills_voided == 0);
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
    let ram = simulation.run(async move { origin(&kept).await });
    let origin = TestOrigin { ram, recipe_extent_bytes: simulated.recipes.then_some(simulated.extent_bytes) };
    let mode = if simulated.write_back.is_some() { WriteMode::WriteBack } else { WriteMode::WriteThrough };
    let volume = Volume::new(cache, origin, VolumeOptions { object: ObjectId(0), read_only: false, mode });
    let (destaging, reading) = (Arc::clone(&volume), Arc::clone(&volume));
    simulation.spawn(async move { destaging.destage_worker().await });
    simulation.spawn(async move { reading.readahead_worker().await });
    let pace = Pace::new(requests, simulated);
    simulation.run(run(volume, Arc::clone(requests), pace, simulation.clock.clone()))
}
