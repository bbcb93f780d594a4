//! Destage to an origin that stores whole units, as a bucket does: it gets all that is dirty of a unit, is flushed once for many units, and
//! is written to while it is flushed; a client's flush does not wait for it.

use crate::any::Erased;
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device, DeviceError, Geometry};
use nitro_testkit::{Simulation, VirtualTime, noise};
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const EXTENT: u64 = 8192;
const UNIT: u64 = 4 << 20;
const UNITS: u64 = 48;
const CACHE: u64 = 32 << 20;
const FLUSH_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Write(Range<u64>),
    FlushBegins,
    FlushEnds,
}

/// A bucket: writes take a moment, flushes take long.
struct Bucket {
    ram: RamDevice,
    clock: VirtualTime,
    events: Mutex<Vec<Event>>,
}

impl Device for Bucket {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.ram.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.events.lock().push(Event::Write(offset..offset + data.len() as u64));
        self.clock.sleep(Duration::from_millis(1)).await;
        self.ram.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.events.lock().push(Event::FlushBegins);
        self.clock.sleep(FLUSH_TIME).await;
        self.events.lock().push(Event::FlushEnds);
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.ram.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.ram.write_zeroes(offset, len, may_unmap).await
    }
}

nitro_port::plain_origin!(Bucket, keeps_writes: |_| false, unit_bytes: |_| Some(UNIT as u32));

struct Bed {
    sim: Rc<Simulation>,
    bucket: Arc<Bucket>,
    volume: Arc<Volume<Erased, Erased, VirtualTime>>,
}

impl Bed {
    fn new() -> Self {
        let sim = Simulation::new(7);
        let clock = sim.clock.clone();
        let settings = EngineSettings {
            compression: Compression::None,
            ram_cache_bytes: 0,
            ..EngineSettings::new(Settings { weu_bytes: 512 << 10, ..Settings::new(CACHE) })
        };
        let flash = Erased::new(RamDevice::new(CACHE + (4 << 20), 512));
        let cache = sim.run(Cache::format(flash, clock.clone(), settings, [0; 16], 5)).unwrap();
        let bucket = Arc::new(Bucket { ram: RamDevice::new(UNITS * UNIT, 512), clock, events: Mutex::default() });
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteBack };
        let volume = Volume::new(cache.clone(), Erased::new(bucket.clone()), options);
        let destaging = volume.clone();
        sim.spawn(async move { cache.insertion_worker().await });
        sim.spawn(async move { destaging.destage_worker().await });
        // What an earlier start left there may not be durable.
        let first = volume.clone();
        sim.run(async move { first.flush().await }).unwrap();
        bucket.events.lock().clear();
        Self { sim, bucket, volume }
    }

    fn write(&self, offset: u64) {
        let volume = self.volume.clone();
        let data = noise(offset + 1, EXTENT as usize).into();
        self.sim.run(async move { volume.write(offset, data, false).await.unwrap() });
    }

    fn sleep(&self, time: Duration) {
        let clock = self.sim.clock.clone();
        self.sim.run(async move { clock.sleep(time).await });
    }

    fn events(&self) -> Vec<Event> {
        self.bucket.events.lock().clone()
    }
}

#[test]
fn what_is_dirty_of_a_unit_is_destaged_with_its_oldest_extent_in_whole_runs() {
    let bed = Bed::new();
    let age = bed.volume.cache().settings().dirty_age;
    bed.write(3 * UNIT);
    bed.sleep(age - Duration::from_secs(5));
    // Younger, and in the same unit: a run over its end is two writes.
    for offset in [3 * UNIT + EXTENT, 3 * UNIT + 9 * EXTENT, 4 * UNIT - EXTENT, 4 * UNIT] {
        bed.write(offset);
    }
    bed.sleep(Duration::from_secs(20));
    let expected = [
        Event::Write(3 * UNIT..3 * UNIT + 2 * EXTENT),
        Event::Write(3 * UNIT + 9 * EXTENT..3 * UNIT + 10 * EXTENT),
        Event::Write(4 * UNIT - EXTENT..4 * UNIT),
        Event::FlushBegins,
        Event::FlushEnds,
    ];
    assert_eq!(bed.events(), expected);
    assert_eq!(bed.volume.dirty_extents(), 1, "the next unit is not old enough");
    bed.sleep(age);
    assert_eq!((bed.volume.dirty_extents(), bed.events().len()), (0, expected.len() + 3));
    bed.sim.end();
}

#[test]
fn rounds_are_of_many_units_and_are_written_while_the_one_before_is_flushed() {
    let bed = Bed::new();
    // 64 MiB of units are a round.
    (0..40).for_each(|unit| bed.write(unit * UNIT));
    let volume = bed.volume.clone();
    bed.sim.run(async move { volume.destage_all().await }).unwrap();
    let events = bed.events();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Write(_))), 40, "{events:?}");
    let flushes = count(|event| *event == Event::FlushBegins);
    assert!((3..=4).contains(&flushes), "{flushes} flushes");
    let begins = events.iter().position(|event| *event == Event::FlushBegins).unwrap();
    let ends = events.iter().position(|event| *event == Event::FlushEnds).unwrap();
    assert_eq!(begins, 16, "{events:?}");
    assert!(events[begins..ends].iter().filter(|event| matches!(event, Event::Write(_))).count() >= 16, "{events:?}");
    assert_eq!(bed.volume.dirty_extents(), 0);
    bed.sim.end();
}

#[test]
fn a_clients_flush_does_not_wait_for_what_destage_has_written() {
    let bed = Bed::new();
    bed.write(0);
    let volume = bed.volume.clone();
    bed.sim.spawn(async move { volume.destage_all().await.unwrap() });
    bed.sleep(FLUSH_TIME / 2);
    assert_eq!(bed.events().last(), Some(&Event::FlushBegins));
    bed.write(UNIT);
    let (volume, clock) = (bed.volume.clone(), bed.sim.clock.clone());
    let took = bed.sim.run(async move {
        let begun = clock.now();
        volume.flush().await.unwrap();
        clock.now() - begun
    });
    assert!(took < FLUSH_TIME / 4, "{took:?}");
    assert_eq!(bed.events().iter().filter(|event| **event == Event::FlushBegins).count(), 1);
    // What a client has the origin itself do is waited for.
    let volume = bed.volume.clone();
    bed.sim.run(async move {
        volume.trim(5 * UNIT, UNIT, false).await.unwrap();
        volume.flush().await.unwrap();
    });
    assert!(bed.events().iter().filter(|event| **event == Event::FlushEnds).count() >= 2);
    bed.sim.end();
}
