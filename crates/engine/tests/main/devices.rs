//! Several devices in one cache: units are spread over them, and the loss of one costs what it held.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use nitro_engine::manager::Settings;
use nitro_engine::{
    Cache, DeviceState, EngineSettings, Error, Flash, Health, MissingLog, Volume, VolumeOptions, WriteMode,
};
use nitro_port::buf::BufMut;
use nitro_port::{Device, ErrorKind, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestCache = Cache<Erased, VirtualTime>;
type TestVolume = Volume<Erased, Erased, VirtualTime>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 600;
const WEU_BYTES: u32 = 512 << 10;
const DEVICE_BYTES: u64 = 18 << 20;

fn content(index: u64, times: u64) -> Bytes {
    let mut bytes = BufMut::with_len(EXTENT as usize);
    for (i, word) in bytes.chunks_mut(8).enumerate() {
        word.copy_from_slice(&(index * 7919 + times * 104_729 + i as u64 % 100).to_le_bytes());
    }
    bytes.freeze()
}

fn settings() -> EngineSettings {
    let manager = Settings { weu_bytes: WEU_BYTES, dedup: false, ..Settings::new(24 << 20) };
    EngineSettings {
        ram_cache_bytes: 0,
        staging_bytes: 0,
        compression: nitro_port::codec::Compression::None,
        dirty_age: Duration::from_secs(3600),
        ..EngineSettings::new(manager)
    }
}

/// Devices, an origin and a clock, over which a cache is made and opened again.
struct Bed {
    sim: Rc<Simulation>,
    media: Vec<Arc<RamDevice>>,
    origin: Arc<RamDevice>,
}

impl Bed {
    fn new(sizes: &[u64]) -> Self {
        let media = sizes.iter().map(|bytes| Arc::new(RamDevice::new(*bytes, 512))).collect();
        Self { sim: Simulation::new(1), media, origin: Arc::new(RamDevice::new(EXTENTS * EXTENT, 512)) }
    }

    fn device(&self, medium: &Arc<RamDevice>) -> Erased {
        faulty(medium.clone(), self.sim.clock.clone(), 3)
    }

    fn devices(&self, numbers: &[usize]) -> Vec<Erased> {
        numbers.iter().map(|number| self.device(&self.media[*number])).collect()
    }

    fn format(&self) -> Result<Arc<TestCache>, Error> {
        let all: Vec<usize> = (0..self.media.len()).collect();
        let (devices, clock) = (self.devices(&all), self.sim.clock.clone());
        self.sim.run(Cache::format_devices(devices, None, MissingLog::Refuse, clock, settings(), [7; 16], 5))
    }

    fn open(&self, numbers: &[usize], missing: MissingLog) -> Result<Arc<TestCache>, Error> {
        let (devices, clock) = (self.devices(numbers), self.sim.clock.clone());
        self.sim.run(async move {
            let flash = Flash::assemble(devices).await?;
            let opened = Cache::open_devices(flash, None, missing, clock, settings()).await?;
            Ok(opened.0)
        })
    }

    fn serve(&self, cache: &Arc<TestCache>, mode: WriteMode) -> Arc<TestVolume> {
        let options = VolumeOptions { object: ObjectId(1), read_only: false, mode };
        let volume = Volume::new(cache.clone(), self.device(&self.origin), options);
        let [inserting, journaling] = [0; 2].map(|_| cache.clone());
        self.sim.spawn(async move { inserting.insertion_worker().await });
        self.sim.spawn(async move { journaling.journal_worker().await });
        volume
    }

    fn write_all(&self, volume: &Arc<TestVolume>, times: u64) {
        let client = volume.clone();
        self.sim.run(async move {
            for index in 0..EXTENTS {
                client.write(index * EXTENT, content(index, times), false).await.unwrap();
            }
            client.cache().settled().await;
        });
    }

    /// Reads all extents; returns how many are lost.
    fn read_all(&self, volume: &Arc<TestVolume>, times: u64) -> u64 {
        let client = volume.clone();
        self.sim.run(async move {
            let mut lost = 0;
            for index in 0..EXTENTS {
                match client.read(index * EXTENT, EXTENT).await {
                    Ok(pieces) => assert!(pieces.concat() == content(index, times), "extent {index}"),
                    Err(Error::Lost { .. }) => lost += 1,
                    Err(error) => panic!("extent {index}: {error}"),
                }
            }
            lost
        })
    }

    fn flush(&self, volume: &Arc<TestVolume>) -> Result<(), Error> {
        let client = volume.clone();
        self.sim.run(async move { client.flush().await })
    }

    /// Ends a cache in order.
    fn end(&self, cache: &Arc<TestCache>, volume: Option<&Arc<TestVolume>>) {
        if let Some(volume) = volume.cloned() {
            self.sim.run(async move { volume.close_regions(true).await.unwrap() });
        }
        cache.close();
        let clock = self.sim.clock.clone();
        self.sim.run(async move { nitro_port::Clock::sleep(&clock, Duration::from_secs(20)).await });
    }
}

fn fails(volume: &Arc<TestVolume>, number: u32) {
    let faults = volume.cache().devices().device(number).unwrap().faults();
    faults.inject(Fault::new(Effect::Fail(ErrorKind::Io)));
}

#[test]
fn units_are_spread_over_all_devices_and_read_from_them() {
    let bed = Bed::new(&[DEVICE_BYTES; 3]);
    let volume = bed.serve(&bed.format().unwrap(), WriteMode::WriteThrough);
    bed.write_all(&volume, 1);
    assert_eq!(bed.read_all(&volume, 1), 0);
    let status = volume.cache().status();
    assert_eq!(status.devices.len(), 3);
    assert_eq!(status.health, Health::Caching);
    let (writes, reads) = status.devices.iter().fold((Vec::new(), Vec::new()), |(mut writes, mut reads), device| {
        assert_eq!((device.health, device.size_bytes), (DeviceState::Caching, DEVICE_BYTES));
        writes.push(device.space.live_bytes);
        reads.push(device.counters.reads);
        (writes, reads)
    });
    let (least, most) = (writes.iter().min().unwrap(), writes.iter().max().unwrap());
    assert!(*least > 0 && most - least <= u64::from(WEU_BYTES), "{writes:?}");
    assert!(reads.iter().all(|count| *count > EXTENTS / 6), "{reads:?}");
}

#[test]
fn in_write_through_the_loss_of_a_device_costs_misses_and_no_errors() {
    for operation in [None, Some(Operation::Read), Some(Operation::Write), Some(Operation::Flush)] {
        let bed = Bed::new(&[DEVICE_BYTES; 2]);
        let volume = bed.serve(&bed.format().unwrap(), WriteMode::WriteThrough);
        bed.write_all(&volume, 1);
        let fault = Fault::new(Effect::Fail(ErrorKind::Io));
        let fault = operation.map_or_else(|| fault.clone(), |operation| fault.clone().on(operation));
        volume.cache().devices().device(1).unwrap().faults().inject(fault);
        for times in 2..4 {
            assert_eq!(bed.read_all(&volume, times - 1), 0);
            bed.write_all(&volume, times);
            bed.flush(&volume).unwrap();
        }
        let synced = volume.cache().clone();
        bed.sim.run(async move { synced.sync().await.unwrap() });
        bed.write_all(&volume, 4);
        assert_eq!(bed.read_all(&volume, 4), 0);
        let status = volume.cache().status();
        assert_eq!((status.health, status.failed), (Health::Degraded, None), "{operation:?}");
        let [first, second] = [&status.devices[0], &status.devices[1]];
        assert_eq!((first.health, second.health), (DeviceState::Caching, DeviceState::Lost));
        assert!(second.reason.as_ref().is_some_and(|reason| reason.contains("I/O error")), "{second:?}");
        assert!(first.space.live_bytes > 0, "new content goes to the other device");
        assert_eq!(second.space.live_bytes + second.space.open_bytes, 0, "{second:?}");
        let hits = volume.counters().read_hit_extents;
        bed.read_all(&volume, 4);
        assert!(volume.counters().read_hit_extents > hits + EXTENTS / 4, "the other device answers");
        bed.end(volume.cache(), Some(&volume));
        // The device comes back, and is not used.
        let again = bed.open(&[1, 0], MissingLog::Refuse).unwrap();
        assert_eq!(again.devices().left_out().len(), 1);
        assert_eq!(bed.read_all(&bed.serve(&again, WriteMode::WriteThrough), 4), 0);
    }
}

#[test]
fn in_write_back_a_flush_tells_of_what_a_device_lost_and_later_ones_succeed() {
    let bed = Bed::new(&[DEVICE_BYTES; 2]);
    let volume = bed.serve(&bed.format().unwrap(), WriteMode::WriteBack);
    bed.write_all(&volume, 1);
    bed.flush(&volume).unwrap();
    fails(&volume, 0);
    let client = volume.clone();
    let overwritten = content(3, 2);
    let written = overwritten.clone();
    bed.sim.run(async move { client.write(3 * EXTENT, written, false).await.unwrap() });
    // This one finds the device failed.
    let flushed = bed.flush(&volume);
    assert!(matches!(flushed, Err(Error::Lost { .. })), "{flushed:?}");
    bed.flush(&volume).unwrap();
    let lost = bed.sim.run({
        let client = volume.clone();
        async move {
            let mut lost = 0;
            for index in (0..EXTENTS).filter(|index| *index != 3) {
                match client.read(index * EXTENT, EXTENT).await {
                    Ok(pieces) => assert!(pieces.concat() == content(index, 1), "extent {index}"),
                    Err(Error::Lost { .. }) => lost += 1,
                    Err(error) => panic!("extent {index}: {error}"),
                }
            }
            lost
        }
    });
    assert!((EXTENTS / 4..EXTENTS).contains(&lost), "{lost} of {EXTENTS} extents are lost");
    let status = volume.cache().status();
    assert!(status.engine.device_lost_extents >= lost, "{}", status.engine.device_lost_extents);
    assert_eq!((status.health, status.failed), (Health::Degraded, None));
    // Whole extents are readable again once they are overwritten.
    bed.write_all(&volume, 3);
    bed.flush(&volume).unwrap();
    assert_eq!(bed.read_all(&volume, 3), 0);
    bed.end(volume.cache(), Some(&volume));
    let again = bed.open(&[1], MissingLog::Refuse).expect("the loss is known");
    assert_eq!(bed.read_all(&bed.serve(&again, WriteMode::WriteBack), 3), 0);
}

#[test]
fn devices_are_given_in_any_order_and_all_contents_return() {
    let bed = Bed::new(&[DEVICE_BYTES, 24 << 20, 20 << 20]);
    let volume = bed.serve(&bed.format().unwrap(), WriteMode::WriteThrough);
    bed.write_all(&volume, 1);
    bed.end(volume.cache(), Some(&volume));
    let again = bed.open(&[2, 0, 1], MissingLog::Refuse).unwrap();
    assert_eq!([0, 1, 2].map(|number| again.devices().position(number)), [Some(1), Some(2), Some(0)]);
    let volume = bed.serve(&again, WriteMode::WriteThrough);
    bed.end(&again, None);
    assert_eq!(bed.read_all(&volume, 1), 0);
    assert_eq!(volume.counters().read_miss_extents, 0);
}

#[test]
fn a_missing_device_is_done_without_unless_it_may_hold_dirty_data() {
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let bed = Bed::new(&[DEVICE_BYTES; 2]);
        let volume = bed.serve(&bed.format().unwrap(), mode);
        bed.write_all(&volume, 1);
        bed.flush(&volume).unwrap();
        bed.end(volume.cache(), Some(&volume));
        let opened = bed.open(&[1], MissingLog::Refuse);
        if mode == WriteMode::WriteThrough {
            let volume = bed.serve(&opened.unwrap(), mode);
            bed.end(volume.cache(), Some(&volume));
            assert_eq!(bed.read_all(&volume, 1), 0);
            let hits = volume.counters().read_hit_extents;
            assert!(hits > EXTENTS / 4 && hits < EXTENTS, "{hits} hits: what the other device holds");
            continue;
        }
        let error = opened.map(drop).unwrap_err();
        assert!(matches!(error, Error::DevicesMissing { ref numbers, devices: 2, .. } if *numbers == [0]), "{error}");
        assert!(error.to_string().contains("1 of the cache's 2 devices is missing (device 0)"), "{error}");
        // It is refused without a change: with both devices everything is there.
        let both = bed.open(&[0, 1], MissingLog::Refuse).unwrap();
        assert_eq!(bed.read_all(&bed.serve(&both, mode), 1), 0);
        bed.end(&both, None);
        let volume = bed.serve(&bed.open(&[1], MissingLog::Discard).unwrap(), mode);
        let lost = bed.read_all(&volume, 1);
        assert!((EXTENTS / 4..EXTENTS).contains(&lost), "{lost} of {EXTENTS} extents are lost");
    }
}

