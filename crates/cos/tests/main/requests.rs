//! How often the disk is asked for a random read of an aged store, and for a MiB in sequence, with an SSD and without (Allu et al.,
//! USENIX ATC 2018: "Data Cache reduces NSIO I/Os to HDD to 0"; "~6 I/Os per 1MB").

use crate::model::{content, erased};
use bytes::Bytes;
use futures_executor::block_on;
use futures_util::future::join_all;
use futures_util::poll;
use futures_util::stream::{self, StreamExt};
use nitro_cos::{CollectOptions, Counters, Plan, Settings, SsdOptions, SsdSource, Stats, Store, StoreOptions, Volume};
use nitro_device::RamDevice;
use nitro_port::yielding::yield_now;
use nitro_port::{Device, DeviceError, Geometry};
use nitro_testkit::{Erased, Rng};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const CHUNK: u64 = 8192;
const VOLUME_BYTES: u64 = 48 << 20;
const STORE_BYTES: u64 = 160 << 20;
const SSD_BYTES: u64 = 128 << 20;
const GENERATIONS: u64 = 12;
const KEPT: u64 = 6;

/// A disk whose requests are counted; nothing crashes here.
pub struct Counted {
    inner: RamDevice,
    pub reads: AtomicU64,
    writes: AtomicU64,
}

impl Device for Counted {
    fn geometry(&self) -> Geometry {
        Geometry { rotational: true, ..self.inner.geometry() }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.reads.fetch_add(1, Relaxed);
        // Other requests go on meanwhile.
        yield_now().await;
        self.inner.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.writes.fetch_add(1, Relaxed);
        self.inner.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.inner.write_zeroes(offset, len, may_unmap).await
    }
}

/// The content of a chunk of that number; every one is another.
pub fn chunk(number: u64) -> Vec<u8> {
    let mut bytes = content(number * 2 + 1);
    bytes.extend(content(number * 2 + 1));
    bytes
}

/// Reads chunks of a volume at random: a working set of two thirds of it, each of it once. Returns the number of reads.
async fn read_scattered(store: &Arc<Store<Erased>>, name: &str, contents: &[u64], seed: u64) -> u64 {
    let volume = store.open_volume(name).await.unwrap();
    let mut order: Vec<u64> = (0..contents.len() as u64).filter(|index| index % 3 > 0).collect();
    let mut random = Rng::new(seed);
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    for index in &order {
        let read = volume.read_range(index * CHUNK, CHUNK as usize).await.unwrap();
        assert!(read == chunk(contents[*index as usize]), "chunk {index} of {name}");
    }
    order.len() as u64
}

async fn create() -> (Arc<Counted>, Arc<Store<Erased>>) {
    let inner = RamDevice::new(STORE_BYTES, 4096);
    let disk = Arc::new(Counted { inner, reads: AtomicU64::new(0), writes: AtomicU64::new(0) });
    let options = StoreOptions { size_bytes: STORE_BYTES, container_bytes: 1 << 20, ..StoreOptions::default() };
    let plan = Plan::new(&options, 5, 6).unwrap();
    let store = Store::create(erased(&disk), &plan, Settings::default()).await.unwrap();
    (disk, Arc::new(store))
}

async fn open(disk: &Arc<Counted>, ssd: Option<SsdOptions>) -> Arc<Store<Erased>> {
    let source = ssd.map(|options| SsdSource::new(RamDevice::new(SSD_BYTES, 4096), options));
    Arc::new(Store::open_with_ssd(erased(disk), little_ram(), source).await.unwrap())
}

pub struct Bed {
    pub disk: Arc<Counted>,
    pub contents: Vec<u64>,
    /// What the store had counted when it was closed.
    pub stats: Option<Stats>,
}

fn little_ram() -> Settings {
    Settings { region_cache_bytes: 256 << 10, recipe_cache_bytes: 48 << 10, ..Settings::default() }
}

impl Bed {
    /// A store in which generations of a volume were written, kept, given up and collected.
    async fn new() -> Self {
        Self::with_ssd(None).await
    }

