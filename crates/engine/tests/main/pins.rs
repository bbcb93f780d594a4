//! Pins are kept in the journal, and what is pinned is there after scans and restarts.

use crate::simulation::{SimClock, Simulation};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, PinError, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::{Clock, Device};
use nitro_units::ObjectId;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestCache = Cache<Arc<RamDevice>, SimClock>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 8000;
/// What is pinned, a quarter of the cache.
const PINNED: std::ops::Range<u64> = 1000..1512;

fn settings() -> EngineSettings {
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(16 << 20) };
    EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(manager) }
}

fn content(index: u64) -> Bytes {
    let mut state = index + 1;
    let words = (0..EXTENT / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect::<Vec<_>>().into()
}

fn serve(
    sim: &Rc<Simulation>,
    cache: &Arc<TestCache>,
    origin: &Arc<RamDevice>,
) -> (ObjectId, Arc<Volume<Arc<RamDevice>, Arc<RamDevice>, SimClock>>) {
    let entry = VolumeEntry {
        name: "vm".to_owned(),
        origin_bytes: EXTENTS * EXTENT,
        stamp: [0; 16],
        mode: 0,
        domain: nitro_engine::DedupDomain::SHARED,
    };
    let object = cache.remember_volume(entry).unwrap();
    let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteThrough };
    let volume = Volume::new(cache.clone(), origin.clone(), options);
    let [inserting, journaling] = [0; 2].map(|_| cache.clone());
    sim.spawn(async move { inserting.insertion_worker().await });
    sim.spawn(async move { journaling.journal_worker().await });
    (object, volume)
}

/// Reads extents one by one, and checks them; in an order that is no stream.
async fn read(volume: &Volume<Arc<RamDevice>, Arc<RamDevice>, SimClock>, extents: impl Iterator<Item = u64>) {
    for (number, index) in extents.enumerate() {
        let pieces = volume.read(index * EXTENT, EXTENT).await.unwrap();
        assert!(pieces.concat() == content(index), "extent {index}");
        if number % 8 == 0 {
            volume.cache().settled().await;
        }
    }
    volume.cache().settled().await;
}

fn scattered(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    let (start, len) = (range.start, range.end - range.start);
    (0..len).map(move |n| start + n * 337 % len)
}

#[test]
fn pins_outlive_scans_and_a_restart_and_end_when_they_are_taken_back() {
    let sim = Simulation::new(1);
    let flash = Arc::new(RamDevice::new(40 << 20, 512));
    let origin = Arc::new(RamDevice::new(EXTENTS * EXTENT, 512));
    let filled = origin.clone();
    sim.run(async move {
        for index in 0..EXTENTS {
            filled.write(index * EXTENT, content(index)).await.unwrap();
        }
    });
    let count = PINNED.end - PINNED.start;
    let cache = sim.run(Cache::format(flash.clone(), sim.clock.clone(), settings(), [1; 16], 5)).unwrap();
    let (object, volume) = serve(&sim, &cache, &origin);
    sim.run(async move {
        for wrong in [5..5, 7..3, 0..u64::MAX] {
            assert!(matches!(cache.pin(object, wrong, true).await, Err(PinError::Range)));
        }
        let refused = cache.pin(object, 0..EXTENTS, true).await.unwrap_err();
        assert!(matches!(refused, PinError::Promised(_)), "{refused}");
        for n in 0..16 {
            cache.pin(object, 2 * n..2 * n + 1, true).await.unwrap();
        }
        assert!(matches!(cache.pin(object, 100..101, true).await, Err(PinError::Ranges(16))));
        cache.pin(object, 0..32, false).await.unwrap();
        cache.pin(object, PINNED, true).await.unwrap();
        read(&volume, scattered(PINNED)).await;
        assert_eq!(cache.pinned_extents(), (count, count));
        read(&volume, scattered(2000..EXTENTS)).await;
        assert_eq!(cache.pinned_extents(), (count, count), "a scan of thrice the cache");
        assert!(volume.explain(PINNED.start * EXTENT).unwrap().pinned && !volume.explain(0).unwrap().pinned);
        cache.close();
    });
    sim.end();
    let sim = Simulation::new(2);
    let (cache, _) = sim.run(Cache::open(flash.clone(), sim.clock.clone(), settings())).unwrap();
    let (again, volume) = serve(&sim, &cache, &origin);
    assert_eq!(again, object);
    let clock = sim.clock.clone();
    sim.run(async move {
        while cache.is_restoring() {
            clock.sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(cache.pins(object), [PINNED]);
        let (all, cached) = cache.pinned_extents();
        assert!(all == count && cached == count, "{cached} of {all}");
        read(&volume, scattered(2000..EXTENTS)).await;
        assert_eq!(cache.pinned_extents(), (count, count));
        cache.pin(object, PINNED.start..PINNED.start + 100, false).await.unwrap();
        assert_eq!(cache.pins(object), [PINNED.start + 100..PINNED.end]);
        assert_eq!(cache.pinned_extents(), (count - 100, count - 100));
        // Writes replace what is pinned, and it stays.
        for index in PINNED.skip(100).step_by(3) {
            volume.write(index * EXTENT, content(index), false).await.unwrap();
        }
        cache.settled().await;
        read(&volume, scattered(2000..EXTENTS)).await;
        assert_eq!(cache.pinned_extents(), (count - 100, count - 100));
        cache.forget_volume(object).await.unwrap();
        assert_eq!((cache.pins(object).len(), cache.pinned_extents()), (0, (0, 0)));
        cache.close();
    });
    sim.end();
}
