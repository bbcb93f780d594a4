//! Write-back with a write log: what it holds comes back, and a cache that needs its log does not start without.

use crate::any::{Behind, Erased, faulty};
use crate::inspect::image::{EXTENT, Ram, content, image_bytes, settings};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::format::write_log::{Header, LABEL_BYTES, RING_BYTES_MIN};
use nitro_engine::{
    Cache, CrashMemory, EngineSettings, Error, LogDevice, MissingLog, Recovered, Volume, VolumeOptions, WriteMode,
};
use nitro_port::{Clock, ErrorKind, Operation, Origin};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

const LOG_BYTES: usize = LABEL_BYTES + RING_BYTES_MIN as usize;
const VOLUME_BYTES: usize = 64 * EXTENT as usize;
const OBJECT: ObjectId = ObjectId(3);
const CACHE_UUID: [u8; 16] = *b"a cache for test";

/// What of a cache outlives the program.
#[derive(Clone)]
struct Images {
    flash: Vec<u8>,
    log: Vec<u8>,
}

type TestCache = Arc<Cache<Erased, VirtualTime>>;
type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

struct Run {
    sim: Rc<Simulation>,
    cache: TestCache,
    volume: TestVolume,
    flash: Arc<Ram>,
    log: Arc<Ram>,
    ended: Rc<Cell<bool>>,
}

fn log_device(device: impl Origin, uuid: u8) -> LogDevice<Erased> {
    LogDevice { device: Erased::new(device), size_bytes: None, uuid: [uuid; 16] }
}

/// A cache, what its start found, its device and its log.
type Opened = (TestCache, Recovered, Arc<Ram>, Arc<Ram>);

fn open(images: &Images, with_log: bool, missing: MissingLog, sim: &Simulation) -> Result<Opened, Error> {
    let (flash, log) = (Arc::new(Ram::new(images.flash.clone())), Arc::new(Ram::new(images.log.clone())));
    let (device, given) = (Erased::new(flash.clone()), with_log.then(|| log_device(log.clone(), 2)));
    let clock = sim.clock.clone();
    let opened = sim.run(async move { Cache::open_logged(device, given, missing, clock, settings()).await });
    opened.map(|(cache, recovered)| (cache, recovered, flash, log))
}

impl Run {
    fn new() -> Self {
        let sim = Simulation::new(5);
        let (flash, log) = (Arc::new(Ram::new(vec![0; image_bytes()])), Arc::new(Ram::new(vec![0; LOG_BYTES])));
        let (device, given) = (Erased::new(flash.clone()), Some(log_device(log.clone(), 1)));
        let clock = sim.clock.clone();
        let cache = sim.run(async move {
            Cache::format_logged(device, given, MissingLog::Refuse, clock, settings(), CACHE_UUID, 0xC0FFEE)
                .await
                .unwrap()
        });
        Self::with(sim, cache, flash, log)
    }

    fn with(sim: Rc<Simulation>, cache: TestCache, flash: Arc<Ram>, log: Arc<Ram>) -> Self {
        let (ended, inserting, journaling) = (Rc::new(Cell::new(false)), cache.clone(), cache.clone());
        let at_end = ended.clone();
        sim.spawn(async move { journaling.journal_worker().await });
        sim.spawn(async move {
            inserting.insertion_worker().await;
            at_end.set(true);
        });
        let options = VolumeOptions { object: OBJECT, read_only: false, mode: WriteMode::WriteBack };
        let volume = Volume::new(cache.clone(), Erased::new(Ram::new(vec![0; VOLUME_BYTES])), options);
        Self { sim, cache, volume, flash, log, ended }
    }

    fn images(&self) -> Images {
        Images { flash: self.flash.image(), log: self.log.image() }
    }

    fn write(&self, writes: Vec<(u64, Bytes)>) {
        let volume = self.volume.clone();
        self.sim.run(async move {
            for (at, data) in writes {
                volume.write(at, data, false).await.unwrap();
            }
        });
    }

    fn read(&self, extent: u64) -> Bytes {
        let volume = self.volume.clone();
        let pieces = self.sim.run(async move { volume.read(extent * EXTENT, EXTENT).await.unwrap() });
        Bytes::from(pieces.concat())
    }

    fn stop(&self) {
        let (cache, clock, ended) = (self.cache.clone(), self.sim.clock.clone(), self.ended.clone());
        self.sim.run(async move {
            cache.close();
            while !ended.get() {
                clock.sleep(Duration::from_millis(1)).await;
            }
        });
    }
}

/// Extents 0 to 9 written whole, 3 twice, 5 once more in part.
fn written() -> (Vec<(u64, Bytes)>, Vec<Bytes>) {
    let mut writes: Vec<_> = (0..10).map(|n| (n * EXTENT, content(100 + n))).collect();
    writes.push((3 * EXTENT, content(203)));
    writes.push((5 * EXTENT + 700, content(205).slice(..900)));
    let mut extents: Vec<_> = (0..10).map(|n| content(if n == 3 { 203 } else { 100 + n })).collect();
    let mut fifth = extents[5].to_vec();
    fifth[700..1600].copy_from_slice(&content(205)[..900]);
    extents[5] = fifth.into();
    (writes, extents)
}

