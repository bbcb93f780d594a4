//! A cache device that lies, fails or dies: the volume goes on, and nothing wrong is served.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use futures_util::future::select;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Health, Volume, VolumeOptions, WriteMode};
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Volume<Erased, Erased, VirtualTime>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 200;

fn content(index: u64) -> Bytes {
    let mut bytes = BufMut::with_len(EXTENT as usize);
    for (i, word) in bytes.chunks_mut(4).enumerate() {
        word.copy_from_slice(&(index as u32 * 7919 + i as u32 % 100).to_le_bytes());
    }
    bytes.freeze()
}

fn settings() -> EngineSettings {
    let manager = Settings { weu_bytes: 512 << 10, dedup: false, ..Settings::new(8 << 20) };
    EngineSettings {
        ram_cache_bytes: 0,
        compression: nitro_port::codec::Compression::None,
        ..EngineSettings::new(manager)
    }
}

/// A volume whose extents are all cached on the SSD or on their way.
fn cached_volume() -> (Rc<Simulation>, Arc<TestVolume>) {
    let sim = Simulation::new(1);
    let clock = sim.clock.clone();
    let settings = settings();
    let device = |bytes| faulty(RamDevice::new(bytes, 512), clock.clone(), 3);
    let flash = device(settings.manager.cache_bytes + (4 << 20));
    let cache = sim.run(Cache::format(flash, clock.clone(), settings, [0; 16], 5)).unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    let volume = Volume::new(cache.clone(), device(EXTENTS * EXTENT), options);
    sim.spawn(async move { cache.insertion_worker().await });
    let filled = volume.clone();
    sim.run(async move {
        for index in 0..EXTENTS {
            filled.write(index * EXTENT, content(index), false).await.unwrap();
        }
        filled.cache().settled().await;
    });
    (sim, volume)
}

async fn read_all(volume: &TestVolume) {
    for index in 0..EXTENTS {
        let pieces = volume.read(index * EXTENT, EXTENT).await.unwrap();
        assert!(pieces.concat() == content(index), "extent {index}");
    }
}

#[test]
fn silent_corruption_is_a_counted_miss() {
    let (sim, volume) = cached_volume();
    let faults = volume.cache().flash().faults();
    faults.inject(Fault::new(Effect::FlipBit).on(Operation::Read).probability(0.3));
    let reader = volume.clone();
    sim.run(async move { read_all(&reader).await });
    let status = volume.cache().status();
    assert!(status.engine.corrupt_extents > 20, "{} corrupt", status.engine.corrupt_extents);
    assert_eq!(volume.counters().read_miss_extents, status.engine.corrupt_extents);
    assert_eq!(status.health, Health::Caching, "a checksum mismatch is no device error");
}

#[test]
fn a_device_that_dies_becomes_pass_through() {
    let (sim, volume) = cached_volume();
    volume.cache().flash().faults().inject(Fault::new(Effect::Fail(nitro_port::ErrorKind::Io)));
    let client = volume.clone();
    sim.run(async move {
        for _ in 0..3 {
            read_all(&client).await;
            for index in 0..EXTENTS {
                client.write(index * EXTENT, content(index), true).await.unwrap();
            }
            client.cache().settled().await;
        }
    });
    let status = volume.cache().status();
    assert_eq!(status.health, Health::PassThrough);
    let reads = volume.cache().flash().faults().counters();
    let again = volume.clone();
    sim.run(async move { read_all(&again).await });
    assert_eq!(volume.cache().flash().faults().counters(), reads, "the dead device is left alone");
}

#[test]
fn failed_weu_writes_lose_no_data() {
    let (sim, volume) = cached_volume();
    let fail = Fault::new(Effect::Fail(nitro_port::ErrorKind::Io)).on(Operation::Write);
    volume.cache().flash().faults().inject(fail.times(2));
    let client = volume.clone();
    sim.run(async move {
        for round in 0..6 {
            for index in 0..EXTENTS {
                client.write(index * EXTENT, content(index + round), false).await.unwrap();
            }
            for index in 0..EXTENTS {
                let pieces = client.read(index * EXTENT, EXTENT).await.unwrap();
                assert!(pieces.concat() == content(index + round), "extent {index}");
            }
            client.cache().settled().await;
        }
    });
    let status = volume.cache().status();
    assert_eq!((status.engine.ssd_write_errors, status.health), (2, Health::Caching));
}

