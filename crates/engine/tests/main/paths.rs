//! Single requests: single flight, scan resistance, promotion, partial writes, odd alignments, bounds.

use crate::any::{Erased, jittery};
use nitro_cache::admission::WritePolicy;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, Classifier, EngineSettings, ErrorKind, Learned, Volume, VolumeOptions, WriteMode};
use nitro_port::buf::BufMut;
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::{ClassId, ObjectId};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

type TestVolume = Volume<Erased, Erased, VirtualTime>;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn volume(size: u64, settings: impl Fn(&mut EngineSettings), read_only: bool) -> (Rc<Simulation>, Arc<TestVolume>) {
    let sim = Simulation::new(3);
    let clock = sim.clock.clone();
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(16 << 20) };
    let mut engine = EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(manager) };
    settings(&mut engine);
    let flash = jittery(RamDevice::new(engine.manager.cache_bytes + 4 * MIB, 512), &clock, 1, 100);
    let origin = jittery(RamDevice::new(size, 512), &clock, 2, 5000);
    let cache = sim.run(Cache::format(flash, clock, engine, [0; 16], 5)).unwrap();
    let volume = Volume::new(
        cache.clone(),
        origin,
        VolumeOptions { object: ObjectId(0), read_only, mode: WriteMode::WriteThrough },
    );
    let ahead = volume.clone();
    sim.spawn(async move { cache.insertion_worker().await });
    sim.spawn(async move { ahead.readahead_worker().await });
    (sim, volume)
}

#[test]
fn concurrent_misses_of_one_extent_read_the_origin_once() {
    let (sim, volume) = volume(MIB, |_| {}, false);
    for _ in 0..10 {
        let volume = volume.clone();
        sim.spawn(async move { drop(volume.read(64 * KIB, 8 * KIB).await.unwrap()) });
    }
    let last = volume.clone();
    sim.run(async move {
        last.read(64 * KIB, 8 * KIB).await.unwrap();
        last.cache().settled().await;
        last.read(64 * KIB, 8 * KIB).await.unwrap();
    });
    let counters = volume.counters();
    assert_eq!(counters.origin_reads, 1, "{counters:?}");
    assert_eq!(counters.read_miss_extents, 1);
}

#[test]
fn a_scan_read_once_never_reaches_the_ssd_and_one_read_twice_does() {
    let (sim, volume) = volume(12 * MIB, |s| s.readahead_ram_bytes = 16 * MIB, false);
    let scan = |volume: Arc<TestVolume>| async move {
        for at in (0..12 * MIB).step_by(32 << 10) {
            volume.read(at, 32 * KIB).await.unwrap();
        }
        volume.cache().settled().await;
    };
    sim.run(scan(volume.clone()));
    let once = volume.cache().status().manager;
    assert!(once.insertions * 8 * KIB <= MIB, "only what came before the stream was known: {}", once.insertions);
    let counters = volume.counters();
    assert!(counters.readahead_extents > 1000, "{counters:?}");
    assert!(counters.origin_read_bytes <= 12 * MIB + 256 * KIB, "nothing is read twice from the origin: {counters:?}");
    sim.run(scan(volume.clone()));
    let twice = volume.cache().status().manager;
    assert!(twice.insertions > 1400, "{} of 1536 extents", twice.insertions);
    assert!(volume.counters().origin_read_bytes <= 12 * MIB + 256 * KIB);
}

#[test]
fn a_partial_write_merges_with_what_is_cached() {
    let (sim, volume) = volume(MIB, |_| {}, false);
    let client = volume.clone();
    sim.run(async move {
        let mut whole = vec![7u8; 8 << 10];
        client.write(0, BufMut::copy_of(&whole).freeze(), false).await.unwrap();
        client.cache().settled().await;
        client.write(1001, BufMut::copy_of(&[9; 77]).freeze(), false).await.unwrap();
        client.cache().settled().await;
        whole[1001..1078].fill(9);
        let before = client.counters().origin_reads;
        assert!(client.read(0, 8 * KIB).await.unwrap().concat() == whole);
        assert_eq!(client.counters().origin_reads, before, "still cached");
        client.write(8 * KIB + 5, BufMut::copy_of(&[3; 5]).freeze(), false).await.unwrap();
        client.cache().settled().await;
        assert!(!client.cached_runs(8 * KIB, 8 * KIB).await.unwrap()[0].cached, "what was not cached is left so");
    });
}

#[test]
fn cached_runs_tell_what_is_cached() {
    let (sim, volume) = volume(MIB, |_| {}, false);
    let client = volume.clone();
    sim.run(async move {
        client.warm(64 * KIB, 128 * KIB).await.unwrap();
        client.cache().settled().await;
        let runs: Vec<_> = client.cached_runs(1, MIB - 1).await.unwrap().iter().map(|r| (r.len, r.cached)).collect();
        assert_eq!(runs, [(64 * KIB - 1, false), (128 * KIB, true), (MIB - 192 * KIB, false)]);
    });
}

