//! Duplicates that are verified, and domains of deduplication: contents that share a fingerprint stay apart, and so do volumes that are
//! to share nothing.
//!
//! The collisions are real ones: the prefixes of SHAttered (Stevens et al., "The first collision for full SHA-1", 2017, table 1), which
//! give any two extents that go on alike one SHA-1.

use crate::any::{Behind, Erased, Places, Slow, faulty, jittery};
use bytes::Bytes;
use futures_util::future::join;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::{IndexKind, Settings};
use nitro_engine::{Cache, DedupDomain, EngineSettings, NoIndex, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::codec::FingerprintHash;
use nitro_port::{Clock, Device as _, Operation};
use nitro_testkit::{Rng, Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub type TestCache = Arc<Cache<Erased, VirtualTime>>;
pub type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

pub const EXTENT: usize = 8192;
pub const EXTENTS: u64 = 96;

const PREFIX: &str = "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f4865696768742033203020\
     522f547970652034203020522f537562747970652035203020522f46696c7465722036203020522f436f6c6f7253706163652037203020522f4c656e677468203820\
     3020522f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d3120697320646561642121212121852fec092339759c39\
     b1a1c63c4c97e1fffe01";
const ENDS: [&str; 2] = [
    "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e972722fe7ad728f0e4904e046\
     c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda804\
     4629a1",
    "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3dc38e96ac22fe7bd728f0e45bce046\
     d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc\
     4629b1",
];

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// An extent of which there are two for each number, with one SHA-1.
fn extent(number: u64, which: usize) -> Bytes {
    let mut bytes = bytes_of(&[PREFIX, ENDS[which]].concat());
    let mut rng = Rng::new(number + 1);
    // Half of them shrink.
    let mask = if number.is_multiple_of(2) { u64::MAX } else { 0x0F };
    while bytes.len() < EXTENT {
        bytes.extend((rng.next() & mask).to_le_bytes());
    }
    bytes.into()
}

#[test]
fn the_contents_collide() {
    for number in 0..4 {
        let [one, other] = [0, 1].map(|which| extent(number, which));
        assert!(one != other && one.len() == EXTENT);
        assert_eq!(FingerprintHash::Sha1.of(&one), FingerprintHash::Sha1.of(&other));
    }
}

fn settings() -> EngineSettings {
    let manager = Settings { weu_bytes: 512 << 10, ..Settings::new(8 << 20) };
    EngineSettings {
        fingerprint_hash: FingerprintHash::Sha1,
        verify_duplicates: true,
        ram_cache_bytes: 0,
        readahead_ram_bytes: 0,
        ..EngineSettings::new(manager)
    }
}

fn flash_bytes(settings: &EngineSettings) -> u64 {
    Cache::<Erased, VirtualTime>::overhead_bytes(settings) + settings.manager.cache_bytes
}

pub fn format(sim: &Rc<Simulation>, settings: EngineSettings, on_flash: bool) -> TestCache {
    let flash = jittery(RamDevice::new(flash_bytes(&settings), 512), &sim.clock, 1, 100);
    format_on(sim, flash, settings, on_flash)
}

fn format_on(sim: &Rc<Simulation>, flash: Erased, settings: EngineSettings, on_flash: bool) -> TestCache {
    let cache = sim.run(Cache::format(flash, sim.clock.clone(), settings, [0; 16], 5)).unwrap();
    work(sim, &cache, on_flash);
    cache
}

fn work(sim: &Rc<Simulation>, cache: &TestCache, on_flash: bool) {
    let (inserting, journaling) = (cache.clone(), cache.clone());
    sim.spawn(async move { journaling.journal_worker().await });
    sim.spawn(async move {
        match on_flash {
            true => inserting.insertion_worker_with(&Places::default()).await,
            // With a second worker: what one prepares is appended after what the other one has appended meanwhile.
            false => drop(join(inserting.insertion_worker(), inserting.clean_insertion_worker(&NoIndex)).await),
        }
    });
}

pub fn open(sim: &Rc<Simulation>, cache: &TestCache, number: u64, mode: WriteMode, domain: DedupDomain) -> TestVolume {
    let origin_bytes = EXTENTS * EXTENT as u64;
    let name = format!("v{number}");
    let object = cache
        .remember_volume(VolumeEntry { name, origin_bytes, stamp: [0; 16], mode: 0, domain, identity: Vec::new() })
        .unwrap();
    let origin = jittery(RamDevice::new(origin_bytes, 512), &sim.clock, number + 7, 1000);
    let volume = Volume::new(cache.clone(), origin, VolumeOptions { object, read_only: false, mode });
    let destaging = volume.clone();
    sim.spawn(async move { destaging.destage_worker().await });
    volume
}

/// What each volume must hold, and how many reads returned something else.
#[derive(Default)]
struct Model {
    extents: HashMap<(usize, u64), Bytes>,
    wrong: u64,
}

impl Model {
    async fn check(&mut self, volumes: &[TestVolume], which: usize, index: u64) {
        let read = volumes[which].read(index * EXTENT as u64, EXTENT as u64).await.unwrap().concat();
        let wanted = self.extents.get(&(which, index)).cloned().unwrap_or_else(|| vec![0; EXTENT].into());
        self.wrong += u64::from(read != wanted);
    }
}

/// Random writes of contents that collide, checked by random reads; how many of these were wrong, and the cache.
fn exercise(settings: EngineSettings, mode: WriteMode, on_flash: bool, seed: u64) -> (u64, TestCache) {
    let sim = Simulation::new(seed);
    let cache = format(&sim, settings, on_flash);
    let volumes = [0, 1].map(|number| open(&sim, &cache, number, mode, DedupDomain::SHARED));
    let settled = cache.clone();
    let wrong = sim.run(async move {
        let (mut model, mut rng) = (Model::default(), Rng::new(seed));
        for step in 0..800 {
            let (which, index) = (rng.below(2) as usize, rng.below(EXTENTS));
            match rng.below(8) {
                0..4 => {
                    let content = extent(rng.below(24), rng.below(2) as usize);
                    model.extents.insert((which, index), content.clone());
                    volumes[which].write(index * EXTENT as u64, content, rng.one_in(20)).await.unwrap();
                }
                4 => {
                    let content = Bytes::from(vec![0; EXTENT]);
                    model.extents.insert((which, index), content.clone());
                    volumes[which].write(index * EXTENT as u64, content, false).await.unwrap();
                }
                5 => volumes[which].flush().await.unwrap(),
                _ => model.check(&volumes, which, index).await,
            }
            if step % 50 == 0 {
                settled.settled().await;
            }
        }
        settled.settled().await;
        for (which, index) in (0..2).flat_map(|which| (0..EXTENTS).map(move |index| (which, index))) {
            model.check(&volumes, which, index).await;
        }
        model.wrong
    });
    (wrong, cache)
}

#[test]
fn contents_that_collide_stay_apart_where_duplicates_are_verified() {
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let (exact, lean) = (IndexKind::Exact, IndexKind::Lean);
        for (index, on_flash, percent) in
            [(exact, false, 100), (exact, true, 100), (exact, true, 0), (lean, false, 100)]
        {
            for seed in 0..4 {
                let mut settings = settings();
                settings.manager.fingerprint_index_percent = percent;
                settings.manager.index = index;
                let (wrong, cache) = exercise(settings, mode, on_flash, seed);
                let (engine, manager) = (cache.status().engine, cache.status().manager);
                let what = format!("{mode:?}, {index}, index on flash {on_flash}, {percent} %, seed {seed}");
                assert_eq!(wrong, 0, "{what}: reads that were wrong");
                // With no index in RAM dirty extents find no duplicates.
                if mode == WriteMode::WriteThrough || percent > 0 {
                    assert!(engine.duplicate_mismatches > 0 && manager.duplicates > 0, "{what}: {engine:?}");
                    assert!(engine.duplicates_compared > engine.duplicate_mismatches, "{what}: {engine:?}");
                }
            }
        }
    }
}

/// One worker waits for the SSD to complete a content; meanwhile the other one has prepared a content that collides with it.
#[test]
fn a_content_is_compared_with_those_that_are_appended_after_it_was_prepared() {
    let (sim, settings) = (Simulation::new(2), settings());
    let flash = faulty(RamDevice::new(flash_bytes(&settings), 512), sim.clock.clone(), 2);
    let cache = format_on(&sim, flash, settings, false);
    let volume = open(&sim, &cache, 0, WriteMode::WriteThrough, DedupDomain::SHARED);
    let [one, other] = [0, 1].map(|which| extent(4, which));
    let (wanted, clock) = ([one.clone(), other.clone()], sim.clock.clone());
    let read = sim.run(async move {
        // Extent 0 lacks a part. With the others, it is in a unit on the SSD.
        volume.write(0, [&[7; 512], &one[512..]].concat().into(), false).await.unwrap();
        for index in 1..80 {
            volume.write(index * EXTENT as u64, extent(100 + 2 * index, 0), false).await.unwrap();
        }
        cache.settled().await;
        let delay = Effect::Delay(Duration::from_secs(1));
        cache.flash().faults().inject(Fault::new(delay).on(Operation::Read).times(1));
        volume.write(0, one.slice(..512), false).await.unwrap();
        let before = clock.now();
        volume.write(90 * EXTENT as u64, other, false).await.unwrap();
        cache.settled().await;
        assert!(clock.now() - before > Duration::from_millis(900), "no worker has waited");
        let read = [0, 90].map(|index| volume.read(index * EXTENT as u64, EXTENT as u64));
        let [first, second] = futures_util::future::join_all(read).await.try_into().unwrap();
        assert_eq!(cache.status().engine.duplicate_mismatches, 1);
        [first, second].map(|read| read.unwrap().concat())
    });
    assert!(read == wanted);
}

#[test]
fn contents_that_collide_are_confused_where_they_are_not_verified() {
    let settings = EngineSettings { verify_duplicates: false, ..settings() };
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let (wrong, cache) = exercise(settings, mode, false, 1);
        assert!(wrong > 0, "the test would not find what it looks for");
        assert_eq!(cache.status().engine.duplicates_compared, 0);
    }
}

