//! Two volumes behind one cache in write-back, of which one has an origin that takes nothing.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use futures_util::future::{Either, select};
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::manager::admission::AdmissionKind;
use nitro_engine::{
    Cache, DedupDomain, DirtyShare, EngineSettings, Error, ErrorKind, Health, LogDevice, MissingLog, Volume,
    VolumeEntry, VolumeOptions, WriteMode,
};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device, ErrorKind as DeviceErrorKind, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Volume<Erased, Erased, VirtualTime>;
type TestCache = Cache<Erased, VirtualTime>;

const EXTENT: u64 = 8192;
const CACHE: u64 = 16 << 20;
const EXTENTS: u64 = 4 * CACHE / EXTENT;
/// Extents of the cache that may be dirty.
const ROOM: u64 = CACHE / EXTENT * 60 / 100;
/// Longer than any request may take of a volume that is well, in virtual time.
const LONG: Duration = Duration::from_secs(2);

/// Virtual time after which a test hangs.
const HANGS: Duration = Duration::from_secs(3600);

/// Content that neither repeats nor shrinks.
fn content(index: u64, round: u64) -> Bytes {
    let mut state = (index << 20 | round).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(EXTENT as usize);
    while bytes.len() < EXTENT as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    Bytes::from(bytes)
}

struct Bed {
    sim: Rc<Simulation>,
    cache: Arc<TestCache>,
    volumes: Vec<Arc<TestVolume>>,
}

/// A volume in write-back that nobody destages yet.
fn add_volume(cache: &Arc<TestCache>, clock: &VirtualTime, number: u16) -> Arc<TestVolume> {
    let entry = VolumeEntry {
        name: format!("volume {number}"),
        origin_bytes: EXTENTS * EXTENT,
        stamp: [0; 16],
        mode: 1,
        domain: DedupDomain::SHARED,
        identity: Vec::new(),
    };
    let object = cache.remember_volume(entry).unwrap();
    assert_eq!(object, ObjectId(number));
    let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteBack };
    let origin = faulty(RamDevice::new(EXTENTS * EXTENT, 512), clock.clone(), 3);
    Volume::new(cache.clone(), origin, options)
}

impl Bed {
    fn new(volumes: u16) -> Self {
        Self::with(volumes, |_| {})
    }

    fn with(volumes: u16, change: impl FnOnce(&mut EngineSettings)) -> Self {
        Self::made(volumes, None, change)
    }

    fn made(volumes: u16, log_bytes: Option<u64>, change: impl FnOnce(&mut EngineSettings)) -> Self {
        let sim = Simulation::new(11);
        let clock = sim.clock.clone();
        let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(CACHE) };
        let mut settings = EngineSettings {
            compression: Compression::None,
            ram_cache_bytes: 0,
            // A queue for all that may be dirty.
            dirty_queue_bytes: CACHE,
            ..EngineSettings::new(manager)
        };
        change(&mut settings);
        let flash_bytes = settings.manager.cache_bytes + (4 << 20);
        let device = |bytes| faulty(RamDevice::new(bytes, 512), clock.clone(), 3);
        let log = log_bytes.map(|bytes| LogDevice { device: device(bytes), size_bytes: None, uuid: [7; 16] });
        let refuse = MissingLog::Refuse;
        let made = Cache::format_logged(device(flash_bytes), log, refuse, clock.clone(), settings, [0; 16], 5);
        let cache = sim.run(made).unwrap();
        let inserting = cache.clone();
        sim.spawn(async move { inserting.insertion_worker().await });
        let keeping = cache.clone();
        sim.spawn(async move { keeping.journal_worker().await });
        let volume = |number| {
            let volume = add_volume(&cache, &clock, number);
            let destaging = volume.clone();
            sim.spawn(async move { destaging.destage_worker().await });
            volume
        };
        let volumes = (0..volumes).map(volume).collect();
        Self { sim, cache, volumes }
    }

    /// Runs to the end, unless something hangs.
    fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let clock = self.sim.clock.clone();
        self.sim.run(async move {
            match select(pin!(main), pin!(clock.sleep(HANGS))).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => panic!("a request hangs"),
            }
        })
    }

    fn refuse(&self, volume: usize) {
        let full = Fault::new(Effect::Fail(DeviceErrorKind::NoSpace)).on(Operation::Write);
        self.volumes[volume].origin().faults().inject(full);
    }
}

async fn write(volume: &TestVolume, index: u64, round: u64) -> Result<(), Error> {
    volume.write(index * EXTENT, content(index, round), false).await
}

