//! Insertion on one core with deduplication and compression, against the limit of hashing and compressing alone.

use crate::load::{EXTENT, Failure, extents_of, thread_cpu_time};
use nitro_device::{CompioClock, RamDevice, Reactor, spawn_local};
use nitro_engine::manager::{ObjectId, Settings};
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions};
use std::path::Path;
use std::time::Duration;

fn mb_per_second(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// Inserts all extents of `data` twice (the second time as duplicates of nothing: another cache) and hashes and
/// compresses the same extents bare, in turn; prints both rates and their ratio.
pub fn run(data: &Path) -> Result<(), Failure> {
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
        let ours = Reactor::new()?.block_on(async {
            let manager = Settings::new(1 << 30);
            let settings = EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(manager) };
            let flash = RamDevice::new((1 << 30) + (4 << 20), 512);
            let cache = Cache::format(flash, CompioClock::new(), settings, [1; 16], 1).await?;
            let worker = cache.clone();
            spawn_local(async move { worker.insertion_worker().await });
            let origin = RamDevice::new(bytes as u64, 512);
            let volume = Volume::new(cache.clone(), origin, VolumeOptions { object: ObjectId(0), read_only: false });
            let begun = thread_cpu_time();
            for (n, extent) in extents.iter().enumerate() {
                volume.write((n * EXTENT) as u64, extent.clone(), false).await?;
                if n % 64 == 63 {
                    cache.settled().await;
                }
            }
            cache.settled().await;
            let time = thread_cpu_time() - begun;
            let stats = cache.status().manager;
            assert_eq!(stats.insertions as usize, extents.len());
            Ok::<_, Failure>(mb_per_second(stats.inserted_bytes as usize, time))
        })?;
        println!("insert mb_per_second={ours:.0} limit_mb_per_second={limit:.0} ratio={:.3}", ours / limit);
    }
    Ok(())
}