/// A cache that was killed before anything but the log had what was written.
fn killed() -> (Images, Vec<Bytes>) {
    let run = Run::new();
    // The announcement of the log is all that the journal has.
    run.write(vec![(20 * EXTENT, content(1))]);
    let (volume, cache) = (run.volume.clone(), run.cache.clone());
    let before = run.cache.status().engine.commits;
    let (writes, extents) = written();
    run.write(writes);
    run.sim.run(async move { volume.flush().await.unwrap() });
    assert_eq!(cache.status().engine.commits, before, "FLUSH has nothing to wait for");
    (run.images(), extents)
}

#[test]
fn what_was_acknowledged_comes_back_from_the_log() {
    let (images, extents) = killed();
    let sim = Simulation::new(6);
    let (cache, recovered, flash, log) = open(&images, true, MissingLog::Refuse, &sim).unwrap();
    assert_eq!(recovered.replayed_extents, 11);
    let run = Run::with(sim, cache, flash, log);
    assert_eq!(run.volume.dirty_extents(), 11);
    for (extent, bytes) in (0..).zip(&extents) {
        assert!(run.read(extent) == *bytes, "extent {extent}");
    }
    // Read again at each start, until the journal has it.
    let again = run.images();
    run.stop();
    for (images, count) in [(again, 11), (run.images(), 0)] {
        let (_, recovered, ..) = open(&images, true, MissingLog::Refuse, &Simulation::new(7)).unwrap();
        assert_eq!(recovered.replayed_extents, count);
        assert!(count > 0 || recovered.dirty_extents == 11);
    }
}

