//! How the cache's cost grows with its size: `nitro-bench scale FILE EXTENTS...`.
//!
//! For each number of extents, the cache manager, with each kind of index, is filled with extents that compress to half, at random in
//! a volume of one TiB, each with its own content. Printed
//! are its RAM (the growth of the process's resident memory), the time of a look-up and of an insertion, and the longest call
//! while units are evicted, which is the longest time that the manager is locked. Up to [`RESTARTED_MAX`] extents, a cache of them
//! in FILE is opened again; the first answer and the end of the restart are timed.

use crate::load::{EXTENT, Failure, Rng};
use bytes::Bytes;
use nitro_device::{CompioClock, FileDevice, FileOptions, Reactor, spawn_local, spawn_thread};
use nitro_engine::manager::weu::Stored;
use nitro_engine::manager::{Append, CacheManager, IndexKind, Settings};
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, DeviceError, Geometry};
use nitro_units::{ExtentIndex, ExtentKey, Fingerprint, ObjectId, WeuId};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of a stored extent in the manager.
const STORED_BYTES: u32 = 4000;
/// Look-ups that are timed.
const LOOKUPS: u64 = 2_000_000;
/// A cache of more extents is not opened again: its file would not fit.
const RESTARTED_MAX: u64 = 10_000_000;

/// Measures each number of extents. Each manager has a process of its own: memory that was freed is not new.
pub fn run(file: &Path, sizes: &[&str]) -> Result<(), Failure> {
    let sizes: Vec<u64> = sizes.iter().map(|size| size.parse()).collect::<Result<_, _>>()?;
    let program = std::env::current_exe()?;
    for extents in &sizes {
        for index in IndexKind::ALL {
            let arguments = ["scale-one".to_owned(), index.to_string(), extents.to_string()];
            if !Command::new(&program).args(arguments).status()?.success() {
                return Err(format!("scale-one {index} {extents} failed").into());
            }
        }
    }
    for extents in sizes.into_iter().filter(|extents| *extents <= RESTARTED_MAX) {
        restart(file, extents)?;
    }
    Ok(())
}

fn key(object: u16, number: u64) -> ExtentKey {
    // An odd factor: no two are alike.
    ExtentKey::new(ObjectId(object), ExtentIndex(number.wrapping_mul(0x5851_F42D_4C95_7F2D) % (1 << 27)))
}

fn fingerprint(content: u64) -> Fingerprint {
    let (mut bytes, mut rng) = ([0; 20], Rng(content));
    bytes.chunks_mut(4).for_each(|part| part.copy_from_slice(&(rng.below(1 << 32) as u32).to_le_bytes()));
    Fingerprint(bytes)
}

/// Resident memory of this process in bytes.
fn resident() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? << 10)
}

/// A manager that is filled, with the longest call of it.
struct Filled {
    manager: CacheManager,
    open: Option<WeuId>,
    longest: Duration,
    is_timed: bool,
}

impl Filled {
    /// Calls the manager, which is locked so long.
    fn call<T>(&mut self, call: impl FnOnce(&mut CacheManager) -> T) -> T {
        if !self.is_timed {
            return call(&mut self.manager);
        }
        let begun = Instant::now();
        let result = call(&mut self.manager);
        self.longest = self.longest.max(begun.elapsed());
        result
    }

    /// A unit with room; others are evicted for it, in the steps in which the server does it.
    fn open(&mut self) -> Result<WeuId, Failure> {
        if let Some(weu) = self.open {
            return Ok(weu);
        }
        while self.manager.wants_eviction()
            && let Some(evicted) = self.call(|manager| manager.begin_eviction(false))
        {
            while self.call(|manager| manager.evict_step(evicted.weu)) {}
        }
        while self.call(CacheManager::clean_step) {}
        let (weu, _) = self.call(CacheManager::open_weu).ok_or("no unit is free")?;
        self.open = Some(weu);
        Ok(weu)
    }

    fn insert(&mut self, number: u64) -> Result<(), Failure> {
        let fingerprint = fingerprint(number);
        loop {
            let weu = self.open()?;
            let stored = Stored::Packed(STORED_BYTES);
            match self.call(|manager| manager.append(weu, key(1, number), Some(&fingerprint), stored)) {
                Append::At(_) => return Ok(()),
                Append::Full => {
                    self.open = None;
                    self.call(|manager| {
                        manager.seal(weu);
                        manager.stored(weu);
                    });
                }
            }
        }
    }
}

