//! Frozen caches of format version 1: what a released version has written must be read by all later ones. The first is of a
//! program that did not know records of duplicates, the second has such records.

use super::image::{ALPHA, BETA, EXTENT, Ram, Stopped, VOLUME_BYTES, histories, image_bytes, settings};
use super::make;
use super::verdict::{Trusted, check, judge, now};
use futures_util::FutureExt;
use nitro_engine::format::FORMAT_VERSION;
use nitro_engine::format::superblock::FEATURE_DUPLICATES;
use nitro_engine::inspect::{self, Trust};
use nitro_engine::{Cache, Volume, VolumeOptions, WriteMode};
use nitro_port::codec::FingerprintHash;

const FIXTURES: [&[u8]; 2] =
    [include_bytes!("../../fixtures/v1.img.zst"), include_bytes!("../../fixtures/v1-duplicates.img.zst")];
/// Records of duplicates in each of them.
const DUPLICATES: [u64; 2] = [0, 1];
/// Extents of beta that a restart does not find: extent 3 was in a write-evict unit that was not full; 9 is a clean
/// duplicate.
const MISSED: [&[u64]; 2] = [&[3, 9], &[3]];

fn fixture(number: usize) -> Vec<u8> {
    zstd::bulk::decompress(FIXTURES[number], image_bytes()).unwrap()
}

/// Until version 1 is released: `cargo test -p nitro-engine --test main -- --ignored rewrite_the_fixture` after a change
/// of the format. From then on a new version gets a new fixture, and this one stays.
#[test]
#[ignore = "writes tests/fixtures/v1-duplicates.img.zst"]
fn rewrite_the_fixture() {
    assert_eq!(FORMAT_VERSION, 1);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1-duplicates.img.zst");
    std::fs::write(path, zstd::bulk::compress(&make::image(), 19).unwrap()).unwrap();
}

#[test]
fn the_frozen_caches_are_sound() {
    for (number, duplicates) in (0..).zip(DUPLICATES) {
        let report = check(&Ram::new(fixture(number))).unwrap();
        assert_eq!((report.problems, report.notes), (vec![], vec![]));
        let counts = report.counts;
        assert_eq!((counts.slots, counts.weus, counts.unsealed_weus, counts.dirty_extents), (8, 2, 1, 34));
        assert_eq!((counts.duplicates, counts.void_duplicates), (duplicates, 0));
        judge(fixture(number), Trusted::Journal);
    }
}

#[test]
fn only_the_frozen_cache_with_records_has_their_feature() {
    let features = |number| u64::from_le_bytes(fixture(number)[114..122].try_into().unwrap());
    assert_eq!([0, 1].map(|number| features(number) & FEATURE_DUPLICATES), [0, FEATURE_DUPLICATES]);
}

#[test]
fn the_frozen_caches_have_their_volumes_and_contents() {
    (0..FIXTURES.len()).for_each(volumes_and_contents);
}

fn volumes_and_contents(number: usize) {
    let flash = Ram::new(fixture(number));
    let superblock = now(Cache::<Ram, Stopped>::probe(&flash)).unwrap();
    assert_eq!((superblock.start, superblock.uuid), (2, *b"a cache for test"));
    // That contents are what their fingerprints name, `check` has found.
    assert_eq!(superblock.fingerprints, Some(FingerprintHash::Blake3));
    let dirty = now(inspect::dirty(&flash, Trust::Journal)).unwrap();
    let ranges: Vec<_> = dirty.volumes[0].ranges.iter().map(|r| (r.offset / EXTENT, r.len / EXTENT)).collect();
    assert_eq!((dirty.volumes.len(), ranges), (1, vec![(0, 22), (24, 11), (47, 1)]));

    let (cache, recovered) = now(Cache::open(flash, Stopped, settings())).unwrap();
    assert_eq!((recovered.dirty_extents, recovered.lost_extents), (34, 0));
    assert!(cache.journal_worker().now_or_never().is_none());
    let volumes: Vec<_> = cache.volumes().into_iter().map(|(id, v)| (id, v.name, v.origin_bytes)).collect();
    assert_eq!(volumes, [(ALPHA, "alpha".into(), VOLUME_BYTES[0]), (BETA, "beta".into(), VOLUME_BYTES[1])]);
    for object in [ALPHA, BETA] {
        // An origin full of something else: what is right is from the cache.
        let origin = Ram::new(vec![0xEE; VOLUME_BYTES[usize::from(object.0)] as usize]);
        let volume =
            Volume::new(cache.clone(), origin, VolumeOptions { object, read_only: true, mode: WriteMode::WriteBack });
        let mut missed = Vec::new();
        for (extent, history) in (0..).zip(histories(object)) {
            let len = (volume.size_bytes() - extent * EXTENT).min(EXTENT);
            let bytes = now(volume.read(extent * EXTENT, len)).unwrap().concat();
            let right = bytes == history.newest()[..len as usize];
            assert!(right || (!history.is_dirty() && bytes.iter().all(|byte| *byte == 0xEE)), "{object:?} {extent}");
            missed.extend((!right).then_some(extent));
        }
        assert_eq!(missed, if object == ALPHA { &[] } else { MISSED[number] }, "{object:?}");
    }
}
