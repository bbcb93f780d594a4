//! How much RAM is held beyond the requests: every buffer that a client, the origin or the cache device hands over counts itself.

use crate::any::{Erased, jittery};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Error, Volume, VolumeOptions, WriteMode};
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device, DeviceError, Geometry};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes of buffers that are alive, and the most that ever were.
#[derive(Clone, Default)]
struct Meter(Arc<(AtomicU64, AtomicU64)>);

impl Meter {
    fn bytes(&self) -> u64 {
        self.0.0.load(Ordering::SeqCst)
    }

    fn peak(&self) -> u64 {
        self.0.1.load(Ordering::SeqCst)
    }

    /// The same bytes, counted until the last slice of them is dropped.
    fn counted(&self, bytes: Bytes) -> Bytes {
        let now = self.0.0.fetch_add(bytes.len() as u64, Ordering::SeqCst) + bytes.len() as u64;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        Bytes::from_owner(Counted(bytes, self.clone()))
    }
}

struct Counted(Bytes, Meter);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.0.0.fetch_sub(self.0.len() as u64, Ordering::SeqCst);
    }
}

/// A device whose reads are counted.
struct Counting<D>(D, Meter);

impl<D: Device> Device for Counting<D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        Ok(self.1.counted(self.0.read(offset, len).await?))
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.0.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.0.write_zeroes(offset, len, may_unmap).await
    }
}

type TestVolume = Volume<Erased, Erased, VirtualTime>;

struct Bed {
    sim: Rc<Simulation>,
    volume: Arc<TestVolume>,
    meter: Meter,
}

fn bed(size: u64, mode: WriteMode, settings: impl Fn(&mut EngineSettings)) -> Bed {
    let sim = Simulation::new(3);
    let (clock, meter) = (sim.clock.clone(), Meter::default());
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(32 << 20) };
    let mut engine =
        EngineSettings { ram_cache_bytes: 0, compression: Compression::Lz4, ..EngineSettings::new(manager) };
    settings(&mut engine);
    let flash = jittery(RamDevice::new(engine.manager.cache_bytes + 4 * MIB, 512), &clock, 1, 100);
    let origin = jittery(RamDevice::new(size, 512), &clock, 2, 500);
    let (flash, origin) = [flash, origin].map(|device| Erased::new(Counting(device, meter.clone()))).into();
    let cache = sim.run(Cache::format(flash, clock, engine, [0; 16], 5)).unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode };
    let volume = Volume::new(cache, origin, options);
    Bed { sim, volume, meter }
}

impl Bed {
    /// Has the workers run from now on.
    fn work(&self) {
        let (inserting, ahead, destaging) = (self.volume.cache().clone(), self.volume.clone(), self.volume.clone());
        self.sim.spawn(async move { inserting.insertion_worker().await });
        self.sim.spawn(async move { ahead.readahead_worker().await });
        self.sim.spawn(async move { destaging.destage_worker().await });
    }

    /// Has the origin hold noise.
    fn fill_origin(&self) {
        let volume = self.volume.clone();
        self.sim.run(async move {
            for seed in 0..volume.size_bytes() / (2 * MIB) {
                volume.origin().write(seed * 2 * MIB, noise(seed, 2 * MIB).into()).await.unwrap();
            }
        });
    }
}

/// Bytes that do not compress.
fn noise(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

/// A write of which one extent is not zero.
fn sparse(seed: u64, len: u64) -> Bytes {
    let mut data = BufMut::zeroed(len as usize);
    let at = (seed % (len / (8 * KIB)) * 8 * KIB) as usize;
    data[at..at + 8 * KIB as usize].copy_from_slice(&noise(seed, 8 * KIB));
    data.freeze()
}

#[test]
fn one_extent_of_a_large_write_does_not_keep_the_others() {
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let bed = bed(16 * MIB, mode, |_| {});
        bed.work();
        let (volume, meter) = (bed.volume.clone(), bed.meter.clone());
        bed.sim.run(async move {
            for seed in 0..48 {
                let data = meter.counted(sparse(seed, 2 * MIB));
                volume.write(seed % 8 * 2 * MIB, data, false).await.unwrap();
            }
            volume.cache().settled().await;
        });
        assert!(bed.volume.cache().status().manager.insertions > 48, "{mode:?}: nothing was inserted");
        assert_eq!(bed.meter.bytes(), 0, "{mode:?}");
    }
}

