//! Benchmarks of write-back. Random writes of 8 KiB at depth 64 with a flush every 64, compared with the origin alone
//! and the raw SSD; the cost of destage for readers; the gain of a write log if every write must be durable; the cost
//! of write intent in write-through; and the time of a restart.

use crate::load::{EXTENT, Failure, Rng, extents_of};
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_device::hdd::HddModel;
use nitro_device::{CompioClock, FileDevice, FileOptions, HddDevice, RamDevice, Reactor, spawn_local, spawn_thread};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, LogDevice, MissingLog, Volume, VolumeOptions, WriteMode};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use nitro_units::ObjectId;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DEPTH: usize = 64;
const VOLUME_BYTES: u64 = 1 << 30;
/// Bytes of a write log.
const LOG_BYTES: u64 = 256 << 20;
const MEASURED: Duration = Duration::from_secs(5);
/// Room is given back when a round of destage ends, which takes seconds: writers at its limit are measured for this
/// number of times [`MEASURED`].
const LIMITED_ROUNDS: u32 = 6;

type Disk = HddDevice<RamDevice, CompioClock>;
type BenchCache = Cache<FileDevice, CompioClock>;
type BenchVolume = Volume<FileDevice, Disk, CompioClock>;

fn disk() -> Disk {
    HddDevice::new(RamDevice::new(VOLUME_BYTES, 512), CompioClock::new(), HddModel::rpm_7200())
}

fn settings(cache_bytes: u64) -> EngineSettings {
    EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(Settings::new(cache_bytes)) }
}

fn flash(file: &Path, settings: &EngineSettings) -> Result<FileDevice, Failure> {
    let _ = std::fs::remove_file(file);
    let bytes = settings.manager.cache_bytes + BenchCache::overhead_bytes(settings);
    Ok(FileOptions::new(file).create(bytes)?)
}

