//! Extents that are copied forward before their write-evict unit is evicted: what is read of the unit is not believed blindly.

use crate::any::{Behind, Erased, Places, faulty};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::manager::admission::AdmissionKind;
use nitro_engine::manager::eviction::EvictionKind;
use nitro_engine::{Cache, EngineSettings, Health, Volume, VolumeOptions, WriteMode};
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;
use nitro_port::{Device, Operation};
use nitro_testkit::{Rng, Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::rc::Rc;
use std::sync::Arc;

type TestVolume = Volume<Erased, Erased, VirtualTime>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 8000;
/// Extents that are read again and again.
const HOT: u64 = 300;

fn content(index: u64) -> Bytes {
    let mut bytes = BufMut::with_len(EXTENT as usize);
    let mut rng = Rng::new(index + 1);
    // A half that compresses.
    for (number, word) in bytes.chunks_mut(8).enumerate() {
        let random = if number % 2 == 0 { rng.next() } else { index };
        word.copy_from_slice(&random.to_le_bytes());
    }
    bytes.freeze()
}

/// A volume that fills a cache of sixteen units from its origin.
fn volume(compression: Compression) -> (Rc<Simulation>, Arc<TestVolume>) {
    let (sim, volume) = without_insertion(compression, false);
    let cache = volume.cache().clone();
    sim.spawn(async move { cache.insertion_worker().await });
    (sim, volume)
}

/// As [`volume`], whose worker is to be started. Fingerprints, if there are any, are not kept in RAM.
fn without_insertion(compression: Compression, dedup: bool) -> (Rc<Simulation>, Arc<TestVolume>) {
    let sim = Simulation::new(1);
    let clock = sim.clock.clone();
    let manager = Settings {
        weu_bytes: 512 << 10,
        dedup,
        fingerprint_index_percent: 0,
        admission: AdmissionKind::Probation,
        eviction: EvictionKind::Heat,
        ..Settings::new(8 << 20)
    };
    let settings = EngineSettings { ram_cache_bytes: 0, compression, ..EngineSettings::new(manager) };
    let flash = faulty(RamDevice::new(16 << 20, 512), clock.clone(), 3);
    let cache = sim.run(Cache::format(flash, clock.clone(), settings, [0; 16], 5)).unwrap();
    let origin = sim.run(async {
        let origin = Erased::new(RamDevice::new((EXTENTS + HOT) * EXTENT, 512));
        // Behind the rest, the hot ones once more.
        for index in 0..EXTENTS + HOT {
            origin.write(index * EXTENT, content(index % EXTENTS)).await.unwrap();
        }
        origin
    });
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    (sim, Volume::new(cache, origin, options))
}

/// Reads hot extents, and others once, and checks all of them; writes hot ones, so that their units get holes.
async fn read(volume: &TestVolume, requests: u64) {
    let mut rng = Rng::new(11);
    for number in 0..requests {
        let index = if rng.below(2) == 0 { rng.below(HOT) } else { HOT + number % (EXTENTS - HOT) };
        let pieces = volume.read(index * EXTENT, EXTENT).await.unwrap();
        assert!(pieces.concat() == content(index), "extent {index}");
        if number % 10 == 0 {
            let index = rng.below(HOT);
            volume.write(index * EXTENT, content(index), false).await.unwrap();
        }
        if number % 8 == 0 {
            volume.cache().settled().await;
        }
    }
}

#[test]
fn rotten_bytes_are_not_copied_under_a_new_checksum() {
    for compression in [Compression::None, Compression::Lz4] {
        let (sim, volume) = volume(compression);
        let faults = volume.cache().flash().faults();
        faults.inject(Fault::new(Effect::FlipBit).on(Operation::Read).probability(0.5));
        let reader = volume.clone();
        sim.run(async move { read(&reader, 30_000).await });
        let status = volume.cache().status();
        assert!(status.manager.forwarded > 1000, "{compression:?}: {} copied forward", status.manager.forwarded);
        assert_eq!(status.health, Health::Caching);
    }
}

#[test]
fn a_unit_that_cannot_be_read_is_evicted_all_the_same() {
    let (sim, volume) = volume(Compression::Lz4);
    let fail = Fault::new(Effect::Fail(nitro_port::ErrorKind::Io)).on(Operation::Read);
    volume.cache().flash().faults().inject(fail.probability(0.2));
    let reader = volume.clone();
    sim.run(async move { read(&reader, 30_000).await });
    let status = volume.cache().status();
    assert!(status.manager.weus_evicted > 100 && status.engine.ssd_read_errors > 20);
}

#[test]
fn an_index_on_flash_learns_where_extents_were_copied_to() {
    let (sim, volume) = without_insertion(Compression::Lz4, true);
    let cache = volume.cache().clone();
    sim.spawn(async move { cache.insertion_worker_with(&Places::default()).await });
    let reader = volume.clone();
    let (before, after) = sim.run(async move {
        read(&reader, 30_000).await;
        let found = || reader.cache().status().engine.flash_index_duplicates;
        // Not in order: sequential reads are not inserted. All of the hot ones are cached then.
        let shuffled = || (0..HOT).map(|number| number * 37 % HOT);
        for index in shuffled() {
            reader.read(index * EXTENT, EXTENT).await.unwrap();
        }
        reader.cache().settled().await;
        let before = found();
        for index in shuffled() {
            assert!(reader.read((EXTENTS + index) * EXTENT, EXTENT).await.unwrap().concat() == content(index));
        }
        reader.cache().settled().await;
        (before, found())
    });
    let forwarded = volume.cache().status().manager.forwarded;
    assert!(forwarded > 200, "{forwarded} copied forward");
    assert!(after - before > HOT * 9 / 10, "{} of {HOT} hot extents are known to be cached", after - before);
}
