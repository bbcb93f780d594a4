//! Changes of how a volume is served, and the program killed in the middle of them.

use crate::any::jittery;
use crate::commits::{MIB, Machine, TestVolume, WEU_BYTES};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::format::weu::Head;
use nitro_engine::{Cache, DedupDomain, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::{Clock, Device};
use nitro_testkit::{Rng, Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const EXTENT: u64 = 4096;

/// Content that does not repeat.
fn noise(len: u64) -> Bytes {
    (0..len as u32 / 4).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect()
}

/// The generation of each slot, as the SSD has it; 0: it was never filled.
fn generations(flash: &Arc<RamDevice>) -> Vec<u32> {
    let sim = Simulation::new(1);
    let flash = Arc::clone(flash);
    sim.run(async move {
        let at = Cache::<Arc<RamDevice>, VirtualTime>::probe(&flash).await.unwrap().data_offset;
        let mut all = Vec::new();
        for slot in 0..16 {
            let head = flash.read(at + slot * WEU_BYTES, 512).await.unwrap();
            all.push(Head::decode(&head, WEU_BYTES as u32).map_or(0, |head| head.generation.0));
        }
        all
    })
}

async fn loaded(volume: &TestVolume, clock: &VirtualTime) {
    while volume.cache().is_restoring() {
        clock.sleep(Duration::from_millis(1)).await;
    }
}

/// Writes extents in turn until the program is killed, and notes which writes were acknowledged.
async fn write_on(volume: TestVolume, acknowledged: Rc<RefCell<BTreeMap<u64, u8>>>) {
    for step in 1u64.. {
        let (extent, value) = (step * 7 % (MIB / EXTENT), step as u8);
        volume.write(extent * EXTENT, Bytes::from(vec![value; EXTENT as usize]), false).await.unwrap();
        acknowledged.borrow_mut().insert(extent, value);
    }
}

#[test]
fn what_is_written_while_a_volume_leaves_its_cache_is_not_read_old_after_a_kill() {
    // The whole of it takes about a quarter of a second.
    let mut count = 0;
    for moment in 1..26 {
        let mut machine = Machine { flash_us: 5_000, ..Machine::new() };
        let (sim, volume) = machine.start(WriteMode::WriteThrough);
        let (clock, acknowledged) = (sim.clock.clone(), Rc::default());
        let written = (volume.clone(), Rc::clone(&acknowledged));
        sim.run(async move {
            volume.write(0, noise(MIB), false).await.unwrap();
            volume.cache().settled().await;
            // Its region is closed, and what is cached is on the SSD.
            clock.sleep(Duration::from_secs(5)).await;
            volume.cache().sync().await.unwrap();
        });
        sim.spawn(write_on(written.0.clone(), written.1));
        let (volume, clock) = (written.0, sim.clock.clone());
        sim.spawn(async move {
            volume.detach().await.unwrap();
        });
        sim.run(async move { clock.sleep(Duration::from_millis(moment * 10)).await });
        sim.end();
        let (sim, volume) = machine.start(WriteMode::WriteThrough);
        let clock = sim.clock.clone();
        let acknowledged = acknowledged.take();
        count += acknowledged.len();
        sim.run(async move {
            loaded(&volume, &clock).await;
            for (extent, value) in acknowledged {
                let found = volume.read(extent * EXTENT, EXTENT).await.unwrap().concat();
                assert!(found == [value; EXTENT as usize], "extent {extent}, killed after {moment}0 ms");
            }
        });
        sim.end();
    }
    assert!(count > 100, "{count} writes were acknowledged");
}

#[test]
fn a_volume_that_left_its_cache_and_came_back_is_read_as_it_was_written() {
    let mut machine = Machine::new();
    let (sim, volume) = machine.start(WriteMode::WriteThrough);
    let clock = sim.clock.clone();
    sim.run(async move {
        volume.write(0, noise(MIB), false).await.unwrap();
        volume.cache().settled().await;
        clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(volume.cache().status().open_regions, 0);
        volume.detach().await.unwrap();
        assert!(!volume.is_attached());
        // However long it is away.
        clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(volume.cache().status().open_regions, 1, "the whole volume");
        for extent in 0..64 {
            volume.write(extent * 16 * EXTENT, Bytes::from(vec![3; EXTENT as usize]), false).await.unwrap();
        }
        assert_eq!(volume.cache().status().open_regions, 1, "writes of a detached volume open regions");
        assert_eq!(volume.cache().status().manager.cached_extents, 0);
        volume.attach();
        // What is cached now is not believed after a power cut, until the origin was flushed.
        volume.read(0, MIB).await.unwrap();
        volume.cache().settled().await;
        assert!(volume.cache().status().manager.cached_extents > 0);
        assert!(volume.cache().status().open_regions > 0, "the whole volume is closed too early");
        clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(volume.cache().status().open_regions, 0);
        assert!(volume.read(16 * EXTENT, EXTENT).await.unwrap().concat() == [3; EXTENT as usize]);
    });
    sim.end();
}

#[test]
fn a_change_to_write_through_waits_for_the_writes_that_began_in_write_back() {
    let mut machine = Machine::new();
    let (sim, volume) = machine.start(WriteMode::WriteBack);
    let clock = sim.clock.clone();
    sim.run(async move {
        for round in 0..60 {
            volume.set_mode(WriteMode::WriteBack).await.unwrap();
            // A part of an extent: the rest of it is read from the origin first.
            let write = volume.write(round * 16 * EXTENT + 100, Bytes::from_static(&[7; 50]), false);
            let change = async {
                clock.sleep(Duration::from_micros(round % 20)).await;
                volume.set_mode(WriteMode::WriteThrough).await.unwrap();
                assert_eq!(volume.dirty_extents(), 0, "round {round}: a write came after");
            };
            let (written, ()) = futures_util::join!(write, change);
            written.unwrap();
        }
    });
    sim.end();
}

#[test]
fn slots_that_were_removed_and_added_again_are_not_mixed_up_with_their_former_contents() {
    let content = |round: u64| {
        let mut rng = Rng::new(round);
        Bytes::from_iter((0..4 * MIB / 8).flat_map(|_| rng.next().to_le_bytes()))
    };
    let mut machine = Machine::new();
    machine.settings.ram_cache_bytes = 0;
    // Nothing is destaged unless it is asked for.
    (machine.settings.dirty_start_percent, machine.settings.dirty_max_percent) = (90, 90);
    let (whole, half) = (machine.settings.manager.cache_bytes, machine.settings.manager.cache_bytes / 2);
    // Each round fills half of the slots; the last one is not destaged.
    let fill = |machine: &mut Machine, from: u64, to: u64, size_bytes: Option<u64>| {
        let (sim, volume) = machine.start(WriteMode::WriteBack);
        let clock = sim.clock.clone();
        let before = size_bytes.filter(|size| *size == whole);
        let after = size_bytes.filter(|size| *size == half);
        sim.run(async move {
            loaded(&volume, &clock).await;
            if let Some(size_bytes) = before {
                volume.cache().resize(size_bytes).await.unwrap();
            }
            for round in from..to {
                volume.destage_all().await.unwrap();
                volume.write(0, content(round), false).await.unwrap();
                volume.flush().await.unwrap();
            }
            if let Some(size_bytes) = after {
                volume.destage_all().await.unwrap();
                volume.cache().resize(size_bytes).await.unwrap();
            }
        });
        sim.end();
    };
    fill(&mut machine, 0, 3, None);
    // What the journal knows to be void of slots that are removed next.
    fill(&mut machine, 3, 4, Some(half));
    let before = generations(&machine.flash);
    machine.settings.manager.cache_bytes = half;
    fill(&mut machine, 4, 7, Some(whole));
    machine.settings.manager.cache_bytes = whole;
    let (sim, volume) = machine.start(WriteMode::WriteBack);
    let clock = sim.clock.clone();
    sim.run(async move {
        loaded(&volume, &clock).await;
        assert!(volume.dirty_extents() > 0);
        assert!(volume.read(0, 4 * MIB).await.unwrap().concat() == content(6));
        assert!(volume.lost_ranges().is_empty());
    });
    sim.end();
    let after = generations(&machine.flash);
    assert!(after.iter().zip(&before).skip(8).all(|(after, before)| after > before), "{after:?} after {before:?}");
}

#[test]
fn nothing_of_a_removed_volume_is_read_by_the_one_that_gets_its_number() {
    let mut machine = Machine::new();
    machine.settings.ram_cache_bytes = 8 * MIB;
    let (sim, first) = machine.start(WriteMode::WriteThrough);
    let (cache, clock) = (first.cache().clone(), sim.clock.clone());
    let entry = VolumeEntry {
        name: "a volume".to_owned(),
        origin_bytes: 4 * MIB,
        stamp: [0; 16],
        mode: 0,
        domain: DedupDomain::SHARED,
        identity: Vec::new(),
    };
    let content = |volume: u64, extent: u64| {
        let mut rng = Rng::new(volume << 32 | extent);
        Bytes::from_iter((0..EXTENT / 8).flat_map(|_| rng.next().to_le_bytes()))
    };
    sim.run(async move {
        for value in 1..4 {
            let object = cache.remember_volume(entry.clone()).unwrap();
            assert_eq!(object, ObjectId(0));
            let origin = jittery(Arc::new(RamDevice::new(4 * MIB, 512)), &clock, value, 50);
            for extent in 0..4 * MIB / EXTENT {
                origin.write(extent * EXTENT, content(value, extent)).await.unwrap();
            }
            let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteThrough };
            let volume = Volume::new(cache.clone(), origin, options);
            let in_ram = cache.status().engine.ram_hits;
            // What is read from the SSD stays in RAM.
            for round in 0..3 {
                for extent in (0..2 * MIB / EXTENT).map(|n| n * 37 % (2 * MIB / EXTENT)) {
                    let found = volume.read(extent * EXTENT, EXTENT).await.unwrap().concat();
                    assert!(found == content(value, extent), "extent {extent} of volume {value}, round {round}");
                    if extent % 64 == 0 {
                        cache.settled().await;
                    }
                }
            }
            assert!(cache.status().engine.ram_hits > in_ram + 64, "little was in RAM");
            // What is on its way into the cache just now does not come there any more.
            volume.warm(2 * MIB, MIB).await.unwrap();
            assert!(cache.status().insert_queue_bytes > 0, "nothing is on its way");
            volume.remove().await.unwrap();
            cache.settled().await;
            assert_eq!(cache.status().manager.cached_extents, 0, "after volume {value}");
        }
    });
    sim.end();
}

#[test]
fn the_number_of_a_removed_volume_is_not_given_away_before_its_removal_is_durable() {
    let mut machine = Machine { flash_us: 5_000, ..Machine::new() };
    let (sim, volume) = machine.start(WriteMode::WriteThrough);
    let cache = volume.cache().clone();
    let entry = |name: &str| VolumeEntry {
        name: name.to_owned(),
        origin_bytes: 4 * MIB,
        stamp: [0; 16],
        mode: 0,
        domain: DedupDomain::SHARED,
        identity: Vec::new(),
    };
    assert_eq!(cache.remember_volume(entry("first")), Some(ObjectId(0)));
    let (syncing, removing, clock) = (cache.clone(), cache.clone(), sim.clock.clone());
    sim.run(async move { syncing.sync().await.unwrap() });
    sim.spawn(async move { removing.forget_volume(ObjectId(0)).await.unwrap() });
    let adding = cache.clone();
    sim.run(async move {
        while !adding.volumes().is_empty() {
            clock.sleep(Duration::from_micros(100)).await;
        }
        assert_eq!(adding.remember_volume(entry("second")), Some(ObjectId(1)), "the removal is not durable");
        adding.sync().await.unwrap();
        assert_eq!(adding.remember_volume(entry("third")), Some(ObjectId(0)));
        adding.sync().await.unwrap();
    });
    sim.end();
    drop((volume, cache));
    let (sim, volume) = machine.start(WriteMode::WriteThrough);
    let names: Vec<_> = volume.cache().volumes().into_values().map(|entry| entry.name).collect();
    assert_eq!(names, ["third", "second"]);
    sim.end();
}