#[test]
fn the_only_new_extent_of_a_large_write_does_not_keep_the_duplicates() {
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let bed = bed(16 * MIB, mode, |_| {});
        bed.work();
        let (volume, meter, clock) = (bed.volume.clone(), bed.meter.clone(), bed.sim.clock.clone());
        bed.sim.run(async move {
            for seed in 0..8 {
                let mut data = noise(0, 2 * MIB);
                data[..8 << 10].copy_from_slice(&noise(seed, 8 * KIB));
                volume.write(seed * 2 * MIB, meter.counted(data.into()), false).await.unwrap();
                volume.cache().settled().await;
            }
            // The worker has the last extent in its hands until it looks for another.
            clock.sleep(Duration::from_millis(1)).await;
        });
        assert!(bed.volume.cache().status().manager.duplicates > 7 * 200, "{mode:?}: there were no duplicates");
        assert_eq!(bed.meter.bytes(), 0, "{mode:?}");
    }
}

/// A volume whose origin holds noise and which is never read sequentially. Nothing is inserted until its workers run.
fn unread(size: u64, settings: impl Fn(&mut EngineSettings)) -> Bed {
    let bed = bed(size, WriteMode::WriteThrough, |s| {
        s.manager.streams.threshold_bytes = 0;
        settings(s);
    });
    bed.fill_origin();
    bed
}

#[test]
fn the_insertion_queue_counts_the_memory_that_its_extents_keep() {
    let bed = unread(32 * MIB, |s| s.insert_queue_bytes = 4 * MIB + 512 * KIB);
    let (volume, meter) = (bed.volume.clone(), bed.meter.clone());
    bed.sim.run(async move {
        for at in (0..32 * MIB).step_by(2 << 20) {
            drop(volume.read(at, 2 * MIB).await.unwrap());
        }
        assert!(volume.cache().status().engine.fills_dropped > 0);
        assert_eq!(meter.bytes(), 4 * MIB);
    });
}

#[test]
fn misses_keep_nothing_of_the_gaps_that_they_were_read_with() {
    let bed = unread(2 * MIB, |s| s.manager.extent_bytes = 8192);
    bed.work();
    let (volume, meter) = (bed.volume.clone(), bed.meter.clone());
    bed.sim.run(async move {
        volume.read(8 * KIB, 8 * KIB).await.unwrap();
        volume.cache().settled().await;
        volume.cache().sync().await.unwrap();
        let before = meter.bytes();
        assert!(volume.read(0, 24 * KIB).await.unwrap().concat() == noise(0, 2 * MIB)[..24 << 10]);
        assert_eq!(volume.counters().origin_gap_bytes, 8 * KIB);
        assert_eq!(meter.bytes(), before, "what waits for insertion keeps what was read");
    });
}

#[test]
fn a_slow_client_keeps_no_more_than_its_reply_of_a_large_request() {
    let bed = unread(4 * MIB, |_| {});
    let volume = bed.volume.clone();
    let reply = bed.sim.run(async move {
        drop(volume.read(0, 2 * MIB).await.unwrap());
        volume.read(MIB, 8 * KIB).await.unwrap()
    });
    assert_eq!(bed.volume.cache().status().engine.pending_hits, 1);
    bed.work();
    let (cache, clock) = (bed.volume.cache().clone(), bed.sim.clock.clone());
    bed.sim.run(async move {
        cache.settled().await;
        // The worker has the last extent in its hands until it looks for another.
        clock.sleep(Duration::from_millis(1)).await;
    });
    assert!(reply.concat() == noise(0, 2 * MIB)[MIB as usize..][..8 << 10]);
    assert_eq!(bed.meter.bytes(), 0);
}

