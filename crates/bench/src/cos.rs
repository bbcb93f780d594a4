//! The deduplicating store on one core: ingest compared with hashing and compression alone, duplicates, and random
//! reads of a volume that was overwritten many times.

use crate::load::{EXTENT, Failure, Rng, extents_of, mb_per_second, thread_cpu_time};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use nitro_cos::{CollectOptions, Counters, Plan, Settings, Store, StoreOptions, Volume};
use nitro_device::{FileDevice, FileOptions, Reactor};
use nitro_port::buf::BufMut;
use nitro_port::codec::{Compression, Compressor};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a write, and bytes that are compressed together.
const SEGMENT: usize = 1 << 20;
const REGION: usize = 64 << 10;
/// The number of segments in progress, as in `nitro cos import`.
const AT_ONCE: usize = 4;
const ROUNDS: usize = 3;
/// The number of versions of a volume before it is read, and the share of its pieces that each overwrites.
const VERSIONS: u64 = 8;
const OVERWRITTEN_SHARE: u64 = 8;
const READS: u64 = 20_000;

type CosStore = Store<FileDevice>;

fn gb_per_second(bytes: usize, time: std::time::Duration) -> f64 {
    mb_per_second(bytes, time) / 1e3
}

/// Ingests `data` into stores in `file`, on this thread; prints a line for each round, and one for an aged volume.
pub fn run(data: &Path, file: &Path) -> Result<(), Failure> {
    let segments = segments_of(data)?;
    for (name, compression) in [("zstd", Compression::Zstd), ("lz4", Compression::Lz4)] {
        for _ in 0..ROUNDS {
            let line = Reactor::new()?.block_on(ingest(&segments, file, compression))?;
            println!("cos-ingest-{name} {line}");
        }
    }
    Reactor::new()?.block_on(aged(&segments, file))?;
    std::fs::remove_file(file)?;
    for tebibytes in [1_u64, 16] {
        let options = StoreOptions { size_bytes: tebibytes << 40, ..StoreOptions::default() };
        let plan = Plan::new(&options, 1, 2)?;
        let per_chunk = plan.ram_bytes() as f64 / plan.chunks() as f64;
        println!("cos-ram store_tib={tebibytes} ram_mib={} ram_per_chunk={per_chunk:.2}", plan.ram_bytes() >> 20);
    }
    Ok(())
}

/// The extents of a file as whole segments.
fn segments_of(data: &Path) -> Result<Vec<Bytes>, Failure> {
    let extents = extents_of(data)?;
    let segments = extents.chunks_exact(SEGMENT / EXTENT).map(|some| {
        let mut segment = BufMut::with_len(SEGMENT);
        for (target, extent) in segment.chunks_exact_mut(EXTENT).zip(some) {
            target.copy_from_slice(extent);
        }
        segment.freeze()
    });
    Ok(segments.collect())
}

/// The CPU time of hashing chunks and compressing regions alone.
fn limit(segments: &[Bytes], compression: Compression) -> std::time::Duration {
    let mut compressor = Compressor::new(compression);
    let begun = thread_cpu_time();
    for segment in segments {
        for chunk in segment.chunks_exact(EXTENT) {
            black_box(blake3::hash(chunk));
        }
        for start in (0..segment.len()).step_by(REGION) {
            black_box(compressor.compress(&segment.slice(start..start + REGION)));
        }
    }
    thread_cpu_time() - begun
}

async fn create(segments: &[Bytes], file: &Path, compression: Compression) -> Result<Arc<CosStore>, Failure> {
    let size_bytes = (segments.len() * SEGMENT) as u64 * 3 + (256 << 20);
    let plan = Plan::new(&StoreOptions { size_bytes, compression, ..StoreOptions::default() }, 1, 2)?;
    let _ = std::fs::remove_file(file);
    let device = FileOptions::new(file).create(plan.device_bytes())?;
    Ok(Arc::new(Store::create(Arc::new(device), &plan, Settings::default()).await?))
}

