//! `nitro cache` and `nitro volume`.

use crate::support::{Nbd, Place, noise};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

#[test]
fn a_cache_is_made_shown_checked_and_served() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let made = place.stdout("cache create cache.img --size 64M --extent-size 4K");
    assert!(made.contains("cache cache.img: stopped") && made.contains("uuid"), "{made}");
    assert!(place.failure("cache create cache.img --size 64M", 1).contains("it is a cache already"));
    assert!(place.failure("cache create other.img", 1).contains("give its size"));
    let server = place.serve("--origin vm.img --cache cache.img --sequential-threshold 0");
    let data = noise(41, 8 << 20);
    let mut client = place.client();
    for at in (0..data.len()).step_by(1 << 20) {
        assert_eq!(client.write(at as u64, &data[at..][..1 << 20]), 0);
    }
    let running: Value = serde_json::from_str(&place.stdout("cache show -o json")).unwrap();
    assert_eq!((&running[0]["health"], &running[0]["volumes"][0]["served"]), (&"caching".into(), &true.into()));
    assert!(server.stop().1.contains("extents of 4 KiB"));
    let report = place.stdout("cache fsck cache.img");
    assert!(report.contains("nothing is wrong") && report.contains("0 dirty, 0 lost"), "{report}");
    let report: Value = serde_json::from_str(&place.stdout("cache fsck cache.img -o json")).unwrap();
    assert!(report["counts"]["extents"].as_u64().unwrap() >= 2048, "{report}");
    // What the last server wrote at its very end might have been lost with the power; what an earlier one wrote, not.
    assert!(place.serve("--origin vm.img --cache cache.img").stop().0.success());
    // A byte of content falls over.
    let file = File::options().read(true).write(true).open(place.path("cache.img")).unwrap();
    let size = file.metadata().unwrap().len();
    let mut block = vec![0; 4096];
    let at = (0..size / 4096).map(|n| n * 4096).find(|at| {
        file.read_exact_at(&mut block, *at).unwrap();
        data.chunks(4096).any(|extent| extent == block)
    });
    file.write_all_at(&[!block[5]], at.unwrap() + 5).unwrap();
    drop(file);
    let report = place.stdout("cache fsck cache.img");
    assert_eq!(report.matches("costs a miss: stored extent: checksum mismatch").count(), 1, "{report}");
    // A byte of the superblock does not cost a miss only.
    let file = File::options().write(true).open(place.path("cache.img")).unwrap();
    file.write_all_at(b"?", 100).unwrap();
    drop(file);
    assert!(place.failure("cache fsck cache.img", 1).contains("problems with its structures"));
}

#[test]
fn volumes_come_and_go_while_others_are_served() {
    let place = Place::new();
    let _server = place.usual();
    let data = noise(42, 4 << 20);
    place.write("db.img", &data);
    let added = place.stdout("volume add db --origin db.img --mode write-back");
    assert!(added.contains("served from now on") && added.contains("nbd+unix:///db?socket="), "{added}");
    assert!(place.path("db.img.nitro-dirty").exists());
    let mut first = place.client();
    let mut client = Nbd::connect(&place.path("run/nitro/vm.sock"), "db");
    assert!(client.read(0, 1 << 20) == data[..1 << 20]);
    let new = noise(43, 8192);
    assert_eq!(client.write(8192, &new), 0);
    assert_eq!(first.write(0, &new), 0);
    let list: Value = serde_json::from_str(&place.stdout("volume list -o json")).unwrap();
    assert_eq!(
        (&list[1]["name"], &list[1]["mode"], &list[1]["clients"]),
        (&"db".into(), &"write-back".into(), &1.into())
    );
    for (arguments, phrase) in [
        ("volume add db --origin db.img", "a volume with that name exists already"),
        ("volume add other --origin db.img", "is in use"),
        ("volume add other --origin cache.img", "is in use"),
        ("volume add other --origin gone.img", "it does not exist"),
        ("volume add a/b --origin db.img", "the name cannot be used"),
        ("volume add other --origin db.img --cache slow", "there is no cache with that name; there is: cache"),
        ("volume set gone --mode write-back", "those that are: vm, db"),
        ("volume remove gone", "it is not served here, and no cache knows it"),
    ] {
        let said = place.failure(arguments, 1);
        assert!(said.contains(phrase), "{said}");
    }
    // The client has gone by the time that the volume has.
    let removed = place.stdout("volume remove db");
    assert!(removed.contains("its origin is up to date"), "{removed}");
    assert_eq!(fs::read(place.path("db.img")).unwrap()[8192..16_384], new);
    assert!(!place.path("db.img.nitro-dirty").exists());
    assert!(!place.stdout("volume list").contains("db"));
    assert_eq!(first.read(0, 8192), new);
    // Its origin is free again.
    place.stdout("volume add again --origin db.img --read-only");
    let mut client = Nbd::connect(&place.path("run/nitro/vm.sock"), "again");
    assert_eq!(client.read(8192, 8192), new);
    assert_eq!(client.write(0, b"x"), 1);
    assert!(place.failure("volume set again --mode write-back", 1).contains("it is read-only"));
}