/// Writes extents in order until one is refused; says how many were taken.
async fn fill(volume: &TestVolume) -> (u64, Error) {
    for index in 0..EXTENTS {
        if let Err(error) = write(volume, index, 0).await {
            return (index, error);
        }
    }
    panic!("the cache takes more than it has room for");
}

/// A request of a volume that is well, which must end soon.
async fn soon<T>(clock: &VirtualTime, request: impl Future<Output = Result<T, Error>>) -> T {
    let begun = clock.now();
    let done = request.await.unwrap();
    let took = clock.now() - begun;
    assert!(took < LONG, "it took {took:?}");
    done
}

#[test]
fn an_origin_without_room_leaves_its_neighbour_alone() {
    let bed = Bed::new(2);
    bed.refuse(0);
    let (sick, well, cache, on) = (bed.volumes[0].clone(), bed.volumes[1].clone(), bed.cache.clone(), bed.sim.clone());
    bed.run(async move {
        let clock = &on.clock;
        let (taken, error) = fill(&sick).await;
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(clock.now() < Duration::from_secs(60), "the writer waited {:?}", clock.now());
        let failure = sick.destage_failure().unwrap();
        assert!(failure.count > 0 && failure.error.kind() == ErrorKind::NoSpace, "{failure:?}");
        assert!(sick.counters().destage_failures > 0);
        // The neighbour writes several times what the cache holds.
        for index in 0..EXTENTS {
            soon(clock, write(&well, index, 1)).await;
            if index % 100 == 99 {
                soon(clock, well.flush()).await;
            }
        }
        assert!(well.destage_failure().is_none());
        // Reads go on, and FLUSH covers what was taken.
        for index in 0..taken {
            let pieces = sick.read(index * EXTENT, EXTENT).await.unwrap();
            assert!(pieces.concat() == content(index, 0), "extent {index}");
        }
        soon(clock, sick.flush()).await;
        // Further writes fail at once, when its share is full: the first was refused as units hold a little less than their bytes.
        let mut taken = taken;
        while soon(clock, async { Ok(write(&sick, taken, 0).await) }).await.is_ok() {
            taken += 1;
            assert!(taken <= ROOM * 3 / 4, "{taken} extents");
        }
        assert_eq!(cache.status().health, Health::Caching);
        sick.origin().faults().clear();
        while sick.destage_failure().is_some() {
            clock.sleep(LONG).await;
        }
        soon(clock, write(&sick, taken, 0)).await;
        sick.destage_all().await.unwrap();
        for index in 0..=taken {
            assert!(sick.origin().read(index * EXTENT, EXTENT as usize).await.unwrap() == content(index, 0));
        }
        assert_eq!(sick.poisoned(), None);
    });
}

/// Extents of both lie in the same write-evict units.
#[test]
fn a_few_extents_of_an_origin_without_room_do_not_pin_the_cache() {
    let bed = Bed::new(2);
    bed.refuse(0);
    let (sick, well, on) = (bed.volumes[0].clone(), bed.volumes[1].clone(), bed.sim.clone());
    bed.run(async move {
        let mut refused = 0;
        for index in 0..EXTENTS {
            if index % 40 == 0 {
                refused += u32::from(write(&sick, index, 0).await.is_err());
            }
            soon(&on.clock, write(&well, index, 1)).await;
        }
        soon(&on.clock, well.flush()).await;
        assert!(refused > 0, "{} write-evict units are pinned", well.cache().status().manager.weus_pinned);
    });
}

#[test]
fn a_volume_alone_may_use_all_the_room_and_two_leave_each_other_theirs() {
    for (volumes, share, room) in [
        (1, DirtyShare::default(), ROOM),
        (2, DirtyShare::default(), ROOM * 3 / 4),
        (2, DirtyShare { min_percent: None, max_percent: 30 }, ROOM * 3 / 10),
    ] {
        let bed = Bed::new(volumes);
        bed.refuse(0);
        let sick = bed.volumes[0].clone();
        sick.set_dirty_share(share);
        assert_eq!(sick.dirty_share(), share);
        let (taken, _) = bed.run(async move { fill(&sick).await });
        // Write-evict units hold a little less than their bytes.
        assert!((room * 9 / 10..=room).contains(&taken), "{taken} of {room} for {share:?} of {volumes}");
    }
}

