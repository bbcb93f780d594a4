//! The systems that are measured: a store on emulated disks, in which generations of a volume are written, retained
//! and deleted; a plain file on other such disks; and caches on a modelled SSD.

use super::planned::{JudgedReads, Planned};
use super::{Runs, Scale};
use crate::load::mix;
use bytes::Bytes;
use futures_util::future::{Either, select};
use hashbrown::HashSet;
use nitro_cache::Settings;
use nitro_cache::settings::WEU_COUNT_MIN;
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_cos::{CollectOptions, Counters, Plan, Store, StoreOptions};
use nitro_device::hdd::HddModel;
use nitro_device::{HddDevice, RamDevice};
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_model::{AnyFtl, FtlSettings, Geometry, PageMappedSettings, Ssd, SsdDevice, Timing, VictimPolicy};
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device};
use nitro_testkit::VirtualTime;
use nitro_trace::content::fill;
use nitro_units::{Fingerprint, ObjectId};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Disk = HddDevice<RamDevice, VirtualTime>;
pub(crate) type Flash = SsdDevice<RamDevice, VirtualTime, AnyFtl>;
pub(super) type TestStore = Store<Disk>;
pub(super) type Object = nitro_cos::Volume<Disk>;
pub(super) type TestCache = Cache<Flash, VirtualTime>;
pub(super) type TestVolume = Volume<Flash, Object, VirtualTime>;

/// Bytes of a chunk, and of an extent.
pub(crate) const CHUNK_BYTES: u64 = 8192;
/// Bytes of a write.
pub(super) const WRITE_BYTES: u64 = 1 << 20;
/// Chunks of a run of the first generation; runs are copied as a whole.
const FIRST_RUN_CHUNKS: usize = 8;
/// The dedup ratio inside the volume: that of the paper's booting machine (§5.2), the only one that it gives.
pub(super) const INNER_RATIO: f64 = 1.2;
/// One in this number of runs is a copy of another run of the volume, which makes that ratio.
const COPY_PART: u64 = 6;
/// The disks with data of the paper's two shelves (§5.3), of which 8 have 1 TB and 11 have 2 TB: each shelf has two
/// spare disks, and two for parity.
pub(super) const SPINDLES: u32 = 19;
/// The mean size of these disks.
const COS_DISK_BYTES: f64 = (8.0 * 1e12 + 11.0 * 2e12) / 19.0;
/// The disks with data of the paper's plain storage, eleven of 1 TB in RAID-5.
const TPS_SPINDLES: u32 = 10;
const TPS_DISK_BYTES: f64 = 1e12;
/// Consecutive bytes on one disk.
const STRIPE_BYTES: u64 = 256 << 10;
/// The paper's volume.
const PAPER_VOLUME_BYTES: f64 = 38e9;
/// The store's RAM for content, and that for recipes, is one in this number of parts of the volume; for 38 GB, this is
/// 76 MB.
const RAM_PART: u64 = 512;
/// Bytes of a write-evict unit: the minimum, because caches are small.
pub(super) const WEU_BYTES: u64 = 512 << 10;
/// Bytes of a page of the modelled SSD.
pub(super) const SSD_PAGE_BYTES: u64 = 4096;
/// The compression ratio of the contents with LZ4.
pub(super) const RATIO: f64 = 2.0;
/// The name of the volume; its snapshots are `vm@001` and so on.
pub(crate) const VOLUME: &str = "vm";

pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::with_sources("reproduce cos", error).or("give a smaller --scale if RAM is short, else please report it")
}

/// The work of the disk and the store.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) time: Duration,
    /// Requests of the disk.
    pub(super) requests: u64,
    pub(super) store: Counters,
    pub(super) planned: Planned,
}

/// A sequence of pseudo-random numbers, by seed.
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0) % n.max(1)
    }

    /// A number above 0 and at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64
    }
}

impl Work {
    /// The work so far.
    pub(super) fn new(clock: &VirtualTime, disk: &Disk, store: &TestStore) -> Self {
        Self { time: clock.now(), requests: disk.stats().requests, store: store.counters(), ..Self::default() }
    }
}

pub(crate) struct Bed {
    pub(super) clock: VirtualTime,
    disk: Arc<Disk>,
    store: Arc<TestStore>,
    reads: JudgedReads,
    scale: Scale,
    draws: Draws,
    /// The content of each chunk, as a number.
    contents: Vec<u64>,
    next_content: u64,
    /// The contents of each generation.
    generations: Vec<Vec<u64>>,
    /// Bytes of containers that collections freed.
    pub(super) freed_bytes: u64,
}

