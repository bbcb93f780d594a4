//! Caches as earlier builds made them, and as later ones may: tests/fixtures has one of each format.

use crate::support::Place;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Unpacks a cache, its origin and its mark; the times of the files stay.
fn unpack(name: &str) -> Place {
    let place = Place::new();
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    let unpacked = Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(place.path(".")).status().unwrap();
    assert!(unpacked.success());
    place
}

/// What the volume held when the fixture was made: 1 MiB, read through the cache, of which 128 KiB were written over in write-back.
fn content() -> Vec<u8> {
    let block = |seed: usize| (0..4096).map(move |i: usize| (seed * 31 + i * 7 + (i >> 5)) as u8);
    let mut content: Vec<u8> = (0..256).flat_map(|n| block(n / 2)).collect();
    content[64 << 10..][..128 << 10].fill(0x5a);
    content
}

#[test]
fn a_cache_of_version_1_opens_with_what_it_holds() {
    let place = unpack("cache-v1.tar.gz");
    assert!(fs::read(place.path("vm.img")).unwrap() != content(), "some of it is in the cache alone");
    assert!(place.run("cache fsck cache.img").status.success());
    let server = place.serve("--origin vm.img --cache cache.img --mode write-back");
    assert!(place.client().read(0, 1 << 20) == content());
    let status = place.status();
    let volume = &status["volumes"][0];
    assert_eq!(volume["dirty_bytes"], 128 << 10, "{status}");
    assert!(server.stop().0.success());
    assert!(fs::read(place.path("vm.img")).unwrap() == content());
}

#[test]
fn a_cache_of_a_later_version_is_refused_by_name() {
    let place = unpack("cache-v1.tar.gz");
    let mut cache = fs::read(place.path("cache.img")).unwrap();
    // Both copies of the superblock: magic, then the version.
    let magic: [u8; 8] = *cache.first_chunk().unwrap();
    let copies: Vec<usize> = (0..cache.len()).step_by(4096).filter(|at| cache[*at..].starts_with(&magic)).collect();
    assert_eq!(copies.len(), 2);
    for at in copies {
        cache[at + 8..at + 12].copy_from_slice(&9u32.to_le_bytes());
    }
    fs::write(place.path("cache.img"), &cache).unwrap();
    for command in ["serve --origin vm.img --cache cache.img", "cache show cache.img", "cache fsck cache.img"] {
        let said = place.failure(command, 1);
        assert!(said.contains("version 9"), "{command}: {said}");
    }
    assert!(fs::read(place.path("cache.img")).unwrap() == cache, "nothing was changed");
}
