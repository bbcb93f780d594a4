//! Real threads: every extent has one writer, which counts up; readers everywhere must see at least what was acknowledged
//! before they asked, and at most what had been begun when they were answered.

use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::manager::pattern::StreamSettings;
use nitro_engine::{Cache, EngineSettings, NoIndex, Volume, VolumeOptions, WriteMode};
use nitro_port::Clock;
use nitro_port::buf::BufMut;
use nitro_testkit::Rng;
use nitro_units::ObjectId;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 1500;
const THREADS: u64 = 4;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

type TestVolume = Volume<RamDevice, RamDevice, WallClock>;

/// Versions begun and acknowledged, by extent.
struct Versions {
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
}

/// The version, and noise that does not shrink.
fn content(version: u64, extent: u64) -> bytes::Bytes {
    let mut noise = Rng::new(version << 20 | extent);
    let mut bytes = BufMut::with_len(EXTENT as usize);
    bytes.chunks_exact_mut(8).for_each(|w| w.copy_from_slice(&noise.next().to_le_bytes()));
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes.freeze()
}

fn write(volume: &TestVolume, versions: &Versions, extent: u64) {
    let at = extent as usize;
    let version = versions.begun[at].fetch_add(1, Ordering::SeqCst) + 1;
    block_on(volume.write(extent * EXTENT, content(version, extent), false)).unwrap();
    versions.done[at].store(version, Ordering::SeqCst);
}

fn read(volume: &TestVolume, versions: &Versions, first: u64, count: u64) {
    let extents = first..(first + count).min(EXTENTS);
    let least: Vec<u64> = extents.clone().map(|e| versions.done[e as usize].load(Ordering::SeqCst)).collect();
    let (offset, len) = (first * EXTENT, (extents.end - first) * EXTENT);
    let pieces = match volume.try_read(offset, len) {
        Some(pieces) => pieces,
        None => block_on(volume.read(offset, len)).unwrap(),
    };
    for (extent, (bytes, least)) in extents.zip(pieces.concat().chunks(EXTENT as usize).zip(least)) {
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let most = versions.begun[extent as usize].load(Ordering::SeqCst);
        assert!((least..=most).contains(&version), "extent {extent}: version {version}, not {least} to {most}");
    }
}

fn client(volume: &TestVolume, versions: &Versions, thread: u64, stop: &AtomicBool) {
    let mut rng = Rng::new(thread);
    while !stop.load(Ordering::Relaxed) {
        // A few hot extents that all threads read and one writes, so that reads and writes meet.
        let extent = if rng.one_in(2) { rng.below(40) } else { rng.below(EXTENTS) };
        match rng.below(8) {
            0..3 => write(volume, versions, extent / THREADS * THREADS + thread),
            3..7 => read(volume, versions, extent, 1 + rng.below(4)),
            _ => (0..6).for_each(|n| read(volume, versions, (extent + n * 8).min(EXTENTS - 1), 8)),
        }
    }
}

#[test]
fn threads_never_see_what_was_overwritten() {
    let manager = Settings {
        weu_bytes: 512 << 10,
        streams: StreamSettings { threshold_bytes: 128 << 10, ..StreamSettings::default() },
        ..Settings::new(8 << 20)
    };
    let settings =
        EngineSettings { ram_cache_bytes: 2 << 20, readahead_ram_bytes: 1 << 20, ..EngineSettings::new(manager) };
    let flash = RamDevice::new(12 << 20, 512);
    let cache = block_on(Cache::format(flash, WallClock(Instant::now()), settings, [0; 16], 7)).unwrap();
    let origin = RamDevice::new(EXTENTS * EXTENT, 512);
    let volume = Volume::new(
        cache.clone(),
        origin,
        VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough },
    );
    let new = || (0..EXTENTS + THREADS).map(|_| AtomicU64::new(0)).collect();
    let (versions, stop) = (Versions { begun: new(), done: new() }, AtomicBool::new(false));
    let seconds = if std::env::var("NITRO_SEEDS").is_ok() { 60 } else { 4 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| block_on(cache.clean_insertion_worker(&NoIndex)));
        }
        scope.spawn(|| block_on(cache.dirty_insertion_worker()));
        let clients: Vec<_> = (0..THREADS)
            .map(|t| {
                scope.spawn({
                    let (volume, versions, stop) = (&volume, &versions, &stop);
                    move || client(volume, versions, t, stop)
                })
            })
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(seconds) && !clients.iter().any(|c| c.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        let results: Vec<_> = clients.into_iter().map(|c| c.join()).collect();
        cache.close();
        assert!(results.iter().all(Result::is_ok), "a client saw something wrong");
    });
    let status = cache.status();
    assert!(status.manager.weus_evicted > 0 && status.engine.ram_hits > 0 && status.engine.fills_voided > 0);
    assert_eq!(status.engine.corrupt_extents, 0);
}