/// Rounds of [`DEPTH`] random writes and a flush for [`MEASURED`]; returns writes per second.
async fn writes_per_second<W, G>(
    extents: &[Bytes],
    span: u64,
    write: impl Fn(u64, Bytes) -> W,
    flush: impl Fn() -> G,
) -> Result<f64, Failure>
where
    W: Future<Output = Result<(), Failure>>,
    G: Future<Output = Result<(), Failure>>,
{
    let mut rng = Rng(7);
    let (begun, mut count) = (Instant::now(), 0u64);
    while begun.elapsed() < MEASURED {
        let mut round = Vec::with_capacity(DEPTH);
        for _ in 0..DEPTH {
            let content = extents[rng.below(extents.len() as u64) as usize].clone();
            round.push(write(rng.below(span / EXTENT as u64) * EXTENT as u64, content));
        }
        for result in join_all(round).await {
            result?;
        }
        flush().await?;
        count += DEPTH as u64;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

async fn volume_writes(volume: &BenchVolume, extents: &[Bytes]) -> Result<f64, Failure> {
    let write = async |at, data| Ok(volume.write(at, data, false).await?);
    writes_per_second(extents, VOLUME_BYTES, write, async || Ok(volume.flush().await?)).await
}

fn volume(cache: Arc<BenchCache>, mode: WriteMode) -> Arc<BenchVolume> {
    Volume::new(cache, disk(), VolumeOptions { object: ObjectId(0), read_only: false, mode })
}

/// A cache with running workers; insertion has its own thread, as in the server.
async fn cache(file: &Path, settings: EngineSettings) -> Result<Arc<BenchCache>, Failure> {
    logged_cache(file, settings, None).await
}

async fn logged_cache(
    file: &Path,
    settings: EngineSettings,
    log: Option<LogDevice<FileDevice>>,
) -> Result<Arc<BenchCache>, Failure> {
    let (flash, clock) = (flash(file, &settings)?, CompioClock::new());
    let cache = Cache::format_logged(flash, log, MissingLog::Refuse, clock, settings, [1; 16], 0x5EED).await?;
    let worker = cache.clone();
    drop(spawn_thread("insert", move || async move { worker.insertion_worker().await })?);
    let journal = cache.clone();
    spawn_local(async move { journal.journal_worker().await });
    Ok(cache)
}

/// Runs all benchmarks of write-back with the bytes of `data`, on a cache in `file`.
pub fn run(data: &Path, file: &Path) -> Result<(), Failure> {
    let extents = extents_of(data)?;
    Reactor::new()?.block_on(async {
        let raw = raw_writes(file, &extents).await?;
        let alone = volume(
            Cache::pass_through(flash(file, &settings(64 << 20))?, CompioClock::new(), settings(64 << 20))?,
            WriteMode::WriteThrough,
        );
        let alone = volume_writes(&alone, &extents).await?;
        let fits = fits(file, &extents).await?;
        let limited = limited(file, &extents).await?;
        println!(
            "write-back raw={raw:.0} origin_alone={alone:.0} fits={fits:.0} limited={limited:.0} \
             fits_over_alone={:.1} fits_over_raw={:.2} limited_over_alone={:.2}",
            fits / alone,
            fits / raw,
            limited / alone
        );
        durable(file, &extents).await?;
        intent(file, &extents).await?;
        readers(file, &extents).await
    })?;
    std::fs::remove_file(file)?;
    Ok(())
}

async fn raw_writes(file: &Path, extents: &[Bytes]) -> Result<f64, Failure> {
    let _ = std::fs::remove_file(file);
    let device = FileOptions::new(file).create(VOLUME_BYTES)?;
    // The file is written once, so that the file system has no storage left to allocate.
    for at in (0..VOLUME_BYTES).step_by(1 << 20) {
        device.write(at, BufMut::zeroed(1 << 20).freeze()).await?;
    }
    device.flush().await?;
    let write = async |at, data| Ok(device.write(at, data).await?);
    writes_per_second(extents, VOLUME_BYTES, write, async || Ok(device.flush().await?)).await
}

/// All writes fit into the cache, so destage does not run.
async fn fits(file: &Path, extents: &[Bytes]) -> Result<f64, Failure> {
    let mut settings = settings(4 << 30);
    (settings.dirty_start_percent, settings.dirty_max_percent) = (90, 95);
    settings.dirty_age = Duration::from_secs(3600);
    let cache = cache(file, settings).await?;
    let rate = volume_writes(&volume(cache.clone(), WriteMode::WriteBack), extents).await?;
    let metrics = cache.status().engine;
    let written =
        metrics.ssd_written_payload_bytes + metrics.ssd_written_header_bytes + metrics.ssd_written_padding_bytes;
    println!(
        "write-back-bytes commits={} journal_bytes={} weu_bytes={} padding_bytes={}",
        metrics.commits, metrics.ssd_written_journal_bytes, written, metrics.ssd_written_padding_bytes
    );
    cache.close();
    Ok(rate)
}

/// The cache is full of dirty extents before the measurement begins, so writers are limited by destage.
async fn limited(file: &Path, extents: &[Bytes]) -> Result<f64, Failure> {
    let mut settings = settings(64 << 20);
    settings.dirty_queue_bytes = 1 << 20;
    let cache = cache(file, settings).await?;
    let volume = volume(cache.clone(), WriteMode::WriteBack);
    let destage = volume.clone();
    spawn_local(async move { destage.destage_worker().await });
    while cache.status().engine.waits().next().is_none() {
        volume_writes(&volume, extents).await?;
    }
    let mut rates = 0.0;
    for _ in 0..LIMITED_ROUNDS {
        rates += volume_writes(&volume, extents).await?;
    }
    cache.close();
    Ok(rates / f64::from(LIMITED_ROUNDS))
}

/// Writes of concurrent clients that must each be durable before the next: with a flush after each, and with a write
/// log in a file next to the cache.
async fn durable(file: &Path, extents: &[Bytes]) -> Result<(), Failure> {
    let mut settings = settings(4 << 30);
    (settings.dirty_start_percent, settings.dirty_max_percent) = (90, 95);
    settings.dirty_age = Duration::from_secs(3600);
    let log_file = file.with_extension("log");
    for clients in [1, DEPTH] {
        let plain = cache(file, settings).await?;
        let flushed = durable_writes(&volume(plain.clone(), WriteMode::WriteBack), extents, clients, true).await?;
        plain.close();
        let _ = std::fs::remove_file(&log_file);
        let device = FileOptions::new(&log_file).create(LOG_BYTES)?;
        // The file is written once, as in `raw_writes`.
        for at in (0..LOG_BYTES).step_by(1 << 20) {
            device.write(at, BufMut::zeroed(1 << 20).freeze()).await?;
        }
        device.flush().await?;
        let log = LogDevice { device, size_bytes: None, uuid: [3; 16] };
        let logged = logged_cache(file, settings, Some(log)).await?;
        let at_once = durable_writes(&volume(logged.clone(), WriteMode::WriteBack), extents, clients, false).await?;
        let log = logged.log_status().ok_or("there is no log")?;
        println!(
            "write-log-{clients} flush_each={flushed:.0} logged={at_once:.0} ratio={:.2} batches={} log_bytes={} \
             stalls={}",
            at_once / flushed,
            log.batches,
            log.written_bytes,
            log.stalls
        );
        logged.close();
    }
    std::fs::remove_file(&log_file)?;
    Ok(())
}

/// Writes per second of `clients` clients, each of which has one write in progress.
async fn durable_writes(volume: &BenchVolume, extents: &[Bytes], clients: usize, flush: bool) -> Result<f64, Failure> {
    let begun = Instant::now();
    let client = async |number: usize| {
        let (mut rng, mut count) = (Rng(number as u64 + 1), 0u64);
        while begun.elapsed() < MEASURED {
            let content = extents[rng.below(extents.len() as u64) as usize].clone();
            volume.write(rng.below(VOLUME_BYTES / EXTENT as u64) * EXTENT as u64, content, false).await?;
            if flush {
                volume.flush().await?;
            }
            count += 1;
        }
        Ok::<_, Failure>(count)
    };
    let mut total = 0;
    for count in join_all((0..clients).map(client)).await {
        total += count?;
    }
    Ok(total as f64 / begun.elapsed().as_secs_f64())
}

/// Write-through with a journal, compared with the origin alone.
async fn intent(file: &Path, extents: &[Bytes]) -> Result<(), Failure> {
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let passed = Cache::pass_through(flash(file, &settings(64 << 20))?, CompioClock::new(), settings(64 << 20))?;
        let alone = volume_writes(&volume(passed, WriteMode::WriteThrough), extents).await?;
        let cache = cache(file, settings(256 << 20)).await?;
        let cached = volume_writes(&volume(cache.clone(), WriteMode::WriteThrough), extents).await?;
        println!(
            "write-intent origin_alone={alone:.0} cached={cached:.0} regions_opened={} ratio={:.3}",
            cache.status().engine.regions_opened,
            cached / alone
        );
        ratios.push(cached / alone);
        cache.close();
    }
    ratios.sort_by(f64::total_cmp);
    println!("write-intent-median ratio={:.3}", ratios[1]);
    Ok(())
}

/// Hits of readers while destage runs at full rate, compared with hits without destage.
async fn readers(file: &Path, extents: &[Bytes]) -> Result<(), Failure> {
    let mut settings = settings(1 << 30);
    (settings.dirty_start_percent, settings.dirty_max_percent) = (90, 95);
    let cache = cache(file, settings).await?;
    let volume = volume(cache.clone(), WriteMode::WriteBack);
    let count = (256u64 << 20) / EXTENT as u64;
    for n in 0..count {
        volume.write(n * 2 * EXTENT as u64, extents[n as usize % extents.len()].clone(), false).await?;
    }
    volume.flush().await?;
    let quiet = hits_per_second(&volume, count).await;
    let (destage, drained) = (volume.clone(), volume.clone());
    spawn_local(async move { destage.destage_worker().await });
    spawn_local(async move { drop(drained.destage_all().await) });
    let before = volume.counters().destaged_extents;
    let busy = hits_per_second(&volume, count).await;
    let destaged = (volume.counters().destaged_extents - before) as f64 / MEASURED.as_secs_f64();
    println!(
        "destage-and-readers hits_per_second={quiet:.0} while_destaging={busy:.0} destaged_per_second={destaged:.0} ratio={:.3}",
        busy / quiet
    );
    cache.close();
    Ok(())
}

async fn hits_per_second(volume: &BenchVolume, count: u64) -> f64 {
    let mut rng = Rng(42);
    let mut read = || volume.read(rng.below(count) * 2 * EXTENT as u64, EXTENT as u64);
    let mut under_way: FuturesUnordered<_> = (0..DEPTH).map(|_| read()).collect();
    let (begun, mut reads) = (Instant::now(), 0u64);
    while begun.elapsed() < MEASURED {
        drop(std::hint::black_box(under_way.next().await));
        reads += 1;
        under_way.push(read());
    }
    let rate = reads as f64 / begun.elapsed().as_secs_f64();
    while under_way.next().await.is_some() {}
    rate
}
