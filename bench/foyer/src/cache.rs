//! A hybrid cache with everything on disk: how it is set up, filled and read.

use crate::load::{Failure, Rng, VALUE_BYTES, cpu_time};
use foyer::{
    BlockEngineConfig, DeviceBuilder, FileDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy,
    IoEngineConfig, PsyncIoEngineConfig, RecoverMode, Source, UringIoEngineConfig,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::path::Path;
use std::time::{Duration, Instant};

const MEASURED: Duration = Duration::from_secs(3);
const DEPTH: usize = 64;
/// Values inserted between two waits for the disk: with its padding, 6 MiB, well below foyer's queue of 16 MiB, above
/// which it drops what is inserted without a word.
const BATCH: usize = 512;
/// A value takes its size, key and header, rounded up to pages.
const STORED_BYTES: usize = VALUE_BYTES + 4096;

/// foyer's I/O engines.
#[derive(Clone, Copy)]
pub enum Io {
    /// io_uring, one thread, which polls without pause.
    Uring,
    /// `pread` and `pwrite` on tokio's pool of blocking threads.
    Psync,
}

type Cache = HybridCache<u64, Vec<u8>>;

/// An empty cache in `file`, with direct I/O, for `count` values. Nothing stays in its memory tier.
pub async fn open(file: &Path, count: usize, io: Io) -> Result<Cache, Failure> {
    let capacity = (count * STORED_BYTES * 11 / 10 + (64 << 20)).next_multiple_of(16 << 20);
    let device = FileDeviceBuilder::new(file).with_capacity(capacity).with_direct(true).build()?;
    let io: Box<dyn IoEngineConfig> = match io {
        Io::Uring => UringIoEngineConfig::new().with_io_depth(DEPTH).boxed(),
        Io::Psync => PsyncIoEngineConfig::new().boxed(),
    };
    let cache = HybridCacheBuilder::new()
        .with_policy(HybridCachePolicy::WriteOnInsertion)
        .with_flush_on_close(false)
        .memory(1)
        .with_shards(1)
        .with_filter(|_, _| false)
        .storage()
        .with_io_engine_config(io)
        .with_engine_config(BlockEngineConfig::new(device))
        .with_recover_mode(RecoverMode::None)
        .build()
        .await?;
    Ok(cache)
}

/// How the filling went.
pub struct Filled {
    /// Time from the first insertion until all that was accepted is on disk.
    pub elapsed: Duration,
    /// Values that are not in the cache after all.
    pub missing: usize,
}

/// Inserts `values` under their numbers, at a pace that foyer keeps up with.
pub async fn fill(cache: &Cache, values: &[Vec<u8>]) -> Filled {
    let begun = Instant::now();
    for (batch, values) in values.chunks(BATCH).enumerate() {
        for (n, value) in values.iter().enumerate() {
            cache.insert((batch * BATCH + n) as u64, value.clone());
        }
        cache.storage().wait().await;
    }
    let elapsed = begun.elapsed();
    let missing = (0..values.len() as u64).filter(|key| !cache.contains(key)).count();
    Filled { elapsed, missing }
}

/// What random reads came to.
#[derive(Default)]
pub struct Reads {
    /// All of them.
    pub count: u64,
    /// From the disk.
    pub disk_hits: u64,
    /// From memory: the memory tier or the queue of writes.
    pub memory_hits: u64,
    /// Wall-clock time.
    pub elapsed: Duration,
    /// CPU time of the process.
    pub cpu: Duration,
}

/// Reads random ones of `count` values.
pub async fn read_randomly(cache: &Cache, count: usize) -> Result<Reads, Failure> {
    let mut rng = Rng(42);
    let mut read = || cache.get(&rng.below(count as u64));
    let (begun, cpu) = (Instant::now(), cpu_time());
    let mut reads = Reads::default();
    let mut under_way: FuturesUnordered<_> = (0..DEPTH).map(|_| read()).collect();
    while let Some(found) = under_way.next().await {
        reads.count += 1;
        if let Some(entry) = found? {
            assert_eq!(std::hint::black_box(entry.value()).len(), VALUE_BYTES);
            let hits = if entry.source() == Source::Disk { &mut reads.disk_hits } else { &mut reads.memory_hits };
            *hits += 1;
        }
        if !reads.count.is_multiple_of(256) || begun.elapsed() < MEASURED {
            under_way.push(read());
        } else {
            break;
        }
    }
    (reads.elapsed, reads.cpu) = (begun.elapsed(), cpu_time() - cpu);
    // The runtime's end would free buffers that the kernel still writes to: foyer's reads must not be dropped.
    while under_way.next().await.is_some() {}
    Ok(reads)
}