    /// As [`new`](Self::new), with an SSD from the beginning.
    pub async fn with_ssd(ssd: Option<SsdSource>) -> Self {
        let (disk, store) = create().await;
        if let Some(ssd) = ssd {
            store.attach_ssd(ssd).await.unwrap();
        }
        store.create_volume("vm", VOLUME_BYTES, Some(CHUNK as u32), 0).await.unwrap();
        let chunks = VOLUME_BYTES / CHUNK;
        let mut bed = Self { disk, contents: (0..chunks).collect(), stats: None };
        let volume = store.open_volume("vm").await.unwrap();
        let mut random = Rng::new(9);
        let mut next = chunks;
        for generation in 0..GENERATIONS {
            let mut from = 0;
            while from < chunks {
                let len =
                    if generation == 0 { 128.min(chunks - from) } else { 1 + random.below(8).min(chunks - from - 1) };
                if generation > 0 {
                    bed.contents[from as usize..(from + len) as usize].iter_mut().for_each(|place| {
                        *place = next;
                        next += 1;
                    });
                }
                let bytes: Vec<u8> =
                    bed.contents[from as usize..(from + len) as usize].iter().flat_map(|n| chunk(*n)).collect();
                volume.write_range(from * CHUNK, bytes.into()).await.unwrap();
                from += len + if generation == 0 { 0 } else { random.below(160) };
            }
            store.snapshot(&format!("vm@{generation}"), 0).await.unwrap();
            if generation >= KEPT {
                store.delete(&format!("vm@{}", generation - KEPT)).await.unwrap();
                store.collect(&CollectOptions::default(), &|_, _, _| ()).await.unwrap();
            }
        }
        store.close().await.unwrap();
        bed.stats = Some(store.stats());
        bed
    }

    /// Reads two thirds of the chunks of the volume at random. Returns requests of the disk a read.
    async fn read_at_random(&self, store: &Arc<Store<Erased>>, seed: u64) -> f64 {
        let before = self.disk.reads.load(Relaxed);
        let reads = read_scattered(store, "vm", &self.contents, seed).await;
        (self.disk.reads.load(Relaxed) - before) as f64 / reads as f64
    }

    /// Reads everything in sequence. Returns requests of the disk a MiB.
    async fn read_in_sequence(&self, store: &Arc<Store<Erased>>) -> f64 {
        let volume = store.open_volume("vm").await.unwrap();
        let before = self.disk.reads.load(Relaxed);
        for offset in (0..VOLUME_BYTES).step_by(1 << 20) {
            volume.read_range(offset, 1 << 20).await.unwrap();
        }
        (self.disk.reads.load(Relaxed) - before) as f64 / (VOLUME_BYTES >> 20) as f64
    }
}

/// How a volume is read in sequence.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    request_bytes: u64,
    at_once: usize,
    readers: u64,
    settings: Settings,
}

impl Bed {
    /// Reads a range of whole chunks, and compares it.
    async fn read_whole(&self, volume: &Volume<Erased>, offset: u64, len: u64) {
        let read = volume.read_range(offset, len as usize).await.unwrap();
        for (bytes, index) in read.chunks(CHUNK as usize).zip(offset / CHUNK..) {
            assert!(bytes == chunk(self.contents[index as usize]), "chunk {index} of the volume");
        }
    }

    /// Reads the volume in sequence, each of several readers a part of it. Returns requests of the disk for a MiB, and the
    /// store's counters.
    async fn read_through(&self, Sequence { request_bytes, at_once, readers, settings }: Sequence) -> (f64, Counters) {
        let store = Arc::new(Store::open(erased(&self.disk), settings).await.unwrap());
        let volume = &store.open_volume("vm").await.unwrap();
        let before = self.disk.reads.load(Relaxed);
        let read = |offset| self.read_whole(volume, offset, request_bytes);
        let part = VOLUME_BYTES / readers;
        let reads = (0..readers).map(|reader| {
            let offsets = (reader * part..(reader + 1) * part).step_by(request_bytes as usize);
            stream::iter(offsets).map(read).buffer_unordered(at_once).for_each(|()| async {})
        });
        join_all(reads).await;
        let asked = self.disk.reads.load(Relaxed) - before;
        let counters = store.counters();
        store.close().await.unwrap();
        (asked as f64 / (VOLUME_BYTES >> 20) as f64, counters)
    }
}

#[test]
fn a_sequential_reader_asks_a_container_once_for_a_long_range() {
    block_on(async {
        let bed = Bed::new().await;
        for (ram, readers) in [(Settings::default().region_cache_bytes, 1), (16 << 20, 4), (4 << 20, 1), (1 << 20, 1)] {
            for (request_bytes, at_once) in [(64 << 10, 1), (128 << 10, 4), (1 << 20, 1), (1 << 20, 4)] {
                let settings = Settings { region_cache_bytes: ram, ..Settings::default() };
                let sequence = Sequence { request_bytes, at_once, readers, settings };
                let no_ahead = Settings { readahead_bytes: 0, ..settings };
                let (without, _) = bed.read_through(Sequence { settings: no_ahead, ..sequence }).await;
                let (with, counters) = bed.read_through(sequence).await;
                println!(
                    "{readers} readers of {} KiB, {at_once} at once, {} MiB for regions: {with:.2} requests of the disk for a \
                     MiB (in all, {} for regions, of which {} have recipes, {} for the index, {} for containers' metadata); {without:.2} \
                     without read-ahead",
                    request_bytes >> 10,
                    ram >> 20,
                    counters.region_reads,
                    counters.recipe_reads,
                    counters.index_lookups,
                    counters.metadata_reads,
                );
                assert!(with <= without * 1.05, "{with} requests for a MiB, {without} without read-ahead");
                assert!(with <= 6.0 || ram < 16 << 20 || readers > 1, "{with} requests for a MiB");
            }
        }
    });
}