#[test]
fn without_a_cache_there_is_no_write_back() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let _server = place.serve("--origin vm.img --cache none");
    assert!(place.failure("volume set vm --mode write-back", 1).contains("served without a cache"));
    assert!(place.stdout("flush vm --wait").contains("up to date"));
    place.file("db.img", 1 << 20);
    assert!(place.stdout("volume add db --origin db.img").contains("served from now on"));
    assert!(place.stdout("volume remove db").contains("removed"));
}

#[test]
fn commands_of_another_version_are_answered() {
    use std::io::{BufRead, BufReader, Write};
    let place = Place::new();
    let _server = place.usual();
    let mut stream = std::os::unix::net::UnixStream::connect(place.path("run/nitro/vm.control")).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    for (request, answer) in [
        ("{\"version\":1,\"command\":{\"fly\":{}}}\n", "malformed request: unknown variant `fly`"),
        ("{\"version\":1,\"command\":{\"flush\":{\"volume\":\"vm\"}}}\n", "missing field `wait`"),
        (
            "{\"version\":1,\"command\":{\"flush\":{\"volume\":\"vm\",\"wait\":true}}}\n",
            "\"done\":{\"message\":\"volume vm",
        ),
    ] {
        stream.write_all(request.as_bytes()).unwrap();
        let line = answers.next().unwrap().unwrap();
        assert!(line.contains(answer), "{line}");
    }
}

#[test]
fn a_volume_goes_without_its_cache_and_with_it_again() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let _server = place.serve("--origin vm.img --cache cache.img --cache-size 64M --mode write-back --dirty-age 1h");
    let mut client = place.client();
    let data = noise(44, 1 << 20);
    assert_eq!(client.write(0, &data), 0);
    let said = place.stdout("cache detach cache vm");
    assert!(said.contains("all requests go to it from now on"), "{said}");
    assert!(fs::read(place.path("vm.img")).unwrap()[..1 << 20] == data);
    assert!(!place.path("vm.img.nitro-dirty").exists());
    let status = place.status();
    assert_eq!((&status["volumes"][0]["attached"], &status["caches"][0]["cached_bytes"]), (&false.into(), &0.into()));
    assert!(place.failure("volume set vm --mode write-back", 1).contains("it is detached"));
    assert!(client.read(0, 1 << 20) == data);
    let new = noise(45, 8192);
    assert_eq!(client.write(8192, &new), 0);
    assert!(place.stdout("status").contains("detached: the origin serves alone"));
    assert!(place.stdout("cache attach cache vm").contains("uses cache cache again"));
    for _ in 0..2 {
        assert_eq!(client.read(8192, 8192), new);
        place.until("inserted", |s| s["caches"][0]["insert_queue_bytes"] == 0);
    }
    assert!(place.status()["caches"][0]["cached_bytes"].as_u64().unwrap() > 0);
    assert!(place.failure("cache detach slow vm", 1).contains("there is no cache with that name"));
    assert!(place.failure("cache detach cache gone", 1).contains("it is not served here"));
}

#[test]
fn a_cache_grows_and_shrinks_while_it_is_served() {
    let place = Place::new();
    let data = noise(46, 32 << 20);
    place.write("vm.img", &data);
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 32M --sequential-threshold 0 --ram 0");
    let read = || {
        let mut client = place.client();
        for at in (0..data.len()).step_by(1 << 20) {
            assert!(client.read(at as u64, 1 << 20) == data[at..][..1 << 20], "other bytes at {at}");
        }
        place.until("inserted", |s| s["caches"][0]["insert_queue_bytes"] == 0);
    };
    read();
    let said = place.stdout("cache resize cache --size 48M");
    assert!(said.contains("cache cache: 48 MiB in total from now on"), "{said}");
    assert_eq!(fs::metadata(place.path("cache.img")).unwrap().len(), 48 << 20);
    read();
    let before = place.status();
    assert!(before["caches"][0]["capacity_bytes"].as_u64().unwrap() > 40 << 20, "{before}");
    read();
    let after = place.status();
    let misses = |s: &Value| s["volumes"][0]["read_miss_extents"].as_u64().unwrap();
    assert_eq!(misses(&after), misses(&before), "all of it fits");
    place.stdout("cache resize cache --size 24M");
    assert_eq!(fs::metadata(place.path("cache.img")).unwrap().len(), 24 << 20);
    read();
    assert!(place.status()["caches"][0]["cached_bytes"].as_u64().unwrap() < 24 << 20);
    assert!(place.failure("cache resize cache --size 1M", 1).contains("too small"));
    assert!(place.failure("cache resize slow --size 24M", 1).contains("there is no cache with that name"));
    assert!(place.failure("cache resize cache --size 9000T", 1).contains("make the cache smaller"));
    // The journal keeps the size that the cache was made with.
    assert!(place.failure("cache resize cache --size 256M", 1).contains("the nearest valid size is"));
    assert_eq!(fs::metadata(place.path("cache.img")).unwrap().len(), 24 << 20);
    assert!(server.stop().0.success());
    let _server = place.serve("--origin vm.img --cache cache.img --cache-size 24M --sequential-threshold 0");
    place.until("loaded", |s| s["caches"][0]["loading"] == false);
    assert!(place.status()["caches"][0]["cached_bytes"].as_u64().unwrap() > 10 << 20);
    read();
}
