//! Fingerprints in an index on the SSD.

use crate::support::{Place, Server, noise};
use serde_json::Value;

const EXTENT: u64 = 8 << 10;
/// Different contents that are entered, of which the index in RAM keeps one in a hundred.
const CONTENTS: u64 = 1500;
const SERVE: &str = "--origin vm.img --cache cache.img --cache-size 64M --ram 0 --fingerprint-index-ratio 1 \
                     --sequential-threshold 0";

fn content(n: u64) -> Vec<u8> {
    noise(n, EXTENT as usize)
}

fn index(place: &Place) -> Value {
    place.status()["caches"][0]["flash_index"].clone()
}

fn open(place: &Place, kind: &str) -> Server {
    let server = place.serve(&format!("{SERVE} --fingerprint-index {kind}"));
    place.until("open", |status| status["caches"][0]["flash_index"]["open"] == true);
    server
}

/// Reads the half of the volume that has the contents once, or the other one, where they are once more.
fn read(place: &Place, second: bool) {
    let mut client = place.client();
    for n in 0..CONTENTS {
        let at = n + if second { CONTENTS } else { 0 };
        assert_eq!(client.read(at * EXTENT, EXTENT as usize), content(n), "extent {at}");
    }
    place.until("settled", |status| status["caches"][0]["insert_queue_bytes"] == 0);
}

#[test]
fn duplicates_are_found_that_ram_does_not_know() {
    ["bufferhash", "silt"].into_iter().for_each(find_duplicates);
}

fn find_duplicates(kind: &str) {
    let place = Place::new();
    let contents: Vec<u8> = (0..2 * CONTENTS).flat_map(|at| content(at % CONTENTS)).collect();
    place.write("vm.img", &contents);
    let server = open(&place, kind);
    read(&place, false);
    place.until("known", |status| {
        status["caches"][0]["flash_index"]["entries"].as_u64().is_some_and(|entries| entries >= CONTENTS)
    });
    let (status, said) = server.stop();
    assert!(status.success(), "{said}");
    assert!(said.contains("fingerprint index: "), "{said}");
    // It knows them still after a restart.
    let server = open(&place, kind);
    assert!(index(&place)["entries"].as_u64().unwrap() >= CONTENTS);
    read(&place, true);
    let cache = place.status()["caches"][0].clone();
    assert!(cache["flash_index"]["duplicates"].as_u64().unwrap() > CONTENTS * 9 / 10, "{cache}");
    assert!(cache["ssd_written_payload_bytes"].as_u64().unwrap() < CONTENTS * EXTENT / 10, "{cache}");
    // What was found so is read as what it is.
    read(&place, true);
    server.kill();
    // Also after a crash nothing wrong is found: contents are others now.
    let others: Vec<u8> = (0..2 * CONTENTS).flat_map(|at| content(CONTENTS + at % CONTENTS)).collect();
    place.write("vm.img", &others);
    let _server = open(&place, kind);
    let mut client = place.client();
    for at in (0..2 * CONTENTS).step_by(7) {
        assert_eq!(client.read(at * EXTENT, EXTENT as usize), content(CONTENTS + at % CONTENTS), "extent {at}");
    }
}

#[test]
fn an_index_that_a_cache_was_not_made_with_is_refused() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    drop(place.serve("--origin vm.img --cache cache.img --cache-size 32M"));
    let refused = place.run("serve --origin vm.img --cache cache.img --fingerprint-index bufferhash");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("it was made with fingerprint_index = ram"), "{said}");
    let small = "serve --origin vm.img --cache new.img --cache-size 1G --fingerprint-index bufferhash --fingerprint-index-ram 64K";
    let said = String::from_utf8_lossy(&place.run(small).stderr).into_owned();
    assert!(said.contains("the nearest that can is") && !place.path("new.img").exists(), "{said}");
}