#[test]
fn threads_share_read_ahead_also_with_requests_that_are_given_up() {
    const REQUEST_BYTES: u64 = 256 << 10;
    let bed = &block_on(Bed::new());
    let store = &Arc::new(block_on(Store::open(erased(&bed.disk), Settings::default())).unwrap());
    let next = &AtomicU64::new(0);
    let read_until_the_end = || {
        block_on(async {
            let volume = &store.open_volume("vm").await.unwrap();
            let offsets = std::iter::repeat_with(|| next.fetch_add(REQUEST_BYTES, Relaxed));
            let reads = offsets.take_while(|offset| *offset < VOLUME_BYTES).map(|offset| async move {
                let mut read = pin!(bed.read_whole(volume, offset, REQUEST_BYTES));
                if offset / REQUEST_BYTES % 5 < 4 {
                    return read.await;
                }
                for _ in 0..offset / REQUEST_BYTES % 7 {
                    if poll!(read.as_mut()).is_ready() {
                        return;
                    }
                    yield_now().await;
                }
            });
            stream::iter(reads).buffer_unordered(4).for_each(|()| async {}).await;
        });
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(read_until_the_end);
        }
    });
    assert!(next.load(Relaxed) >= VOLUME_BYTES);
    block_on(store.close()).unwrap();
}

fn metadata(before: &Counters, after: &Counters) -> u64 {
    after.recipe_reads + after.index_lookups + after.metadata_reads
        - (before.recipe_reads + before.index_lookups + before.metadata_reads)
}

#[test]
fn an_aged_store_with_an_ssd_hardly_asks_the_disk_for_random_reads() {
    block_on(async {
        let bed = Bed::new().await;
        let store = open(&bed.disk, None).await;
        bed.read_at_random(&store, 1).await;
        let (without, sequence) = (bed.read_at_random(&store, 2).await, bed.read_in_sequence(&store).await);
        store.close().await.unwrap();

        let store = open(&bed.disk, Some(SsdOptions { data: false, ..SsdOptions::default() })).await;
        bed.read_at_random(&store, 1).await;
        let before = store.counters();
        let fmd = bed.read_at_random(&store, 2).await;
        let of_metadata = metadata(&before, &store.counters());
        store.close().await.unwrap();

        let store = open(&bed.disk, Some(SsdOptions::default())).await;
        let first = bed.read_at_random(&store, 1).await;
        let all = bed.read_at_random(&store, 2).await;
        let beside = bed.read_in_sequence(&store).await;
        let ssd = store.ssd_stats().unwrap();
        store.close().await.unwrap();
        println!(
            "requests of the disk for a random read of 8 KiB: {without:.3} without an SSD; {fmd:.3} with recipes on it, of which \
             {of_metadata} for metadata in all; with chunks {first:.3} in the first pass, {all:.3} in the second. For a MiB in \
             sequence: {sequence:.2} without, {beside:.2} with. {ssd:?}"
        );
        assert!(all <= 0.05 && fmd <= 1.0 && of_metadata == 0, "{all}, {fmd}, {of_metadata}");
        assert!(beside <= sequence, "{beside} requests for a MiB in sequence, {sequence} without an SSD");
    });
}

/// Images of virtual machines: clones of one, each with changes of its own.
const IMAGES: u64 = 32;
const IMAGE_CHUNKS: u64 = 768;
const CHANGES: u64 = 160;

