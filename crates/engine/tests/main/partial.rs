//! Writes of parts of extents in write-through: parts that join while an earlier one waits, what makes them void, and reads of
//! the rest after the answer.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::manager::admission::AdmissionKind;
use nitro_engine::manager::eviction::EvictionKind;
use nitro_engine::manager::partial::PartialWrites;
use nitro_engine::metrics::VolumeCounters;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device, ErrorKind, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Volume<Erased, Erased, VirtualTime>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 2000;

struct World {
    sim: Rc<Simulation>,
    /// In write-through.
    volume: Arc<TestVolume>,
    /// In write-back, in the same cache.
    other: Arc<TestVolume>,
}

fn world(partial_writes: PartialWrites, staging_bytes: u64) -> World {
    let sim = Simulation::new(11);
    let clock = sim.clock.clone();
    let manager = Settings {
        weu_bytes: 512 << 10,
        dedup: false,
        admission: AdmissionKind::All,
        eviction: EvictionKind::Lru,
        ..Settings::new(8 << 20)
    };
    let settings = EngineSettings {
        ram_cache_bytes: 0,
        compression: Compression::None,
        partial_writes,
        staging_bytes,
        dirty_age: Duration::ZERO,
        ..EngineSettings::new(manager)
    };
    let device = |bytes| faulty(RamDevice::new(bytes, 512), clock.clone(), 3);
    let flash = device(settings.manager.cache_bytes + (4 << 20));
    let cache = sim.run(Cache::format(flash, clock.clone(), settings, [0; 16], 5)).unwrap();
    let volume = |object, mode| {
        let options = VolumeOptions { object: ObjectId(object), read_only: false, mode };
        let volume = Volume::new(cache.clone(), device(EXTENTS * EXTENT), options);
        let (ahead, destaging) = (volume.clone(), volume.clone());
        sim.spawn(async move { ahead.readahead_worker().await });
        sim.spawn(async move { destaging.destage_worker().await });
        volume
    };
    let (one, other) = (volume(0, WriteMode::WriteThrough), volume(1, WriteMode::WriteBack));
    sim.spawn(async move { cache.insertion_worker().await });
    World { sim, volume: one, other }
}

fn bytes(byte: u8, len: u64) -> Bytes {
    vec![byte; len as usize].into()
}

/// What extent 1 holds, in pieces of 2 KiB.
fn quarters(bytes: [u8; 4]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [*byte; 2048]).collect()
}

/// Extent 1 of a volume.
struct Extent(Arc<TestVolume>, VirtualTime);

impl Extent {
    /// Writes some quarters, from the `first` on.
    async fn write(&self, first: u64, count: u64, byte: u8) {
        self.0.write(EXTENT + first * 2048, bytes(byte, count * 2048), false).await.unwrap();
    }

    /// Writes all of it, and brings it to the SSD.
    async fn store(&self, byte: u8) {
        self.write(0, 4, byte).await;
        // More than a unit: what is full is on the SSD.
        for index in 1000..1100 {
            self.0.write(index * EXTENT, bytes(index as u8, EXTENT), false).await.unwrap();
        }
        self.0.cache().settled().await;
    }

    /// Whether it is cached, once all that is under way has ended; it reads as `expected` in any case.
    async fn holds(&self, expected: [u8; 4]) -> bool {
        self.1.sleep(Duration::from_secs(1)).await;
        self.0.cache().settled().await;
        let before = self.0.counters().origin_reads;
        assert!(self.0.read(EXTENT, EXTENT).await.unwrap().concat() == quarters(expected), "wrong bytes are read");
        self.0.counters().origin_reads == before
    }

    fn counters(&self) -> VolumeCounters {
        self.0.counters()
    }
}

/// Runs `what` while the base of a merge of extent 1, which holds 1, is being read from the SSD: 2 was written at its
/// beginning. `holds`: what it holds afterwards, and whether it is cached.
fn while_a_merge_waits<R: Future<Output = ()> + 'static>(
    what: impl Fn(Rc<Extent>) -> R + Clone + 'static,
    holds: ([u8; 4], bool),
    joined: u64,
) {
    for staging_bytes in [0, 1 << 20] {
        let World { sim, volume, .. } = world(PartialWrites::Merge, staging_bytes);
        let (extent, what) = (Rc::new(Extent(volume, sim.clock.clone())), what.clone());
        sim.run(async move {
            extent.store(1).await;
            let faults = extent.0.cache().flash().faults();
            let hang = faults.inject(Fault::new(Effect::Hang).on(Operation::Read));
            extent.write(0, 1, 2).await;
            extent.1.sleep(Duration::from_secs(1)).await;
            what(extent.clone()).await;
            faults.remove(hang);
            assert_eq!(extent.holds(holds.0).await, holds.1, "{staging_bytes} bytes of staging");
            assert_eq!((extent.counters().partial_joined, extent.counters().partial_fetched), (joined, 0));
        });
    }
}

#[test]
fn parts_join_a_merge_that_waits_in_the_order_in_which_they_came() {
    let parts = |extent: Rc<Extent>| async move {
        extent.write(0, 2, 3).await;
        extent.write(1, 2, 4).await;
    };
    while_a_merge_waits(parts, ([3, 4, 4, 1], true), 2);
    let all = |extent: Rc<Extent>| async move {
        extent.write(1, 3, 3).await;
        extent.write(2, 1, 4).await;
    };
    // The first of these makes up the whole; the next one finds that in RAM.
    while_a_merge_waits(all, ([2, 3, 4, 3], true), 1);
}

