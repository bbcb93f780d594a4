//! What a cache still holds when its server comes back.

use crate::support::{Place, Server, noise};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::{Duration, SystemTime};

const AGAIN: &str = "--origin vm.img --cache cache.img --sequential-threshold 0";

/// A place with an origin of noise, of which `mib` MiB were read through a cache.
fn warmed(mib: u64) -> (Place, Server, Vec<u8>) {
    let place = Place::new();
    let data = noise(11, 32 << 20);
    place.write("vm.img", &data);
    let server = place.serve(&format!("{AGAIN} --cache-size 64M"));
    let mut client = place.client();
    for at in (0..mib << 20).step_by(1 << 20) {
        assert_eq!(client.read(at, 1 << 20), data[at as usize..][..1 << 20]);
    }
    place.until("inserted", |s| s["caches"][0]["insertions"].as_u64().unwrap() >= mib * 128);
    (place, server, data)
}

/// Reads the first `mib` MiB; tells how many extents of them came from the cache.
fn hits(place: &Place, mib: u64, data: &[u8]) -> u64 {
    place.until("loaded", |s| s["caches"][0]["loading"] == false);
    let mut client = place.client();
    for at in (0..mib << 20).step_by(1 << 20) {
        assert!(client.read(at, 1 << 20) == data[at as usize..][..1 << 20], "other bytes at {at}");
    }
    place.status()["volumes"][0]["read_hit_extents"].as_u64().unwrap()
}

#[test]
fn contents_return_after_an_orderly_end() {
    let (place, server, data) = warmed(8);
    assert!(server.stop().0.success());
    let server = place.serve(AGAIN);
    assert_eq!(hits(&place, 8, &data), 8 * 128);
    let (status, said) = server.stop();
    assert!(status.success() && said.contains("opened with its contents"), "{said}");
}

#[test]
fn contents_return_after_kill_9() {
    let (place, server, data) = warmed(8);
    server.kill();
    let _server = place.serve(AGAIN);
    // What was in write-evict units that were not full is not on the SSD.
    let hits = hits(&place, 8, &data);
    assert!(hits >= 5 * 128, "{hits} of {}", 8 * 128);
}

#[test]
fn what_is_written_through_is_never_stale_after_kill_9() {
    let (place, server, mut data) = warmed(4);
    let mut client = place.client();
    let new = noise(12, 1 << 20);
    assert_eq!(client.write(1 << 20, &new), 0);
    data[1 << 20..2 << 20].copy_from_slice(&new);
    server.kill();
    let _server = place.serve(AGAIN);
    hits(&place, 4, &data);
}

/// Extents of the warmed ones, and how many of them are written to.
const WARM: u64 = 24 * 128;
const WRITTEN: u64 = 200;

/// Writes single extents all over the first 24 MiB.
fn scatter(place: &Place, data: &mut [u8]) {
    let mut client = place.client();
    for n in 0..WRITTEN {
        let (at, new) = ((n * 1579 % WARM * 8192), noise(100 + n, 8192));
        assert_eq!(client.write(at, &new), 0);
        data[at as usize..][..8192].copy_from_slice(&new);
    }
}

/// Reads all that is warm; tells how many percent of the extents that were not written to came from the cache.
fn hit_percent(place: &Place, data: &[u8]) -> u64 {
    let found = hits(place, 24, data);
    println!("{found} hits of {WARM}, of which {WRITTEN} were written to");
    found * 100 / (WARM - WRITTEN)
}

/// After a power cut there is no memory of the last start.
fn forget_the_last_start(place: &Place) {
    let memories = fs::read_dir(place.path("run/nitro")).unwrap().map(|entry| entry.unwrap().path());
    let memories = memories.filter(|path| path.extension().is_some_and(|e| e == "doubts"));
    assert_eq!(memories.map(|path| fs::remove_file(path).unwrap()).count(), 1);
}