#[test]
fn many_images_read_at_random_at_once_hardly_ask_the_disk() {
    block_on(async {
        let (disk, store) = create().await;
        store.create_volume("base", IMAGE_CHUNKS * CHUNK, Some(CHUNK as u32), 0).await.unwrap();
        let base: Vec<u64> = (0..IMAGE_CHUNKS).collect();
        let bytes: Vec<u8> = base.iter().flat_map(|n| chunk(*n)).collect();
        store.open_volume("base").await.unwrap().write_range(0, bytes.into()).await.unwrap();
        let mut images = Vec::new();
        for image in 0..IMAGES {
            let name = format!("vm-{image:02}");
            store.clone_object("base", &name, 0).await.unwrap();
            let (mut contents, mut random) = (base.clone(), Rng::new(100 + image));
            let volume = store.open_volume(&name).await.unwrap();
            for change in 0..CHANGES {
                let (index, number) = (random.below(IMAGE_CHUNKS), 10_000 + image * CHANGES + change);
                contents[index as usize] = number;
                volume.write_range(index * CHUNK, chunk(number).into()).await.unwrap();
            }
            images.push((name, contents));
        }
        store.close().await.unwrap();
        drop(store);

        let mut asked = Vec::new();
        for ssd in [None, Some(SsdOptions::default())] {
            let store = open(&disk, ssd).await;
            for pass in 0..2 {
                let before = disk.reads.load(Relaxed);
                let reads = images
                    .iter()
                    .zip(pass * IMAGES..)
                    .map(|((name, contents), seed)| read_scattered(&store, name, contents, seed));
                let reads: u64 = join_all(reads).await.into_iter().sum();
                asked.push((disk.reads.load(Relaxed) - before) as f64 / reads as f64);
            }
            store.close().await.unwrap();
        }
        println!("requests of the disk a read, first and second pass, without an SSD and with it: {asked:.3?}");
        let [_, without, first, second] = asked[..] else { panic!("four passes") };
        assert!(second <= 0.05 && first < without / 2.0, "{asked:?}");
    });
}

/// Small objects, as of a backup that keeps files as they are.
const SMALL_OBJECTS: u64 = 6000;
const SMALL_BYTES: u64 = 4096;

/// Opens and reads the small objects at random. Returns the reads of the disk for each, and how many of them were for the directory and for
/// other metadata.
async fn read_small_objects(disk: &Counted, store: &Arc<Store<Erased>>, seed: u64) -> (f64, f64, f64) {
    let mut order: Vec<u64> = (0..SMALL_OBJECTS).collect();
    let mut random = Rng::new(seed);
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let (reads, before) = (disk.reads.load(Relaxed), store.counters());
    for number in &order {
        let volume = store.open_volume(&small_name(*number)).await.unwrap();
        let read = volume.read_range(0, SMALL_BYTES as usize).await.unwrap();
        assert!(read == content(*number + 1), "object {number}");
    }
    let after = store.counters();
    assert!(after.directory_lookups > before.directory_lookups, "no object is looked up in the directory");
    let each = |count: u64| count as f64 / SMALL_OBJECTS as f64;
    (
        each(disk.reads.load(Relaxed) - reads),
        each(after.directory_reads - before.directory_reads),
        each(metadata(&before, &after)),
    )
}

fn small_name(number: u64) -> String {
    format!("home/user-{:02}/file-{number}", number % 40)
}

#[test]
fn small_objects_are_found_and_read_with_few_requests() {
    block_on(async {
        let inner = RamDevice::new(STORE_BYTES, 4096);
        let disk = Arc::new(Counted { inner, reads: AtomicU64::new(0), writes: AtomicU64::new(0) });
        let journal_bytes = Some(64 << 10);
        let options = StoreOptions {
            size_bytes: STORE_BYTES,
            container_bytes: 1 << 20,
            journal_bytes,
            ..StoreOptions::default()
        };
        let store = Store::create(erased(&disk), &Plan::new(&options, 5, 6).unwrap(), Settings::default()).await;
        let store = Arc::new(store.unwrap());
        for number in 0..SMALL_OBJECTS {
            let name = small_name(number);
            store.create_volume(&name, SMALL_BYTES, Some(SMALL_BYTES as u32), 0).await.unwrap();
            let volume = store.open_volume(&name).await.unwrap();
            volume.write_range(0, content(number + 1).into()).await.unwrap();
        }
        store.close().await.unwrap();
        let store = open(&disk, None).await;
        let without = read_small_objects(&disk, &store, 1).await;
        store.close().await.unwrap();
        let store = open(&disk, Some(SsdOptions { data: false, ..SsdOptions::default() })).await;
        read_small_objects(&disk, &store, 2).await;
        let fmd = read_small_objects(&disk, &store, 3).await;
        store.close().await.unwrap();
        let store = open(&disk, Some(SsdOptions::default())).await;
        let first = read_small_objects(&disk, &store, 2).await;
        let all = read_small_objects(&disk, &store, 3).await;
        store.close().await.unwrap();
        println!(
            "reads of the disk to open and read an object of 4 KiB (of these for the directory, and for other metadata): \
             {without:.3?} without an SSD, {fmd:.3?} with metadata on it, {first:.3?} and {all:.3?} in the first and second \
             pass with chunks"
        );
        assert!(fmd.1 == 0.0 && fmd.2 == 0.0 && fmd.0 <= 1.0, "{fmd:?}");
        assert!(all.0 <= 0.05, "{all:?}");
    });
}

nitro_port::plain_origin!(Counted);
