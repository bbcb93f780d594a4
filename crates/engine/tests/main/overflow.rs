//! The journal has room for whatever ordinary work tells it, in caches, journals and requests of any size: nothing here
//! flushes unless it says so, and in debug builds the engine itself checks that all stays within the journal's budget.

use crate::any::{Erased, jittery};
use bytes::Bytes;
use futures_util::future::join_all;
use nitro_device::RamDevice;
use nitro_engine::format::journal::DIRTY_DUP_BYTES;
use nitro_engine::journal::Budget;
use nitro_engine::manager::Settings;
use nitro_engine::{
    Cache, Discard, EngineSettings, Health, LogDevice, MissingLog, Volume, VolumeEntry, VolumeOptions, WriteMode,
};
use nitro_port::Clock;
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;
use nitro_testkit::{Rng, Simulation, VirtualTime, for_seeds};
use nitro_units::ObjectId;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestCache = Arc<Cache<Erased, VirtualTime>>;
type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

const WEU_BYTES: u64 = 512 << 10;
const MIB: u64 = 1 << 20;

/// The smallest cache there is, with extents of 4 KiB, which destages only what is more than half of it.
fn tiny() -> EngineSettings {
    let manager = Settings { weu_bytes: WEU_BYTES as u32, extent_bytes: 4096, ..Settings::new(8 * WEU_BYTES) };
    EngineSettings {
        dirty_start_percent: 60,
        ram_cache_bytes: 0,
        dirty_age: Duration::from_secs(10_000),
        ..EngineSettings::new(manager)
    }
}

fn budget(settings: &EngineSettings) -> Budget {
    let counts = settings.journal_counts();
    Budget::new(counts.area_bytes() / 2, 512, counts.slots, counts.weu_entries_max).unwrap()
}

/// What outlives the program.
struct World {
    settings: EngineSettings,
    flash: Arc<RamDevice>,
    log: Option<Arc<RamDevice>>,
    origins: Vec<Arc<RamDevice>>,
    origin_delay_us: u64,
    formatted: bool,
    runs: u64,
}

/// One run of the program.
struct Run {
    sim: Rc<Simulation>,
    cache: TestCache,
    volumes: Vec<TestVolume>,
}

impl World {
    fn new(settings: EngineSettings, origins: usize, origin_bytes: u64) -> Self {
        let overhead = Cache::<Erased, VirtualTime>::overhead_bytes(&settings);
        let flash_bytes = 2 * settings.manager.cache_bytes + overhead;
        let origins = (0..origins).map(|_| Arc::new(RamDevice::new(origin_bytes, 512))).collect();
        let flash = Arc::new(RamDevice::new(flash_bytes, 512));
        Self { settings, flash, log: None, origins, origin_delay_us: 500, formatted: false, runs: 0 }
    }

    fn with_log(mut self) -> Self {
        self.log = Some(Arc::new(RamDevice::new(2 * MIB, 512)));
        self
    }

    /// Starts the cache, with its volumes and workers.
    fn start(&mut self, seed: u64, mode: WriteMode) -> Run {
        let sim = Simulation::new(seed);
        let clock = sim.clock.clone();
        let device = |ram: &Arc<RamDevice>, us| jittery(ram.clone(), &clock, seed + 1, us);
        let log = self.log.as_ref().map(|log| LogDevice { device: device(log, 50), size_bytes: None, uuid: [2; 16] });
        let (flash, settings) = (device(&self.flash, 50), self.settings);
        self.runs += 1;
        let (time, epoch) = (clock.clone(), seed + self.runs);
        let cache = match std::mem::replace(&mut self.formatted, true) {
            false => {
                sim.run(Cache::format_logged(flash, log, MissingLog::Refuse, time, settings, [7; 16], epoch)).unwrap()
            }
            true => sim.run(Cache::open_logged(flash, log, MissingLog::Refuse, time, settings)).unwrap().0,
        };
        let open = |(n, origin): (usize, &Arc<RamDevice>)| {
            let options = VolumeOptions { object: ObjectId(n as u16), read_only: false, mode };
            let volume = Volume::new(cache.clone(), device(origin, self.origin_delay_us), options);
            let destaging = volume.clone();
            sim.spawn(async move { destaging.destage_worker().await });
            volume
        };
        let volumes = self.origins.iter().enumerate().map(open).collect();
        let [inserting, journaling] = [0; 2].map(|_| cache.clone());
        sim.spawn(async move { inserting.insertion_worker().await });
        sim.spawn(async move { journaling.journal_worker().await });
        Run { sim, cache, volumes }
    }
}