/// The disks of the paper's COS for data that are `part` of the paper's. Each has this part of its capacity, so that arms
/// move over the same share of a disk.
pub(super) fn cos_disks(part: f64) -> HddModel {
    disks(SPINDLES, COS_DISK_BYTES * part)
}

fn disks(spindles: u32, span_bytes: f64) -> HddModel {
    HddModel::rpm_7200().with_spindles(spindles, STRIPE_BYTES).with_span(span_bytes as u64)
}

/// The fingerprint of a content's number.
pub(crate) fn content(number: u64) -> Fingerprint {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&mix(number).to_le_bytes());
    Fingerprint(bytes)
}

/// The bytes of contents.
pub(crate) fn bytes_of(contents: &[u64]) -> Bytes {
    let mut bytes = BufMut::with_len(contents.len() * CHUNK_BYTES as usize);
    for (number, chunk) in contents.iter().zip(bytes.chunks_exact_mut(CHUNK_BYTES as usize)) {
        fill(&content(*number), RATIO, chunk);
    }
    bytes.freeze()
}

/// The name of the snapshot of a generation, counted from 1.
pub(crate) fn snapshot_name(generation: usize) -> String {
    format!("{VOLUME}@{generation:03}")
}

/// Settings with as little RAM, relative to the volume, as a real store has, and without read-ahead: what requests cost by
/// themselves is measured, and the cache in front reads ahead by itself.
pub(super) fn little_ram(volume_bytes: u64) -> nitro_cos::Settings {
    let part = (volume_bytes / RAM_PART).max(128 << 10);
    nitro_cos::Settings {
        region_cache_bytes: part,
        recipe_cache_bytes: part,
        readahead_bytes: 0,
        ..nitro_cos::Settings::default()
    }
}

impl Bed {
    /// A store without generations.
    pub(crate) async fn new(scale: Scale, clock: VirtualTime) -> Result<Self, Error> {
        let options = StoreOptions { size_bytes: scale.disk_bytes(), ..scale.options };
        let plan = Plan::new(&options, 0x5EED, 1).map_err(|e| failed(&e))?;
        let ram = RamDevice::new(scale.disk_bytes(), 4096);
        let model = cos_disks(scale.volume_bytes as f64 / PAPER_VOLUME_BYTES);
        let disk = Arc::new(HddDevice::new(ram, clock.clone(), model));
        let reads = JudgedReads::new(clock.clone(), model, scale.disk_bytes());
        let store = Store::create(Arc::clone(&disk), &plan, nitro_cos::Settings::default()).await;
        let store = Arc::new(store.map_err(|e| failed(&e))?);
        store.plan_reads_by(reads.clone());
        store.create_volume(VOLUME, scale.volume_bytes, Some(CHUNK_BYTES as u32), 0).await.map_err(|e| failed(&e))?;
        let contents = Vec::new();
        let generations = Vec::new();
        let draws = Draws::new(1);
        Ok(Self { clock, disk, store, reads, scale, draws, contents, next_content: 0, generations, freed_bytes: 0 })
    }

    /// Writes the first generation, or changes a part of the last one, and takes a snapshot. Deletes the generation
    /// that is no longer retained, and collects once a week.
    async fn next_generation(&mut self) -> Result<(), Error> {
        if self.generations.is_empty() {
            self.make_first();
            self.write(0..self.contents.len()).await?;
        } else {
            self.change().await?;
        }
        self.generations.push(self.contents.clone());
        let generation = self.generations.len();
        self.store.snapshot(&snapshot_name(generation), 0).await.map_err(|e| failed(&e))?;
        if let Some(old) = generation.checked_sub(self.scale.retained).filter(|old| *old > 0) {
            self.store.delete(&snapshot_name(old)).await.map_err(|e| failed(&e))?;
            if self.scale.collects_after(generation) {
                let collected = self.store.collect(&CollectOptions::default(), &|_, _, _| ()).await;
                let collected = collected.map_err(|e| failed(&e))?;
                self.freed_bytes += collected.used_bytes_before.saturating_sub(collected.used_bytes_after);
            }
        }
        Ok(())
    }

    /// Makes the contents of the first generation.
    fn make_first(&mut self) {
        let chunks = (self.scale.volume_bytes / CHUNK_BYTES) as usize;
        while self.contents.len() < chunks {
            let run = self.fresh(FIRST_RUN_CHUNKS.min(chunks - self.contents.len()));
            self.contents.extend(run);
        }
    }

