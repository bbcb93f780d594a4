//! The lean index: contents whose fingerprints have one tag stay apart, tables of units on the SSD are read to find what is stored, and
//! either index serves what the other one left.

use crate::collisions::{EXTENT, TestCache, TestVolume, format, open, restart};
use bytes::Bytes;
use nitro_engine::manager::{IndexKind, Settings};
use nitro_engine::{DedupDomain, EngineSettings, WriteMode};
use nitro_port::codec::FingerprintHash;
use nitro_testkit::Simulation;
use std::rc::Rc;

/// Contents whose fingerprints have one tag in caches of this size.
const TWINS: [[u64; 2]; 4] = [[6019, 9801], [6181, 19146], [7774, 19794], [9224, 32585]];

fn extent(number: u64) -> Bytes {
    number.to_le_bytes().repeat(EXTENT / 8).into()
}

fn settings(index: IndexKind) -> EngineSettings {
    let manager = Settings { weu_bytes: 512 << 10, index, ..Settings::new(8 << 20) };
    EngineSettings { ram_cache_bytes: 0, readahead_ram_bytes: 0, ..EngineSettings::new(manager) }
}

/// Writes contents to a volume, to extents from `first` on, one after the other, and reads them; returns how many were stored as
/// duplicates.
fn write(sim: &Rc<Simulation>, cache: &TestCache, volume: &TestVolume, first: u64, contents: &[u64]) -> u64 {
    let before = cache.status().manager.duplicates;
    let (own, volume, contents) = (cache.clone(), volume.clone(), contents.to_vec());
    sim.run(async move {
        let offset = |index: u64| index * EXTENT as u64;
        for (index, number) in (first..).zip(&contents) {
            volume.write(offset(index), extent(*number), false).await.unwrap();
            own.settled().await;
        }
        for (index, number) in (first..).zip(&contents) {
            let read = volume.read(offset(index), EXTENT as u64).await.unwrap().concat();
            assert!(read == extent(*number), "extent {index} is not content {number}");
        }
    });
    cache.status().manager.duplicates - before
}

/// The first byte, and the last 20 bits of the first 16 bytes.
fn tag(number: u64) -> [u8; 4] {
    let fingerprint = FingerprintHash::Blake3.of(&extent(number)).0;
    [fingerprint[0], fingerprint[13] & 15, fingerprint[14], fingerprint[15]]
}

#[test]
fn contents_of_one_tag_stay_apart_and_are_found() {
    for [one, other] in TWINS {
        assert!(tag(one) == tag(other) && extent(one) != extent(other));
    }
    let (all, twins) = (TWINS.concat(), TWINS.len() as u64);
    for mode in [WriteMode::WriteThrough, WriteMode::WriteBack] {
        let (sim, settings) = (Simulation::new(3), settings(IndexKind::Lean));
        let cache = format(&sim, settings, false);
        let volume = open(&sim, &cache, 0, mode, DedupDomain::SHARED);
        assert_eq!(write(&sim, &cache, &volume, 0, &all), 0, "{mode:?}: different contents");
        let engine = cache.status().engine;
        assert_eq!((engine.false_tags, engine.unit_tables_read), (twins, 0), "{mode:?}: compared in RAM");
        assert_eq!(write(&sim, &cache, &volume, 20, &all), 2 * twins, "{mode:?}: known whole");
        assert_eq!(cache.status().engine.false_tags, twins);

        // Nothing is known whole any more: what is found is found by the tables on the SSD.
        let cache = restart(&sim, &cache, settings);
        let volume = open(&sim, &cache, 1, mode, DedupDomain::SHARED);
        let found = write(&sim, &cache, &volume, 0, &all);
        if mode == WriteMode::WriteBack {
            // Dirty contents refer to no unit from before the restart.
            continue;
        }
        assert_eq!(found, 2 * twins, "found by their tags");
        let engine = cache.status().engine;
        assert!((1..=2).contains(&engine.unit_tables_read), "{} reads", engine.unit_tables_read);
        assert_eq!(engine.false_tags, 0, "their unit has both");
    }
}

#[test]
fn a_content_whose_tag_is_on_the_ssd_is_not_taken_for_its_twin() {
    let [ones, others] = [0, 1].map(|which| TWINS.map(|twins| twins[which]));
    let (sim, settings, mode) = (Simulation::new(3), settings(IndexKind::Lean), WriteMode::WriteThrough);
    let cache = format(&sim, settings, false);
    let volume = open(&sim, &cache, 0, mode, DedupDomain::SHARED);
    assert_eq!(write(&sim, &cache, &volume, 0, &ones), 0);
    let cache = restart(&sim, &cache, settings);
    let volume = open(&sim, &cache, 1, mode, DedupDomain::SHARED);
    assert_eq!(write(&sim, &cache, &volume, 20, &others), 0, "different contents");
    let engine = cache.status().engine;
    assert_eq!((engine.false_tags, engine.unit_tables_read), (TWINS.len() as u64, 1));
    assert_eq!(write(&sim, &cache, &volume, 40, &ones), TWINS.len() as u64, "found by their tags");
}

#[test]
fn either_index_serves_what_the_other_one_left() {
    let contents: Vec<u64> = (100..140).collect();
    let (sim, mode) = (Simulation::new(4), WriteMode::WriteThrough);
    let mut cache = format(&sim, settings(IndexKind::Exact), false);
    for (number, index) in
        [IndexKind::Exact, IndexKind::Lean, IndexKind::Exact, IndexKind::Lean].into_iter().enumerate()
    {
        if number > 0 {
            cache = restart(&sim, &cache, settings(index));
        }
        let volume = open(&sim, &cache, number as u64, mode, DedupDomain::SHARED);
        let known = if number == 0 { 0 } else { contents.len() as u64 };
        assert_eq!(write(&sim, &cache, &volume, 0, &contents), known, "start {number}, {index}");
        assert_eq!(cache.status().manager.fingerprints, contents.len() as u64, "start {number}, {index}");
    }
}
