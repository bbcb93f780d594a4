//! The order in which reads wait for SSD and origin: that of the priority of their class.

use crate::any::Erased;
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::manager::class::{Band, ClassPolicy};
use nitro_engine::{Cache, Classifier, EngineSettings, Learned, Volume, VolumeOptions, WriteMode};
use nitro_port::{Allocation, Device, DeviceError, Geometry, Urgency};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::{ClassId, ObjectId};
use parking_lot::Mutex;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

const EXTENT: u64 = 8192;
const MIB: u64 = 1 << 20;
/// Too few units for several bands: they still wait by priority.
const CACHE_BYTES: u64 = 16 * MIB;
const ORIGIN_BYTES: u64 = 8 * MIB;

/// A device that notes how urgent its reads are.
struct Noting {
    inner: RamDevice,
    asked: Mutex<Vec<(Urgency, u64)>>,
}

impl Noting {
    fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { inner: RamDevice::new(bytes, 512), asked: Mutex::default() })
    }

    fn take(&self) -> Vec<(Urgency, u64)> {
        std::mem::take(&mut *self.asked.lock())
    }
}

impl Device for Noting {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.read_with(Urgency::default(), offset, len).await
    }

    async fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.asked.lock().push((urgency, offset));
        self.inner.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.inner.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.inner.write_zeroes(offset, len, may_unmap).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.inner.allocation(offset, len).await
    }
}

nitro_port::plain_origin!(Noting);

/// Knows that the second MiB is of class 6.
struct Knowing;

impl Classifier for Knowing {
    fn look(&self, _: u64, _: &[u8], _: &mut Vec<Learned>) -> Option<ClassId> {
        None
    }

    fn class_of(&self, range: Range<u64>) -> Option<ClassId> {
        ClassId::new(6).filter(|_| range.start / MIB == 1)
    }
}

type TestVolume = Volume<Erased, Erased, VirtualTime>;

struct World {
    sim: Rc<Simulation>,
    volume: Arc<TestVolume>,
    flash: Arc<Noting>,
    origin: Arc<Noting>,
}

impl World {
    fn new(priorities: &[(u8, &str)]) -> Self {
        let sim = Simulation::new(3);
        let mut manager = Settings { weu_bytes: 512 << 10, ..Settings::new(CACHE_BYTES) };
        for (class, priority) in priorities {
            let priority = Band::named(priority).unwrap();
            manager.classes.set(ClassId::new(*class).unwrap(), ClassPolicy { priority, ..ClassPolicy::default() });
        }
        manager.streams.threshold_bytes = 0;
        let settings = EngineSettings { ram_cache_bytes: 0, staging_bytes: 0, ..EngineSettings::new(manager) };
        let overhead_bytes = Cache::<Erased, VirtualTime>::overhead_bytes(&settings);
        let (flash, origin) = (Noting::new(CACHE_BYTES + overhead_bytes), Noting::new(ORIGIN_BYTES));
        let random = (0..ORIGIN_BYTES / 8).flat_map(|n| (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        sim.run(origin.inner.write(0, random.collect())).unwrap();
        let clock = sim.clock.clone();
        let cache = sim.run(Cache::format(Erased::new(Arc::clone(&flash)), clock, settings, [0; 16], 5)).unwrap();
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
        let volume = Volume::new(Arc::clone(&cache), Erased::new(Arc::clone(&origin)), options);
        volume.classify_by(Some(Arc::new(Knowing)));
        sim.spawn(async move { cache.insertion_worker().await });
        flash.take();
        Self { sim, volume, flash, origin }
    }

    /// Reads an extent, as a request of that class; returns how urgent its read of the origin was.
    fn asked_of_origin(&self, class: u8, offset: u64) -> Vec<(Urgency, u64)> {
        let (volume, class) = (Arc::clone(&self.volume), ClassId::new(class).unwrap());
        self.sim.run(async move { drop(volume.read_as(class, offset, EXTENT).await.unwrap()) });
        self.origin.take()
    }
}

#[test]
fn a_read_waits_for_the_origin_by_its_class_or_by_what_is_known_of_the_blocks() {
    let world = World::new(&[(5, "highest"), (6, "low")]);
    assert_eq!(world.asked_of_origin(5, 0), [(Urgency::Highest, 0)]);
    assert_eq!(world.asked_of_origin(5, MIB), [(Urgency::Highest, MIB)]);
    assert_eq!(world.asked_of_origin(0, MIB + EXTENT), [(Urgency::Low, MIB + EXTENT)]);
    assert_eq!(world.asked_of_origin(0, 2 * MIB), [(Urgency::Normal, 2 * MIB)]);
    // Without priorities, all wait in their order.
    let world = World::new(&[]);
    assert_eq!(world.asked_of_origin(5, 0), [(Urgency::Normal, 0)]);
    assert_eq!(world.asked_of_origin(0, MIB), [(Urgency::Normal, MIB)]);
}

#[test]
fn a_hit_waits_for_the_ssd_by_the_class_of_what_is_read() {
    let world = World::new(&[(5, "highest"), (6, "low")]);
    // Several units of it: what is read first is on the SSD then.
    for extent in 0..256 {
        world.asked_of_origin(5, 2 * MIB + extent * EXTENT);
    }
    let cache = Arc::clone(world.volume.cache());
    world.sim.run(async move { cache.settled().await });
    world.flash.take();
    let urgency = |class, offset| {
        assert!(world.asked_of_origin(class, offset).is_empty());
        world.flash.take().into_iter().map(|(urgency, _)| urgency).collect::<Vec<_>>()
    };
    assert_eq!(urgency(0, 2 * MIB), [Urgency::Highest]);
    assert_eq!(urgency(6, 2 * MIB), [Urgency::Low]);
}
