//! Many clients at once on volumes of one cache that evicts all the time, against a model of a disk: for every byte of
//! every read, some write explains it that was neither undone before the read began nor begun after it ended.
//!
//! Volumes are in write-through, in write-back, or one in each. Nothing fails here. What asks too much of a cache is in the
//! crash simulation, in `system::the_engine_survives_abuse` of `tests/crash`: requests of up to 32 MiB, long runs without
//! FLUSH, whole volumes trimmed, an origin without room beside one that is well, and a bound on the RAM that is held.

use crate::any::{Erased, Slow, jittery};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::manager::pattern::StreamSettings;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;
use nitro_testkit::{Rng, Simulation, VirtualTime, for_seeds};
use nitro_units::ObjectId;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The model's granularity: requests begin and end anywhere, values are told apart by this many bytes.
const UNIT: u64 = 64;
const VOLUME_BYTES: u64 = (5 << 20) + 3 * 512;

type TestVolume = Volume<Erased, Erased, VirtualTime>;

/// One write to one unit.
#[derive(Clone)]
struct Written {
    /// The unit's bytes; units partly written are told by what the writer knew.
    value: u32,
    start: u64,
    end: u64,
}

/// All writes ever, by unit.
struct Oracle {
    units: Vec<Vec<Written>>,
    time: u64,
}

impl Oracle {
    fn new() -> Self {
        let zero = Written { value: 0, start: 0, end: 0 };
        Self { units: vec![vec![zero]; VOLUME_BYTES.div_ceil(UNIT) as usize], time: 1 }
    }

    fn tick(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    fn begin(&mut self, units: Range<u64>, value: impl Fn(u64) -> u32) -> u64 {
        let start = self.tick();
        for unit in units {
            self.units[unit as usize].push(Written { value: value(unit), start, end: u64::MAX });
        }
        start
    }

    fn end(&mut self, units: Range<u64>, start: u64) {
        let end = self.tick();
        for unit in units {
            let history = &mut self.units[unit as usize];
            history.iter_mut().filter(|w| w.start == start).for_each(|w| w.end = end);
        }
    }

    /// Whether a read that ran from `from` to now may see `value`.
    fn allows(&self, unit: u64, value: u32, from: u64) -> bool {
        let history = &self.units[unit as usize];
        let undone = |w: &Written| history.iter().any(|later| later.start > w.end && later.end < from);
        history.iter().any(|w| w.value == value && !undone(w))
    }
}

/// The bytes of a unit: the value, in a form that LZ4 shrinks but does not make vanish.
fn fill(unit: u64, value: u32, out: &mut [u8]) {
    let at = unit as u32 % 128;
    for (i, word) in out.chunks_mut(4).enumerate() {
        let noise = (value ^ (at << 8)).wrapping_mul(0x9E37_79B9).rotate_left(i as u32 * 5);
        let word_value = if value == 0 || i == 0 { value } else { noise };
        word.copy_from_slice(&word_value.to_le_bytes()[..word.len()]);
    }
}

struct Client {
    volume: Arc<TestVolume>,
    oracle: Rc<RefCell<Oracle>>,
    rng: Rng,
    /// Where sequential reads go on.
    stream: u64,
}

impl Client {
    /// A range in whole units, of some sector-odd size, mostly small, mostly in the volume's hot tenth.
    fn range(&mut self) -> Range<u64> {
        let units = VOLUME_BYTES / UNIT;
        let first = if self.rng.one_in(3) { self.rng.below(units) } else { self.rng.below(units / 4) };
        let len = match self.rng.below(10) {
            0 => 1 + self.rng.below(2048),
            1..5 => 128 + self.rng.below(900),
            5..9 => 128,
            _ => 1 + self.rng.below(32),
        };
        let first = if len == 128 { first / 128 * 128 } else { first };
        first..(first + len).min(units)
    }

    async fn step(&mut self) {
        match self.rng.below(20) {
            0..8 => {
                let range = self.range();
                self.read(range).await;
            }
            8..11 => self.stream().await,
            11..17 => {
                // Whole extents often hold one of few values, so that duplicates are found; zero among them.
                let range = self.range();
                let few = range.end - range.start == 128 || self.rng.one_in(8);
                let value = if few { self.rng.below(50) } else { self.rng.next() } as u32;
                self.write(range, value).await;
            }
            17 => self.zero().await,
            18 => self.volume.flush().await.unwrap(),
            _ => {
                let range = self.range();
                self.volume.warm(range.start * UNIT, (range.end - range.start) * UNIT).await.unwrap();
            }
        }
    }

