//! Insertion with all fingerprints in RAM, and with an index on flash behind a tenth of them.

use crate::load::{EXTENT, Failure, Rng, extents_of, mb_per_second, thread_cpu_time};
use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::{join, pending, select, try_join_all};
use nitro_device::{CompioClock, FileDevice, FileOptions, RamDevice, Reactor, spawn_thread};
use nitro_engine::manager::Settings;
use nitro_engine::{
    Cache, ContentPlace, EngineSettings, FingerprintIndex, IndexRelay, NoIndex, Volume, VolumeOptions, WriteMode,
};
use nitro_index::bufferhash::{self, BufferHash, Eviction};
use nitro_index::silt::{self, Rates, Silt};
use nitro_index::{FlashIndex, Options, Shape};
use nitro_port::buf::BufMut;
use nitro_units::Fingerprint;
use nitro_units::ObjectId;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of extents written, and the percentage of them whose content was written before.
const EXTENTS: u64 = 150_000;
const DUPLICATES_PERCENT: u64 = 33;
/// Entries of the index. Most are of contents that are not in this cache, as if the cache were larger.
const ENTRIES: u64 = 5_000_000;
/// The percentage of the cached extents whose fingerprints are in RAM in front of an index on flash.
const IN_RAM_PERCENT: u8 = 10;
/// The size of the index on flash over the RAM that it may use.
const FLASH_TO_RAM: u64 = 10;
const CACHE_BYTES: u64 = 1 << 30;
/// The number of extents that are queued before the queue may become empty.
const BURST: u64 = 12_288;
const ROUNDS: usize = 3;

type EngineCache = Cache<FileDevice, CompioClock>;

/// An index of `nitro-index` behind the engine's interface.
struct Behind<I>(Arc<I>);

impl<I: FlashIndex> FingerprintIndex for Behind<I> {
    async fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        let found = self.0.get(&fingerprint.0).await.ok().flatten()?;
        Some(ContentPlace::decode(found[..].try_into().ok()?))
    }

    async fn note(&self, fingerprint: &Fingerprint, place: ContentPlace) {
        if let Err(error) = self.0.insert(&fingerprint.0, &place.encode()).await {
            eprintln!("nitro-bench: the index fails: {error}");
        }
    }
}

/// The results of a run.
struct Outcome {
    elapsed: Duration,
    /// CPU time of the insertion thread.
    cpu: Duration,
    /// Extents whose content was found in the cache.
    duplicates: u64,
    /// Those of `duplicates` that the index on flash knew and RAM did not.
    by_flash: u64,
}

/// Writes the same extents to a new cache with each kind of index; prints rates, their ratios to the rate of the index
/// in RAM, and the duplicates that each found. Creates files in `folder`.
pub fn run(data: &Path, folder: &Path) -> Result<(), Failure> {
    let written = Written { base: extents_of(data)? };
    println!("insert-index extents={EXTENTS} duplicates={}", written.duplicates());
    for _ in 0..ROUNDS {
        let ram = insert(&written, folder, 100, Arc::new(NoIndex))?;
        report("ram", &ram, &ram, None);
        let bufferhash = with_bufferhash(&written, folder)?;
        report("bufferhash", &bufferhash.0, &ram, Some(bufferhash.1));
        let silt = with_silt(&written, folder)?;
        report("silt", &silt.0, &ram, Some(silt.1));
    }
    Ok(())
}

fn report(kind: &str, outcome: &Outcome, ram: &Outcome, sizes: Option<(u64, u64)>) {
    let rate = |o: &Outcome| mb_per_second(EXTENTS as usize * EXTENT, o.elapsed);
    let (flash, given) = sizes.unwrap_or_default();
    println!(
        "insert-index kind={kind} mb_per_second={:.0} ratio={:.3} cpu_mb_per_second={:.0} duplicates={} by_flash={} \
         index_bytes={flash} index_ram_bytes={given}",
        rate(outcome),
        rate(outcome) / rate(ram),
        mb_per_second(EXTENTS as usize * EXTENT, outcome.cpu),
        outcome.duplicates,
        outcome.by_flash,
    );
}

fn shape() -> Result<Shape, nitro_index::Error> {
    Shape::new(20, ContentPlace::BYTES as u16)
}

/// The outcome, the bytes of the index on flash, and the RAM that it may use in bytes.
type Measured = Result<(Outcome, (u64, u64)), Failure>;

fn with_bufferhash(written: &Written, folder: &Path) -> Measured {
    let options = Options { shape: shape()?, entries: ENTRIES, ram_bytes: 33 * ENTRIES / FLASH_TO_RAM };
    let plan = bufferhash::Plan::new(&options)?;
    let file = folder.join("index");
    let device = FileOptions::new(&file).create(plan.flash_bytes)?;
    let index = Arc::new(Reactor::new()?.block_on(BufferHash::create(device, plan, Eviction::Fifo, 1))?);
    let work = async |_: &BufferHash<FileDevice>| pending().await;
    let outcome = with_index(written, folder, &index, work)?;
    std::fs::remove_file(file)?;
    Ok((outcome, (plan.flash_bytes, plan.ram_bytes)))
}

fn with_silt(written: &Written, folder: &Path) -> Measured {
    let options = Options { shape: shape()?, entries: ENTRIES, ram_bytes: 32 * ENTRIES / FLASH_TO_RAM };
    let plan = silt::Plan::new(&options)?;
    let file = folder.join("index");
    let device = FileOptions::new(&file).create(plan.flash_bytes)?;
    let index = Arc::new(Reactor::new()?.block_on(Silt::create(device, plan, Rates::default(), 1))?);
    let work = async |index: &Silt<FileDevice>| {
        if let Err(error) = index.run_background(&CompioClock::new()).await {
            eprintln!("nitro-bench: the index fails: {error}");
        }
    };
    let outcome = with_index(written, folder, &index, work)?;
    std::fs::remove_file(file)?;
    Ok((outcome, (plan.flash_bytes, plan.ram_bytes)))
}