#[test]
fn dirty_extents_leave_each_lane_of_clean_ones_a_unit() {
    // As few units as there can be with two lanes.
    let bed = Bed::with(2, |settings| {
        settings.manager.cache_bytes = 9 * u64::from(settings.manager.weu_bytes);
        settings.manager.admission = AdmissionKind::BySource;
        settings.dirty_max_percent = 80;
    });
    bed.refuse(0);
    let (sick, well) = (bed.volumes[0].clone(), bed.volumes[1].clone());
    bed.run(async move {
        well.set_mode(WriteMode::WriteThrough).await.unwrap();
        write(&well, 0, 0).await.unwrap();
        well.read(EXTENT, EXTENT).await.unwrap();
        well.cache().settled().await;
        let mut taken = 0;
        while write(&sick, taken, 0).await.is_ok() {
            taken += 1;
            sick.flush().await.unwrap();
        }
        let status = well.cache().status();
        assert_eq!((status.failed, status.health), (None, Health::Caching), "{taken} were taken");
        // 80 % of what one lane and dirty extents share.
        assert_eq!(status.manager.weus_pinned, 6, "{taken} were taken");
    });
}

/// As few units as there can be, and nearly all of them may be dirty.
#[test]
fn a_flush_ends_in_a_small_cache_that_an_origin_without_room_has_filled() {
    for (weus, dirty_max_percent, volumes) in
        [(8, 60, 2), (8, 80, 2), (8, 90, 2), (8, 90, 5), (9, 90, 3), (12, 90, 2), (16, 80, 3), (16, 90, 9), (8, 1, 2)]
    {
        let bed = Bed::with(volumes, |settings| {
            settings.manager.cache_bytes = weus * u64::from(settings.manager.weu_bytes);
            settings.dirty_max_percent = dirty_max_percent;
            settings.dirty_start_percent = dirty_max_percent.min(settings.dirty_start_percent);
        });
        bed.refuse(0);
        let (volumes, on) = (bed.volumes.clone(), bed.sim.clone());
        let case = format!("{weus} units, {dirty_max_percent} %, {} volumes", volumes.len());
        bed.run(async move {
            let (sick, well) = volumes.split_first().unwrap();
            let cache = sick.cache();
            let for_dirty = weus + 1 - u64::from(cache.settings().manager.open_max(weus as u32));
            let pinned_max = (for_dirty * u64::from(dirty_max_percent) / 100).max(2);
            let mut taken = 0;
            for round in 0..600 {
                if taken == round {
                    // Far from one another, so that no duplicate and no neighbour saves room; some without a FLUSH.
                    taken += u64::from(write(sick, round * 7 % EXTENTS, round).await.is_ok());
                    if round % 5 == 0 {
                        sick.flush().await.unwrap();
                    }
                }
                for (number, volume) in well.iter().enumerate() {
                    let index = (round * 31 + number as u64) % EXTENTS;
                    soon(&on.clock, write(volume, index, round)).await;
                    if round % 3 == 0 {
                        soon(&on.clock, volume.flush()).await;
                    }
                }
                let pinned = cache.status().manager.weus_pinned;
                assert!(pinned <= pinned_max, "{case}: {pinned} units are pinned, {pinned_max} may be");
            }
            let status = cache.status();
            assert_eq!((status.failed, status.health), (None, Health::Caching), "{case}");
            assert!(taken < 600, "{case}: all were taken");
        });
    }
}

#[test]
fn a_share_is_changed_while_its_volume_is_served() {
    let bed = Bed::new(2);
    bed.refuse(0);
    let (sick, well) = (bed.volumes[0].clone(), bed.volumes[1].clone());
    bed.run(async move {
        sick.set_dirty_share(DirtyShare { min_percent: Some(0), max_percent: 100 });
        well.set_dirty_share(DirtyShare { min_percent: Some(80), max_percent: 100 });
        let (few, _) = fill(&sick).await;
        well.set_dirty_share(DirtyShare { min_percent: Some(10), max_percent: 100 });
        let (more, _) = fill(&sick).await;
        // Until the neighbour goes to write-through, its minimum is kept.
        well.set_mode(WriteMode::WriteThrough).await.unwrap();
        let mut most = 0;
        while write(&sick, EXTENTS - 1 - most, 0).await.is_ok() {
            most += 1;
        }
        assert!(few <= ROOM - ROOM * 8 / 10 && most > 0, "{few}, {more}, {most}");
    });
}