#[test]
fn the_ram_cache_keeps_extents_and_not_what_they_were_read_with() {
    let bed = bed(8 * MIB, WriteMode::WriteThrough, |s| {
        s.manager.extent_bytes = 4096;
        s.manager.streams.threshold_bytes = 0;
        s.ram_cache_bytes = MIB;
    });
    bed.work();
    let volume = bed.volume.clone();
    bed.sim.run(async move {
        volume.write(0, noise(5, 2 * MIB).into(), false).await.unwrap();
        volume.cache().settled().await;
        for at in (0..2 * MIB).step_by(64 << 10) {
            assert!(volume.read(at, 64 * KIB).await.unwrap().concat() == noise(5, 2 * MIB)[at as usize..][..64 << 10]);
        }
    });
    let status = bed.volume.cache().status();
    assert!(status.engine.ssd_reads > 0 && status.ram_cache_bytes > MIB / 2, "{status:?}");
    assert!(status.ram_cache_bytes <= MIB);
    assert_eq!(bed.meter.bytes(), 0, "parts of what was read together");
}

#[test]
fn what_is_left_of_sequential_reads_stays_within_the_ram_for_it() {
    let bed = bed(64 * MIB, WriteMode::WriteThrough, |s| s.readahead_ram_bytes = 4 * MIB);
    // Zeroes would keep nothing of what they were read with.
    bed.fill_origin();
    bed.work();
    let (volume, meter) = (bed.volume.clone(), bed.meter.clone());
    bed.sim.run(async move {
        for at in (0..64 * MIB).step_by(1 << 20) {
            drop(volume.read(at, MIB).await.unwrap());
            // All but one of its extents are forgotten.
            volume.write(at, BufMut::zeroed((MIB - 8 * KIB) as usize).freeze(), false).await.unwrap();
        }
        volume.cache().settled().await;
        assert!(volume.counters().bypassed_extents > 1000, "{:?}", volume.counters());
        assert!(meter.bytes() <= 5 * MIB, "{}", meter.bytes());
    });
    assert!(bed.meter.peak() <= 8 * MIB, "{}", bed.meter.peak());
}

#[test]
fn an_extent_that_is_written_to_all_the_time_is_destaged_by_its_age() {
    let bed = bed(MIB, WriteMode::WriteBack, |s| s.dirty_age = Duration::from_secs(10));
    bed.work();
    let (volume, clock) = (bed.volume.clone(), bed.sim.clock.clone());
    bed.sim.run(async move {
        for second in 0..40 {
            volume.write(0, noise(second, 8 * KIB).into(), false).await.unwrap();
            clock.sleep(Duration::from_secs(1)).await;
        }
        let destaged = volume.counters().destaged_extents;
        assert!((2..=5).contains(&destaged), "destaged {destaged} times in 40 s, at an age of 10 s");
    });
}

#[test]
fn an_origin_with_more_extents_than_have_numbers_is_refused() {
    let bed = bed(MIB, WriteMode::WriteThrough, |s| s.manager.extent_bytes = 4096);
    let cache = bed.volume.cache();
    assert!(cache.check_origin_size(1 << 60).is_ok());
    let refused = cache.check_origin_size((1 << 60) + 1).expect_err("refused");
    assert!(matches!(refused, Error::TooLarge { size_bytes_max, .. } if size_bytes_max == 1 << 60), "{refused}");
}

/// Polls a future to its end, without an executor; how often that takes.
fn polls<T>(future: impl Future<Output = T>) -> (usize, T) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for count in 1.. {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return (count, result);
        }
    }
    unreachable!("it would not end")
}

#[test]
fn requests_over_huge_ranges_let_others_run() {
    let clock = VirtualTime::default();
    let manager = Settings { weu_bytes: 512 << 10, extent_bytes: 4096, ..Settings::new(16 << 20) };
    let flash = Erased::new(RamDevice::new(20 * MIB, 512));
    let cache = polls(Cache::format(flash, clock, EngineSettings::new(manager), [0; 16], 5)).1.unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    let volume = Volume::new(cache, Erased::new(RamDevice::new(4 << 30, 512)), options);
    let turns = ((4u64 << 30) / 4096 / 2048) as usize;
    let (count, runs) = polls(volume.cached_runs(0, 4 << 30));
    assert!(count >= turns && runs.unwrap().len() == 1, "{count} polls");
}

nitro_port::plain_origin!(<D: Device> Counting<D>);
