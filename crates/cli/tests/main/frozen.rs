//! Caches as earlier builds made them, and as later ones may: tests/fixtures has one of each format.

use crate::support::Place;
use nitro_engine::format::crc32c;
use serde_json::{Value, json};
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

/// What the volume held before it was written to: 1 MiB.
fn first_content() -> Vec<u8> {
    let block = |seed: usize| (0..4096).map(move |i: usize| (seed * 31 + i * 7 + (i >> 5)) as u8);
    (0..256).flat_map(|n| block(n / 2)).collect()
}

/// What the volume held when the fixture was made: read through the cache, and 128 KiB of it written over.
fn content() -> Vec<u8> {
    let mut content = first_content();
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
fn a_cache_of_version_2_opens_with_what_its_write_log_has() {
    let place = unpack("cache-v2.tar.gz");
    assert!(fs::read(place.path("vm.img")).unwrap() != content(), "some of it is in the write log alone");
    assert!(
        place.stdout("cache upgrade cache.img").contains("has format version 2, and its next start makes it version 4")
    );
    let serve = "--origin vm.img --cache cache.img --mode write-back";
    let said = place.failure(&format!("serve {serve}"), 1);
    assert!(said.contains("--force-discard-dirty starts without it"), "{said}");
    let server = place.serve(&format!("{serve} --write-log log.img"));
    assert!(place.client().read(0, 1 << 20) == content());
    assert!(server.stop().0.success());
    assert!(fs::read(place.path("vm.img")).unwrap() == content());
}

#[test]
fn a_store_of_version_1_opens_with_all_its_objects() {
    let place = unpack("store-v1.tar.gz");
    place.stdout("cos fsck store");
    place.stdout("cos scrub store");
    for (object, expected) in [("vm", content()), ("vm@then", first_content()), ("stream", first_content())] {
        place.stdout(&format!("cos export store {object} {object}.out"));
        assert!(fs::read(place.path(&format!("{object}.out"))).unwrap() == expected, "{object}");
    }
    assert!(place.stdout("cos ssd status store").contains("fast.ssd"));
    // It can be written to.
    let server = place.serve("--origin cos:store#vm --cache none --name vm");
    assert_eq!(place.client().write(0, &[1; 4096]), 0);
    assert_eq!(place.client().flush(), 0);
    assert!(server.stop().0.success());
    place.stdout("cos delete store stream");
    place.stdout("cos gc store");
    place.stdout("cos scrub store");
    // It grows, and has everything then.
    place.stdout("cos grow store 256M");
    place.stdout("cos scrub store");
    assert!(place.stdout("cos ssd status store").contains("fast.ssd"));
    place.stdout("cos export store vm@then after.out");
    assert!(fs::read(place.path("after.out")).unwrap() == first_content());
}

#[test]
fn a_store_of_a_later_version_is_refused_by_name() {
    let place = unpack("store-v1.tar.gz");
    let path = place.path("store/store.nitro");
    let mut store = fs::read(&path).unwrap();
    let copies: Vec<usize> =
        (0..store.len()).step_by(4096).filter(|at| store[*at..].starts_with(b"NITROCOS")).collect();
    assert_eq!(copies.len(), 2);
    copies.iter().for_each(|at| store[at + 8..at + 12].copy_from_slice(&9u32.to_le_bytes()));
    fs::write(&path, &store).unwrap();
    for command in ["cos list store", "cos fsck store", "serve --origin cos:store#vm --cache none"] {
        let said = place.failure(command, 1);
        assert!(said.contains("made by a later nitro: format version 9"), "{command}: {said}");
    }
    assert!(fs::read(&path).unwrap() == store, "nothing was changed");
}

/// The offsets of both copies of the superblock.
fn copies(cache: &[u8]) -> [usize; 2] {
    let magic: [u8; 8] = *cache.first_chunk().unwrap();
    let found: Vec<usize> = (0..cache.len()).step_by(4096).filter(|at| cache[*at..].starts_with(&magic)).collect();
    found.try_into().unwrap()
}

/// Raises the version in the copies at some offsets, and corrects their checksums if `sealed`.
fn raise(place: &Place, at: &[usize], sealed: bool) -> Vec<u8> {
    let mut cache = fs::read(place.path("cache.img")).unwrap();
    for at in at {
        let block = &mut cache[*at..at + 4096];
        block[8..12].copy_from_slice(&9u32.to_le_bytes());
        if sealed {
            let sum = crc32c(&block[..4092]);
            block[4092..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    fs::write(place.path("cache.img"), &cache).unwrap();
    cache
}

#[test]
fn a_cache_of_a_later_version_is_refused_by_name() {
    let all = ["upgrade cache.img", "show cache.img", "fsck cache.img"].map(|command| format!("cache {command}"));
    // A whole second copy of version 1 is sufficient to look at the cache, but not to serve it.
    for (sealed, number, looks) in [(true, 2, 3), (false, 2, 3), (true, 1, 1)] {
        let place = unpack("cache-v1.tar.gz");
        let at = copies(&fs::read(place.path("cache.img")).unwrap());
        let cache = raise(&place, &at[..number], sealed);
        let serve = "serve --origin vm.img --cache cache.img";
        for command in all[..looks].iter().map(String::as_str).chain([serve]) {
            let said = place.failure(command, 1);
            let expected = "made by a later nitro: format version 9; this program knows versions up to 4";
            assert!(said.contains("cache cache.img: ") && said.contains(expected), "{command}: {said}");
        }
        assert!(fs::read(place.path("cache.img")).unwrap() == cache, "nothing was changed");
    }
}

#[test]
fn a_damaged_version_in_one_superblock_does_not_make_a_cache_a_later_one() {
    for copy in 0..2 {
        let place = unpack("cache-v1.tar.gz");
        let at = copies(&fs::read(place.path("cache.img")).unwrap());
        raise(&place, &[at[copy]], false);
        assert!(
            place.stdout("cache upgrade cache.img").contains("format version 1, and its next start makes it version 4")
        );
        let server = place.serve("--origin vm.img --cache cache.img --mode write-back");
        assert!(place.client().read(0, 1 << 20) == content());
        assert!(server.stop().0.success());
    }
}

#[test]
fn a_cache_of_a_current_version_is_not_upgraded() {
    let place = unpack("cache-v1.tar.gz");
    let cache = fs::read(place.path("cache.img")).unwrap();
    let said = place.stdout("cache upgrade cache.img");
    let current = "has format version 1, and its next start makes it version 4: nothing to upgrade before";
    assert_eq!(said, format!("cache cache.img: {current}\n"));
    let report: Value = serde_json::from_str(&place.stdout("cache upgrade cache.img -o json")).unwrap();
    assert_eq!((&report["version_before"], &report["version"]), (&1.into(), &1.into()));
    assert_eq!((&report["upgraded"], &report["versions_written"]), (&false.into(), &json!([4])));
    let csv = place.stdout("cache upgrade cache.img -o csv");
    assert!(csv.starts_with("path,uuid,version_before,version,upgraded\ncache.img,"), "{csv}");
    assert!(fs::read(place.path("cache.img")).unwrap() == cache, "nothing was changed");

    // What this program made is current.
    place.file("new.vm.img", 1 << 20);
    assert!(place.serve("--origin new.vm.img --cache new.img --cache-size 64M").stop().0.success());
    assert!(place.stdout("cache upgrade new.img").contains("has format version 4, which is current"));

    place.file("short", 1000);
    for other in ["vm.img", "short"] {
        assert!(place.failure(&format!("cache upgrade {other}"), 1).contains("it is not a Nitro cache"));
    }
    let _server = place.serve("--origin vm.img --cache cache.img --mode write-back");
    let said = place.failure("cache upgrade cache.img", 1);
    assert!(said.contains("a server uses it; stop the server first"), "{said}");
}