#[test]
fn scattered_writes_leave_the_rest_warm_at_kill_9() {
    let (place, server, mut data) = warmed(24);
    scatter(&place, &mut data);
    server.kill();
    let server = place.serve(AGAIN);
    let found = hit_percent(&place, &data);
    if found < 95 {
        panic!("{found} %: {}", server.stop().1);
    }
    // And once more, by a program that found the last one's doubts.
    scatter(&place, &mut data);
    server.kill();
    let _server = place.serve(AGAIN);
    let found = hit_percent(&place, &data);
    assert!(found >= 95, "{found} %: {}", place.status());
}

/// A unit with `RemoveIPC=yes` loses what its user has in shared memory when it ends, also by kill -9; its runtime folder stays.
#[test]
fn a_service_is_warm_after_kill_9_by_what_its_runtime_folder_keeps() {
    let (place, server, mut data) = warmed(24);
    assert!(server.stop().0.success());
    fs::create_dir(place.path("service")).unwrap();
    fs::set_permissions(place.path("service"), fs::Permissions::from_mode(0o755)).unwrap();
    let serve = || {
        let sockets = "--listen unix:run/nitro/vm.sock --control run/nitro/vm.control";
        let mut command = place.command(&format!("serve {AGAIN} {sockets}"));
        Server::start(command.env("RUNTIME_DIRECTORY", place.path("service")).env_remove("XDG_RUNTIME_DIR"))
    };
    let memories = || fs::read_dir(place.path("service/crash")).unwrap().count();
    let server = serve();
    scatter(&place, &mut data);
    assert_eq!(memories(), 1);
    server.kill();
    let server = serve();
    let found = hit_percent(&place, &data);
    let (status, said) = server.stop();
    assert!(found >= 95, "{found} %: {said}");
    assert!(status.success());
    assert_eq!(memories(), 0);
}

/// Cuts the power after scattered writes and `wait`: at least so many percent of the rest must come from the cache.
fn scattered_writes_leave_warm_at_a_power_cut(wait: impl Fn(&Place), percent_min: u64) {
    let (place, server, mut data) = warmed(24);
    scatter(&place, &mut data);
    wait(&place);
    server.kill();
    forget_the_last_start(&place);
    let _server = place.serve(AGAIN);
    let found = hit_percent(&place, &data);
    assert!(found >= percent_min, "{found} %: {}", place.status());
    assert_eq!(place.status()["caches"][0]["recovered"]["outlived"], false);
}

#[test]
fn scattered_writes_leave_the_rest_warm_at_a_power_cut_soon_after() {
    let closed = |place: &Place| {
        place.until("closed", |s| s["caches"][0]["regions_open"] == 0);
    };
    scattered_writes_leave_warm_at_a_power_cut(closed, 95);
}

/// Whatever is closed by then.
#[test]
fn scattered_writes_leave_the_rest_warm_at_a_power_cut_two_seconds_after() {
    scattered_writes_leave_warm_at_a_power_cut(|_| std::thread::sleep(Duration::from_secs(2)), 80);
}

#[test]
fn an_origin_that_others_changed_is_read_anew() {
    let (place, server, mut data) = warmed(4);
    assert!(server.stop().0.success());
    let mut file = File::options().write(true).open(place.path("vm.img")).unwrap();
    file.seek(SeekFrom::Start(1 << 20)).unwrap();
    let new = noise(13, 8192);
    file.write_all(&new).unwrap();
    data[1 << 20..][..8192].copy_from_slice(&new);
    drop(file);
    let server = place.serve(AGAIN);
    assert_eq!(hits(&place, 4, &data), 0);
    let (_, said) = server.stop();
    assert!(said.contains("another program has changed its origin") && said.contains("modification time"), "{said}");
}

