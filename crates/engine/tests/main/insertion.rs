//! What insertion writes to the SSD, and how much of it is not data.

use crate::simulation::{SimClock, Simulation};
use nitro_device::RamDevice;
use nitro_engine::buf::BufMut;
use nitro_engine::codec::Compression;
use nitro_engine::format::weu::Head;
use nitro_engine::manager::{ObjectId, Settings};
use nitro_engine::port::Device;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions};

/// Extents of random words: `bits` of 32 are random, so that LZ4 has something to do.
fn extent(seed: u64, mask: u64) -> bytes::Bytes {
    let mut rng = crate::simulation::Rng::new(seed);
    let mut out = BufMut::with_len(8192);
    out.chunks_mut(8).for_each(|w| w.copy_from_slice(&(rng.next() & mask).to_le_bytes()));
    out.freeze()
}

#[test]
fn at_most_three_percent_of_ssd_writes_are_not_payload() {
    for (mask, compression) in [(u64::MAX, Compression::Lz4), (0xFF00_00FF_0000_00FF, Compression::Lz4)] {
        let sim = Simulation::new(1);
        let settings = EngineSettings { compression, ..EngineSettings::new(Settings::new(32 << 20)) };
        let flash = RamDevice::new(64 << 20, 512);
        let cache = sim.run(Cache::format(flash, sim.clock.clone(), settings, [1; 16], 9)).unwrap();
        let options = VolumeOptions { object: ObjectId(0), read_only: false };
        let volume: std::sync::Arc<Volume<_, _, SimClock>> =
            Volume::new(cache.clone(), RamDevice::new(64 << 20, 512), options);
        let worker = cache.clone();
        sim.spawn(async move { worker.insertion_worker().await });
        let client = volume.clone();
        sim.run(async move {
            for n in 0..6000u64 {
                client.write(n * 8192, extent(n, mask), false).await.unwrap();
                if n % 100 == 0 {
                    client.cache().settled().await;
                }
            }
            client.cache().settled().await;
        });
        let metrics = cache.status().engine;
        let written = metrics.ssd_written_payload_bytes
            + metrics.ssd_written_header_bytes
            + metrics.ssd_written_padding_bytes
            + metrics.ssd_written_superblock_bytes;
        let factor = written as f64 / metrics.ssd_written_payload_bytes as f64;
        println!(
            "{factor:.4} bytes written per stored byte, compression {}",
            cache.status().manager.compression_ratio()
        );
        assert!(factor <= 1.03 && metrics.ssd_written_payload_bytes > 10 << 20, "{factor}");
        assert_eq!(metrics.fills_dropped, 0);
        let slot = sim.run({
            let cache = cache.clone();
            async move { cache.flash().read(2 << 20, 2 << 20).await.unwrap() }
        });
        let head = Head::decode(&slot, 2 << 20).unwrap();
        let entries = head.decode_table(&slot[head.table_offset as usize..]).unwrap();
        assert!(entries.len() > 200 && entries.iter().all(|e| e.fingerprint.is_some()));
    }
}