impl Run {
    /// Runs `client`; then the cache must be in use, and have had to write snapshots.
    fn serve<T: 'static>(&self, client: impl Future<Output = T> + 'static) -> T {
        let result = self.sim.run(client);
        let status = self.cache.status();
        assert_eq!((status.failed, status.health), (None, Health::Caching));
        result
    }

    fn snapshots(&self) -> u64 {
        self.cache.status().engine.journal_snapshots
    }

    /// Ends the program as a kill does.
    fn kill(self) {
        self.sim.end();
    }
}

/// Content that shrinks to a few bytes.
fn content(value: u64, bytes: u64) -> Bytes {
    let mut content = BufMut::zeroed(bytes as usize);
    for (n, extent) in content.chunks_mut(4096).enumerate() {
        extent[..8].copy_from_slice(&value.to_le_bytes());
        extent[8..16].copy_from_slice(&(n as u64).to_le_bytes());
    }
    content.freeze()
}

async fn read(volume: &TestVolume, offset: u64, len: u64) -> Vec<u8> {
    volume.read(offset, len).await.unwrap().concat()
}

async fn restored(cache: &TestCache, clock: &VirtualTime) {
    while cache.is_restoring() {
        clock.sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn overwrites_in_write_back_without_a_flush_never_fill_it() {
    for logged in [false, true] {
        let world = World::new(tiny(), 2, 16 * MIB);
        let mut world = if logged { world.with_log() } else { world };
        let run = world.start(1, WriteMode::WriteBack);
        let [a, b] = [run.volumes[0].clone(), run.volumes[1].clone()];
        run.serve(async move {
            b.write(0, content(77, MIB), false).await.unwrap();
            // Two contents by turns: a record for each extent, and nothing on the SSD that would make it commit.
            for round in 0..100 {
                a.write(round % 2 * MIB, content(round / 3 % 2, MIB), false).await.unwrap();
                a.cache().settled().await;
            }
            assert!(read(&a, MIB, MIB).await == content(1, MIB));
            assert!(read(&b, 0, MIB).await == content(77, MIB));
            b.write(0, content(78, MIB), false).await.unwrap();
            a.flush().await.unwrap();
        });
        assert!(run.snapshots() > 0);
        run.kill();
        let run = world.start(2, WriteMode::WriteBack);
        let (a, cache, clock) = (run.volumes[0].clone(), run.cache.clone(), run.sim.clock.clone());
        run.serve(async move {
            restored(&cache, &clock).await;
            assert!(read(&a, MIB, MIB).await == content(1, MIB));
        });
        run.sim.end();
    }
}

#[test]
fn one_request_of_32_mib_without_a_flush_never_fills_it() {
    let mut world = World::new(tiny(), 1, 64 * MIB);
    let run = world.start(1, WriteMode::WriteBack);
    let volume = run.volumes[0].clone();
    run.serve(async move {
        for value in 0..2 {
            volume.write(MIB, content(value, 32 * MIB), false).await.unwrap();
        }
        assert!(read(&volume, MIB, 32 * MIB).await == content(1, 32 * MIB));
    });
    run.sim.end();
}

/// Fills the cache with extents of which no two neighbours were inserted one after the other.
async fn fill(volume: &TestVolume, extents: u64) {
    for n in 0..extents {
        let index = n * 509 % extents;
        volume.write(index * 4096, content(index, 4096), false).await.unwrap();
        if n % 32 == 0 {
            volume.cache().settled().await;
        }
    }
    volume.cache().settled().await;
}

#[test]
fn a_trim_zeroes_or_a_detach_of_everything_never_fills_it() {
    for way in 0..4 {
        let mut world = World::new(tiny(), 1, 64 * MIB);
        let run = world.start(1, WriteMode::WriteThrough);
        let volume = run.volumes[0].clone();
        run.serve(async move {
            fill(&volume, 6000).await;
            assert!(volume.cache().status().manager.cached_extents >= 5000);
            match way {
                0 => volume.trim(0, 64 * MIB, false).await.unwrap(),
                1 => volume.write_zeroes(0, 64 * MIB, true, false, false).await.unwrap(),
                2 => volume.detach().await.unwrap(),
                _ => volume.write(0, content(9, 32 * MIB), true).await.unwrap(),
            }
            if way < 3 {
                assert_eq!(volume.cache().status().manager.cached_extents, 0);
            }
        });
        run.kill();
        // What was forgotten does not come back.
        let run = world.start(2, WriteMode::WriteThrough);
        let (volume, cache, clock) = (run.volumes[0].clone(), run.cache.clone(), run.sim.clock.clone());
        run.serve(async move {
            restored(&cache, &clock).await;
            let expected = match way {
                0 | 1 => vec![0; 24 * MIB as usize],
                2 => (0..6000).flat_map(|index| content(index, 4096)).collect(),
                _ => content(9, 32 * MIB)[..24 * MIB as usize].to_vec(),
            };
            let len = expected.len() as u64;
            assert!(read(&volume, 0, len).await == expected, "way {way}");
        });
        run.sim.end();
    }
}

#[test]
fn overwrites_in_write_through_with_a_flush_after_each_never_fill_it() {
    let mut world = World::new(tiny(), 1, 4 * MIB);
    let run = world.start(1, WriteMode::WriteThrough);
    let volume = run.volumes[0].clone();
    run.serve(async move {
        for round in 0..100 {
            volume.write(round % 4 * MIB, content(round, MIB), false).await.unwrap();
            volume.flush().await.unwrap();
        }
        assert!(read(&volume, 3 * MIB, MIB).await == content(99, MIB));
        // The same by extents of which no two neighbours are written one after the other.
        for round in 0..100 {
            for n in 0..256 {
                let index = n * 37 % 256;
                volume.write(index * 4096, content(round + index, 4096), false).await.unwrap();
            }
            volume.flush().await.unwrap();
            volume.cache().settled().await;
        }
        assert!(read(&volume, 4096, 4096).await == content(100, 4096));
    });
    run.sim.end();
}

#[test]
fn dirty_data_that_is_discarded_never_fills_it() {
    let mut world = World::new(tiny(), 1, 64 * MIB);
    let run = world.start(1, WriteMode::WriteBack);
    let volume = run.volumes[0].clone();
    run.serve(async move {
        for round in 0..20 {
            for index in 0..500 {
                let index = index * 7 % 500 * 3;
                volume.write(index * 4096, content(index + round, 4096), false).await.unwrap();
            }
            volume.cache().settled().await;
            volume.discard_dirty().await.unwrap();
            assert_eq!(volume.dirty_extents(), 0);
        }
    });
    run.sim.end();
}

#[test]
fn zeroes_without_end_are_destaged_before_the_journal_cannot_name_them() {
    let tiny = tiny();
    let manager = Settings { extent_bytes: 16 << 10, ..tiny.manager };
    let settings = EngineSettings { manager, dirty_queue_bytes: MIB, ..tiny };
    let mut world = World::new(settings, 1, 128 * MIB);
    world.origin_delay_us = 20_000;
    let run = world.start(1, WriteMode::WriteBack);
    let (volume, cache) = (run.volumes[0].clone(), run.cache.clone());
    let most = run.serve(async move {
        let mut most = 0;
        // They take no room on the SSD.
        for n in 0..128 {
            volume.write(n * MIB, BufMut::zeroed(MIB as usize).freeze(), false).await.unwrap();
            most = most.max(cache.status().manager.dirty_extents);
        }
        most
    });
    let room = budget(&settings).dirty_bytes(8) / DIRTY_DUP_BYTES as u64;
    assert!(most > 64 && most <= room, "{most} dirty extents, {room} have room");
    run.sim.end();
}

#[test]
fn a_restart_that_trusts_nothing_never_fills_it() {
    let mut world = World::new(tiny(), 1, 64 * MIB);
    let run = world.start(1, WriteMode::WriteThrough);
    let (volume, cache) = (run.volumes[0].clone(), run.cache.clone());
    run.serve(async move {
        fill(&volume, 6000).await;
        volume.close_regions(true).await.unwrap();
        cache.sync().await.unwrap();
    });
    run.kill();
    world.settings.distrust_clean = true;
    for seed in 2..4 {
        let run = world.start(seed, WriteMode::WriteBack);
        let (volume, cache, clock) = (run.volumes[0].clone(), run.cache.clone(), run.sim.clock.clone());
        run.serve(async move {
            // While the rest of the cache is read.
            for round in 0..40 {
                volume.write(round % 2 * MIB, content(round % 3, MIB), false).await.unwrap();
            }
            volume.flush().await.unwrap();
            restored(&cache, &clock).await;
            assert!(read(&volume, MIB, MIB).await == content(0, MIB));
            assert!(read(&volume, 8 * MIB, 4096).await == content(2048, 4096));
        });
        run.kill();
    }
    // Nor does anything come back later that was not trusted.
    world.settings.distrust_clean = false;
    let run = world.start(9, WriteMode::WriteThrough);
    let (cache, clock) = (run.cache.clone(), run.sim.clock.clone());
    run.serve(async move {
        restored(&cache, &clock).await;
        let stats = cache.status().manager;
        assert!(stats.cached_extents <= 512, "{stats:?}");
    });
    run.sim.end();
}

#[test]
fn any_number_of_regions_has_room() {
    let manager = Settings { weu_bytes: WEU_BYTES as u32, extent_bytes: 128 << 10, ..Settings::new(8 * WEU_BYTES) };
    let settings = EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(manager) };
    let most = budget(&settings).regions_max;
    let mut world = World::new(settings, 2, 64 << 30);
    let run = world.start(1, WriteMode::WriteThrough);
    let [a, b] = [run.volumes[0].clone(), run.volumes[1].clone()];
    run.serve(async move {
        for n in 0..3000 {
            a.write(n * 20 * MIB, content(n, 512), false).await.unwrap();
        }
        assert!(a.cache().status().open_regions <= most);
        b.write(0, content(1, 128 << 10), false).await.unwrap();
        b.trim(0, 32 << 30, false).await.unwrap();
        b.write_zeroes(1 << 30, 32 << 30, true, false, false).await.unwrap();
        assert!(read(&a, 20 * MIB, 512).await == content(1, 512));
    });
    run.kill();
    let run = world.start(2, WriteMode::WriteThrough);
    let [a, b] = [run.volumes[0].clone(), run.volumes[1].clone()];
    run.serve(async move {
        assert!(read(&a, 20 * MIB, 512).await == content(1, 512));
        assert!(read(&b, 0, 128 << 10).await == vec![0; 128 << 10]);
    });
    assert!(most < 3000, "{most} regions have room");
    run.sim.end();
}

#[test]
fn volumes_that_the_journal_has_no_room_for_are_refused() {
    let mut world = World::new(tiny(), 0, 0);
    let run = world.start(1, WriteMode::WriteBack);
    let entry = |n: u64, name: usize, stamp| VolumeEntry {
        name: format!("{n:0name$}"),
        origin_bytes: 1 << 40,
        stamp: [stamp; 16],
        mode: 1,
        domain: nitro_engine::DedupDomain::SHARED,
        identity: Vec::new(),
    };
    let cache = run.cache.clone();
    let count = run.serve(async move {
        let mut count = 0;
        while cache.remember_volume(entry(count, 200, 0)).is_some() {
            // However often they change.
            for stamp in 0..50 {
                assert!(cache.remember_volume(entry(count, 200, stamp)).is_some());
            }
            count += 1;
            assert!(count < 1000, "no end of volumes");
        }
        cache.sync().await.unwrap();
        count
    });
    assert!(count >= 2, "{count} volumes");
    run.kill();
    let run = world.start(2, WriteMode::WriteBack);
    assert_eq!(run.cache.volumes().len() as u64, count);
    run.sim.end();
}

/// A cache of some geometry that is small in every way.
fn random_settings(rng: &mut Rng) -> EngineSettings {
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
    let weu_bytes = pick(&[512 << 10, 512 << 10, 1 << 20]);
    let manager = Settings {
        extent_bytes: pick(&[4096, 4096, 8192, 32 << 10, 128 << 10]) as u32,
        weu_bytes: weu_bytes as u32,
        dedup: pick(&[0, 1, 1]) == 1,
        ..Settings::new(pick(&[8, 9, 13, 20]) * weu_bytes)
    };
    let start = pick(&[0, 20, 60]) as u8;
    EngineSettings {
        compression: [Compression::Lz4, Compression::None, Compression::Zstd][pick(&[0, 0, 1, 2]) as usize],
        dirty_start_percent: start,
        dirty_max_percent: pick(&[30, 60, 90]).max(start.into()) as u8,
        dirty_age: Duration::from_secs(pick(&[1, 30, 1000])),
        dirty_queue_bytes: pick(&[64 << 10, 1 << 20, 16 << 20]),
        ram_cache_bytes: pick(&[0, 1 << 20]),
        distrust_clean: pick(&[0, 0, 1]) == 1,
        discard: [Discard::Off, Discard::Evicted][pick(&[0, 1]) as usize],
        ..EngineSettings::new(manager)
    }
}

/// A client of one volume, and what it wrote by units of 4 KiB.
struct Client {
    volume: TestVolume,
    units: HashMap<u64, u64>,
    rng: Rng,
}

const UNIT: u64 = 4096;
const UNITS: u64 = 12 << 8;

impl Client {
    fn range(&mut self) -> (u64, u64) {
        let most = [1, 8, 256, UNITS][self.rng.below(4) as usize];
        let len = 1 + self.rng.below(most);
        (self.rng.below(UNITS - len + 1), len)
    }

    async fn write(&mut self) {
        let ((first, len), few) = (self.range(), self.rng.one_in(2));
        let value = 1 + if few { self.rng.below(4) } else { self.rng.next() >> 1 };
        let data = (first..first + len).flat_map(|_| content(value, UNIT)).collect();
        self.volume.write(first * UNIT, data, false).await.unwrap();
        self.units.extend((first..first + len).map(|unit| (unit, value)));
    }

    async fn zero(&mut self) {
        let (first, len) = self.range();
        match self.rng.one_in(2) {
            true => self.volume.trim(first * UNIT, len * UNIT, false).await.unwrap(),
            false => self.volume.write_zeroes(first * UNIT, len * UNIT, true, false, false).await.unwrap(),
        }
        (first..first + len).for_each(|unit| _ = self.units.remove(&unit));
    }

    async fn check(&mut self) {
        let (first, len) = self.range();
        let data = read(&self.volume, first * UNIT, len * UNIT).await;
        for (unit, bytes) in (first..).zip(data.chunks(UNIT as usize)) {
            let expected = self.units.get(&unit).map_or(Bytes::from_static(&[0; UNIT as usize]), |v| content(*v, UNIT));
            assert!(bytes == expected, "unit {unit}");
        }
    }

    async fn work(mut self, steps: u64) -> Self {
        for _ in 0..steps {
            self.step().await;
        }
        self.volume.flush().await.unwrap();
        self
    }

    async fn step(&mut self) {
        let volume = self.volume.clone();
        match self.rng.below(40) {
            0..22 => self.write().await,
            22..26 => self.zero().await,
            26..34 => self.check().await,
            34 => volume.set_mode(WriteMode::WriteThrough).await.unwrap(),
            35..37 => volume.set_mode(WriteMode::WriteBack).await.unwrap(),
            37 => {
                volume.detach().await.unwrap();
                volume.attach();
            }
            38 => volume.close_regions(true).await.unwrap(),
            _ => {
                let weus = 8 + self.rng.below(16);
                let cache = volume.cache();
                // Refused where the journal, or the device, has no room for it.
                let _ = cache.resize(weus * u64::from(cache.settings().manager.weu_bytes)).await;
            }
        }
    }
}

fn anything(seed: u64) {
    let mut rng = Rng::new(seed ^ 0x0F10);
    let mut world = World::new(random_settings(&mut rng), 2, UNITS * UNIT);
    if rng.one_in(3) {
        world = world.with_log();
    }
    let mut known = [HashMap::new(), HashMap::new()];
    for cycle in 0..3 {
        let mode = if rng.one_in(2) { WriteMode::WriteBack } else { WriteMode::WriteThrough };
        let run = world.start(seed << 8 | cycle, mode);
        let clients = run.volumes.iter().zip(&mut known).map(|(volume, units)| Client {
            volume: volume.clone(),
            units: std::mem::take(units),
            rng: Rng::new(rng.next()),
        });
        let clients: Vec<_> = clients.collect();
        let steps = 30 + rng.below(40);
        let ended = run.serve(join_all(clients.into_iter().map(|client| client.work(steps)).collect::<Vec<_>>()));
        for (units, client) in known.iter_mut().zip(ended) {
            *units = client.units;
        }
        let weus = run.cache.status().manager.weus;
        world.settings.manager.cache_bytes = weus * u64::from(world.settings.manager.weu_bytes);
        run.kill();
    }
}

#[test]
fn whatever_small_caches_are_used_for_never_fills_it() {
    for_seeds(40, anything);
}
