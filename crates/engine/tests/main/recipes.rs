//! Origins that know by fingerprint what they hold.

use crate::simulation::{SimClock, Simulation};
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::buf::is_zero;
use nitro_engine::codec::FingerprintHash;
use nitro_engine::manager::{ObjectId, Settings};
use nitro_engine::port::{Device, DeviceError, Geometry, Recipe};
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use std::rc::Rc;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A device that tells what it holds.
struct Known(RamDevice);

impl Device for Known {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        Some(8192)
    }

    async fn recipe(&self, offset: u64, len: u64) -> Result<Recipe, DeviceError> {
        let bytes = self.0.read(offset, len as usize).await?;
        Ok(bytes.chunks(8192).map(|c| (!is_zero(c)).then(|| FingerprintHash::Blake3.of(c))).collect())
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.0.read(offset, len).await
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

fn extent(number: u64) -> Vec<u8> {
    let mut state = number | 1;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    (0..8192).map(word).collect()
}

#[test]
fn what_another_volume_has_cached_needs_no_read_of_the_origin() {
    let sim: Rc<Simulation> = Simulation::new(3);
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(16 << 20) };
    let engine = EngineSettings { ram_cache_bytes: 0, ..EngineSettings::new(manager) };
    let flash = RamDevice::new(engine.manager.cache_bytes + MIB, 512);
    let cache = sim.run(Cache::format(flash, sim.clock.clone(), engine, [0; 16], 5)).unwrap();
    let volume = |object| {
        let options = VolumeOptions { object: ObjectId(object), read_only: false, mode: WriteMode::WriteThrough };
        Volume::new(Arc::clone(&cache), Known(RamDevice::new(MIB, 512)), options)
    };
    let (one, other): (Arc<Volume<RamDevice, Known, SimClock>>, _) = (volume(0), volume(1));
    let inserting = Arc::clone(&cache);
    sim.spawn(async move { inserting.insertion_worker().await });
    sim.run(async move {
        for i in 0..32 {
            one.origin().write(i * 8 * KIB, extent(i).into()).await.unwrap();
            // The same; every fourth is another, or a hole.
            let number = if i % 4 == 3 { 1000 + i } else { i };
            let content = if i % 8 == 7 { vec![0; 8192] } else { extent(number) };
            other.origin().write(i * 8 * KIB, content.into()).await.unwrap();
        }
        one.read(0, 256 * KIB).await.unwrap();
        cache.settled().await;
        let read = other.read(0, 256 * KIB).await.unwrap().concat();
        for (i, found) in (0..32).zip(read.chunks(8192)) {
            let wanted = match i {
                _ if i % 8 == 7 => vec![0; 8192],
                _ if i % 4 == 3 => extent(1000 + i),
                _ => extent(i),
            };
            assert!(found == wanted, "extent {i}");
        }
        let counters = other.counters();
        assert_eq!(counters.recipe_hit_extents, 28);
        assert_eq!(counters.origin_read_bytes, 4 * 8 * KIB);
        // What is written is read, whatever the recipe had told.
        other.write(0, vec![5; 8192].into(), false).await.unwrap();
        assert!(other.read(0, 8 * KIB).await.unwrap().concat() == vec![5; 8192]);
        cache.settled().await;
        assert!(other.read(0, 8 * KIB).await.unwrap().concat() == vec![5; 8192]);
    });
}