/// Fills the index and measures. As in the server, the index has its own thread, which runs `work`.
fn with_index<I, W>(written: &Written, folder: &Path, index: &Arc<I>, work: W) -> Result<Outcome, Failure>
where
    I: FlashIndex + Send + Sync + 'static,
    W: AsyncFn(&I) + Send + 'static,
{
    let relay = Arc::new(IndexRelay::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let (theirs, asked) = (Arc::clone(index), Arc::clone(&relay));
    let thread = spawn_thread("index", move || async move {
        let behind = Behind(theirs);
        let both = pin!(join(work(&behind.0), asked.serve(&behind)));
        select(both, stopped).await;
    })?;
    fill(index)?;
    let outcome = insert(written, folder, IN_RAM_PERCENT, relay)?;
    drop(stop);
    thread.join().map_err(|_| "the index's thread panicked")?;
    Ok(outcome)
}

/// Inserts fingerprints of contents that are not cached, so that the index has its full size.
fn fill<I: FlashIndex>(index: &Arc<I>) -> Result<(), Failure> {
    let count = ENTRIES - EXTENTS;
    Reactor::new()?.block_on(async {
        for first in (0..count).step_by(256) {
            try_join_all((first..(first + 256).min(count)).map(|n| async move {
                let mut rng = Rng(n << 20);
                let mut key = [0; 20];
                key.chunks_mut(8).for_each(|c| c.copy_from_slice(&rng.below(u64::MAX).to_le_bytes()[..c.len()]));
                index.insert(&key, &[0xFF; ContentPlace::BYTES]).await
            }))
            .await?;
        }
        index.sync().await?;
        Ok(())
    })
}

/// The extents that are written: real data, made distinct by a number; some are written more than once.
struct Written {
    base: Vec<Bytes>,
}

impl Written {
    /// The number of the content of each write, and whether it is a duplicate of an earlier one.
    fn contents(&self) -> impl Iterator<Item = (u64, bool)> {
        let mut rng = Rng(1);
        let mut unique = 0;
        (0..EXTENTS).map(move |_| {
            let again = unique > 0 && rng.below(100) < DUPLICATES_PERCENT;
            let number = if again { rng.below(unique) } else { unique };
            unique += u64::from(!again);
            (number, again)
        })
    }

    fn duplicates(&self) -> usize {
        self.contents().filter(|(_, again)| *again).count()
    }

    fn extent(&self, number: u64) -> Bytes {
        let mut extent = BufMut::copy_of(&self.base[number as usize % self.base.len()]);
        extent[..8].copy_from_slice(&number.to_le_bytes());
        extent.freeze()
    }
}

/// Inserts all extents into a new cache, in bursts during which the queue is never empty.
fn insert<I: FingerprintIndex + Send + Sync + 'static>(
    written: &Written,
    folder: &Path,
    in_ram_percent: u8,
    index: Arc<I>,
) -> Result<Outcome, Failure> {
    let manager = Settings { fingerprint_index_percent: in_ram_percent, ..Settings::new(CACHE_BYTES) };
    let settings = EngineSettings { ram_cache_bytes: 0, insert_queue_bytes: 256 << 20, ..EngineSettings::new(manager) };
    let file = folder.join("cache");
    let _ = std::fs::remove_file(&file);
    let flash = FileOptions::new(&file).create(CACHE_BYTES + EngineCache::overhead_bytes(&settings))?;
    let outcome = Reactor::new()?.block_on(async {
        let cache = Cache::format(flash, CompioClock::new(), settings, [1; 16], 1).await?;
        let worker = cache.clone();
        let thread = spawn_thread("insert", move || async move {
            let begun = thread_cpu_time();
            worker.insertion_worker_with(&*index).await;
            thread_cpu_time() - begun
        })?;
        let elapsed = write(&cache, written).await?;
        let status = cache.status();
        cache.close();
        let cpu = thread.join().map_err(|_| "the insertion thread panicked")?;
        assert_eq!(status.manager.insertions, EXTENTS, "no fill may be dropped");
        assert_eq!(status.manager.weus_evicted, 0, "all must fit");
        let duplicates = status.manager.duplicates;
        Ok::<_, Failure>(Outcome { elapsed, cpu, duplicates, by_flash: status.engine.flash_index_duplicates })
    })?;
    std::fs::remove_file(file)?;
    Ok(outcome)
}

/// Writes all extents; returns the duration of the insertion.
async fn write(cache: &Arc<EngineCache>, written: &Written) -> Result<Duration, Failure> {
    let origin = RamDevice::new(EXTENTS * EXTENT as u64, 512);
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    let volume = Volume::new(cache.clone(), origin, options);
    let mut elapsed = Duration::ZERO;
    let mut contents = written.contents().enumerate().peekable();
    while contents.peek().is_some() {
        let burst: Vec<_> =
            contents.by_ref().take(BURST as usize).map(|(n, (number, _))| (n, written.extent(number))).collect();
        let begun = Instant::now();
        for (n, extent) in burst {
            volume.write((n * EXTENT) as u64, extent, false).await?;
        }
        cache.settled().await;
        elapsed += begun.elapsed();
    }
    Ok(elapsed)
}
