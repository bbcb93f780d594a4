//! A cache on several devices.

use crate::support::{Place, noise};
use serde_json::Value;
use std::fs;

const BOTH: &str = "--origin vm.img --sequential-threshold 0 --ram 0 --cache a.img --cache b.img";

fn cache_of(place: &Place) -> Value {
    let status: Value = serde_json::from_str(&place.stdout("status -o json")).unwrap();
    status["caches"][0].clone()
}

/// Fills a new cache on two devices; returns the content of its volume.
fn filled(place: &Place, options: &str) -> Vec<u8> {
    place.file("vm.img", 16 << 20);
    let server = place.serve(&format!("{BOTH} --cache-size 96M --weu-size 512K {options}"));
    let data = noise(17, 16 << 20);
    let mut client = place.client();
    for at in (0..data.len()).step_by(1 << 20) {
        assert_eq!(client.write(at as u64, &data[at..][..1 << 20]), 0);
    }
    assert_eq!(client.flush(), 0);
    drop(client);
    place.until("both devices are written to", |status| {
        let devices = status["caches"][0]["devices"].as_array().unwrap();
        devices.iter().all(|device| device["written_bytes"].as_u64().unwrap() > 4 << 20)
    });
    let cache = cache_of(place);
    assert_eq!((&cache["health"], cache["devices"].as_array().unwrap().len()), (&"caching".into(), 2));
    for (number, path) in ["a.img", "b.img"].into_iter().enumerate() {
        let device = &cache["devices"][number];
        assert_eq!((&device["path"], &device["size_bytes"]), (&path.into(), &(48_u64 << 20).into()), "{device}");
    }
    let shown = place.stdout("status");
    assert!(shown.contains("device        0 a.img, 48 MiB: caching,") && shown.contains("1 b.img, 48 MiB"), "{shown}");
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    data
}

/// Reads and compares everything, from the cache what it has: it serves while its contents are loaded.
fn read(place: &Place, data: &[u8]) {
    place.until("loaded", |status| status["caches"][0]["loading"] == false);
    let mut client = place.client();
    for at in (0..data.len()).step_by(1 << 20) {
        assert!(client.read(at as u64, 1 << 20) == data[at..][..1 << 20], "at {at}");
    }
}

#[test]
fn a_cache_on_two_devices_keeps_its_contents_in_any_order() {
    let place = Place::new();
    let data = filled(&place, "");
    for order in ["--cache a.img --cache b.img", "--cache b.img --cache a.img"] {
        let server = place.serve(&format!("--origin vm.img --sequential-threshold 0 --ram 0 {order}"));
        read(&place, &data);
        let cache = cache_of(&place);
        assert_eq!((&cache["health"], &cache["misses"]), (&"caching".into(), &0.into()));
        let reads = |number: usize| cache["devices"][number]["reads"].as_u64().unwrap();
        assert!(reads(0) > 100 && reads(1) > 100, "{} and {}", reads(0), reads(1));
        assert!(server.stop().0.success());
    }
    let report = place.stdout("cache fsck b.img a.img");
    assert!(report.contains("nothing is wrong"), "{report}");
    let shown = place.stdout("cache show a.img b.img");
    assert!(shown.contains("device"), "{shown}");
}

#[test]
fn a_missing_device_costs_what_it_held_and_comes_back_unused() {
    let place = Place::new();
    let data = filled(&place, "");
    fs::rename(place.path("b.img"), place.path("away.img")).unwrap();
    let server = place.serve(BOTH);
    read(&place, &data);
    let cache = cache_of(&place);
    assert_eq!((&cache["health"], &cache["devices"][1]["health"]), (&"degraded".into(), &"lost".into()));
    let (hits, misses) = (cache["hits"].as_u64().unwrap(), cache["misses"].as_u64().unwrap());
    assert!(hits > 500 && misses > 500, "{hits} hits, {misses} misses");
    let faults = place.stdout("status");
    assert!(faults.contains("a device of the cache is lost"), "{faults}");
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("cache b.img: it is missing"), "{log}");
    assert!(!place.path("b.img").exists(), "a missing device is not created");
    // Alone, it would be taken for the whole cache.
    fs::rename(place.path("away.img"), place.path("b.img")).unwrap();
    fs::rename(place.path("a.img"), place.path("away.img")).unwrap();
    let said = place.failure(&format!("serve {BOTH}"), 1);
    assert!(said.contains("device 1 of the cache failed before"), "{said}");
    fs::rename(place.path("away.img"), place.path("a.img")).unwrap();
    let server = place.serve(BOTH);
    read(&place, &data);
    assert_eq!(cache_of(&place)["health"], "degraded");
    let (_, log) = server.stop();
    assert!(log.contains("b.img is not used (it is device 1 of the cache, which was lost before)"), "{log}");
    // Formatted, it is a cache on two devices again.
    let server = place.serve(&format!("{BOTH} --format"));
    assert_eq!(cache_of(&place)["health"], "caching");
    assert!(server.stop().0.success());
}

