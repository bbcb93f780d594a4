//! How destage shares an origin with the clients that read from it: by the number of writes that the origin processes
//! at a time.

use crate::any::Erased;
use bytes::Bytes;
use nitro_cache::destage::WRITES_AT_ONCE_MAX;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device, DeviceError, Geometry};
use nitro_testkit::{Simulation, VirtualTime, noise};
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const EXTENT: u64 = 8192;
const CACHE: u64 = 16 << 20;
/// Extents of the volume: the first half is written, the second half is read.
const EXTENTS: u64 = 8192;
const READERS: u64 = 4;
const WRITERS: u64 = 64;
/// The time of a request to the disk. Readers begin at different times, so that a read is always in progress.
const DISK_TIME: Duration = Duration::from_millis(10);

/// A disk that takes [`DISK_TIME`] for each request, and counts the writes in progress.
struct SlowDisk {
    ram: RamDevice,
    clock: VirtualTime,
    writing: AtomicUsize,
    reads: AtomicUsize,
    /// For each write: how many were in progress when it began, itself included.
    writes: Mutex<Vec<usize>>,
}

impl Device for SlowDisk {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.clock.sleep(DISK_TIME).await;
        self.ram.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let writing = self.writing.fetch_add(1, Ordering::Relaxed) + 1;
        self.writes.lock().push(writing);
        self.clock.sleep(DISK_TIME).await;
        self.writing.fetch_sub(1, Ordering::Relaxed);
        self.ram.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.ram.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.ram.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.ram.write_zeroes(offset, len, may_unmap).await
    }
}

nitro_port::plain_origin!(SlowDisk);

type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

struct Bed {
    sim: Rc<Simulation>,
    disk: Arc<SlowDisk>,
    volume: TestVolume,
}

impl Bed {
    /// A volume in write-back, with clients that read from its disk all the time.
    fn new() -> Self {
        let sim = Simulation::new(5);
        let clock = sim.clock.clone();
        let settings = EngineSettings {
            compression: Compression::None,
            ram_cache_bytes: 0,
            ..EngineSettings::new(Settings { weu_bytes: 512 << 10, ..Settings::new(CACHE) })
        };
        let flash = Erased::new(RamDevice::new(CACHE + (4 << 20), 512));
        let cache = sim.run(Cache::format(flash, clock.clone(), settings, [0; 16], 5)).unwrap();
        let ram = RamDevice::new(EXTENTS * EXTENT, 512);
        let (writing, reads, writes) = Default::default();
        let disk = Arc::new(SlowDisk { ram, clock, writing, reads, writes });
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteBack };
        let volume = Volume::new(cache.clone(), Erased::new(disk.clone()), options);
        // Reads never find anything in the cache.
        volume.set_fill_paused(true);
        let destaging = volume.clone();
        sim.spawn(async move { cache.insertion_worker().await });
        sim.spawn(async move { destaging.destage_worker().await });
        let bed = Self { sim, disk, volume };
        (0..READERS).for_each(|reader| bed.read_on(reader));
        bed
    }

    /// A client that always reads.
    fn read_on(&self, reader: u64) {
        let (volume, clock) = (self.volume.clone(), self.sim.clock.clone());
        self.sim.spawn(async move {
            clock.sleep(DISK_TIME * reader as u32 / READERS as u32).await;
            for number in 0.. {
                let index = EXTENTS / 2 + (number * READERS + reader) * 7 % (EXTENTS / 2);
                volume.read(index * EXTENT, EXTENT).await.unwrap();
            }
        });
    }

    /// Clients that always write, each to extents of its own.
    fn write_on(&self) {
        for writer in 0..WRITERS {
            let volume = self.volume.clone();
            self.sim.spawn(async move {
                for number in 0.. {
                    write(&volume, number * WRITERS + writer).await;
                }
            });
        }
    }

    /// Waits until the disk has begun `count` writes; returns how many were in progress as each began.
    fn writes(&self, count: usize) -> Vec<usize> {
        let (disk, clock) = (self.disk.clone(), self.sim.clock.clone());
        self.sim.run(async move {
            while disk.writes.lock().len() < count {
                clock.sleep(DISK_TIME).await;
            }
        });
        self.disk.writes.lock()[..count].to_vec()
    }
}

/// Writes one of the extents without neighbours, so that each is destaged with a write of its own.
async fn write(volume: &TestVolume, number: u64) {
    let index = number * 2 % (EXTENTS / 2);
    volume.write(index * EXTENT, noise(number, EXTENT as usize).into(), false).await.unwrap();
}

/// Makes more extents dirty than destage leaves alone, and fewer than there is room for.
fn write_some(bed: &Bed) {
    let volume = bed.volume.clone();
    bed.sim.run(async move {
        for number in 0..CACHE / EXTENT * 40 / 100 {
            write(&volume, number).await;
        }
    });
}

#[test]
fn few_writes_run_beside_reads_while_there_is_room() {
    let bed = Bed::new();
    write_some(&bed);
    let writes = bed.writes(200);
    assert_eq!(writes.iter().max(), Some(&2), "{writes:?}");
    bed.sim.end();
}

#[test]
fn reads_do_not_restrain_destage_while_writers_wait_for_room() {
    let bed = Bed::new();
    bed.write_on();
    let reads = || bed.disk.reads.load(Ordering::Relaxed);
    // The first round may have begun while there was room.
    bed.writes(1000);
    let before = reads();
    let writes = bed.writes(5000);
    let at_once = writes[1000..].iter().filter(|at_once| **at_once == WRITES_AT_ONCE_MAX).count();
    assert!(at_once > 3000, "{at_once} of 4000 writes are one of {WRITES_AT_ONCE_MAX}");
    assert!(reads() - before > 100, "{} reads", reads() - before);
    bed.sim.end();
}

#[test]
fn a_round_that_began_while_there_was_room_speeds_up_when_writers_wait() {
    let bed = Bed::new();
    write_some(&bed);
    let begun = bed.writes(50);
    assert_eq!(begun.iter().max(), Some(&2), "{begun:?}");
    bed.write_on();
    // Fewer than a round has.
    let writes = bed.writes(450);
    let at_once = writes.iter().filter(|at_once| **at_once == WRITES_AT_ONCE_MAX).count();
    assert!(at_once > 300, "{at_once} of 400 writes are one of {WRITES_AT_ONCE_MAX}");
    bed.sim.end();
}
