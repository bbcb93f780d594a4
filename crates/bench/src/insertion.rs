//! Insertion on one core with deduplication and compression, compared with hashing and compression alone.

use crate::load::{EXTENT, Failure, extents_of, mb_per_second, thread_cpu_time};
use bytes::Bytes;
use nitro_device::{CompioClock, FileDevice, FileOptions, RamDevice, Reactor, spawn_thread};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_units::ObjectId;
use std::path::Path;
use std::time::Duration;

/// Hashes and compresses all extents of `data` alone, and inserts them into a new cache in `file`; prints both rates
/// and their ratio. Insertion has its own thread, as in the server; the CPU time of that thread is measured.
pub fn run(data: &Path, file: &Path) -> Result<(), Failure> {
    let extents = extents_of(data)?;
    let bytes = extents.len() * EXTENT;
    for _ in 0..3 {
        let begun = thread_cpu_time();
        let mut out = vec![0; lz4::block::compress_bound(EXTENT)?];
        for extent in &extents {
            std::hint::black_box(blake3::hash(extent));
            std::hint::black_box(lz4::block::compress_to_buffer(extent, None, false, &mut out)?);
        }
        let limit = mb_per_second(bytes, thread_cpu_time() - begun);
        let ours = mb_per_second(bytes, insert(&extents, file)?);
        println!("insert mb_per_second={ours:.0} limit_mb_per_second={limit:.0} ratio={:.3}", ours / limit);
    }
    Ok(())
}

/// The CPU time of the insertion thread for all extents.
fn insert(extents: &[Bytes], file: &Path) -> Result<Duration, Failure> {
    let settings = EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(Settings::new(1 << 30)) };
    let _ = std::fs::remove_file(file);
    let flash =
        FileOptions::new(file).create((1 << 30) + Cache::<FileDevice, CompioClock>::overhead_bytes(&settings))?;
    let time = Reactor::new()?.block_on(async {
        let cache = Cache::format(flash, CompioClock::new(), settings, [1; 16], 1).await?;
        let worker = cache.clone();
        let thread = spawn_thread("insert", move || async move {
            let begun = thread_cpu_time();
            worker.insertion_worker().await;
            thread_cpu_time() - begun
        })?;
        let origin = RamDevice::new((extents.len() * EXTENT) as u64, 512);
        let volume = Volume::new(
            cache.clone(),
            origin,
            VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough },
        );
        for (n, extent) in extents.iter().enumerate() {
            volume.write((n * EXTENT) as u64, extent.clone(), false).await?;
            if n % 1024 == 1023 {
                cache.settled().await;
            }
        }
        cache.settled().await;
        cache.close();
        assert_eq!(cache.status().manager.insertions as usize, extents.len(), "no fill may be dropped");
        Ok::<_, Failure>(thread.join())
    })?;
    std::fs::remove_file(file)?;
    time.map_err(|_| "the insertion thread panicked".into())
}