async fn fill(store: &Arc<CosStore>, name: &str, segments: &[Bytes]) -> Result<Volume<FileDevice>, Failure> {
    store.create_volume(name, (segments.len() * SEGMENT) as u64, None, 0).await?;
    let volume = store.open_volume(name).await?;
    let writes =
        segments.iter().zip((0..).step_by(SEGMENT)).map(|(segment, at)| volume.write_range(at, segment.clone()));
    stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    store.commit().await?;
    Ok(volume)
}

async fn ingest(segments: &[Bytes], file: &Path, compression: Compression) -> Result<String, Failure> {
    let bytes = segments.len() * SEGMENT;
    let alone = limit(segments, compression);
    let store = create(segments, file, compression).await?;
    let (cpu, begun) = (thread_cpu_time(), Instant::now());
    fill(&store, "first", segments).await?;
    let (new_cpu, new) = (thread_cpu_time() - cpu, begun.elapsed());
    let stored = store.counters().stored_chunks;
    let begun = Instant::now();
    fill(&store, "again", segments).await?;
    let again = begun.elapsed();
    let duplicates = store.counters().duplicate_chunks;
    let line = format!(
        "limit_gb_per_second={:.3} new_gb_per_second={:.3} ratio={:.3} elapsed_ratio={:.3} duplicate_gb_per_second={:.3} \
         chunks={stored} duplicates={duplicates}",
        gb_per_second(bytes, alone),
        gb_per_second(bytes, new_cpu),
        alone.as_secs_f64() / new_cpu.as_secs_f64(),
        alone.as_secs_f64() / new.as_secs_f64(),
        gb_per_second(bytes, again),
    );
    store.close().await?;
    Ok(line)
}

/// Half of the data is a volume; each version overwrites pieces of it with the other half and is followed by a
/// collection. Then the volume is reopened and read at random.
async fn aged(segments: &[Bytes], file: &Path) -> Result<(), Failure> {
    let (first, other) = segments.split_at(segments.len() / 2);
    let size = first.len() * SEGMENT;
    let store = create(segments, file, StoreOptions::default().compression).await?;
    let volume = fill(&store, "aged", first).await?;
    let mut rng = Rng(1);
    for version in 0..VERSIONS {
        store.snapshot(&format!("aged@{version}"), 0).await?;
        for _ in 0..size / REGION / OVERWRITTEN_SHARE as usize {
            let from = &other[rng.below(other.len() as u64) as usize];
            let start = rng.below((SEGMENT / REGION) as u64) as usize * REGION;
            let at = rng.below((size / REGION) as u64) * REGION as u64;
            volume.write_range(at, from.slice(start..start + REGION)).await?;
        }
        if version >= 2 {
            store.delete(&format!("aged@{}", version - 2)).await?;
            store.collect(&CollectOptions::default(), &|_, _, _| {}).await?;
        }
    }
    drop(volume);
    store.close().await?;
    drop(store);
    let device = FileOptions::new(file).open()?;
    let store = Arc::new(Store::open(Arc::new(device), Settings::default()).await?);
    let volume = store.open_volume("aged").await?;
    let before = store.counters();
    let begun = Instant::now();
    for _ in 0..READS {
        black_box(volume.read_range(rng.below((size / EXTENT) as u64) * EXTENT as u64, EXTENT).await?);
    }
    let rate = READS as f64 / begun.elapsed().as_secs_f64();
    told(&before, &store.counters(), rate);
    store.close().await?;
    Ok(())
}

fn told(before: &Counters, after: &Counters, rate: f64) {
    let each = |count: fn(&Counters) -> u64| (count(after) - count(before)) as f64 / READS as f64;
    // Reads of recipe blocks are reads of regions, too.
    println!(
        "cos-aged region_reads={:.4} metadata_reads={:.4} index_lookups={:.4} recipe_reads={:.4} ios={:.4} reads_per_second={rate:.0}",
        each(|c| c.region_reads),
        each(|c| c.metadata_reads),
        each(|c| c.index_lookups),
        each(|c| c.recipe_reads),
        each(|c| c.region_reads + c.metadata_reads + c.index_lookups),
    );
}