#[test]
fn what_the_origin_refuses_in_part_is_not_taken_for_destaged() {
    let bed = Bed::new(0);
    // Its worker would destage the rest first, so that nothing but what is refused is left.
    let volume = add_volume(&bed.cache, &bed.sim.clock, 0);
    let refused = Fault::new(Effect::Fail(DeviceErrorKind::Io)).on(Operation::Write).within(0..10 * EXTENT);
    volume.origin().faults().inject(refused);
    bed.run(async move {
        for index in (0..100).map(|number| number * 3) {
            write(&volume, index, 0).await.unwrap();
        }
        assert_eq!(volume.destage_all().await.unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(volume.dirty_extents(), 4);
        assert!(volume.origin().read(99 * EXTENT, EXTENT as usize).await.unwrap() == content(99, 0));
        // A write of the origin over what is dirty needs that to be there first.
        assert!(volume.trim(0, 20 * EXTENT, false).await.is_err());
        volume.origin().faults().clear();
        volume.destage_all().await.unwrap();
        assert_eq!((volume.dirty_extents(), volume.destage_failure().is_none()), (0, true));
    });
}

#[test]
fn lost_extents_are_an_error_of_whoever_wants_the_origin_up_to_date() {
    let bed = Bed::new(1);
    let volume = bed.volumes[0].clone();
    let faults = bed.cache.flash().faults();
    bed.run(async move {
        for index in 0..20 {
            write(&volume, index, 0).await.unwrap();
        }
        volume.flush().await.unwrap();
        // Further ones close the write-evict unit, so that the first are read from the device.
        for index in 20..400 {
            write(&volume, index, 0).await.unwrap();
        }
        volume.flush().await.unwrap();
        let first_weu = TestCache::overhead_bytes(volume.cache().settings()) + (512 << 10);
        faults.inject(Fault::new(Effect::FlipBit).on(Operation::Read).within(first_weu - 4 * EXTENT..first_weu));
        assert_eq!(volume.destage_all().await.unwrap_err().kind(), ErrorKind::Lost);
        let ranges = volume.lost_ranges();
        assert!(!ranges.is_empty());
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert_eq!(volume.dirty_extents() * EXTENT, bytes, "everything else is at the origin");
        assert_eq!(volume.set_mode(WriteMode::WriteThrough).await.unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(volume.detach().await.unwrap_err().kind(), ErrorKind::Lost);
        // A request that leaves a part of them fails, and changes nothing at the origin.
        let lost = ranges[0].clone();
        let held = volume.origin().read(lost.start, EXTENT as usize).await.unwrap();
        let zeroed = volume.write_zeroes(lost.start, EXTENT - 100, false, false, false).await;
        assert_eq!(zeroed.unwrap_err().kind(), ErrorKind::Lost);
        let from = lost.start.saturating_sub(EXTENT);
        let zeroed = volume.write_zeroes(from, lost.start - from + 100, false, false, false).await;
        assert_eq!(zeroed.unwrap_err().kind(), ErrorKind::Lost);
        assert!(volume.origin().read(lost.start, EXTENT as usize).await.unwrap() == held);
        // Overwritten whole, they are lost no more.
        for range in ranges {
            for index in range.start / EXTENT..range.end / EXTENT {
                write(&volume, index, 1).await.unwrap();
            }
        }
        volume.detach().await.unwrap();
    });
}

/// Two volumes, of which the first one's dirty extents take all the room, as its origin accepts nothing: the second one was
/// in write-through meanwhile.
fn crowded(log_bytes: Option<u64>) -> Bed {
    let bed = Bed::made(2, log_bytes, |_| {});
    bed.refuse(0);
    let (sick, well) = (bed.volumes[0].clone(), bed.volumes[1].clone());
    bed.run(async move {
        well.set_mode(WriteMode::WriteThrough).await.unwrap();
        fill(&sick).await;
        assert!(sick.dirty_extents() >= ROOM * 9 / 10, "{} of {ROOM}", sick.dirty_extents());
        well.set_mode(WriteMode::WriteBack).await.unwrap();
    });
    bed
}

#[test]
fn what_others_leave_no_room_for_is_in_the_origin_and_durable_if_there_is_a_log() {
    for log_bytes in [None, Some(8 << 20)] {
        let bed = crowded(log_bytes);
        let (well, clock) = (bed.volumes[1].clone(), bed.sim.clock.clone());
        bed.run(async move {
            let flushes = || well.origin().faults().counters().flushes;
            let before = flushes();
            soon(&clock, write(&well, 0, 1)).await;
            assert_eq!((flushes() > before, well.dirty_extents()), (log_bytes.is_some(), 0));
        });
    }
}