    /// The contents of a run that is written: new ones, or those of another run of the volume.
    fn fresh(&mut self, chunks: usize) -> Vec<u64> {
        let places = (self.contents.len() + 1).saturating_sub(chunks) as u64;
        if self.scale.copies && places > 0 && self.draws.below(COPY_PART) == 0 {
            let first = self.draws.below(places) as usize;
            return self.contents[first..first + chunks].to_vec();
        }
        let first = self.next_content;
        self.next_content += chunks as u64;
        (first..self.next_content).collect()
    }

    async fn change(&mut self) -> Result<(), Error> {
        let mut left = (self.contents.len() as f64 * self.scale.changed_share).round() as usize;
        while left > 0 {
            let run = match self.scale.runs {
                Runs::Mixed => 1 << self.draws.below(Runs::MAX_LOG + 1),
                Runs::Equal(chunks) => chunks,
            };
            let run = run.min(left);
            let first = self.draws.below((self.contents.len() - run) as u64) as usize;
            let fresh = self.fresh(run);
            self.contents[first..first + run].copy_from_slice(&fresh);
            self.write(first..first + run).await?;
            left -= run;
        }
        Ok(())
    }

    /// Writes the current contents of some chunks.
    async fn write(&self, chunks: std::ops::Range<usize>) -> Result<(), Error> {
        let volume = self.store.open_volume(VOLUME).await.map_err(|e| failed(&e))?;
        let at_once = (WRITE_BYTES / CHUNK_BYTES) as usize;
        for first in chunks.clone().step_by(at_once) {
            let bytes = bytes_of(&self.contents[first..chunks.end.min(first + at_once)]);
            volume.write_range(first as u64 * CHUNK_BYTES, bytes).await.map_err(|e| failed(&e))?;
        }
        Ok(())
    }

    /// Writes generations up to number `generations`.
    pub(crate) async fn age(&mut self, generations: usize) -> Result<(), Error> {
        let progress = Progress::counting(generations as u64, "generations written");
        while self.generations.len() < generations {
            self.next_generation().await?;
            progress.show(self.generations.len() as u64);
        }
        progress.end();
        Ok(())
    }

    /// Reopens the store with a cold and small RAM.
    pub(super) async fn reopen(&mut self) -> Result<(), Error> {
        self.store.close().await.map_err(|e| failed(&e))?;
        let store = Store::open(Arc::clone(&self.disk), little_ram(self.scale.volume_bytes)).await;
        self.store = Arc::new(store.map_err(|e| failed(&e))?);
        // What reads cost is known from before.
        self.store.plan_reads_by(self.reads.clone());
        Ok(())
    }

    /// Closes the store. Returns the disk and the contents of each generation.
    pub(crate) async fn close(self) -> Result<(Arc<Disk>, Vec<Vec<u64>>), Error> {
        self.store.close().await.map_err(|e| failed(&e))?;
        Ok((self.disk, self.generations))
    }

    /// The snapshot of a generation.
    pub(super) async fn snapshot(&self, generation: usize) -> Result<Object, Error> {
        self.store.open_volume(&snapshot_name(generation)).await.map_err(|e| failed(&e))
    }

    /// The share of a generation's chunks that the last one has too.
    pub(super) fn overlap(&self, generation: usize) -> f64 {
        let (Some(old), Some(last)) = (self.generations.get(generation - 1), self.generations.last()) else {
            return 0.0;
        };
        let same = old.iter().zip(last).filter(|(a, b)| a == b).count();
        same as f64 / old.len().max(1) as f64
    }

    /// The chunks of a generation for each one that is unique in it.
    pub(super) fn inner_ratio(&self, generation: usize) -> f64 {
        let Some(contents) = self.generations.get(generation - 1) else { return 1.0 };
        let unique: HashSet<_> = contents.iter().collect();
        contents.len() as f64 / unique.len().max(1) as f64
    }

    /// The work of the disk and the store so far.
    pub(super) fn work(&self) -> Work {
        Work { planned: self.reads.so_far(), ..Work::new(&self.clock, &self.disk, &self.store) }
    }

    /// Checks that data read from a generation are those that were written.
    pub(super) fn check(&self, generation: usize, offset: u64, read: &[u8]) -> Result<(), Error> {
        let mut at = offset;
        let mut rest = read;
        while !rest.is_empty() {
            let (chunk, within) = ((at / CHUNK_BYTES) as usize, (at % CHUNK_BYTES) as usize);
            let expected = bytes_of(&self.generations[generation - 1][chunk..=chunk]);
            let len = rest.len().min(expected.len() - within);
            if rest[..len] != expected[within..within + len] {
                let why = format!("byte {at} of generation {generation} is not what was written");
                return Err(Error::new("reproduce cos", why).or("please report it"));
            }
            (at, rest) = (at + len as u64, &rest[len..]);
        }
        Ok(())
    }

