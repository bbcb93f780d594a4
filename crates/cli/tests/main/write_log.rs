//! Write-back with a write log: what was acknowledged is there, whether or not it was flushed.

use crate::support::{Place, Server, noise};
use std::fs;

const AGAIN: &str = "--origin vm.img --cache cache.img --mode write-back --dirty-age 1h";

fn with_log() -> String {
    format!("{AGAIN} --write-log log.img")
}

/// A server with a write log that is killed right after a write was acknowledged; what was written.
fn killed() -> (Place, Vec<u8>) {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve(&format!("{} --cache-size 64M --write-log-size 8M", with_log()));
    let mut data = noise(31, 2 << 20);
    let mut client = place.client();
    for at in (0..data.len()).step_by(128 << 10) {
        assert_eq!(client.write(at as u64, &data[at..][..128 << 10]), 0);
    }
    // Of an extent, in part.
    data[700..2200].copy_from_slice(&noise(32, 1500));
    assert_eq!(client.write(700, &data[700..2200]), 0);
    server.kill();
    (place, data)
}

fn reads_back(place: &Place, data: &[u8]) -> bool {
    place.client().read(0, data.len()) == data
}

fn stop(server: Server) -> String {
    let (status, said) = server.stop();
    assert!(status.success(), "{said}");
    said
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let (place, data) = killed();
    // Again before anything was flushed: what came back is as safe as it was.
    for _ in 0..2 {
        let server = place.serve(&with_log());
        assert!(reads_back(&place, &data));
        let status = place.status();
        let log = &status["caches"][0]["log"];
        assert!(log["active"] == true && log["path"] == "log.img", "{log}");
        assert!(status["volumes"][0]["dirty_bytes"].as_u64().unwrap() >= 2 << 20, "{status}");
        server.kill();
    }
    stop(place.serve(&with_log()));
    assert!(fs::read(place.path("vm.img")).unwrap()[..data.len()] == data[..]);
    assert!(!place.path("vm.img.nitro-dirty").exists());
}

#[test]
fn a_cache_is_not_started_without_its_log() {
    let (place, data) = killed();
    let said = place.failure(&format!("serve {AGAIN}"), 1);
    assert!(said.contains("write log") && said.contains("no log device is given"), "{said}");
    let said = place.failure(&format!("serve {AGAIN} --write-log other.img --write-log-size 8M"), 1);
    assert!(said.contains("this log device is another one"), "{said}");
    let said = place.failure(&format!("serve {AGAIN} --format"), 1);
    assert!(said.contains("write log"), "{said}");
    let shown: serde_json::Value = serde_json::from_str(&place.stdout("cache show cache.img -o json")).unwrap();
    assert_eq!(shown[0]["log_needed"].as_str().map(str::len), Some(36), "{shown}");
    assert!(place.stdout("cache fsck cache.img").contains("may hold writes that are nowhere else"));
    // None of this has changed anything.
    let server = place.serve(&with_log());
    assert!(reads_back(&place, &data));
    server.kill();
    let server = place.serve(&format!("{AGAIN} --force-discard-dirty"));
    assert!(place.status()["caches"][0]["log"].is_null());
    stop(server);
    // It is not needed any more.
    stop(place.serve(AGAIN));
}

#[test]
fn a_log_comes_and_goes_at_orderly_restarts() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let data = noise(33, 1 << 20);
    let keep = "--no-destage-on-exit";
    stop(place.serve(&format!("{AGAIN} --cache-size 64M {keep}")));
    let server = place.serve(&format!("{} --write-log-size 8M {keep}", with_log()));
    assert_eq!(place.client().write(0, &data), 0);
    assert!(stop(server).contains("1 MiB of dirty data stay in the cache"));
    fs::remove_file(place.path("log.img")).unwrap();
    let server = place.serve(&format!("{AGAIN} {keep}"));
    assert!(reads_back(&place, &data));
    assert!(place.status()["caches"][0]["log"].is_null());
    stop(server);
}

#[test]
fn salvage_writes_out_what_the_log_holds() {
    let (place, data) = killed();
    let listed = place.stdout("cache salvage cache.img --write-log log.img --list");
    assert!(listed.contains("logged"), "{listed}");
    place.stdout("cache salvage cache.img --write-log log.img --volume vm --to rescued.img");
    assert!(fs::read(place.path("rescued.img")).unwrap()[..data.len()] == data[..]);
    let server = place.serve(&with_log());
    assert!(reads_back(&place, &data), "salvage has changed nothing");
    server.kill();
}

#[test]
fn a_log_that_cannot_be_used_is_refused() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    place.write("notes.txt", "not a log");
    for (options, why) in [
        ("--write-log notes.txt", "it is not a write log and is not empty"),
        ("--write-log missing.img", "it does not exist yet"),
        ("--write-log small.img --write-log-size 64K", "64 KiB is too small for a write log"),
        ("--write-log vm.img", "is the same as the cache"),
    ] {
        let said = place.failure(&format!("serve {AGAIN} --cache-size 64M {options}"), 1);
        assert!(said.contains(why), "{options}: {said}");
    }
}