fn nanoseconds(begun: Instant, count: u64) -> f64 {
    begun.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// Measures a manager with an index of this kind.
pub fn manager(index: &str, extents: &str) -> Result<(), Failure> {
    let (index, extents): (IndexKind, u64) = (index.parse()?, extents.parse()?);
    let before = resident()?;
    let settings = Settings { index, ..Settings::new(extents * u64::from(STORED_BYTES) * 102 / 100) };
    let manager = CacheManager::new(settings)?;
    let mut filled = Filled { manager, open: None, longest: Duration::ZERO, is_timed: false };
    let begun = Instant::now();
    for number in 0..extents {
        filled.insert(number)?;
    }
    let insert_ns = nanoseconds(begun, extents);
    let cached = filled.manager.stats().cached_extents;
    let ram = (resident()? - before) as f64 / cached as f64;
    // Extents of a full cache by chance, and ones that it never had.
    let mut lookup = |object: u16| {
        let (mut rng, begun) = (Rng(extents), Instant::now());
        for _ in 0..LOOKUPS {
            black_box(filled.manager.lookup(key(object, rng.below(extents))));
        }
        nanoseconds(begun, LOOKUPS)
    };
    let hit_ns = lookup(1);
    let miss_ns = lookup(2);
    filled.is_timed = true;
    for number in extents..extents + (extents / 4).min(2_000_000) {
        filled.insert(number)?;
    }
    println!(
        "{} extents={cached} ram_bytes={ram:.1} insert_ns={insert_ns:.0} hit_ns={hit_ns:.0} miss_ns={miss_ns:.0} \
         longest_us={:.0}",
        if index == IndexKind::Lean { "scale-lean" } else { "scale" },
        filled.longest.as_secs_f64() * 1e6
    );
    Ok(())
}

/// Extents of which little is left when they are compressed, and no two are alike.
fn content(offset: u64, len: usize) -> Bytes {
    let mut data = BufMut::zeroed(len);
    for (extent, at) in data.chunks_mut(EXTENT).zip((offset..).step_by(EXTENT)) {
        let mut rng = Rng(at);
        for word in extent.chunks_exact_mut(8).take(16) {
            word.copy_from_slice(&rng.below(u64::MAX).to_le_bytes());
        }
    }
    data.freeze()
}

/// An origin that computes its contents, so that its size takes no memory. What is written to it is not kept.
struct Computed {
    size_bytes: u64,
}

nitro_port::plain_origin!(Computed);

impl Device for Computed {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes, block_bytes: 512, preferred_bytes: 1 << 20, rotational: false }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        Ok(content(offset, len))
    }

    async fn write(&self, _offset: u64, _data: Bytes) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, _offset: u64, _len: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn write_zeroes(&self, _offset: u64, _len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A cache of small extents, closed and opened again.
fn restart(file: &Path, extents: u64) -> Result<(), Failure> {
    // A unit holds at most eight times the extents that fit into it uncompressed.
    let settings = Settings::new((extents * EXTENT as u64 / 8 * 102 / 100).max(64 << 20));
    let settings = EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(settings) };
    let origin = || Computed { size_bytes: extents * EXTENT as u64 };
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    let _ = std::fs::remove_file(file);
    Reactor::new()?.block_on(async {
        let bytes = settings.manager.cache_bytes + Cache::<FileDevice, CompioClock>::overhead_bytes(&settings);
        let flash = FileOptions::new(file).create(bytes)?;
        let cache = Cache::format(flash, CompioClock::new(), settings, [1; 16], 1).await?;
        let (worker, journal) = (cache.clone(), cache.clone());
        let thread = spawn_thread("insert", move || async move { worker.insertion_worker().await })?;
        spawn_local(async move { journal.journal_worker().await });
        let volume = Volume::new(cache.clone(), origin(), options);
        for number in 0..extents {
            let at = number * EXTENT as u64;
            volume.write(at, content(at, EXTENT), false).await?;
            if number % 1024 == 1023 {
                cache.settled().await;
            }
        }
        cache.settled().await;
        volume.close_regions(true).await?;
        cache.close();
        cache.sync().await.ok();
        thread.join().map_err(|_| "the insertion thread panicked")?;
        Ok::<_, Failure>(())
    })?;
    Reactor::new()?.block_on(async {
        let flash = FileOptions::new(file).open()?;
        let begun = Instant::now();
        let (cache, _) = Cache::open(flash, CompioClock::new(), settings).await?;
        let volume = Volume::new(cache.clone(), origin(), options);
        drop(volume.read(0, EXTENT as u64).await?);
        let first = begun.elapsed();
        let journal = cache.clone();
        spawn_local(async move { journal.journal_worker().await });
        while cache.is_restoring() {
            CompioClock::new().sleep(Duration::from_millis(5)).await;
        }
        println!(
            "restart-{extents} extents={} first_answer_ms={:.0} all_back_ms={:.0}",
            cache.status().manager.cached_extents,
            first.as_secs_f64() * 1e3,
            begun.elapsed().as_secs_f64() * 1e3
        );
        Ok::<_, Failure>(())
    })?;
    std::fs::remove_file(file)?;
    Ok(())
}