    /// The last generation as a plain file on the paper's plain disks.
    pub(super) async fn plain(&self) -> Result<Disk, Error> {
        let ram = RamDevice::new(self.scale.disk_bytes(), 4096);
        let at_once = (WRITE_BYTES / CHUNK_BYTES) as usize;
        for (number, contents) in (0..).zip(self.contents.chunks(at_once)) {
            ram.write(number * WRITE_BYTES, bytes_of(contents)).await.map_err(|e| failed(&e))?;
        }
        let part = self.scale.volume_bytes as f64 / PAPER_VOLUME_BYTES;
        Ok(HddDevice::new(ram, self.clock.clone(), disks(TPS_SPINDLES, TPS_DISK_BYTES * part)))
    }
}

/// The parameters of a cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheKind {
    pub(super) bytes: u64,
    pub(super) dedup: bool,
    /// Whether sequential reads are cached too.
    pub(super) sequential: bool,
}

/// A cache on a modelled SSD, in front of the store.
pub(super) struct Cached {
    cache: Arc<TestCache>,
    pub(super) primary: Arc<TestVolume>,
    next_object: u16,
}

impl Cached {
    pub(super) async fn new(kind: CacheKind, clock: &VirtualTime, primary: Object) -> Result<Self, Error> {
        let cache_bytes = whole_units(kind.bytes);
        let mut manager = Settings { dedup: kind.dedup, weu_bytes: WEU_BYTES as u32, ..Settings::paper(cache_bytes) };
        manager.streams.readahead_bytes = 0;
        if kind.sequential {
            manager.streams.threshold_bytes = 0;
        }
        // Insertions that the worker does not process in time are dropped.
        let settings = EngineSettings {
            compression: Compression::Lz4,
            ram_cache_bytes: 0,
            insert_queue_bytes: 1 << 20,
            ..EngineSettings::new(manager)
        };
        let flash = flash(cache_bytes + TestCache::overhead_bytes(&settings), clock)?;
        let cache = Cache::format(flash, clock.clone(), settings, [1; 16], 0x5EED).await.map_err(|e| failed(&e))?;
        let primary = read_only(&cache, primary, 0);
        Ok(Self { cache, primary, next_object: 1 })
    }

    /// Adds another volume to the cache.
    pub(super) fn beside(&mut self, object: Object) -> Arc<TestVolume> {
        let number = self.next_object;
        self.next_object += 1;
        read_only(&self.cache, object, number)
    }

    /// The worker: it inserts while it is polled.
    pub(super) fn worker(&self) -> impl Future<Output = ()> + use<> {
        let cache = Arc::clone(&self.cache);
        async move { cache.insertion_worker().await }
    }

    /// Warms the cache with the last `last_bytes` of the primary volume.
    pub(super) async fn warm(&self, last_bytes: u64) -> Result<(), Error> {
        let size = self.primary.size_bytes();
        let last_bytes = last_bytes.min(size);
        self.primary.warm(size - last_bytes, last_bytes).await.map_err(|e| failed(&e))?;
        self.cache.settled().await;
        Ok(())
    }
}

fn read_only(cache: &Arc<TestCache>, object: Object, number: u16) -> Arc<TestVolume> {
    let options = VolumeOptions { object: ObjectId(number), read_only: true, mode: WriteMode::WriteThrough };
    Volume::new(Arc::clone(cache), object, options)
}

/// A cache's size in whole write-evict units, with a minimum number of units.
pub(super) fn whole_units(bytes: u64) -> u64 {
    (bytes / WEU_BYTES).max(WEU_COUNT_MIN) * WEU_BYTES
}

pub(crate) fn flash(bytes: u64, clock: &VirtualTime) -> Result<Flash, Error> {
    let settings = FtlSettings::PageMapped(PageMappedSettings {
        over_provisioning: 0.07,
        victims: VictimPolicy::Greedy,
        aligned: false,
    });
    let pages = Geometry { page_bytes: SSD_PAGE_BYTES as u32, pages_per_block: 32, ..Geometry::default() };
    let geometry = settings.geometry_for(pages, bytes).map_err(|e| failed(&e))?;
    let ftl = settings.build(geometry).map_err(|e| failed(&e))?;
    let ssd = Ssd::new(ftl, Timing::nitros_drive(&geometry));
    Ok(SsdDevice::new(RamDevice::new(ssd.logical_bytes(), 4096), clock.clone(), ssd))
}

/// Runs a future while a worker works.
pub(super) async fn beside<T>(
    worker: &mut (impl Future<Output = ()> + Unpin),
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    match select(pin!(work), worker).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(_) => Err(Error::new("reproduce cos", "the insertion ended too soon").or("please report it")),
    }
}