#[test]
fn devices_that_do_not_belong_together_are_refused_by_name() {
    let refused = |bed: &Bed, numbers: &[usize]| match bed.open(numbers, MissingLog::Refuse).map(drop) {
        Err(Error::Devices { device, why }) => (device, why),
        other => panic!("{other:?}"),
    };
    let mut bed = Bed::new(&[DEVICE_BYTES; 2]);
    bed.end(&bed.format().unwrap(), None);
    // A copy of a device.
    let copy = RamDevice::new(DEVICE_BYTES, 512);
    bed.sim.run({
        let (from, to) = (bed.media[0].clone(), Arc::new(copy));
        bed.media.push(to.clone());
        async move {
            let all = from.read(0, DEVICE_BYTES as usize).await.unwrap();
            to.write(0, all).await.unwrap();
        }
    });
    let (device, why) = refused(&bed, &[0, 1, 2]);
    assert!(device == Some(2) && why.contains("given twice"), "{why}");
    // A device of another cache.
    let other = Bed::new(&[DEVICE_BYTES; 2]);
    let clock = other.sim.clock.clone();
    let made = Cache::format_devices(other.devices(&[0, 1]), None, MissingLog::Refuse, clock, settings(), [9; 16], 6);
    drop(other.sim.run(made).unwrap());
    bed.media.push(other.media[1].clone());
    let (_, why) = refused(&bed, &[0, 1, 3]);
    assert!(why.contains("not those of one cache"), "{why}");
    // Two that each went on without the other.
    drop(bed.open(&[0], MissingLog::Discard).unwrap());
    drop(bed.open(&[1], MissingLog::Discard).unwrap());
    let (_, why) = refused(&bed, &[0, 1]);
    assert!(why.contains("used apart"), "{why}");
    // A device that holds no cache is left out.
    bed.media.push(Arc::new(RamDevice::new(DEVICE_BYTES, 512)));
    let cache = bed.open(&[4, 1], MissingLog::Refuse).unwrap();
    assert!(
        matches!(cache.devices().left_out(), [(0, why)] if why.contains("magic")),
        "{:?}",
        cache.devices().left_out()
    );
}