#[test]
fn an_origin_error_reaches_the_client_and_is_not_cached() {
    let (sim, volume) = cached_volume();
    let fail = Fault::new(Effect::Fail(nitro_port::ErrorKind::Io));
    volume.origin().faults().inject(fail.on(Operation::Write).times(1));
    let client = volume.clone();
    sim.run(async move {
        assert!(client.write(0, content(9), false).await.is_err());
        let pieces = client.read(0, EXTENT).await.unwrap();
        assert!(pieces.concat() == content(0), "the failed write did not reach the cache");
    });
    assert_eq!(volume.counters().errors, 1);
}

#[test]
fn extents_stay_dirty_until_the_journal_says_that_they_are_clean() {
    let (sim, volume) = cached_volume();
    let clock = sim.clock.clone();
    sim.run(async move {
        volume.set_mode(WriteMode::WriteBack).await.unwrap();
        volume.write(0, content(9), false).await.unwrap();
        volume.flush().await.unwrap();
        let faults = volume.cache().flash().faults();
        faults.inject(Fault::new(Effect::Hang).on(Operation::Flush));
        let mut destage = pin!(volume.destage_all());
        select(destage.as_mut(), pin!(clock.sleep(Duration::from_secs(1)))).await;
        assert!(volume.origin().read(0, EXTENT as usize).await.unwrap() == content(9));
        assert_eq!((volume.dirty_extents(), volume.cache().status().manager.weus_pinned), (1, 1));
        faults.clear();
        destage.await.unwrap();
        assert_eq!((volume.dirty_extents(), volume.cache().status().manager.weus_pinned), (0, 0));
    });
}

#[test]
fn a_start_overwrites_no_copy_of_the_superblock_before_the_other_is_durable() {
    let flash = Arc::new(RamDevice::new(settings().manager.cache_bytes + (4 << 20), 512));
    let sim = Simulation::new(1);
    let clock = sim.clock.clone();
    let device = || faulty(flash.clone(), clock.clone(), 3);
    drop(sim.run(Cache::format(device(), clock.clone(), settings(), [0; 16], 5)).unwrap());
    let failing = device();
    let faults = failing.faults();
    faults.inject(Fault::new(Effect::Fail(nitro_port::ErrorKind::Io)).on(Operation::Flush));
    assert!(sim.run(Cache::open(failing, clock.clone(), settings())).is_err());
    assert_eq!((faults.counters().writes, faults.counters().failed), (0, 1));
}

#[test]
fn what_could_not_be_read_at_one_restart_does_not_come_back_at_the_next() {
    let flash = Arc::new(RamDevice::new(settings().manager.cache_bytes + (4 << 20), 512));
    let origin = Arc::new(RamDevice::new(EXTENTS * EXTENT, 512));
    for start in 0..3 {
        let sim = Simulation::new(start);
        let clock = sim.clock.clone();
        let device = |ram: &Arc<RamDevice>| faulty(ram.clone(), clock.clone(), 3);
        let cache = match start {
            0 => sim.run(Cache::format(device(&flash), clock.clone(), settings(), [0; 16], 5)).unwrap(),
            _ => sim.run(Cache::open(device(&flash), clock.clone(), settings())).unwrap().0,
        };
        if start == 1 {
            let fail = Fault::new(Effect::Fail(nitro_port::ErrorKind::Io));
            cache.flash().faults().inject(fail.on(Operation::Read));
        }
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
        let volume: Arc<TestVolume> = Volume::new(cache.clone(), device(&origin), options);
        let [inserting, journaling] = [0; 2].map(|_| cache.clone());
        sim.spawn(async move { inserting.insertion_worker().await });
        sim.spawn(async move { journaling.journal_worker().await });
        sim.run(async move {
            while cache.is_restoring() {
                clock.sleep(Duration::from_millis(1)).await;
            }
            cache.flash().faults().clear();
            // In the second start after the headers were given up. Those of the first units are on the SSD by then, what is
            // written now is not.
            let written = [0..EXTENTS, 0..4, 0..0][start as usize].clone();
            for index in written {
                volume.write(index * EXTENT, content(index + start), false).await.unwrap();
            }
            cache.settled().await;
            volume.close_regions(true).await.unwrap();
            cache.sync().await.unwrap();
            for index in 0..4 {
                let pieces = volume.read(index * EXTENT, EXTENT).await.unwrap();
                assert!(pieces.concat() == content(index + start.min(1)), "extent {index} in start {start}");
            }
        });
        sim.end();
    }
}
