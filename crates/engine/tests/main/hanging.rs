//! An origin that does not answer: requests are given up, nothing wedges, and all goes on when it answers again.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use futures_util::future::select;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, Change, EngineSettings, Error, Rest, Volume, VolumeOptions, WriteMode};
use nitro_port::{Clock, Device, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Volume<Erased, Erased, VirtualTime>;

const EXTENT: u64 = 8192;
const TIMEOUT: Duration = Duration::from_secs(5);

fn content(byte: u8) -> Bytes {
    Bytes::from(vec![byte; EXTENT as usize])
}

fn volume(mode: WriteMode) -> (Rc<Simulation>, Arc<TestVolume>) {
    let sim = Simulation::new(7);
    let clock = sim.clock.clone();
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(8 << 20) };
    let settings = EngineSettings {
        origin_timeout: Some(TIMEOUT),
        dirty_age: Duration::from_secs(1),
        ram_cache_bytes: 0,
        ..EngineSettings::new(manager)
    };
    let device = |bytes| faulty(RamDevice::new(bytes, 512), clock.clone(), 3);
    let flash = device(settings.manager.cache_bytes + (4 << 20));
    let cache = sim.run(Cache::format(flash, clock.clone(), settings, [0; 16], 5)).unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode };
    let volume = Volume::new(cache.clone(), device(100 * EXTENT), options);
    let (inserting, destaging) = (cache.clone(), volume.clone());
    sim.spawn(async move { inserting.insertion_worker().await });
    sim.spawn(async move { cache.journal_worker().await });
    sim.spawn(async move { destaging.destage_worker().await });
    (sim, volume)
}

fn hang(volume: &TestVolume) {
    for operation in [Operation::Write, Operation::Flush, Operation::Discard, Operation::WriteZeroes] {
        volume.origin().faults().inject(Fault::new(Effect::Hang).on(operation));
    }
}

fn write(index: u64, byte: u8) -> Change {
    Change::Write { offset: index * EXTENT, data: content(byte), fua: false }
}

async fn given_up(volume: &Arc<TestVolume>, change: Change) -> Rest {
    let (result, rest) = volume.change(change).await;
    let error = result.unwrap_err();
    assert!(error.to_string().contains("no answer in time"), "{error}");
    rest.unwrap()
}

async fn read(volume: &TestVolume, index: u64) -> Result<Vec<u8>, Error> {
    volume.read(index * EXTENT, EXTENT).await.map(|pieces| pieces.concat())
}

#[test]
fn what_was_given_up_is_read_only_once_it_has_ended() {
    let (sim, volume) = volume(WriteMode::WriteThrough);
    let (own, on) = (volume.clone(), sim.clone());
    sim.run(async move {
        let (result, rest) = own.change(write(0, 1)).await;
        assert!(result.is_ok() && rest.is_none());
        own.cache().settled().await;
        hang(&own);
        let zeroes = |index: u64| (index * EXTENT, EXTENT);
        let (offset, len) = zeroes(2);
        let trim = Change::Trim { offset, len, fua: false };
        let (offset, len) = zeroes(3);
        let zero = Change::WriteZeroes { offset, len, may_unmap: true, fast: false, fua: false };
        for change in [write(0, 2), write(1, 2), trim, zero, Change::Flush] {
            on.spawn(given_up(&own, change).await);
        }
        // Nobody knows what the origin has there.
        for index in 0..4 {
            assert!(read(&own, index).await.is_err(), "extent {index}");
        }
        assert!(read(&own, 4).await.is_ok());
        // A second write waits for the first, and is not begun once it was given up.
        on.spawn(given_up(&own, write(1, 3)).await);
        assert!(own.origin_owes() > 4 * TIMEOUT);
        own.origin().faults().clear();
        assert_eq!(read(&own, 0).await.unwrap(), content(2));
        assert_eq!(read(&own, 1).await.unwrap(), content(2));
        assert_eq!(read(&own, 3).await.unwrap(), content(0));
        on.clock.sleep(TIMEOUT).await;
        assert_eq!(read(&own, 1).await.unwrap(), content(2), "it was told to have failed, and came nevertheless");
        assert_eq!(own.origin_owes(), Duration::ZERO);
        assert!(own.change(write(1, 4)).await.0.is_ok());
        assert_eq!(read(&own, 1).await.unwrap(), content(4));
        assert_eq!(own.poisoned(), None);
    });
}

/// Whatever a client sends to an origin that hangs: RAM is kept for a bounded number of requests.
#[test]
fn what_is_given_up_is_bounded() {
    let (sim, volume) = volume(WriteMode::WriteThrough);
    let (own, on) = (volume.clone(), sim.clone());
    sim.run(async move {
        hang(&own);
        let mut begun = 0;
        loop {
            let now = on.clock.now();
            let (result, rest) = own.change(write(begun % 100, 1)).await;
            assert!(result.is_err());
            let Some(rest) = rest else {
                assert_eq!(on.clock.now(), now, "it is refused at once");
                break;
            };
            on.spawn(rest);
            begun += 1;
            assert!(begun <= 256);
        }
        own.origin().faults().clear();
        on.clock.sleep(10 * TIMEOUT).await;
        let (result, rest) = own.change(write(0, 9)).await;
        assert!(result.is_ok() && rest.is_none());
        assert_eq!(read(&own, 0).await.unwrap(), content(9));
    });
}

#[test]
fn write_back_goes_on_and_destage_resumes() {
    let (sim, volume) = volume(WriteMode::WriteBack);
    let (own, on) = (volume.clone(), sim.clone());
    sim.run(async move {
        hang(&own);
        for index in 0..20 {
            assert!(own.change(write(index, 1)).await.0.is_ok());
        }
        own.origin_silent(TIMEOUT).await;
        // Its own flush is for the cache alone; but it has yet to learn that the origin owes it nothing.
        assert!(own.change(write(3, 2)).await.0.is_ok());
        assert_eq!(read(&own, 3).await.unwrap(), content(2));
        let everything = own.clone();
        let (result, rest) = own.while_it_answers(async move { everything.destage_all().await }).await;
        assert!(result.is_err());
        on.spawn(rest.unwrap());
        assert_eq!(own.dirty_extents(), 20);
        own.origin().faults().clear();
        while own.dirty_extents() > 0 {
            on.clock.sleep(TIMEOUT).await;
        }
        assert_eq!(own.origin_owes(), Duration::ZERO);
        assert!(own.change(Change::Flush).await.0.is_ok());
        let at_origin = own.origin().read(3 * EXTENT, EXTENT as usize).await.unwrap();
        assert_eq!(at_origin, content(2));
    });
}

/// A write whose future is dropped may still arrive: nothing else may touch its extents, and its region stays open.
#[test]
fn a_write_cut_off_at_the_origin_leaves_its_extents_locked() {
    let (sim, volume) = volume(WriteMode::WriteThrough);
    let (own, on) = (volume.clone(), sim.clone());
    sim.run(async move {
        hang(&own);
        let write_cut = Box::pin(own.write(0, content(1), false));
        drop(select(write_cut, Box::pin(on.clock.sleep(TIMEOUT))).await);
        own.origin().faults().clear();
        on.spawn(given_up(&own, write(0, 2)).await);
        assert!(own.change(write(1, 2)).await.0.is_ok());
        own.close_regions(true).await.unwrap();
        assert!(own.change(write(1, 3)).await.0.is_ok());
        assert_eq!(own.cache().status().engine.regions_opened, 1);
        let untouched = own.origin().read(0, EXTENT as usize).await.unwrap();
        assert_eq!(untouched, content(0));
    });
}