#[test]
fn a_cache_too_small_for_its_devices_is_refused_with_the_least_size() {
    let bed = Bed::new(&[DEVICE_BYTES; 7]);
    let error = bed.format().map(drop).unwrap_err();
    let Error::Setting(error) = error else { panic!("{error}") };
    assert_eq!((error.name, error.nearest), ("cache_size", 7 * 8 * u64::from(WEU_BYTES)));
    let error = Bed::new(&[DEVICE_BYTES; 17]).format().map(drop).unwrap_err();
    assert!(error.to_string().contains("a cache has 1 to 16"), "{error}");
}

#[test]
fn a_damaged_journal_is_read_from_another_device_and_repaired() {
    let bed = Bed::new(&[DEVICE_BYTES; 2]);
    let volume = bed.serve(&bed.format().unwrap(), WriteMode::WriteBack);
    bed.write_all(&volume, 1);
    bed.flush(&volume).unwrap();
    bed.end(volume.cache(), Some(&volume));
    let medium = bed.media[0].clone();
    let area = bed.sim.run(async move {
        let block = medium.read(superblock_offsets(DEVICE_BYTES)[0], SUPERBLOCK_BYTES).await.unwrap();
        let area = Superblock::decode(&block).unwrap().journal;
        medium.write(area.offset, BufMut::zeroed(64 << 10).freeze()).await.unwrap();
        area
    });
    let again = bed.open(&[0, 1], MissingLog::Refuse).unwrap();
    assert_eq!(bed.read_all(&bed.serve(&again, WriteMode::WriteBack), 1), 0);
    let media = [0, 1].map(|number| bed.media[number].clone());
    bed.end(&again, None);
    bed.sim.run(async move {
        let first = media[0].read(area.offset, area.len as usize).await.unwrap();
        assert!(first == media[1].read(area.offset, area.len as usize).await.unwrap(), "the journals differ");
    });
}
