//! Contents that wait for insertion: nothing that was promised is lost if the program is killed then, be they overwritten or
//! the cache closed meanwhile.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use futures_util::poll;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault, FaultId, Faults};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Error, LogDevice, MissingLog, Volume, VolumeOptions, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 500;
/// Extents that are on the SSD before anything has to wait.
const STORED: u64 = 200;

/// What outlives the program.
struct World {
    flash: Arc<RamDevice>,
    log: Option<Arc<RamDevice>>,
    origin: Arc<RamDevice>,
    formatted: bool,
}

/// One run of the program.
struct Run {
    sim: Rc<Simulation>,
    volume: TestVolume,
    log: Option<Faults>,
}

fn settings() -> EngineSettings {
    EngineSettings {
        compression: Compression::None,
        ram_cache_bytes: 0,
        // A duplicate waits for a read of the SSD, and what is behind it waits too.
        verify_duplicates: true,
        dirty_age: Duration::from_secs(10_000),
        ..EngineSettings::new(Settings { weu_bytes: 512 << 10, ..Settings::new(16 << 20) })
    }
}

impl World {
    fn new(logged: bool) -> Self {
        let ram = |bytes| Arc::new(RamDevice::new(bytes, 512));
        let flash = ram(settings().manager.cache_bytes + Cache::<Erased, VirtualTime>::overhead_bytes(&settings()));
        Self { flash, log: logged.then(|| ram(8 << 20)), origin: ram(EXTENTS * EXTENT), formatted: false }
    }

    fn start(&mut self) -> Run {
        let sim = Simulation::new(1);
        let clock = sim.clock.clone();
        let device = |ram: &Arc<RamDevice>| faulty(ram.clone(), clock.clone(), 3);
        let log = self.log.as_ref().map(|log| LogDevice { device: device(log), size_bytes: None, uuid: [2; 16] });
        let faults = log.as_ref().map(|log| log.device.faults().clone());
        let (flash, time) = (device(&self.flash), clock.clone());
        let cache = match std::mem::replace(&mut self.formatted, true) {
            false => {
                sim.run(Cache::format_logged(flash, log, MissingLog::Refuse, time, settings(), [7; 16], 1)).unwrap()
            }
            true => sim.run(Cache::open_logged(flash, log, MissingLog::Refuse, time, settings())).unwrap().0,
        };
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteBack };
        let volume = Volume::new(cache.clone(), device(&self.origin), options);
        sim.spawn(async move { cache.insertion_worker().await });
        Run { sim, volume, log: faults }
    }
}

fn content(value: u64) -> Bytes {
    (0..EXTENT / 8).flat_map(|n| (value << 32 | n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect()
}

async fn write(volume: &TestVolume, index: u64, value: u64) -> Result<(), Error> {
    volume.write(index * EXTENT, content(value), false).await
}

async fn read(volume: &TestVolume, index: u64) -> Vec<u8> {
    volume.read(index * EXTENT, EXTENT).await.unwrap().concat()
}

/// Puts contents on the SSD, each with its extent's number as its value.
async fn store(volume: &TestVolume) {
    for index in 0..STORED {
        write(volume, index, index).await.unwrap();
    }
    volume.cache().settled().await;
    volume.cache().sync().await.unwrap();
}

/// From now on, the insertion of what is a duplicate of a stored content does not end.
fn hold_duplicates(volume: &TestVolume) -> FaultId {
    volume.cache().flash().faults().inject(Fault::new(Effect::Hang).on(Operation::Read))
}

/// Overwrites what waits for insertion with what waits longer, and kills the program once the first of them was flushed, or
/// was logged and the journal has been told from where on the log is needed.
fn overwritten_while_it_waits(logged: bool) {
    let mut world = World::new(logged);
    let Run { sim, volume, log } = world.start();
    let clock = sim.clock.clone();
    sim.run(async move {
        store(&volume).await;
        let held = hold_duplicates(&volume);
        write(&volume, 300, 0).await.unwrap();
        write(&volume, 400, 1000).await.unwrap();
        if let Some(log) = log {
            log.inject(Fault::new(Effect::Hang).on(Operation::Write));
        }
        let mut flush = pin!(volume.flush());
        assert_eq!(poll!(flush.as_mut()).is_ready(), logged);
        let (mut between, mut newer) = (pin!(write(&volume, 301, 1)), pin!(write(&volume, 400, 2000)));
        assert_eq!(poll!(between.as_mut()).is_ready(), !logged);
        assert_eq!(poll!(newer.as_mut()).is_ready(), !logged);
        clock.sleep(Duration::from_secs(1)).await;
        hold_duplicates(&volume);
        volume.cache().flash().faults().remove(held);
        if logged {
            clock.sleep(Duration::from_secs(1)).await;
            volume.cache().sync().await.unwrap();
        } else {
            flush.await.unwrap();
        }
    });
    sim.end();
    let Run { sim, volume, .. } = world.start();
    let found = sim.run(async move { read(&volume, 400).await });
    assert!(found == content(1000) || found == content(2000), "neither of them is there");
    sim.end();
}

#[test]
fn what_was_flushed_is_not_lost_for_being_overwritten_while_it_waits() {
    overwritten_while_it_waits(false);
}

#[test]
fn what_was_logged_is_not_lost_for_being_overwritten_while_it_waits() {
    overwritten_while_it_waits(true);
}

#[test]
fn a_cache_that_is_being_closed_needs_its_log_while_contents_wait() {
    let mut world = World::new(true);
    let Run { sim, volume, .. } = world.start();
    let clock = sim.clock.clone();
    sim.run(async move {
        store(&volume).await;
        hold_duplicates(&volume);
        write(&volume, 300, 0).await.unwrap();
        write(&volume, 400, 1000).await.unwrap();
        volume.cache().close();
        clock.sleep(Duration::from_secs(1)).await;
    });
    sim.end();
    let Run { sim, volume, .. } = world.start();
    assert!(sim.run(async move { read(&volume, 400).await }) == content(1000), "what was logged is not there");
    sim.end();
}