/// Writes one content to each of some volumes, one after the other; returns how many were stored as duplicates.
fn duplicates(sim: &Rc<Simulation>, cache: &TestCache, volumes: &[TestVolume], number: u64) -> u64 {
    let before = cache.status().manager.duplicates;
    let (own, volumes) = (cache.clone(), volumes.to_vec());
    sim.run(async move {
        for volume in volumes {
            for index in [number, EXTENTS - 1 - number] {
                let content = if index == number { extent(number, 0) } else { vec![0; EXTENT].into() };
                volume.write(index * EXTENT as u64, content.clone(), false).await.unwrap();
                own.settled().await;
                assert!(volume.read(index * EXTENT as u64, EXTENT as u64).await.unwrap().concat() == content);
            }
        }
    });
    cache.status().manager.duplicates - before
}

#[test]
fn volumes_of_different_domains_share_nothing() {
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let sim = Simulation::new(9);
        let settings =
            EngineSettings { fingerprint_hash: FingerprintHash::Blake3, verify_duplicates: false, ..settings() };
        let cache = format(&sim, settings, false);
        let [red, blue] = ["red", "blue"].map(DedupDomain::named);
        let domains = [red, blue, DedupDomain::SHARED, red, DedupDomain::SHARED];
        let volumes: Vec<_> =
            (0..).zip(domains).map(|(number, domain)| open(&sim, &cache, number, mode, domain)).collect();
        assert_eq!(duplicates(&sim, &cache, &volumes[..3], 0), 0, "{mode:?}: neither contents nor zeroes");
        assert_eq!(duplicates(&sim, &cache, &volumes[3..4], 0), 2, "{mode:?}: of one domain");
        assert_eq!(duplicates(&sim, &cache, &volumes[4..], 0), 2, "{mode:?}: those that name none");
    }
}

