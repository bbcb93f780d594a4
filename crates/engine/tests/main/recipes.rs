//! Origins that know by fingerprint what they hold.

use crate::any::Erased;
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, DedupDomain, EngineSettings, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::buf::is_zero;
use nitro_port::codec::FingerprintHash;
use nitro_port::{Device, DeviceError, Geometry, Origin, Recipe, Urgency, read_each};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::{Fingerprint, ObjectId};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A device that tells what it holds, and checks and counts what it is told.
struct Known {
    ram: RamDevice,
    known: AtomicUsize,
    unknown: AtomicUsize,
}

impl Device for Known {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.ram.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.unknown.fetch_add(data.len().div_ceil(8192), SeqCst);
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

impl Origin for Known {
    fn keeps_writes(&self) -> bool {
        true
    }

    fn unit_bytes(&self) -> Option<u32> {
        None
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        Some(8192)
    }

    async fn recipe(&self, offset: u64, len: u64) -> Result<Recipe, DeviceError> {
        let bytes = self.ram.read(offset, len as usize).await?;
        Ok(bytes.chunks(8192).map(|c| (!is_zero(c)).then(|| FingerprintHash::Blake3.of(c))).collect())
    }

    async fn write_known(&self, offset: u64, data: Bytes, known: &[Option<Fingerprint>]) -> Result<(), DeviceError> {
        let last = offset + data.len() as u64;
        assert_eq!(known.len() as u64, last.div_ceil(8192) - offset / 8192);
        for (index, known) in (offset / 8192..).zip(known) {
            match known {
                Some(known) => {
                    let from = (index * 8192 - offset) as usize;
                    assert_eq!(*known, FingerprintHash::Blake3.of(&data[from..from + 8192]));
                    self.known.fetch_add(1, SeqCst);
                }
                None => drop(self.unknown.fetch_add(1, SeqCst)),
            }
        }
        self.ram.write(offset, data).await
    }

    fn reads_parts(&self) -> bool {
        true
    }

    async fn read_parts(&self, urgency: Urgency, parts: &[Range<u64>]) -> Result<Vec<Bytes>, DeviceError> {
        read_each(self, urgency, parts).await
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

type TestCache = Arc<Cache<Erased, VirtualTime>>;

fn cache(sim: &Rc<Simulation>) -> TestCache {
    cache_with(sim, false)
}

fn cache_with(sim: &Rc<Simulation>, verify_duplicates: bool) -> TestCache {
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(16 << 20) };
    let engine = EngineSettings { ram_cache_bytes: 0, verify_duplicates, ..EngineSettings::new(manager) };
    let flash = Erased::new(RamDevice::new(engine.manager.cache_bytes + 4 * MIB, 512));
    let cache = sim.run(Cache::format(flash, sim.clock.clone(), engine, [0; 16], 5)).unwrap();
    let inserting = Arc::clone(&cache);
    sim.spawn(async move { inserting.insertion_worker().await });
    cache
}

fn volume(cache: &TestCache, object: u16, mode: WriteMode) -> Arc<Volume<Erased, Erased, VirtualTime>> {
    let options = VolumeOptions { object: ObjectId(object), read_only: false, mode };
    let (known, unknown) = Default::default();
    Volume::new(Arc::clone(cache), Erased::new(Known { ram: RamDevice::new(MIB, 512), known, unknown }), options)
}

#[test]
fn what_another_volume_has_cached_needs_no_read_of_the_origin() {
    let sim: Rc<Simulation> = Simulation::new(3);
    let cache = cache(&sim);
    let [one, other] = [0, 1].map(|object| volume(&cache, object, WriteMode::WriteThrough));
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

#[test]
fn a_recipe_finds_what_its_own_domain_has_cached() {
    for (domain, verify_duplicates, hits) in [("red", false, 8), ("blue", false, 0), ("red", true, 0)] {
        let sim: Rc<Simulation> = Simulation::new(5);
        let cache = cache_with(&sim, verify_duplicates);
        for (number, domain) in [(0, "red"), (1, domain)] {
            let (name, domain) = (format!("v{number}"), DedupDomain::named(domain));
            let entry = VolumeEntry { name, origin_bytes: MIB, stamp: [0; 16], mode: 0, domain, identity: Vec::new() };
            assert_eq!(cache.remember_volume(entry), Some(ObjectId(number)));
        }
        let [one, other] = [0, 1].map(|object| volume(&cache, object, WriteMode::WriteThrough));
        sim.run(async move {
            for (volume, i) in [&one, &other].into_iter().flat_map(|volume| (0..8).map(move |i| (volume, i))) {
                volume.origin().write(i * 8 * KIB, extent(i).into()).await.unwrap();
            }
            one.read(0, 64 * KIB).await.unwrap();
            cache.settled().await;
            let expected: Vec<u8> = (0..8).flat_map(extent).collect();
            assert!(other.read(0, 64 * KIB).await.unwrap().concat() == expected);
            assert_eq!(other.counters().recipe_hit_extents, hits, "{domain}, verified: {verify_duplicates}");
        });
    }
}

#[test]
fn what_was_hashed_for_the_cache_is_not_hashed_for_the_origin() {
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let sim: Rc<Simulation> = Simulation::new(4);
        let cache = cache(&sim);
        let volume = volume(&cache, 0, mode);
        let destaging = Arc::clone(&volume);
        sim.spawn(async move { destaging.destage_worker().await });
        sim.run(async move {
            let all: Vec<u8> = (0..16).flat_map(extent).collect();
            volume.write(0, all.into(), true).await.unwrap();
            // An end of one extent, one whole, another's beginning; zeroes; one again.
            let middle: Vec<u8> = (100..103).flat_map(extent).collect();
            volume.write(20 * KIB, middle[..16 * KIB as usize].to_vec().into(), true).await.unwrap();
            volume.write(64 * KIB, vec![0; 8192].into(), true).await.unwrap();
            volume.write(72 * KIB, extent(200).into(), true).await.unwrap();
            cache.settled().await;
            volume.destage_all().await.unwrap();
            let counts = [&volume.origin().of::<Known>().known, &volume.origin().of::<Known>().unknown]
                .map(|count| count.load(SeqCst));
            let expected = match mode {
                // 16, one and one; two ends and zeroes.
                WriteMode::WriteThrough => [18, 3],
                WriteMode::WriteBack => [16, 0],
            };
            assert_eq!(counts, expected, "{mode:?}");
            let origin = volume.origin().of::<Known>().ram.read(0, 128 << 10).await.unwrap();
            let read = volume.read(0, 128 * KIB).await.unwrap().concat();
            assert!(read == origin, "{mode:?}");
            assert!(read[72 << 10..][..8192] == extent(200) && read[64 << 10..][..8192] == [0; 8192]);
        });
    }
}
