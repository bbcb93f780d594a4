//! Parts of volumes that stay in the cache.

use crate::support::{Place, noise};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SERVED: &str = "--origin vm.img --cache cache.img --cache-size 64M --ram 0 --staging 0";

fn place() -> Place {
    let place = Place::new();
    place.file("vm.img", 256 * MIB);
    place
}

fn pins(place: &Place) -> Value {
    serde_json::from_str(&place.stdout("pins -o json")).unwrap()
}

fn ssd_read_hits(place: &Place) -> u64 {
    place.status()["volumes"][0]["read_hit_extents"].as_u64().unwrap()
}

/// Writes so much, three times the cache, that all else is evicted.
fn write_past(place: &Place, seed: u64) {
    let mut client = place.client();
    for number in 0..192 {
        let at = 16 + number * 37 % 192;
        assert_eq!(client.write(at * MIB, &noise(seed + number, MIB as usize)), 0);
    }
}

#[test]
fn what_is_pinned_stays_over_scans_and_restarts_until_it_is_unpinned() {
    let place = place();
    let server = place.serve(SERVED);
    assert!(place.stdout("pins").contains("Nothing is pinned"));
    place.stdout("pin vm 1M 4M");
    let expected =
        serde_json::json!([{ "cache": pins(&place)[0]["cache"], "volume": "vm", "offset": MIB, "length": 4 * MIB }]);
    assert_eq!(pins(&place), expected);
    let mut client = place.client();
    assert_eq!(client.write(0, &noise(1, 8 * MIB as usize)), 0);
    write_past(&place, 1000);
    let before = ssd_read_hits(&place);
    client.read(MIB, 4 * MIB as usize);
    assert_eq!(ssd_read_hits(&place) - before, 4 * MIB / 8192, "all of it is still cached");
    drop(client);
    assert!(server.stop().0.success());

    let server = place.serve(SERVED);
    place.until("loaded", |status| status["caches"][0]["loading"] == false);
    assert_eq!(pins(&place), expected);
    write_past(&place, 2000);
    let before = ssd_read_hits(&place);
    let mut client = place.client();
    client.read(MIB, 4 * MIB as usize);
    assert_eq!(ssd_read_hits(&place) - before, 4 * MIB / 8192, "nor does a restart change that");
    assert!(place.stdout("explain vm 1M").contains("pinned"));

    place.stdout("unpin vm");
    assert_eq!(pins(&place), serde_json::json!([]));
    assert!(
        !place.stdout("explain vm 1M").contains("pinned"),
        "what it was used keeps it from now on, or nothing does"
    );
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn wrong_pins_are_refused_by_name_and_change_nothing() {
    let place = place();
    let server = place.serve(SERVED);
    for (arguments, code, told) in [
        ("pin vm 0 48M", 1, "more than 90 % cannot be guaranteed"),
        ("pin vm", 1, "cache cache has only"),
        ("pin vm 300M 1M", 1, "do not contain 314572800"),
        ("pin nobody", 1, "nobody"),
        ("pin vm 1M much", 2, "much"),
    ] {
        let refused = place.failure(arguments, code);
        assert!(refused.contains(told), "{arguments}: {refused}");
    }
    assert_eq!(pins(&place), serde_json::json!([]));
    assert!(server.stop().0.success());
}
