//! Classes that may not enter the cache, in write-back: their writes go to the origin before they are acknowledged.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::manager::class::{Allocation, ClassPolicy, Classes};
use nitro_engine::metrics::ClassCounters;
use nitro_engine::{Cache, EngineSettings, LogDevice, MissingLog, Volume, VolumeOptions, WriteMode};
use nitro_port::buf::{BufMut, bytes_in_use_here};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device, ErrorKind, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::{ClassId, ObjectId};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Volume<Erased, Erased, VirtualTime>;

const EXTENT: u64 = 8192;
const CACHE: u64 = 32 << 20;
const EXTENTS: u64 = 10_000;
/// The class of the test's volume.
const CLASS: ClassId = match ClassId::new(7) {
    Some(class) => class,
    None => ClassId::UNCLASSIFIED,
};

struct Bed {
    sim: Rc<Simulation>,
    volume: Arc<TestVolume>,
}

impl Bed {
    /// A volume in write-back, whose requests are of a class with this policy. Nothing is destaged.
    fn new(policy: ClassPolicy, logged: bool) -> Self {
        let sim = Simulation::new(1);
        let clock = sim.clock.clone();
        let mut classes = Classes::default();
        classes.set(CLASS, policy);
        let settings = EngineSettings {
            compression: Compression::None,
            ram_cache_bytes: 0,
            dirty_max_percent: 94,
            ..EngineSettings::new(Settings { weu_bytes: 512 << 10, classes, ..Settings::new(CACHE) })
        };
        let device = |bytes| faulty(RamDevice::new(bytes, 512), clock.clone(), 3);
        let overhead = Cache::<Erased, VirtualTime>::overhead_bytes(&settings);
        let flash = device(settings.manager.cache_bytes + overhead);
        let log = logged.then(|| LogDevice { device: device(8 << 20), size_bytes: None, uuid: [2; 16] });
        let cache = Cache::format_logged(flash, log, MissingLog::Refuse, clock.clone(), settings, [7; 16], 1);
        let cache = sim.run(cache).unwrap();
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteBack };
        let volume = Volume::new(cache.clone(), device(EXTENTS * EXTENT), options);
        volume.set_class(CLASS);
        sim.spawn(async move { cache.insertion_worker().await });
        Self { sim, volume }
    }

    fn write(&self, index: u64, extents: u64, value: u8) {
        let data = Bytes::from(vec![value; (extents * EXTENT) as usize]);
        self.sim.run(self.volume.write(index * EXTENT, data, false)).unwrap();
    }

    /// What the origin has of an extent.
    fn in_origin(&self, index: u64) -> u8 {
        let bytes = self.sim.run(self.volume.origin().read(index * EXTENT, EXTENT as usize)).unwrap();
        bytes[0]
    }

    fn read(&self, index: u64) -> u8 {
        self.sim.run(self.volume.read(index * EXTENT, EXTENT)).unwrap().concat()[0]
    }

    fn counters(&self) -> ClassCounters {
        self.volume.class_counters().into_iter().find(|(class, _)| *class == CLASS).unwrap().1
    }
}

#[test]
fn a_class_that_is_never_cached_writes_to_the_origin_and_a_flush_flushes_it() {
    for logged in [false, true] {
        let bed = Bed::new(ClassPolicy { allocation: Allocation::Never, ..ClassPolicy::default() }, logged);
        bed.write(3, 2, 1);
        assert_eq!((bed.in_origin(3), bed.in_origin(4), bed.volume.dirty_extents()), (1, 1, 0));
        assert_eq!((bed.counters().around_never, bed.volume.counters().origin_writes), (2, 1));
        let faults = bed.volume.origin().faults();
        faults.inject(Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Flush));
        // With a log, a write is durable when it is acknowledged.
        let again = bed.sim.run(bed.volume.write(3 * EXTENT, Bytes::from(vec![2; EXTENT as usize]), false));
        assert_eq!((again.is_err(), bed.in_origin(3)), (logged, 2));
        assert!(bed.sim.run(bed.volume.flush()).is_err());
    }
}

#[test]
fn with_a_log_zeroes_are_durable_when_they_are_acknowledged() {
    for logged in [false, true] {
        let bed = Bed::new(ClassPolicy::default(), logged);
        bed.write(3, 1, 1);
        bed.sim.run(bed.volume.flush()).unwrap();
        let (volume, faults) = (bed.volume.clone(), bed.volume.origin().faults());
        let zero = async || volume.write_zeroes(3 * EXTENT, EXTENT, true, false, false).await;
        let before = faults.counters().flushes;
        bed.sim.run(zero()).unwrap();
        // The content that the zeroes replace is destaged first, and flushed in any case.
        let flushes = faults.counters().flushes - before;
        assert_eq!((bed.read(3), flushes), (0, 1 + u64::from(logged)));
        faults.inject(Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Flush));
        assert_eq!(bed.sim.run(zero()).is_err(), logged);
    }
}

#[test]
fn what_is_dirty_already_is_overwritten_there_and_the_rest_goes_around() {
    let bed = with_two_dirty(false);
    // Two extents before those, and one after them.
    bed.write(8, 5, 2);
    assert_eq!([8, 9, 10, 11, 12].map(|index| bed.in_origin(index)), [2, 2, 0, 0, 2]);
    assert_eq!([8, 9, 10, 11, 12].map(|index| bed.read(index)), [2; 5]);
    assert_eq!(bed.counters().around_write_allocate, 3);
    assert_eq!(bed.volume.dirty_extents(), 2);
}