    async fn stream(&mut self) {
        for _ in 0..8 {
            let units = VOLUME_BYTES / UNIT;
            let len = 64 + self.rng.below(512);
            let start = if self.stream + len > units { 0 } else { self.stream };
            self.stream = start + len;
            self.read(start..start + len).await;
        }
    }

    async fn read(&mut self, units: Range<u64>) {
        let from = self.oracle.borrow_mut().tick();
        let (offset, len) = (units.start * UNIT, (units.end - units.start) * UNIT);
        let pieces = match self.volume.try_read(offset, len) {
            Some(pieces) => pieces,
            None => self.volume.read(offset, len).await.unwrap(),
        };
        let data: Vec<u8> = pieces.iter().flat_map(|p| p.iter().copied()).collect();
        assert_eq!(data.len() as u64, len);
        let oracle = self.oracle.borrow();
        for (unit, bytes) in units.zip(data.chunks(UNIT as usize)) {
            let value = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            let mut expected = [0; UNIT as usize];
            fill(unit, value, &mut expected);
            assert_eq!(bytes, expected, "unit {unit} is torn or foreign");
            assert!(oracle.allows(unit, value, from), "unit {unit} has {value}, which no write explains");
        }
    }

    async fn write(&mut self, units: Range<u64>, value: u32) {
        let mut data = BufMut::with_len(((units.end - units.start) * UNIT) as usize);
        units.clone().zip(data.chunks_mut(UNIT as usize)).for_each(|(unit, out)| fill(unit, value, out));
        let start = self.oracle.borrow_mut().begin(units.clone(), |_| value);
        let fua = self.rng.one_in(8);
        self.volume.write(units.start * UNIT, data.freeze(), fua).await.unwrap();
        self.oracle.borrow_mut().end(units, start);
    }