#[test]
fn an_origin_that_others_changed_after_a_crash_is_read_anew() {
    for (seconds, kept) in [(60, false), (0, true)] {
        let (place, server, data) = warmed(8);
        // In another region than what was read: what is cached of the region is not trusted after a crash.
        assert_eq!(place.client().write(24 << 20, &data[24 << 20..][..8192]), 0);
        server.kill();
        let file = File::options().write(true).open(place.path("vm.img")).unwrap();
        let mtime = file.metadata().unwrap().modified().unwrap();
        file.set_modified(mtime + Duration::from_secs(seconds)).unwrap();
        drop(file);
        let _server = place.serve(AGAIN);
        assert_eq!(hits(&place, 8, &data) > 0, kept, "{seconds} s later");
    }
}

#[test]
fn an_older_file_put_in_place_after_a_crash_is_noticed() {
    let (place, server, data) = warmed(8);
    assert_eq!(place.client().write(24 << 20, &data[24 << 20..][..8192]), 0);
    server.kill();
    fs::remove_file(place.path("vm.img")).unwrap();
    let old = noise(14, 32 << 20);
    let backup = File::options().write(true).open(place.write("vm.img", &old)).unwrap();
    backup.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    drop(backup);
    let _server = place.serve(AGAIN);
    assert_eq!(hits(&place, 4, &old), 0);
}

#[test]
fn the_order_of_volumes_does_not_matter() {
    let place = Place::new();
    let contents = [noise(1, 1 << 20), noise(2, 1 << 20)];
    place.write("a.img", &contents[0]);
    place.write("b.img", &contents[1]);
    let config = |names: &[(&str, &str)]| {
        let head = "[server]\nlisten = [\"unix:n.sock\"]\n[cache.c]\npath = \"cache.img\"\nsize = \"32M\"\n\
                    sequential_threshold = 0\nram = 0\n";
        let volume = |(name, file): &(&str, &str)| format!("[volume.{name}]\norigin = \"{file}\"\n");
        place.write("nitro.toml", head.to_owned() + &names.iter().map(volume).collect::<String>());
    };
    let read = |name: &str, data: &[u8]| {
        let mut client = crate::support::Nbd::connect(&place.path("n.sock"), name);
        assert!(client.read(0, 1 << 20) == data, "volume {name}");
    };
    config(&[("one", "a.img"), ("two", "b.img")]);
    let server = place.serve("--config nitro.toml");
    read("one", &contents[0]);
    read("two", &contents[1]);
    assert!(server.stop().0.success());
    // Another one that comes first by name.
    place.write("c.img", noise(3, 1 << 20));
    config(&[("another", "c.img"), ("two", "b.img"), ("one", "a.img")]);
    let _server = place.serve("--config nitro.toml");
    place.until("loaded", |s| s["caches"][0]["loading"] == false);
    read("another", &noise(3, 1 << 20));
    read("one", &contents[0]);
    read("two", &contents[1]);
    let status = place.status();
    let hits = |at: usize| status["volumes"][at]["read_hit_extents"].as_u64().unwrap();
    assert_eq!((hits(0), hits(1), hits(2)), (0, 128, 128), "{status}");
}

#[test]
fn sizes_come_from_the_cache_and_others_are_refused() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let made = "--cache-size 32M --extent-size 4K --weu-size 1M";
    assert!(place.serve(&format!("{AGAIN} {made}")).stop().0.success());
    let server = place.serve(AGAIN);
    let (_, said) = server.stop();
    assert!(said.contains("write-evict units of 1 MiB, extents of 4 KiB"), "{said}");
    assert!(place.serve(&format!("{AGAIN} {made}")).stop().0.success());
    for (option, phrase) in [
        ("--extent-size 8K", "it was made with extent_size = 4 KiB, not 8 KiB; leave extent_size out"),
        ("--weu-size 2M", "it was made with weu_size = 1 MiB"),
    ] {
        let said = place.failure(&format!("serve {AGAIN} {option}"), 1);
        assert!(said.contains(phrase) && said.contains("--format"), "{said}");
    }
    let server = place.serve(&format!("{AGAIN} --extent-size 8K --format"));
    assert!(server.stop().1.contains("extents of 8 KiB"));
}