#[test]
fn bounds_and_read_only_are_refused() {
    let (sim, volume) = volume(MIB + 512, |_| {}, true);
    let client = volume.clone();
    sim.run(async move {
        let kind = |r: Result<(), nitro_engine::Error>| r.map_err(|e| e.kind()).unwrap_err();
        assert_eq!(kind(client.read(MIB, 513).await.map(drop)), ErrorKind::OutOfRange);
        assert_eq!(kind(client.read(u64::MAX, 2).await.map(drop)), ErrorKind::OutOfRange);
        let byte = BufMut::zeroed(1).freeze();
        assert_eq!(kind(client.write(0, byte, false).await), ErrorKind::ReadOnly);
        assert_eq!(kind(client.trim(0, 512, false).await), ErrorKind::ReadOnly);
        assert_eq!(kind(client.write_zeroes(0, 512, true, false, false).await), ErrorKind::ReadOnly);
        assert_eq!(client.read(MIB + 511, 1).await.unwrap().concat(), [0]);
        assert!(client.read(5, 0).await.unwrap().is_empty());
    });
}

#[test]
fn what_is_written_is_cached_as_the_write_policy_says() {
    for (policy, found) in [
        (WritePolicy::Allocate, [true, true]),
        (WritePolicy::Update, [false, true]),
        (WritePolicy::Invalidate, [false, false]),
    ] {
        let (sim, volume) = volume(MIB, |_| {}, false);
        volume.set_write_policy(policy);
        let cached = sim.run(async move {
            let extent = |number: u64| number * 8 * KIB;
            volume.read(extent(3), 8 * KIB).await.unwrap();
            volume.cache().settled().await;
            for number in [2, 3] {
                volume.write(extent(number), BufMut::zeroed(8 << 10).freeze(), false).await.unwrap();
            }
            volume.cache().settled().await;
            [2, 3].map(|number| volume.explain(extent(number)).unwrap().stored.is_some())
        });
        assert_eq!(cached, found, "{policy}");
    }
}

#[test]
fn what_waits_in_ram_counts_as_cached_where_writes_update() {
    let (sim, volume) = volume(MIB, |settings| settings.staging_bytes = MIB, false);
    volume.set_write_policy(WritePolicy::Update);
    let cached = sim.run(async move {
        // The third of five extents that are then written together is staged, the second is in its unit.
        for number in [1, 2] {
            volume.read(number * 8 * KIB, 8 * KIB).await.unwrap();
            if number == 1 {
                volume.cache().settled().await;
            }
        }
        volume.write(0, BufMut::zeroed(40 << 10).freeze(), false).await.unwrap();
        volume.cache().settled().await;
        [0, 1, 2, 3, 4].map(|number| volume.explain(number * 8 * KIB).unwrap().stored.is_some())
    });
    assert_eq!(cached, [false, true, true, false, false]);
}

/// Says that the second MiB of a volume is of class 5, and once it has seen the third that the first is of class 6.
struct Told;

impl Classifier for Told {
    fn look(&self, offset: u64, _: &[u8], learned: &mut Vec<Learned>) -> Option<ClassId> {
        if offset / MIB == 2 {
            learned.push((0..MIB, ClassId::new(6)?));
        }
        ClassId::new(5).filter(|_| offset / MIB == 1)
    }

    fn class_of(&self, _: Range<u64>) -> Option<ClassId> {
        None
    }
}

#[test]
fn blocks_say_their_class_when_they_come_and_later() {
    let (sim, volume) = volume(3 * MIB, |_| {}, false);
    volume.classify_by(Some(Arc::new(Told)));
    let class = ClassId::new(9).unwrap();
    // Zeros say nothing.
    volume.set_write_policy(WritePolicy::Invalidate);
    let held = sim.run(async move {
        for (at, byte) in [(0, 1), (8 * KIB, 2), (MIB, 3), (MIB + 8 * KIB, 4), (2 * MIB, 5)] {
            volume.write(at, BufMut::copy_of(&[byte; 8 << 10]).freeze(), false).await.unwrap();
        }
        for at in [0, 8 * KIB, MIB] {
            volume.read(at, 8 * KIB).await.unwrap();
        }
        volume.read_as(class, MIB + 8 * KIB, 8 * KIB).await.unwrap();
        volume.cache().settled().await;
        let before = volume.cache().cached_by_class();
        volume.read(2 * MIB, 8 * KIB).await.unwrap();
        volume.cache().settled().await;
        [before, volume.cache().cached_by_class()].map(|held| [held[0], held[5], held[6], held[9]])
    });
    assert_eq!(held, [[2, 1, 0, 1], [1, 1, 2, 1]]);
}
