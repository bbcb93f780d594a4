//! Figure 8: the overhead of Nitro at 0 % and at 100 % hits. It is measured on the real engine, in front of a plain
//! file and of a deduplicating store, with an emulated disk and this machine's SSD.

mod origin;
mod report;

use super::synthetic::{Read, Storm};
use crate::kind::Kind;
use crate::report::Section;
use nitro_cache::Settings;
use nitro_console::error::Error;
use nitro_device::{AnyDevice, CompioClock, FileOptions, RamDevice, Reactor, ReactorThread, spawn_thread};
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::Origin;
use nitro_units::ObjectId;
use origin::{Bed, Files, Pace, requests};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

type TestCache = Cache<AnyDevice, CompioClock>;
type TestVolume<O> = Volume<AnyDevice, O, CompioClock>;

/// The amount of work.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// The number of machines whose boot is read from the SSD; one boots from the disk.
    machines: u32,
    /// Reads of each round, at 100 and at 0 % hits.
    reads: [usize; 2],
    /// The numbers of rounds; the median counts.
    rounds: [usize; 2],
}

/// The costs of a read.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    response_ms: f64,
    /// Requests of the disk.
    requests: f64,
    /// The share of extents that were found by recipes.
    by_recipes: f64,
}

/// The results of one system.
#[derive(Default)]
struct Found {
    /// Overheads at 100 and at 0 % hits, in percent, in the order of [`Kind::ALL`].
    hits: Vec<f64>,
    misses: Vec<f64>,
    /// The costs at 0 % hits: without a cache, then by kind.
    costs: Vec<Cost>,
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::with_sources("figure-8", error).or("give a --folder on a disk with some gigabytes of room")
}

/// Runs the measurement and writes the section.
pub(super) fn section(quick: bool, seed: u64, folder: &Path) -> Result<Section, Error> {
    let scale = match quick {
        true => Scale { machines: 6, reads: [3000, 300], rounds: [5, 3] },
        false => Scale { machines: 20, reads: [20_000, 600], rounds: [9, 5] },
    };
    let files = Files::new(folder);
    let reactor = Reactor::new().map_err(|e| failed(&e))?;
    let (tps, cos) = reactor.block_on(async {
        let storm = Storm::new(scale.machines, seed)?;
        let plain = FileOptions::new(&files.plain).create(storm.bytes()).map_err(|e| failed(&e))?;
        storm.lay_out_compact(&plain).await.map_err(|e| failed(&e))?;
        drop(plain);
        let tps = measure::<Arc<AnyDevice>>(scale, &storm, &files).await?;
        Ok::<_, Error>((tps, measure::<nitro_cos::Volume<AnyDevice>>(scale, &storm, &files).await?))
    })?;
    Ok(report::section(scale, &tps, &cos))
}

async fn measure<O: Bed>(scale: Scale, storm: &Storm, files: &Files) -> Result<Found, Error> {
    O::make(files, storm).await?;
    let hits = all_hits::<O>(scale, storm, files).await?;
    Ok(Found { hits, ..no_hits::<O>(scale, storm, files).await? })
}

fn volume<O: Origin>(cache: Arc<TestCache>, origin: O) -> Arc<TestVolume<O>> {
    Volume::new(cache, origin, VolumeOptions { object: ObjectId(0), read_only: true, mode: WriteMode::WriteThrough })
}

/// A volume without a cache, as with `nitro serve --cache none`.
fn alone<O: Origin>(origin: O) -> Result<Arc<TestVolume<O>>, Error> {
    let mut manager = Settings { extent_bytes: 4096, ..Settings::paper(16 << 20) };
    manager.streams.threshold_bytes = 0;
    let settings = EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(manager) };
    let nothing = AnyDevice::from(RamDevice::new(0, 1));
    let cache = Cache::pass_through(nothing, CompioClock::new(), settings).map_err(|e| failed(&e))?;
    Ok(volume(cache, origin))
}

/// A volume with a cache, created for each round, and the thread that inserts.
struct Cached<O> {
    volume: Arc<TestVolume<O>>,
    thread: ReactorThread<()>,
}

impl<O: Origin> Cached<O> {
    async fn new(kind: Kind, cache_bytes: u64, path: &Path, origin: O) -> Result<Self, Error> {
        let mut manager = Settings { dedup: kind.dedup, ..Settings::paper(cache_bytes) };
        manager.streams.threshold_bytes = 0;
        let settings =
            EngineSettings { compression: kind.compression(), ram_cache_bytes: 0, ..EngineSettings::new(manager) };
        // The file may exist from an earlier round.
        let _ = fs::remove_file(path);
        let bytes = cache_bytes + TestCache::overhead_bytes(&settings);
        let flash = FileOptions::new(path).create(bytes).map_err(|e| failed(&e))?;
        let cache = Cache::format(AnyDevice::from(flash), CompioClock::new(), settings, [1; 16], 0x5EED);
        let cache = cache.await.map_err(|e| failed(&e))?;
        let worker = Arc::clone(&cache);
        let thread = spawn_thread("nitro-insert", move || async move { worker.insertion_worker().await });
        let thread = thread.map_err(|e| failed(&e))?;
        Ok(Self { volume: volume(cache, origin), thread })
    }

    fn end(self) -> Result<(), Error> {
        self.volume.cache().close();
        self.thread.join().map_err(|_| Error::new("figure-8", "the inserting thread panicked").or("please report it"))
    }
}