    async fn zero(&mut self) {
        let units = self.range();
        let start = self.oracle.borrow_mut().begin(units.clone(), |_| 0);
        let (offset, len) = (units.start * UNIT, (units.end - units.start) * UNIT);
        self.volume.write_zeroes(offset, len, self.rng.one_in(2), false, false).await.unwrap();
        self.oracle.borrow_mut().end(units, start);
    }
}

/// What the seeds must have made happen, all together.
#[derive(Default)]
struct Happened {
    evicted: Cell<u64>,
    duplicates: Cell<u64>,
    joined: Cell<u64>,
    voided: Cell<u64>,
    held_back: Cell<u64>,
    ssd_reads: Cell<u64>,
    destaged: Cell<u64>,
    ram_hits: Cell<u64>,
}

fn settings(seed: u64) -> EngineSettings {
    let manager = Settings {
        extent_bytes: if seed.is_multiple_of(3) { 4096 } else { 8192 },
        weu_bytes: 512 << 10,
        dedup: !seed.is_multiple_of(4),
        fingerprint_index_percent: if seed.is_multiple_of(5) { 40 } else { 100 },
        streams: StreamSettings { threshold_bytes: 128 << 10, ..StreamSettings::default() },
        seed,
        ..Settings::new([8, 20][seed as usize % 2] * (512 << 10))
    };
    EngineSettings {
        compression: [Compression::Lz4, Compression::None, Compression::Zstd][seed as usize % 3],
        ram_cache_bytes: if seed.is_multiple_of(2) { 0 } else { 2 << 20 },
        readahead_ram_bytes: 512 << 10,
        insert_queue_bytes: if seed.is_multiple_of(7) { 64 << 10 } else { 4 << 20 },
        dirty_queue_bytes: if seed.is_multiple_of(5) { 64 << 10 } else { 4 << 20 },
        ..EngineSettings::new(manager)
    }
}

fn add(cell: &Cell<u64>, n: u64) {
    cell.set(cell.get() + n);
}

fn scenario(seed: u64, clients: u64, steps: u64, happened: &Happened) {
    let sim = Simulation::new(seed);
    let clock = sim.clock.clone();
    let settings = settings(seed);
    let flash_bytes = settings.manager.cache_bytes + Cache::<Erased, VirtualTime>::overhead_bytes(&settings);
    let flash = jittery(RamDevice::new(flash_bytes, 512), &clock, seed + 1, [200, 2000, 10_000][seed as usize / 2 % 3]);
    let origin = || jittery(RamDevice::new(VOLUME_BYTES, 512), &clock, seed + 2, 3000);
    let cache = sim.run(Cache::format(flash, clock.clone(), settings, [7; 16], seed)).unwrap();
    let (through, back) = (WriteMode::WriteThrough, WriteMode::WriteBack);
    let modes = [[through, through], [through, back], [back, back]][seed as usize % 3];
    let volumes = [1, 2].map(|n| {
        let options = VolumeOptions { object: ObjectId(n), read_only: false, mode: modes[usize::from(n) - 1] };
        Volume::new(cache.clone(), origin(), options)
    });
    let journaling = cache.clone();
    sim.spawn(async move { journaling.journal_worker().await });
    // Dirty extents have a single worker.
    let workers = if modes.contains(&back) { 1 } else { 1 + seed % 2 };
    for _ in 0..workers {
        let cache = cache.clone();
        sim.spawn(async move { cache.insertion_worker().await });
    }
    let remaining = Rc::new(Cell::new(clients));
    for (n, volume) in volumes.iter().enumerate() {
        let [ahead, destaging] = [0; 2].map(|_| volume.clone());
        sim.spawn(async move { ahead.readahead_worker().await });
        sim.spawn(async move { destaging.destage_worker().await });
        let oracle = Rc::new(RefCell::new(Oracle::new()));
        for c in 0..clients / 2 {
            let rng = Rng::new(seed * 1000 + n as u64 * 100 + c);
            let mut client = Client { volume: volume.clone(), oracle: oracle.clone(), rng, stream: c * 5000 };
            let remaining = remaining.clone();
            sim.spawn(async move {
                for _ in 0..steps {
                    client.step().await;
                }
                remaining.set(remaining.get() - 1);
            });
        }
    }
    let waiting = (remaining, clock.clone(), cache.clone());
    sim.run(async move {
        let (remaining, clock, cache) = waiting;
        while remaining.get() > 0 {
            nitro_port::Clock::sleep(&clock, std::time::Duration::from_millis(1)).await;
        }
        cache.settled().await;
    });
    let status = cache.status();
    add(&happened.evicted, status.manager.weus_evicted);
    add(&happened.duplicates, status.manager.duplicates);
    add(&happened.voided, status.engine.fills_voided);
    add(&happened.ssd_reads, status.engine.ssd_reads);
    add(&happened.ram_hits, status.engine.ram_hits);
    for volume in &volumes {
        sim.run({
            let volume = volume.clone();
            async move { volume.destage_all().await.unwrap() }
        });
        add(&happened.destaged, volume.counters().destaged_extents);
        add(&happened.joined, volume.counters().read_joined_extents);
        add(&happened.held_back, volume.counters().bypassed_extents);
        let origin: Bytes = sim.run({
            let volume = volume.clone();
            async move { volume.origin().of::<Slow>().inner.read(0, VOLUME_BYTES as usize).await.unwrap() }
        });
        let cached: Bytes = sim.run({
            let volume = volume.clone();
            async move { volume.read(0, VOLUME_BYTES).await.unwrap().iter().flat_map(|p| p.to_vec()).collect() }
        });
        assert!(origin == cached, "the origin does not hold what the volume reads as");
    }
    assert_eq!(status.engine.corrupt_extents, 0);
}

#[test]
fn every_read_is_explained_by_a_write() {
    let happened = Happened::default();
    let wrapped = std::panic::AssertUnwindSafe(&happened);
    for_seeds(24, move |seed| scenario(seed, 12, 300, &wrapped));
    if std::env::var("NITRO_SEED").is_err() {
        let Happened { evicted, duplicates, joined, voided, held_back, ssd_reads, destaged, ram_hits } = &happened;
        for (name, count) in [
            ("evictions", evicted),
            ("duplicates", duplicates),
            ("joined misses", joined),
            ("voided fills", voided),
            ("held back", held_back),
            ("SSD reads", ssd_reads),
            ("destaged extents", destaged),
            ("RAM hits", ram_hits),
        ] {
            println!("{name}: {}", count.get());
            assert!(count.get() > 50, "{name}: {}; the scenario does not reach what it is for", count.get());
        }
    }
}
