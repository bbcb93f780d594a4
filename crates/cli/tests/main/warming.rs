//! `nitro warm`: a volume is read into its cache before clients ask for it.

use crate::support::{Place, noise};
use serde_json::Value;
use std::fmt::Write;
use std::fs;

const MIB: u64 = 1 << 20;

fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("vm.img"), noise(7, 24 << 20)).unwrap();
    place
}

fn is_cached(place: &Place, offset: u64) -> bool {
    let told: Value = serde_json::from_str(&place.stdout(&format!("explain vm {offset} -o json"))).unwrap();
    told["cached"] == true
}

#[test]
fn what_was_warmed_is_hit() {
    let place = place();
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 64M --ram 0");
    let told = place.stdout("warm vm 4M 8M");
    assert!(told.contains("8 MiB in one range"), "{told}");
    place.until("inserted", |_| is_cached(&place, 12 * MIB - 1));
    assert!(is_cached(&place, 4 * MIB) && !is_cached(&place, 4 * MIB - 1) && !is_cached(&place, 12 * MIB));
    let all: Value = serde_json::from_str(&place.stdout("warm vm -o json")).unwrap();
    assert_eq!(all, serde_json::json!({ "volume": "vm", "ranges": 1, "bytes": 24 * MIB }));
    place.until("all is inserted", |_| (0..24).all(|at| is_cached(&place, at * MIB)));
    let volume = |name: &str| place.status()["volumes"][0][name].as_u64().unwrap();
    let (hits, from_origin) = (volume("read_hit_extents"), volume("origin_reads"));
    let mut client = place.client();
    for at in 0..24 {
        client.read(at * MIB, MIB as usize);
    }
    assert_eq!((volume("read_hit_extents") - hits, volume("origin_reads") - from_origin), (24 * MIB / 8192, 0));
    place.stdout("warm vm");
    assert_eq!(volume("origin_reads"), from_origin, "what is cached is not read again");
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn a_trace_says_what_is_hot() {
    let place = place();
    let mut table = String::new();
    for (region, reads) in [(20, 9), (3, 5), (9, 1)] {
        for number in 0..reads {
            writeln!(table, "{number},read,{},4096", region * MIB).unwrap();
        }
    }
    // Beyond the volume: a trace of a larger one.
    writeln!(table, "9,read,{},4096", 900 * MIB).unwrap();
    fs::write(place.path("day.csv"), table).unwrap();
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 64M --ram 0");
    let columns = "--columns time=0,op=1,offset=2,len=3";
    place.stdout(&format!("warm vm --from-trace day.csv {columns} --max 2M"));
    place.until("inserted", |_| is_cached(&place, 20 * MIB) && is_cached(&place, 3 * MIB));
    assert!(!is_cached(&place, 9 * MIB) && !is_cached(&place, 0));
    let none = place.failure(&format!("warm vm --from-trace day.csv {columns} --object 7"), 1);
    assert!(none.contains("no read of the trace is within the volume"), "{none}");
    assert!(server.stop().0.success());
}

#[test]
fn wrong_use_is_refused_by_name() {
    let place = place();
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 64M --ram 0");
    for (arguments, code, told) in [
        ("warm vm 23M 2M", 1, "which do not contain 24117248 to 26214400"),
        ("warm nobody", 1, "those that are: vm"),
        ("warm vm 1M", 2, "LENGTH"),
        ("warm vm --from-trace missing.csv", 1, "missing.csv"),
        ("warm vm --object 1", 2, "--from-trace"),
    ] {
        let refused = place.failure(arguments, code);
        assert!(refused.contains(told), "{arguments}: {refused}");
    }
    place.stdout("volume set vm --pause-fill on");
    assert!(place.failure("warm vm", 1).contains("--pause-fill off"));
    assert!(server.stop().0.success());
}