/// The mean response of reads, one at a time.
async fn read<O: Origin>(volume: &TestVolume<O>, reads: &[Read]) -> Result<Duration, Error> {
    let begun = Instant::now();
    for (offset, len) in reads {
        volume.read(*offset, *len).await.map_err(|e| failed(&e))?;
    }
    Ok(begun.elapsed() / reads.len().max(1) as u32)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

/// The percentage by which `with` is longer than `without`.
fn overhead(with: f64, without: f64) -> f64 {
    (with / without - 1.0) * 100.0
}

/// Overheads when every extent is in the cache, relative to the same reads of the SSD without a cache. The rounds of
/// the kinds alternate.
async fn all_hits<O: Bed>(scale: Scale, storm: &Storm, files: &Files) -> Result<Vec<f64>, Error> {
    let cache_bytes = (storm.bytes() * 5 / 4 + (64 << 20)).next_multiple_of(2 << 20);
    let reads = &storm.reads[..storm.reads.len().min(scale.reads[0])];
    let plain = FileOptions::new(&files.plain).read_only(true).open().map_err(|e| failed(&e))?;
    let plain = alone(AnyDevice::from(plain))?;
    let plain_reads = &storm.compact_reads()[..reads.len()];
    let (origin, _) = O::open(files, Pace::File).await?;
    let mut caches = Vec::new();
    for (kind, path) in Kind::ALL.into_iter().zip(&files.caches) {
        let cached = Cached::new(kind, cache_bytes, path, origin.clone()).await?;
        for (offset, len) in reads {
            cached.volume.warm(*offset, *len).await.map_err(|e| failed(&e))?;
        }
        cached.volume.cache().settled().await;
        caches.push(cached);
    }
    let mut overheads = vec![Vec::new(); caches.len()];
    for _ in 0..scale.rounds[0] {
        for (cached, overheads) in caches.iter().zip(&mut overheads) {
            let alone = read(&plain, plain_reads).await?;
            let before = cached.volume.counters();
            let with = read(&cached.volume, reads).await?;
            let missed = cached.volume.counters().read_miss_extents - before.read_miss_extents;
            if missed > 0 {
                return Err(Error::new("figure-8", format_args!("{missed} extents were not in the cache")));
            }
            overheads.push(overhead(with.as_secs_f64(), alone.as_secs_f64()));
        }
    }
    caches.into_iter().try_for_each(Cached::end)?;
    Ok(overheads.into_iter().map(median).collect())
}

/// Overheads when no extent is in the cache: the first machine's boot through a new cache in each round, relative to
/// the disk alone.
async fn no_hits<O: Bed>(scale: Scale, storm: &Storm, files: &Files) -> Result<Found, Error> {
    let cache_bytes = 256 << 20;
    let reads = first_reads(&storm.reads, scale.reads[1]);
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); 1 + Kind::ALL.len()];
    for _ in 0..scale.rounds[1] {
        let (origin, beneath) = O::open(files, Pace::Disk).await?;
        costs[0].push(cost(&*alone(origin)?, || requests(&beneath), &reads).await?);
        drop(beneath);
        for ((kind, path), costs) in Kind::ALL.into_iter().zip(&files.caches).zip(&mut costs[1..]) {
            let (origin, beneath) = O::open(files, Pace::Disk).await?;
            let cached = Cached::new(kind, cache_bytes, path, origin).await?;
            costs.push(cost(&cached.volume, || requests(&beneath), &reads).await?);
            cached.end()?;
        }
    }
    let overheads = |costs_of: &Vec<Cost>| {
        median(
            costs_of
                .iter()
                .zip(&costs[0])
                .map(|(with, without)| overhead(with.response_ms, without.response_ms))
                .collect(),
        )
    };
    let misses = costs[1..].iter().map(overheads).collect();
    let figure = |costs: &[Cost], figure: fn(&Cost) -> f64| median(costs.iter().map(figure).collect());
    let costs = costs.iter().map(|costs| Cost {
        response_ms: figure(costs, |c| c.response_ms),
        requests: figure(costs, |c| c.requests),
        by_recipes: figure(costs, |c| c.by_recipes),
    });
    Ok(Found { misses, costs: costs.collect(), ..Found::default() })
}

/// The costs of reads that are served by the disk.
async fn cost<O: Origin>(volume: &TestVolume<O>, requests: impl Fn() -> u64, reads: &[Read]) -> Result<Cost, Error> {
    let before = requests();
    let response = read(volume, reads).await?;
    let counters = volume.counters();
    Ok(Cost {
        response_ms: response.as_secs_f64() * 1e3,
        requests: (requests() - before) as f64 / reads.len().max(1) as f64,
        by_recipes: counters.recipe_hit_extents as f64 / counters.read_miss_extents.max(1) as f64,
    })
}

/// The first reads that share no extent with an earlier read, so that none can hit.
fn first_reads(reads: &[Read], count: usize) -> Vec<Read> {
    const EXTENT_BYTES: u64 = 8192;
    let mut seen = std::collections::HashSet::new();
    let fresh = |(offset, len): &&Read| {
        let extents = offset / EXTENT_BYTES..(offset + len).div_ceil(EXTENT_BYTES);
        // `fold` inserts all extents, also those after one that was seen before.
        extents.map(|extent| seen.insert(extent)).fold(true, |all, new| all & new)
    };
    reads.iter().filter(fresh).take(count).copied().collect()
}
