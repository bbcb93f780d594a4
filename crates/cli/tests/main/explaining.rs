//! Why reads miss, and what the cache knows of one place.

use crate::support::{Place, noise};
use serde_json::Value;
use std::fs;

const MIB: u64 = 1 << 20;
const EXTENT: u64 = 8192;
const EXTENTS: u64 = 48 * MIB / EXTENT;

#[test]
fn misses_are_told_by_cause_and_explain_says_it_of_one_place() {
    let place = Place::new();
    fs::write(place.path("vm.img"), noise(7, 48 << 20)).unwrap();
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 24M --ram 0 --sequential-threshold 0");
    let explain = |offset: u64| -> Value {
        serde_json::from_str(&place.stdout(&format!("explain vm {offset} -o json"))).unwrap()
    };
    let missed = |cause: &str| place.status()["volumes"][0]["missed"][cause].as_u64().unwrap();
    let before = explain(5 * EXTENT + 100);
    assert_eq!(
        (&before["offset"], &before["cached"], &before["gone"]),
        (&(5 * EXTENT).into(), &false.into(), &Value::Null)
    );
    let mut client = place.client();
    // Twice what the cache holds, in an order that is no stream.
    let places: Vec<u64> = (0..EXTENTS).map(|number| number * 1009 % EXTENTS * EXTENT).collect();
    for at in &places {
        client.read(*at, EXTENT as usize);
    }
    let cold = missed("cold");
    assert!(cold >= EXTENTS * 99 / 100, "{cold} of {EXTENTS} were never cached before");
    let last = *places.last().unwrap();
    place.until("inserted", |_| explain(last)["cached"] == true);
    // Those that went last are remembered.
    let gone = places[..places.len() / 2].iter().rev().copied();
    let evicted: Vec<u64> = gone.filter(|at| explain(*at)["gone"] == "evicted").take(3).collect();
    assert_eq!(evicted.len(), 3, "half of them cannot be cached");
    // Of 8,192 extents that never came, one is taken for one that went: some may be counted already.
    let known = missed("evicted");
    client.read(evicted[0], EXTENT as usize);
    assert_eq!(missed("evicted"), known + 1);
    let text = place.stdout(&format!("explain vm {}", evicted[1]));
    assert!(text.contains("from the origin") && text.contains("it was evicted"), "{text}");
    assert!(place.stdout("status").contains("evicted"));
    let cache = &place.status()["caches"][0];
    let told: u64 = cache["space"].as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(cache["capacity_bytes"], told, "{cache}");

    assert!(place.failure("explain vm 1T", 1).contains("volume vm ends at"));
    assert!(place.failure("explain other 0", 1).contains("it is not served here"));
    assert!(server.stop().0.success());
}
