//! What insertion writes to the SSD, and how much of it is not data.

use crate::any::Erased;
use nitro_device::RamDevice;
use nitro_engine::format::crc32c;
use nitro_engine::format::stored::{Place, payload_range};
use nitro_engine::format::weu::Head;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use nitro_port::codec::Compression;
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;

/// An extent of random words: only the bits of `mask` are random, so that LZ4 has something to do.
fn extent(extent_bytes: usize, seed: u64, mask: u64) -> bytes::Bytes {
    let mut rng = nitro_testkit::Rng::new(seed);
    let mut out = BufMut::with_len(extent_bytes);
    out.chunks_mut(8).for_each(|w| w.copy_from_slice(&(rng.next() & mask).to_le_bytes()));
    out.freeze()
}

/// Bytes written to the SSD per stored byte, for `count` extents; what is on the SSD and what is read back is checked.
fn insert(extent_bytes: usize, count: u64, content: impl Fn(u64) -> bytes::Bytes + Copy + 'static) -> f64 {
    let sim = Simulation::new(1);
    let manager = Settings { extent_bytes: extent_bytes as u32, ..Settings::new(32 << 20) };
    let settings = EngineSettings { compression: Compression::Lz4, ram_cache_bytes: 0, ..EngineSettings::new(manager) };
    let cache = sim
        .run(Cache::format(Erased::new(RamDevice::new(64 << 20, 512)), sim.clock.clone(), settings, [1; 16], 9))
        .unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    let volume: std::sync::Arc<Volume<_, _, VirtualTime>> =
        Volume::new(cache.clone(), Erased::new(RamDevice::new(64 << 20, 512)), options);
    let worker = cache.clone();
    sim.spawn(async move { worker.insertion_worker().await });
    let client = volume.clone();
    sim.run(async move {
        for n in 0..count {
            client.write(n * extent_bytes as u64, content(n), false).await.unwrap();
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
    assert!(metrics.ssd_written_payload_bytes > 10 << 20);
    assert_eq!(metrics.fills_dropped, 0);
    check_slot(&sim.run({
        let cache = cache.clone();
        async move {
            let superblock = Cache::<Erased, VirtualTime>::probe(cache.flash()).await.unwrap();
            cache.flash().read(superblock.data_offset, 2 << 20).await.unwrap()
        }
    }));
    let client = volume.clone();
    sim.run(async move { check_reads(&client, extent_bytes as u64, count, content).await });
    written as f64 / metrics.ssd_written_payload_bytes as f64
}

/// Every entry's checksum is that of the bytes where the entry says.
fn check_slot(slot: &[u8]) {
    let head = Head::decode(slot, 2 << 20).unwrap();
    let entries = head.decode_table(&slot[head.table_offset as usize..], 2 << 20).unwrap();
    assert!(entries.len() > 8 && entries.iter().all(|e| e.fingerprint.is_some()));
    for entry in entries {
        let place = Place {
            epoch: head.epoch,
            start: head.start,
            weu: head.weu,
            generation: head.generation,
            offset: entry.offset,
        };
        let stored = &slot[entry.offset as usize..][..entry.stored_bytes as usize];
        let payload = if entry.raw { stored } else { &stored[payload_range(&place, stored).unwrap().1] };
        assert_eq!(place.mix(crc32c(payload)), entry.checksum, "{entry:?}");
    }
}

/// Long reads meet both ends of the WEUs; no extent may have become unreadable.
async fn check_reads(
    volume: &Volume<Erased, Erased, VirtualTime>,
    extent_bytes: u64,
    count: u64,
    content: impl Fn(u64) -> bytes::Bytes,
) {
    let at_once = (512 << 10) / extent_bytes;
    for first in (0..count).step_by(at_once as usize) {
        let extents = first..count.min(first + at_once);
        let pieces = volume.read(first * extent_bytes, (extents.end - first) * extent_bytes).await.unwrap();
        let expected: Vec<u8> = extents.flat_map(|n| content(n).to_vec()).collect();
        assert!(pieces.concat() == expected, "extents from {first} on");
    }
    let metrics = volume.cache().status().engine;
    assert_eq!((metrics.corrupt_extents, metrics.outrun_reads), (0, 0));
    assert!(metrics.ssd_reads > 0 && metrics.ssd_reads < count, "neighbours are read together");
}

#[test]
fn at_most_three_percent_of_ssd_writes_are_not_payload() {
    const SHRINKS: u64 = 0xFF00_00FF_0000_00FF;
    check("8 KiB, raw", 8192, 3000, |_| u64::MAX);
    check("8 KiB, packed", 8192, 6000, |_| SHRINKS);
    check("8 KiB, both", 8192, 3000, |n| if n % 5 < 2 { SHRINKS } else { u64::MAX });
    check("128 KiB, both", 128 << 10, 200, |n| if n % 3 == 0 { SHRINKS } else { u64::MAX });
}

fn check(name: &str, extent_bytes: usize, count: u64, mask: fn(u64) -> u64) {
    let factor = insert(extent_bytes, count, move |n| extent(extent_bytes, n, mask(n)));
    println!("{factor:.4} bytes written per stored byte: {name}");
    assert!(factor <= 1.03, "{name}: {factor}");
}