#[test]
fn a_cut_or_damaged_cache_is_told_of() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    assert!(place.serve(&format!("{AGAIN} --cache-size 32M")).stop().0.success());
    let file = File::options().write(true).open(place.path("cache.img")).unwrap();
    file.set_len(24 << 20).unwrap();
    let said = place.failure(&format!("serve {AGAIN}"), 1);
    assert!(said.contains("was cut to 24 MiB"), "{said}");
    file.write_all_at(b"x", 100).unwrap();
    let said = place.failure(&format!("serve {AGAIN}"), 1);
    assert!(said.contains("it is a damaged cache") && said.contains("salvage"), "{said}");
}

#[test]
fn a_cache_without_its_first_or_last_mib_starts_with_its_contents() {
    const MIB: u64 = 1 << 20;
    let (place, server, data) = warmed(8);
    assert!(server.stop().0.success());
    let file = File::options().write(true).open(place.path("cache.img")).unwrap();
    let overwrite = |at: u64, with: &[u8]| file.write_all_at(with, at).unwrap();
    let end = file.metadata().unwrap().len();
    for zeroed in [0, end - MIB] {
        overwrite(zeroed, &[0; MIB as usize]);
        place.stdout("cache salvage cache.img --list");
        place.stdout("cache show cache.img");
        let server = place.serve(AGAIN);
        // A read of what stood in the last write-evict unit is a miss.
        let least = if zeroed == 0 { 8 * 128 } else { 7 * 128 };
        assert!(hits(&place, 8, &data) >= least);
        assert!(server.stop().0.success());
    }
    // Each start has written both copies again; a filesystem is not overwritten for the sake of the second.
    overwrite(0, b"XFSB");
    let said = place.failure(&format!("serve {AGAIN}"), 1);
    assert!(said.contains("it was a cache, and its start holds an XFS filesystem"), "{said}");
    overwrite(0, &[0; 4096]);
    assert!(place.serve(AGAIN).stop().0.success());
    overwrite(end - MIB, &[0; MIB as usize]);
    assert!(place.serve(AGAIN).stop().0.success());
}

#[test]
fn a_signal_at_once_is_heeded() {
    let (place, server, data) = warmed(8);
    assert!(server.stop().0.success());
    let mut server = place.serve(AGAIN);
    server.signal(Signal::TERM);
    assert!(crate::support::wait(&mut server.child).success());
    let _server = place.serve(AGAIN);
    assert_eq!(hits(&place, 8, &data), 8 * 128);
}

#[test]
fn what_a_failed_cache_held_is_not_believed_again() {
    let (place, server, mut data) = warmed(4);
    assert!(server.stop().0.success());
    let server = place.serve_limited(AGAIN);
    assert_eq!(hits(&place, 4, &data), 4 * 128);
    // The cache's journal lies behind this, the first bytes of the volume do not.
    server.limit_files(8192);
    let new = noise(13, 8192);
    assert_eq!(place.client().write(0, &new), 0);
    data[..8192].copy_from_slice(&new);
    let status = place.until("given up", |s| s["caches"][0]["health"] == "pass-through");
    assert!(status["caches"][0]["failed"].as_str().unwrap().contains("cache device"), "{status}");
    assert!(place.client().read(0, 1 << 20) == data[..1 << 20]);
    let noted = || fs::read_dir(place.path("state")).unwrap().count();
    assert_eq!(noted(), 1);
    server.kill();

    // The cache has the old bytes, whole, and knows nothing of the write.
    let server = place.serve(AGAIN);
    assert_eq!(hits(&place, 4, &data), 0);
    place.until("trusted again", |_| noted() == 0);
    place.until("inserted", |s| s["caches"][0]["insertions"].as_u64().unwrap() >= 4 * 128);
    assert!(server.stop().1.contains("clean contents are not used"));
    let server = place.serve(AGAIN);
    hits(&place, 4, &data);
    assert!(!server.stop().1.contains("clean contents are not used"));
}
