//! Writes that are slowed before the room for dirty data is gone, on an emulated hard disk in virtual time.

use crate::any::Erased;
use nitro_device::hdd::HddModel;
use nitro_device::{HddDevice, RamDevice};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, DirtyShare, EngineSettings, Slowed, SlowedBy, Volume, VolumeOptions, WriteMode};
use nitro_frontend::limits::{Gate, Rates};
use nitro_port::Clock;
use nitro_port::codec::Compression;
use nitro_testkit::{Rng, Simulation, VirtualTime, noise};
use nitro_units::ObjectId;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const EXTENT: u64 = 8192;
const CACHE: u64 = 32 << 20;
const EXTENTS: u64 = 32_768;
const WRITERS: u64 = 16;
/// How long the clients write.
const BURST: Duration = Duration::from_secs(40);
const SECOND: Duration = Duration::from_secs(1);

type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;
type TestCache = Arc<Cache<Erased, VirtualTime>>;

/// A cache in front of an emulated hard disk.
struct Bed {
    sim: Rc<Simulation>,
    cache: TestCache,
}

impl Bed {
    fn new() -> Self {
        let sim = Simulation::new(7);
        let settings = EngineSettings {
            compression: Compression::None,
            ram_cache_bytes: 0,
            ..EngineSettings::new(Settings { weu_bytes: 512 << 10, ..Settings::new(CACHE) })
        };
        let flash = Erased::new(RamDevice::new(CACHE + (8 << 20), 512));
        let cache = sim.run(Cache::format(flash, sim.clock.clone(), settings, [0; 16], 5)).unwrap();
        let working = cache.clone();
        sim.spawn(async move { working.insertion_worker().await });
        Self { sim, cache }
    }

    fn volume(&self, object: u16) -> TestVolume {
        let disk = HddDevice::new(RamDevice::new(EXTENTS * EXTENT, 512), self.sim.clock.clone(), HddModel::rpm_7200());
        let options = VolumeOptions { object: ObjectId(object), read_only: false, mode: WriteMode::WriteBack };
        let volume = Volume::new(self.cache.clone(), Erased::new(disk), options);
        let destaging = volume.clone();
        self.sim.spawn(async move { destaging.destage_worker().await });
        volume
    }
}

/// A front end that heeds what the volume says, or does not.
struct Door {
    volume: TestVolume,
    gate: Gate<VirtualTime>,
    heeds: bool,
}

impl Door {
    fn slow_to(&self, slowed: Option<Slowed>) {
        let bytes = slowed.map(|slowed| slowed.bytes_per_second);
        self.gate.set(Rates { bytes, ..Rates::ANY });
    }

    async fn write(&self, index: u64, seed: u64) {
        if self.heeds && (self.volume.slowed(EXTENT).is_some() || self.gate.is_limit()) {
            let renew = || self.slow_to(self.volume.slowed_now());
            renew();
            self.gate.pass(0, EXTENT, Some(&renew)).await.unwrap();
        }
        self.volume.write(index * EXTENT, noise(seed, EXTENT as usize).into(), false).await.unwrap();
    }
}

/// What clients saw that wrote at random: the time that each write took, in the order in which they ended.
struct Seen {
    took: Vec<Duration>,
    /// Times that a write waited for room.
    stalls: u64,
}

impl Seen {
    fn longest(&self) -> Duration {
        self.took.iter().copied().max().unwrap_or_default()
    }

    fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() as f64 * part) as usize]
    }
}

fn burst(heeds: bool) -> Seen {
    let bed = Bed::new();
    let door = Rc::new(Door { volume: bed.volume(0), gate: Gate::new(bed.sim.clock.clone()), heeds });
    let took = Rc::new(RefCell::new(Vec::new()));
    for writer in 0..WRITERS {
        let (door, took, clock) = (door.clone(), took.clone(), bed.sim.clock.clone());
        bed.sim.spawn(async move {
            let mut random = Rng::new(writer);
            for number in 0.. {
                let begun = clock.now();
                door.write(random.below(EXTENTS), number * WRITERS + writer).await;
                took.borrow_mut().push(clock.now() - begun);
                // A client that computes something between two writes.
                clock.sleep(Duration::from_millis(1)).await;
            }
        });
    }
    bed.sim.run(bed.sim.clock.sleep(BURST));
    bed.sim.end();
    Seen { took: took.take(), stalls: bed.cache.status().engine.dirty_stalls }
}