/// Ends a cache in order, and starts another on a copy of its device.
pub fn restart(sim: &Rc<Simulation>, cache: &TestCache, settings: EngineSettings) -> TestCache {
    let (own, clock) = (cache.clone(), sim.clock.clone());
    let image = sim.run(async move {
        own.settled().await;
        // Regions close.
        clock.sleep(Duration::from_secs(60)).await;
        own.sync().await.unwrap();
        own.close();
        clock.sleep(Duration::from_secs(60)).await;
        let flash = &own.flash().of::<Slow>().inner;
        flash.read(0, flash.geometry().size_bytes as usize).await.unwrap()
    });
    let flash = RamDevice::new(image.len() as u64, 512);
    let clock = sim.clock.clone();
    let again = sim.run(async move {
        flash.write(0, image).await.unwrap();
        let flash = jittery(flash, &clock, 2, 100);
        Cache::open(flash, clock, settings).await.unwrap().0
    });
    work(sim, &again, false);
    let (own, clock) = (again.clone(), sim.clock.clone());
    sim.run(async move {
        while own.is_restoring() {
            clock.sleep(Duration::from_millis(10)).await;
        }
    });
    again
}

#[test]
fn a_restart_keeps_domains_apart_and_a_change_of_domain_costs_duplicates_alone() {
    let sim = Simulation::new(11);
    let settings = EngineSettings { fingerprint_hash: FingerprintHash::Blake3, ..settings() };
    let [red, blue] = ["red", "blue"].map(DedupDomain::named);
    let through = WriteMode::WriteThrough;
    let cache = format(&sim, settings, false);
    let first = open(&sim, &cache, 0, through, red);
    assert_eq!(duplicates(&sim, &cache, &[first], 1), 0);
    let cache = restart(&sim, &cache, settings);
    assert!(cache.status().manager.cached_extents >= 2);
    let others = [(1, DedupDomain::SHARED), (2, blue), (3, red)];
    let [shared, other, same] = others.map(|(number, domain)| open(&sim, &cache, number, through, domain));
    assert_eq!(duplicates(&sim, &cache, &[shared, other], 1), 0, "what was restored is in its domain alone");
    assert_eq!(duplicates(&sim, &cache, &[same], 1), 2);
    // The volume that brought the content changes its domain.
    let moved = open(&sim, &cache, 0, through, blue);
    let cache = restart(&sim, &cache, settings);
    assert_eq!(cache.volumes()[&moved_object(&cache)].domain, blue);
    let again = [(4, red), (5, blue)].map(|(number, domain)| open(&sim, &cache, number, through, domain));
    let found = again.map(|volume| duplicates(&sim, &cache, &[volume], 1));
    assert_eq!(found, [0, 2], "contents go with the volume that brought them");
    drop(moved);
}

/// The number of the first volume.
fn moved_object(cache: &TestCache) -> ObjectId {
    cache.volumes().into_iter().find(|(_, entry)| entry.name == "v0").unwrap().0
}