#[test]
fn a_missing_device_with_dirty_data_keeps_the_server_from_starting() {
    let place = Place::new();
    let data = filled(&place, "--mode write-back --dirty-age 1h --dirty-start 60 --no-destage-on-exit");
    fs::rename(place.path("a.img"), place.path("away.img")).unwrap();
    let said = place.failure(&format!("serve {BOTH}"), 1);
    assert!(said.contains("1 of the cache's 2 devices is missing (device 0)"), "{said}");
    assert!(said.contains("--force-discard-dirty"), "{said}");
    fs::rename(place.path("away.img"), place.path("a.img")).unwrap();
    let server = place.serve(BOTH);
    read(&place, &data);
    assert!(server.stop().0.success());
}

#[test]
fn wrong_devices_are_refused_by_name() {
    let place = Place::new();
    filled(&place, "");
    place.stdout("cache create c.img d.img --size 96M --weu-size 512K");
    place.stdout("cache create single.img --size 32M");
    fs::copy(place.path("a.img"), place.path("copy.img")).unwrap();
    std::os::unix::fs::symlink(place.path("a.img"), place.path("link.img")).unwrap();
    let sixteen: String = (0..17).map(|n| format!(" --cache {n}.img")).collect();
    for (caches, phrase) in [
        ("--cache a.img --cache a.img", "a.img is listed twice"),
        ("--cache a.img --cache link.img", "cache link.img: is the same device as a.img"),
        ("--cache a.img --cache copy.img", "is given twice"),
        ("--cache a.img --cache d.img", "the devices are not those of one cache"),
        ("--cache a.img --cache single.img", "the devices are not those of one cache"),
        ("--cache a.img", "the cache has 2 devices, and the list has 1"),
        ("--cache a.img --cache b.img --cache gone.img", "the cache has 2 devices, and the list has 3"),
        ("--cache a.img --cache none", "none is no device"),
        (&*sixteen, "17 devices are listed"),
        ("--cache x.img --cache y.img", "give its size"),
    ] {
        let said = place.failure(&format!("serve --origin vm.img {caches}"), 1);
        assert!(said.contains(phrase), "{caches}: {said}");
    }
    let said = place.failure("serve --origin vm.img --cache x.img --cache y.img --cache-size 8M", 1);
    assert!(said.contains("too small"), "{said}");
    assert!(!place.path("x.img").exists() || !place.path("gone.img").exists());
    let said = place.failure("cache create a.img z.img --size 64M", 1);
    assert!(said.contains("cache a.img: it is a cache already"), "{said}");
    place.write("n.toml", b"[cache.c]\npath = [1]\n[volume.v]\norigin = \"vm.img\"\n");
    assert!(place.failure("check n.toml", 1).contains("line 2"));
    place.write("n.toml", b"[cache.c]\npath = [\"a.img\", \"b.img\"]\n[volume.v]\norigin = \"vm.img\"\n");
    let said = place.failure("check n.toml", 1);
    assert!(said.contains("device 1 of the cache failed before"), "{said}");
    assert!(place.failure("serve --config n.toml", 1).ends_with(&said));
    place.write(
        "n.toml",
        b"[cache.c]\npath = [\"c.img\", \"d.img\"]\nsize = \"64M\"\n[volume.v]\norigin = \"vm.img\"\n",
    );
    place.stdout("check n.toml");
}
