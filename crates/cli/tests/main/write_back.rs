//! Write-back: what was flushed survives, and reaches the origin.

use crate::support::{Place, noise};
use rustix::process::Signal;
use std::fs;

const AGAIN: &str = "--origin vm.img --cache cache.img --mode write-back";

/// A server in write-back whose volume has 2 MiB that are flushed and not destaged.
fn dirty(options: &str) -> (Place, crate::support::Server, Vec<u8>) {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let age = if options.contains("age") { "" } else { "--dirty-age 1h" };
    let server = place.serve(&format!("{AGAIN} --cache-size 64M {age} {options}"));
    let data = noise(21, 2 << 20);
    let mut client = place.client();
    for at in (0..data.len()).step_by(256 << 10) {
        assert_eq!(client.write(at as u64, &data[at..][..256 << 10]), 0);
    }
    assert_eq!(client.flush(), 0);
    (place, server, data)
}

fn origin_has(place: &Place, data: &[u8]) -> bool {
    fs::read(place.path("vm.img")).unwrap()[..data.len()] == *data
}

#[test]
fn what_was_flushed_survives_kill_9() {
    let (place, server, data) = dirty("");
    server.kill();
    assert!(!origin_has(&place, &data));
    let server = place.serve(AGAIN);
    assert!(place.client().read(0, data.len()) == data);
    let status = place.status();
    assert_eq!(status["volumes"][0]["dirty_bytes"], 2 << 20, "{status}");
    assert_eq!(status["caches"][0]["recovered"]["dirty_bytes"], 2 << 20, "{status}");
    let (ended, said) = server.stop();
    assert!(ended.success() && said.contains("its origin is up to date"), "{said}");
    assert!(origin_has(&place, &data) && !place.path("vm.img.nitro-dirty").exists());
}

#[test]
fn an_orderly_end_brings_the_origin_up_to_date() {
    let (place, server, data) = dirty("");
    assert!(place.path("vm.img.nitro-dirty").exists());
    assert!(server.stop().0.success());
    assert!(origin_has(&place, &data) && !place.path("vm.img.nitro-dirty").exists());
    assert!(place.serve("--origin vm.img --cache none").stop().0.success());
}

#[test]
fn an_end_without_destage_leaves_it_in_the_cache() {
    let (place, server, data) = dirty("--no-destage-on-exit");
    let (ended, said) = server.stop();
    assert!(ended.success() && said.contains("2 MiB of dirty data stay in the cache"), "{said}");
    assert!(!origin_has(&place, &data) && place.path("vm.img.nitro-dirty").exists());
    let _server = place.serve(AGAIN);
    assert!(place.client().read(0, data.len()) == data);
}

#[test]
fn a_second_signal_leaves_it_in_the_cache() {
    // At 7200 rpm, 2,048 scattered extents take many seconds, which the machine may be busy for.
    let place = Place::new();
    place.file("vm.img", 256 << 20);
    let mut server =
        place.serve(&format!("{AGAIN} --cache-size 64M --dirty-age 1h --dirty-start 60 --emulate-disk 7200"));
    let data = noise(22, 8192);
    let mut client = place.client();
    for number in 0..2048 {
        assert_eq!(client.write(number * 77 % 2048 * (128 << 10), &data), 0);
    }
    assert_eq!(client.flush(), 0);
    drop(client);
    server.signal(Signal::TERM);
    // The control socket answers to the end.
    place.until("destaging", |s| s["volumes"][0]["destage_writes"].as_u64().unwrap() > 0);
    server.signal(Signal::TERM);
    assert!(crate::support::wait(&mut server.child).success());
    assert!(place.path("vm.img.nitro-dirty").exists());
    let server = place.serve(AGAIN);
    let left = place.status()["volumes"][0]["dirty_bytes"].as_u64().unwrap();
    assert!(left > 0 && left <= 2048 * 8192, "{left}");
    let mut client = place.client();
    for number in 0..2048 {
        assert!(client.read(number * (128 << 10), 8192) == data, "extent {number}");
    }
    assert!(server.stop().0.success());
}

#[test]
fn the_mode_changes_while_it_is_served() {
    let (place, server, data) = dirty("");
    let said = place.stdout("volume set vm --mode write-through");
    assert!(said.contains("volume vm: write-through from now on"), "{said}");
    assert!(origin_has(&place, &data) && !place.path("vm.img.nitro-dirty").exists());
    assert_eq!(place.status()["volumes"][0]["mode"], "write-through");
    let mut client = place.client();
    let through = noise(23, 8192);
    assert_eq!(client.write(4 << 20, &through), 0);
    assert_eq!(fs::read(place.path("vm.img")).unwrap()[4 << 20..][..8192], through);
    place.stdout("volume set vm --mode write-back");
    assert!(place.path("vm.img.nitro-dirty").exists());
    let back = noise(24, 8192);
    assert_eq!(client.write(4 << 20, &back), 0);
    assert_eq!(client.flush(), 0);
    assert_eq!(fs::read(place.path("vm.img")).unwrap()[4 << 20..][..8192], through);
    server.kill();
    let _server = place.serve(AGAIN);
    assert!(place.client().read(4 << 20, 8192) == back);
}

#[test]
fn flush_brings_the_origin_up_to_date() {
    let (place, _server, data) = dirty("");
    let status = place.status();
    assert_eq!(status["volumes"][0]["dirty_bytes"], 2 << 20, "{status}");
    let done: serde_json::Value = serde_json::from_str(&place.stdout("flush vm --wait -o json")).unwrap();
    assert_eq!(done["dirty_bytes"], 0, "{done}");
    assert!(origin_has(&place, &data));
    // In write-back the mark stays.
    assert!(place.path("vm.img.nitro-dirty").exists());
    assert!(place.stdout("flush vm").contains("0 B are dirty"));
    assert!(place.failure("flush db --wait", 1).contains("those that are: vm"));
}

#[test]
fn what_is_dirty_reaches_the_origin_in_write_through_too() {
    let (place, server, data) = dirty("");
    server.kill();
    let _server = place.serve("--origin vm.img --cache cache.img");
    assert!(place.client().read(0, data.len()) == data);
    place.until("clean", |s| s["volumes"][0]["dirty_bytes"] == 0);
    assert!(origin_has(&place, &data));
}

#[test]
fn destage_by_age_needs_nobody() {
    let (place, _server, data) = dirty("--dirty-age 1s");
    place.until("clean", |s| s["volumes"][0]["dirty_bytes"] == 0);
    assert!(origin_has(&place, &data));
    let rows = place.stdout("iostat -o csv");
    assert!(rows.lines().next().unwrap().contains(",dirty_mib,destage_mib_per_second,"), "{rows}");
}
