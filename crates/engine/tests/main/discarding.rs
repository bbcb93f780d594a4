//! Dirty data that nobody wants any more, or that cannot be read: what is left of it after they were discarded.

use crate::any::{Behind, faulty};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, DedupDomain, EngineSettings, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::{Clock, Device, ErrorKind, Operation};
use nitro_testkit::{Rng, Simulation};
use nitro_units::ObjectId;
use std::time::Duration;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 200;
const APART: u64 = 64 << 20;

fn settings() -> EngineSettings {
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(8 << 20) };
    EngineSettings { dirty_age: Duration::from_secs(1000), ram_cache_bytes: 0, ..EngineSettings::new(manager) }
}

fn content(seed: u64) -> Bytes {
    let mut rng = Rng::new(seed);
    (0..EXTENT / 8).flat_map(|_| rng.next().to_le_bytes()).collect()
}

fn known() -> VolumeEntry {
    VolumeEntry {
        name: "vm".to_owned(),
        origin_bytes: EXTENTS * APART,
        stamp: [0; 16],
        mode: 1,
        domain: DedupDomain::SHARED,
        identity: Vec::new(),
    }
}

#[test]
fn nothing_is_left_of_discarded_data_not_even_of_what_cannot_be_read() {
    let flash_bytes = settings().manager.cache_bytes + (4 << 20);
    let object = ObjectId(0);
    let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteBack };
    let image = {
        let sim = Simulation::new(3);
        let clock = sim.clock.clone();
        let flash = faulty(RamDevice::new(flash_bytes, 512), clock.clone(), 1);
        let cache = sim.run(Cache::format(flash, clock.clone(), settings(), [0; 16], 5)).unwrap();
        assert_eq!(cache.remember_volume(known()), Some(object));
        let (inserting, journaling) = (cache.clone(), cache.clone());
        sim.spawn(async move { inserting.insertion_worker().await });
        sim.spawn(async move { journaling.journal_worker().await });
        // Far more extents than are cached.
        let origin = faulty(RamDevice::new(EXTENTS * APART, 512), clock, 2);
        let volume = Volume::new(cache.clone(), origin, options);
        let image = sim.run(async move {
            for index in 0..EXTENTS {
                // Half of them are duplicates.
                volume.write(index * APART, content(index / 2), false).await.unwrap();
            }
            // On their way into the cache, and there.
            let is_dirty = async |index: u64| volume.cached_runs(index * APART, EXTENT).await.unwrap()[0].dirty;
            assert!(is_dirty(0).await && is_dirty(EXTENTS - 1).await);
            volume.flush().await.unwrap();
            assert!(is_dirty(0).await && is_dirty(EXTENTS - 1).await);
            assert!(!volume.cached_runs(EXTENT, EXTENT).await.unwrap()[0].dirty, "nobody wrote there");
            let fail = Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Read);
            cache.flash().faults().inject(fail.times(2));
            let lost = volume.destage_all().await.unwrap_err();
            assert_eq!(lost.kind(), nitro_engine::ErrorKind::Lost);
            assert!(volume.dirty_extents() > 0, "some could not be read");
            assert!(!volume.lost_ranges().is_empty());
            volume.discard_dirty().await.unwrap();
            assert_eq!((volume.dirty_extents(), volume.lost_ranges()), (0, Vec::new()));
            assert!(!volume.cached_runs(0, EXTENT).await.unwrap()[0].dirty);
            cache.forget_volume(object).await.unwrap();
            let stats = cache.status().manager;
            assert_eq!((stats.cached_extents, stats.dirty_extents, stats.weus_pinned), (0, 0, 0));
            cache.flash().read(0, flash_bytes as usize).await.unwrap()
        });
        sim.end();
        image
    };
    let sim = Simulation::new(4);
    let flash = faulty(RamDevice::new(flash_bytes, 512), sim.clock.clone(), 1);
    let (flash, written) = sim.run(async move {
        let written = flash.write(0, image).await;
        (flash, written)
    });
    written.unwrap();
    let (cache, recovered) = sim.run(Cache::open(flash, sim.clock.clone(), settings())).unwrap();
    assert_eq!((recovered.dirty_extents, recovered.lost_extents), (0, 0));
    assert!(cache.volumes().is_empty());
    let loading = cache.clone();
    sim.spawn(async move { loading.journal_worker().await });
    let clock = sim.clock.clone();
    sim.run(async move {
        while cache.is_restoring() {
            clock.sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(cache.status().manager.cached_extents, 0);
    });
}