#[test]
fn a_cache_that_needs_its_log_does_not_start_without() {
    let (images, _) = killed();
    let refusal = |images: &Images, with_log| open(images, with_log, MissingLog::Refuse, &Simulation::new(6)).err();
    let another = Images { log: vec![0; LOG_BYTES], ..images.clone() };
    assert!(matches!(refusal(&images, false), Some(Error::LogMissing { uuid: [1, ..], another: false })));
    assert!(matches!(refusal(&another, true), Some(Error::LogMissing { uuid: [1, ..], another: true })));
    for (images, with_log) in [(&images, false), (&another, true)] {
        let (cache, recovered, flash, log) = open(images, with_log, MissingLog::Discard, &Simulation::new(6)).unwrap();
        assert_eq!((recovered.replayed_extents, cache.log_status().is_some()), (0, with_log));
        let run = Run::with(Simulation::new(8), cache, flash, log);
        assert!(run.read(3).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn after_an_orderly_end_the_log_is_not_needed() {
    let run = Run::new();
    let (writes, extents) = written();
    run.write(writes);
    run.stop();
    let sim = Simulation::new(6);
    let (cache, recovered, flash, log) = open(&run.images(), false, MissingLog::Refuse, &sim).unwrap();
    assert_eq!((recovered.dirty_extents, recovered.replayed_extents), (10, 0));
    let run = Run::with(sim, cache, flash, log);
    for (extent, bytes) in (0..).zip(&extents) {
        assert!(run.read(extent) == *bytes, "extent {extent}");
    }
}

#[test]
fn the_log_of_another_cache_is_left_alone() {
    let run = Run::new();
    run.stop();
    let mut images = run.images();
    let sim = Simulation::new(6);
    let (flash, log) = (Ram::new(vec![0; image_bytes()]), Ram::new(images.log.clone()));
    let clock = sim.clock.clone();
    let made = sim.run(async move {
        Cache::format_logged(
            Erased::new(flash),
            Some(log_device(log, 9)),
            MissingLog::Refuse,
            clock,
            settings(),
            [8; 16],
            4,
        )
        .await
    });
    assert!(matches!(made.err(), Some(Error::LogForeign { cache_uuid: CACHE_UUID })));
    // Its own it may have again.
    images.log.truncate(LOG_BYTES);
    assert!(open(&images, true, MissingLog::Refuse, &Simulation::new(7)).is_ok());
    images.log.truncate(LABEL_BYTES + 4096);
    assert!(matches!(open(&images, true, MissingLog::Refuse, &Simulation::new(7)).err(), Some(Error::Setting(_))));
}

#[test]
fn damage_of_the_log_is_told_from_its_end() {
    let (images, _) = killed();
    let headers = || (LABEL_BYTES..LOG_BYTES).step_by(512).filter(|at| Header::decode(&images.log[*at..]).is_ok());
    let count = headers().count();
    assert_eq!(count, 13);
    for (number, at) in headers().enumerate() {
        // In the header; in what follows it.
        for byte in [at + 40, at + 70] {
            let mut damaged = images.clone();
            damaged.log[byte] ^= 4;
            let opened = open(&damaged, true, MissingLog::Refuse, &Simulation::new(6));
            match opened {
                Err(Error::LogDamaged) => assert!(number + 1 < count, "batch {number}, byte {byte}"),
                // Nobody can tell the last one from one that was being written.
                Ok((_, recovered, ..)) => {
                    assert_eq!((number + 1, recovered.replayed_extents), (count, 11), "byte {byte}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// An older copy of one of the two lacks what was acknowledged since.
#[test]
fn an_older_copy_of_a_log_or_of_its_cache_is_refused() {
    let (older, _) = killed();
    let started = |images: &Images| {
        let sim = Simulation::new(6);
        let (flash, log) = (Arc::new(Ram::new(images.flash.clone())), Arc::new(Ram::new(images.log.clone())));
        let (device, given, clock) = (Erased::new(flash.clone()), Some(log_device(log.clone(), 2)), sim.clock.clone());
        let opened = Cache::open_logged(device, given, MissingLog::Refuse, clock, settings());
        Run::with(sim.clone(), sim.run(opened).unwrap().0, flash, log)
    };
    let run = started(&older);
    run.write(written().0);
    let newer = run.images();
    run.sim.end();
    let opened = |flash: &Images, log: &Images, missing| {
        let images = Images { flash: flash.flash.clone(), log: log.log.clone() };
        open(&images, true, missing, &Simulation::new(6)).map(drop)
    };
    assert!(matches!(opened(&newer, &older, MissingLog::Refuse), Err(Error::LogOutdated { starts: 1 })));
    assert!(matches!(opened(&older, &newer, MissingLog::Refuse), Err(Error::OlderThanLog { starts: 1 })));
    for (flash, log) in [(&newer, &older), (&older, &newer)] {
        assert!(opened(flash, log, MissingLog::Discard).is_ok());
    }
    // Killed after the log has got the number of a start, and before the cache has it.
    let run = started(&newer);
    let stamped = run.images();
    run.sim.end();
    assert!(opened(&newer, &stamped, MissingLog::Refuse).is_ok());
}

#[test]
fn the_last_batch_of_a_log_is_not_dropped_after_a_kill() {
    let words: &'static [AtomicU64] = Vec::leak((0..64).map(|_| AtomicU64::new(0)).collect());
    let settings = EngineSettings { crash_memory: Some(CrashMemory { words, identity: [1; 16] }), ..settings() };
    let sim = Simulation::new(5);
    let (flash, log) = (Arc::new(Ram::new(vec![0; image_bytes()])), Arc::new(Ram::new(vec![0; LOG_BYTES])));
    let (device, given, clock) = (Erased::new(flash.clone()), Some(log_device(log.clone(), 1)), sim.clock.clone());
    let made = Cache::format_logged(device, given, MissingLog::Refuse, clock, settings, CACHE_UUID, 0xC0FFEE);
    let run = Run::with(sim.clone(), sim.run(made).unwrap(), flash, log);
    run.write(written().0);
    let mut images = run.images();
    sim.end();
    let mut headers = (LABEL_BYTES..LOG_BYTES).step_by(512).filter(|at| Header::decode(&images.log[*at..]).is_ok());
    let last = headers.next_back().unwrap();
    images.log[last + 70] ^= 4;
    let open = |settings| {
        let (flash, log) = (Ram::new(images.flash.clone()), Ram::new(images.log.clone()));
        let (sim, given) = (Simulation::new(6), Some(log_device(log, 2)));
        let clock = sim.clock.clone();
        sim.run(async move { Cache::open_logged(Erased::new(flash), given, MissingLog::Refuse, clock, settings).await })
    };
    assert!(matches!(open(settings).err(), Some(Error::LogDamaged)));
    // After a power cut, it may have been cut off.
    assert!(open(EngineSettings { crash_memory: None, ..settings }).is_ok());
}

#[test]
fn a_log_that_fails_is_done_without() {
    let sim = Simulation::new(5);
    let clock = sim.clock.clone();
    let device = |bytes: usize| faulty(RamDevice::new(bytes as u64, 512), clock.clone(), 3);
    let (flash, log) = (device(image_bytes()), device(LOG_BYTES));
    let (faults, clock) = (log.faults().clone(), clock.clone());
    let made = Cache::format_logged(flash, Some(log_device(log, 1)), MissingLog::Refuse, clock, settings(), [1; 16], 7);
    let cache = sim.run(made).unwrap();
    let options = VolumeOptions { object: OBJECT, read_only: false, mode: WriteMode::WriteBack };
    let volume = Volume::new(cache.clone(), Erased::new(Ram::new(vec![0; VOLUME_BYTES])), options);
    let inserting = cache.clone();
    sim.spawn(async move { inserting.insertion_worker().await });
    let client = volume.clone();
    sim.run(async move { client.write(0, content(1), false).await.unwrap() });
    assert!(cache.log_status().unwrap().active);
    faults.inject(Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Flush));
    let client = volume.clone();
    sim.run(async move {
        for n in 1..9 {
            client.write(n * EXTENT, content(n), n % 2 == 0).await.unwrap();
        }
        client.flush().await.unwrap();
    });
    let status = cache.log_status().unwrap();
    assert!(!status.active && status.failed.as_deref().is_some_and(|why| why.contains("flush")), "{status:?}");
    assert_eq!((status.batches, volume.dirty_extents()), (1, 9));
    assert!(!volume.is_in_log());
}