#[test]
fn writers_are_slowed_and_not_stopped() {
    let (stopped, slowed) = (burst(false), burst(true));
    let told = |seen: &Seen| {
        let (p50, p99) = (seen.quantile(0.5), seen.quantile(0.99));
        format!(
            "{} writes, p50 {p50:?}, p99 {p99:?}, longest {:?}, {} stalls",
            seen.took.len(),
            seen.longest(),
            seen.stalls
        )
    };
    let told = format!("stopped: {}\nslowed: {}", told(&stopped), told(&slowed));
    println!("{told}");
    assert!(stopped.stalls > 100 && slowed.stalls * 20 < stopped.stalls, "{told}");
    assert!(slowed.longest() * 3 < stopped.longest() * 2, "{told}");
    assert!(slowed.took.len() * 4 > stopped.took.len() * 3, "{told}");
}

#[test]
fn a_volume_is_slowed_by_what_it_may_take_itself() {
    let bed = Bed::new();
    let (large, small) = (bed.volume(0), bed.volume(1));
    // It may take a tenth of the room, where destage begins at a third of it.
    small.set_dirty_share(DirtyShare { min_percent: Some(0), max_percent: 10 });
    let clock = bed.sim.clock.clone();
    bed.sim.run(async {
        let mut index = 0;
        while small.slowed_now().is_none() {
            small.write(index * EXTENT, noise(index, EXTENT as usize).into(), false).await.unwrap();
            index += 1;
        }
        assert_eq!(small.slowed_now().map(|slowed| slowed.by), Some(SlowedBy::Dirty));
        assert_eq!(large.slowed_now(), None, "its neighbour is not slowed");
        assert_eq!(bed.cache.status().engine.dirty_stalls, 0);
        // What it waits for is destaged, though not even the age of the data asks for it.
        clock.sleep(SECOND * 5).await;
        assert_eq!(small.slowed_now(), None);
    });
    bed.sim.end();
}

#[test]
fn destage_for_which_writers_are_slowed_is_not_restrained_by_readers() {
    let destaged = |reads: bool| {
        let bed = Bed::new();
        let volume = bed.volume(0);
        if reads {
            volume.set_fill_paused(true);
            for reader in 0..4 {
                let volume = volume.clone();
                bed.sim.spawn(async move {
                    let mut random = Rng::new(100 + reader);
                    loop {
                        volume.read((EXTENTS / 2 + random.below(EXTENTS / 2)) * EXTENT, EXTENT).await.unwrap();
                    }
                });
            }
        }
        let door = Rc::new(Door { volume: volume.clone(), gate: Gate::new(bed.sim.clock.clone()), heeds: true });
        for writer in 0..WRITERS {
            let door = door.clone();
            bed.sim.spawn(async move {
                let mut random = Rng::new(writer);
                loop {
                    door.write(random.below(EXTENTS / 2), writer).await;
                }
            });
        }
        bed.sim.run(bed.sim.clock.sleep(SECOND * 20));
        bed.sim.end();
        volume.counters().destaged_extents
    };
    let (alone, beside) = (destaged(false), destaged(true));
    // The disk orders 32 writes at a time, and four reads among them.
    assert!(beside * 3 > alone, "{beside} extents beside readers, {alone} without");
}

#[test]
fn whoever_writes_through_is_not_slowed() {
    let bed = Bed::new();
    let volume = bed.volume(0);
    bed.sim.run(async {
        let mut index = 0;
        while volume.slowed_now().is_none() {
            volume.write(index * EXTENT, noise(index, EXTENT as usize).into(), false).await.unwrap();
            index += 1;
        }
        volume.set_mode(WriteMode::WriteThrough).await.unwrap();
        assert_eq!(volume.slowed(u64::MAX / 2), None);
    });
    bed.sim.end();
}
