//! Read hits: with everything in RAM on one core, and on a real SSD at depth 64.

use crate::load::{EXTENT, Failure, Rng, cpu_time, extents_of};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_device::{CompioClock, FileOptions, RamDevice, Reactor, spawn_local};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;
use nitro_units::ObjectId;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_secs(3);

type BenchVolume<F> = Volume<F, RamDevice, CompioClock>;

/// A volume whose `contents` are all in the cache, without a RAM cache and without pending fills.
async fn filled<F: Device>(
    flash: F,
    settings: EngineSettings,
    contents: impl Fn(u64) -> Bytes,
    count: u64,
) -> Result<Arc<BenchVolume<F>>, Failure> {
    let cache = Cache::format(flash, CompioClock::new(), settings, [1; 16], 0x5EED).await?;
    let worker = cache.clone();
    spawn_local(async move { worker.insertion_worker().await });
    let origin = RamDevice::new(count * EXTENT as u64, 512);
    let volume = Volume::new(
        cache,
        origin,
        VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough },
    );
    for n in 0..count {
        volume.write(n * EXTENT as u64, contents(n), false).await?;
        if n % 512 == 511 {
            volume.cache().settled().await;
        }
    }
    volume.cache().settled().await;
    Ok(volume)
}

/// Random reads at a depth for [`MEASURED`]; returns their number, the elapsed time and the CPU time.
async fn read_randomly<F: Device>(volume: &BenchVolume<F>, count: u64, depth: usize) -> (u64, Duration, Duration) {
    let mut rng = Rng(42);
    let mut read = || volume.read(rng.below(count) * EXTENT as u64, EXTENT as u64);
    let (begun, cpu) = (Instant::now(), cpu_time());
    let mut reads = 0;
    if depth == 1 {
        while reads % 1024 != 0 || begun.elapsed() < MEASURED {
            drop(std::hint::black_box(read().await));
            reads += 1;
        }
    } else {
        let mut under_way: FuturesUnordered<_> = (0..depth).map(|_| read()).collect();
        while let Some(result) = under_way.next().await {
            drop(std::hint::black_box(result));
            reads += 1;
            if reads % 256 != 0 || begun.elapsed() < MEASURED {
                under_way.push(read());
            } else {
                break;
            }
        }
    }
    (reads, begun.elapsed(), cpu_time() - cpu)
}

fn report(name: &str, (reads, elapsed, cpu): (u64, Duration, Duration), hit_ratio: f64) {
    let per_second = reads as f64 / elapsed.as_secs_f64();
    let cpu_us = cpu.as_secs_f64() * 1e6 / reads as f64;
    println!("{name} reads_per_second={per_second:.0} cpu_us_per_read={cpu_us:.2} hit_ratio={hit_ratio:.4}");
}

fn overhead_bytes(settings: &EngineSettings) -> u64 {
    Cache::<RamDevice, CompioClock>::overhead_bytes(settings)
}

fn settings(cache_bytes: u64, dedup: bool, compression: Compression) -> EngineSettings {
    let mut manager = Settings { dedup, ..Settings::new(cache_bytes) };
    manager.streams.threshold_bytes = 0;
    EngineSettings { ram_cache_bytes: 0, compression, ..EngineSettings::new(manager) }
}

/// Hits with flash and origin in RAM, without deduplication and compression, on one core, for several sizes of working
/// sets.
pub fn in_ram() -> Result<(), Failure> {
    for mib in [32, 100, 800] {
        Reactor::new()?.block_on(hits_in_ram(mib))?;
    }
    Ok(())
}

async fn hits_in_ram(mib: u64) -> Result<(), Failure> {
    let count = (mib << 20) / EXTENT as u64;
    let settings = settings(1 << 30, false, Compression::None);
    let content = |n: u64| {
        let mut rng = Rng(n);
        let mut extent = BufMut::with_len(EXTENT);
        extent.chunks_exact_mut(8).for_each(|w| w.copy_from_slice(&rng.below(u64::MAX).to_le_bytes()));
        extent.freeze()
    };
    let volume = filled(RamDevice::new((1 << 30) + overhead_bytes(&settings), 512), settings, content, count).await?;
    let before = volume.counters();
    let measured = read_randomly(&volume, count, 1).await;
    let hits = volume.counters().read_hit_extents - before.read_hit_extents;
    report(&format!("hits-ram-{mib}M"), measured, hits as f64 / measured.0 as f64);
    Ok(())
}

/// Hits on an SSD at depth 64, with the data of a real file, uncompressed and compressed.
pub fn on_ssd(file: &Path, data: &Path) -> Result<(), Failure> {
    let extents = extents_of(data)?;
    for (name, compression) in [("hits-ssd-raw", Compression::None), ("hits-ssd-lz4", Compression::Lz4)] {
        Reactor::new()?.block_on(async {
            let count = extents.len() as u64;
            let cache_bytes = (count * EXTENT as u64 * 11 / 10 + (32 << 20)).next_multiple_of(2 << 20);
            let _ = std::fs::remove_file(file);
            let settings = settings(cache_bytes, false, compression);
            let flash = FileOptions::new(file).create(cache_bytes + overhead_bytes(&settings))?;
            let content = |n: u64| extents[n as usize].clone();
            let volume = filled(flash, settings, content, count).await?;
            let before = volume.counters();
            let measured = read_randomly(&volume, count, 64).await;
            let hits = volume.counters().read_hit_extents - before.read_hit_extents;
            report(name, measured, hits as f64 / (measured.0 + 63) as f64);
            Ok::<_, Failure>(())
        })?;
    }
    std::fs::remove_file(file)?;
    Ok(())
}