#[test]
fn what_was_cached_clean_is_forgotten_when_it_is_written_around() {
    let bed = Bed::new(ClassPolicy { on_write: false, ..ClassPolicy::default() }, false);
    assert_eq!(bed.read(5), 0);
    bed.sim.run(bed.volume.cache().settled());
    bed.write(5, 1, 9);
    assert_eq!(bed.read(5), 9);
    // A part of an extent, too.
    bed.sim.run(bed.volume.cache().settled());
    bed.sim.run(bed.volume.write(5 * EXTENT + 512, Bytes::from(vec![7; 512]), false)).unwrap();
    let bytes = bed.sim.run(bed.volume.read(5 * EXTENT, EXTENT)).unwrap().concat();
    assert_eq!((bytes[0], bytes[512], bytes[1024]), (9, 7, 9));
}

#[test]
fn a_class_of_second_access_becomes_dirty_with_its_second_write() {
    let bed = Bed::new(ClassPolicy { allocation: Allocation::SecondAccess, ..ClassPolicy::default() }, false);
    bed.write(20, 4, 1);
    assert_eq!((bed.in_origin(20), bed.volume.dirty_extents()), (1, 0));
    bed.write(20, 4, 2);
    assert_eq!((bed.in_origin(20), bed.read(23), bed.volume.dirty_extents()), (1, 2, 4));
    assert_eq!(bed.counters().around_second_access, 4);
}

/// A volume with two dirty extents, 10 and 11, whose class may not become dirty from now on.
fn with_two_dirty(logged: bool) -> Bed {
    let bed = Bed::new(ClassPolicy::default(), logged);
    bed.write(10, 2, 1);
    let mut classes = Classes::default();
    classes.set(CLASS, ClassPolicy { on_write: false, ..ClassPolicy::default() });
    bed.volume.cache().set_classes(classes);
    bed
}

#[test]
fn with_a_log_all_of_a_write_is_durable_though_the_mode_changes_meanwhile() {
    let bed = with_two_dirty(true);
    let faults = bed.volume.origin().faults();
    faults.inject(Fault::new(Effect::Delay(Duration::from_millis(10))).on(Operation::Write));
    let (volume, clock, before) = (bed.volume.clone(), bed.sim.clock.clone(), faults.counters());
    bed.sim.run(async move {
        // Around the cache, what was dirty, around the cache.
        let write = volume.write(8 * EXTENT, Bytes::from(vec![2; 5 * EXTENT as usize]), false);
        let change = async {
            clock.sleep(Duration::from_millis(1)).await;
            volume.set_mode(WriteMode::WriteThrough).await.unwrap();
        };
        let (written, ()) = futures_util::join!(write, change);
        written.unwrap();
    });
    let after = faults.counters();
    // The three parts, and what the change destages; a flush after each, and one at the end of the change.
    assert_eq!((after.writes - before.writes, after.flushes - before.flushes), (4, 5));
}

#[test]
fn a_part_that_becomes_dirty_does_not_keep_the_memory_of_the_whole_write() {
    let bed = with_two_dirty(false);
    let whole = || BufMut::copy_of(&[3; 512 * EXTENT as usize]).freeze();
    let volume = bed.volume.clone();
    let held = bed.sim.run(async move {
        // The origin's own memory.
        volume.origin().write(0, whole()).await.unwrap();
        let (before, data) = (bytes_in_use_here(), whole());
        volume.write(0, data, false).await.unwrap();
        bytes_in_use_here() - before
    });
    assert!(held < 1 << 20, "{held} bytes are held for two extents");
}

/// Writes extents of different contents.
fn fill(bed: &Bed, extents: u64) {
    for index in 0..extents {
        let word = |n: u64| (index << 20 | n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        let data: Bytes = (0..EXTENT / 8).flat_map(word).collect();
        bed.sim.run(bed.volume.write(index * EXTENT, data, false)).unwrap();
        bed.sim.run(bed.volume.cache().settled());
    }
}

/// The rule of 15 %: SOSP 2011, §4.2.
#[test]
fn a_class_while_clean_goes_around_once_most_of_the_cache_is_dirty() {
    let bed = Bed::new(ClassPolicy { allocation: Allocation::WhileClean, ..ClassPolicy::default() }, false);
    fill(&bed, CACHE / EXTENT);
    let dirty = bed.volume.dirty_extents();
    assert_eq!(bed.counters().around_while_clean, CACHE / EXTENT - dirty);
    assert!((CACHE / EXTENT * 80 / 100..=CACHE / EXTENT * 85 / 100).contains(&dirty), "{dirty}");
}

#[test]
fn a_class_at_its_maximum_goes_around() {
    let bed = Bed::new(ClassPolicy { max_percent: 25, ..ClassPolicy::default() }, false);
    let extents = CACHE / EXTENT;
    fill(&bed, extents / 2);
    let (around, dirty) = (bed.counters().around_max_percent, bed.volume.dirty_extents());
    assert_eq!(around + dirty, extents / 2);
    assert!((extents / 4..=extents * 3 / 8).contains(&dirty), "{dirty} of {extents} extents");
}