#[test]
fn a_whole_write_or_a_trim_makes_a_merge_that_waits_void() {
    let whole = |extent: Rc<Extent>| async move {
        extent.write(0, 4, 5).await;
        extent.write(3, 1, 6).await;
    };
    while_a_merge_waits(whole, ([5, 5, 5, 6], true), 0);
    let trim = |extent: Rc<Extent>| async move {
        extent.0.trim(EXTENT, EXTENT, false).await.unwrap();
        extent.write(3, 1, 6).await;
    };
    while_a_merge_waits(trim, ([0, 0, 0, 6], false), 0);
    let zeroes = |extent: Rc<Extent>| async move {
        extent.0.write_zeroes(EXTENT + 2048, 2048, true, false, false).await.unwrap();
    };
    while_a_merge_waits(zeroes, ([2, 0, 1, 1], false), 0);
}

#[test]
fn a_write_that_fails_makes_a_merge_that_waits_void() {
    let fails = |extent: Rc<Extent>| async move {
        let faults = extent.0.origin().faults();
        faults.inject(Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Write).times(1));
        assert!(extent.0.write(EXTENT + 2048, bytes(9, 2048), false).await.is_err());
    };
    while_a_merge_waits(fails, ([2, 1, 1, 1], false), 0);
}

#[test]
fn a_merge_ends_when_its_base_has_gone() {
    let World { sim, volume, other } = world(PartialWrites::Merge, 0);
    let extent = Rc::new(Extent(volume, sim.clock.clone()));
    sim.run(async move {
        extent.store(1).await;
        let cache = extent.0.cache();
        let faults = cache.flash().faults();
        // The read of the base: the first one.
        let hang = faults.inject(Fault::new(Effect::Hang).on(Operation::Read).times(1));
        extent.write(0, 1, 2).await;
        extent.1.sleep(Duration::from_secs(1)).await;
        // The other volume takes all slots meanwhile.
        for index in 0..EXTENTS {
            let written = bytes(index as u8 | 0x80, EXTENT);
            other.write(index * EXTENT, written, false).await.unwrap();
            if index % 50 == 0 {
                extent.1.sleep(Duration::from_secs(1)).await;
            }
        }
        faults.remove(hang);
        assert!(!extent.holds([2, 1, 1, 1]).await, "the base was overwritten on the SSD");
        assert!(cache.status().engine.outrun_reads > 0);
    });
}

#[test]
fn parts_of_an_extent_that_is_not_cached_make_up_the_whole_without_a_read() {
    let World { sim, volume, .. } = world(PartialWrites::Worth, 0);
    let extent = Rc::new(Extent(volume, sim.clock.clone()));
    sim.run(async move {
        extent.write(2, 2, 1).await;
        assert_eq!(extent.counters().partial_left, 1);
        extent.write(1, 2, 2).await;
        extent.write(0, 1, 3).await;
        assert!(extent.holds([3, 2, 2, 1]).await);
        let counters = extent.counters();
        assert_eq!((counters.partial_completed, counters.partial_left, counters.origin_reads), (1, 2, 0));
    });
}

#[test]
fn parts_that_wait_are_void_after_a_whole_write_a_trim_or_a_time_without_the_cache() {
    for (between, then) in [(0, [9, 9, 1, 1]), (1, [0, 0, 1, 1]), (2, [7, 7, 1, 1]), (3, [0, 0, 1, 1])] {
        let World { sim, volume, .. } = world(PartialWrites::Worth, 0);
        let extent = Rc::new(Extent(volume, sim.clock.clone()));
        sim.run(async move {
            extent.write(0, 2, 5).await;
            let volume = &extent.0;
            match between {
                0 => {
                    let invalidate = nitro_engine::manager::admission::WritePolicy::Invalidate;
                    volume.set_write_policy(invalidate);
                    extent.write(0, 4, 9).await;
                    volume.set_write_policy(Default::default());
                }
                1 => volume.trim(EXTENT, EXTENT, false).await.unwrap(),
                2 => {
                    volume.detach().await.unwrap();
                    volume.origin().write(EXTENT, bytes(7, EXTENT)).await.unwrap();
                    volume.attach();
                }
                _ => volume.write_zeroes(EXTENT, EXTENT / 2, true, false, false).await.unwrap(),
            }
            extent.write(2, 2, 1).await;
            extent.holds(then).await;
            assert_eq!(extent.counters().partial_completed, 0, "between {between}");
        });
    }
}

#[test]
fn the_rest_is_read_after_the_answer_and_not_believed_after_a_write() {
    for staging_bytes in [0, 1 << 20] {
        let World { sim, volume, .. } = world(PartialWrites::Fetch, staging_bytes);
        let extent = Rc::new(Extent(volume, sim.clock.clone()));
        sim.run(async move {
            let clock = extent.1.clone();
            let faults = extent.0.origin().faults();
            let hang = faults.inject(Fault::new(Effect::Delay(Duration::from_secs(5))).on(Operation::Read));
            let begun = clock.now();
            extent.write(0, 1, 2).await;
            assert!(clock.now() - begun < Duration::from_secs(1), "the writer waits for the read");
            clock.sleep(Duration::from_secs(1)).await;
            // The origin is being read, and again after this.
            extent.write(1, 1, 3).await;
            clock.sleep(Duration::from_secs(1)).await;
            extent.0.trim(EXTENT + 3 * 2048, 2048, false).await.unwrap();
            faults.remove(hang);
            clock.sleep(Duration::from_secs(10)).await;
            assert!(!extent.holds([2, 3, 0, 0]).await, "the trim made both reads void");
            assert_eq!(extent.counters().partial_fetched, 2);
            extent.write(2, 1, 4).await;
            assert!(extent.holds([2, 3, 4, 0]).await, "it was cached by the read before");
        });
    }
}
