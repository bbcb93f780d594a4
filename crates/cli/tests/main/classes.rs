//! Classes of requests, from the client to the statistics and the recording; and the policies of a cache.

use crate::support::{Nbd, Place, noise};
use nitro_trace::parquet::ParquetReader;
use nitro_trace::{BadRecords, Op, Reader as _};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;

const MIB: u64 = 1 << 20;

fn place() -> Place {
    let place = Place::new();
    place.file("vm.img", 16 * MIB);
    place
}

/// What a list of classes says under a name, of one class.
fn of(classes: &Value, class: u64, name: &str) -> Option<u64> {
    classes.as_array()?.iter().find(|held| held["class"] == class)?[name].as_u64()
}

#[test]
fn a_class_reaches_the_statistics_and_the_recording() {
    let place = place();
    let arguments = "--origin vm.img --cache cache.img --cache-size 32M --ram 0 --class 3 --record requests.parquet";
    let server = place.serve(arguments);
    let mut client = place.client();
    let mut classed = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm?class=7");
    let mut plain = Nbd::connect(&place.path("run/nitro/vm.sock"), "vm?class=0");
    assert_eq!(client.write(0, &noise(1, MIB as usize)), 0);
    assert_eq!(classed.write(MIB, &noise(2, 2 * MIB as usize)), 0);
    assert_eq!(plain.write(3 * MIB, &noise(3, MIB as usize)), 0);
    let status = place.until("inserted", |status| status["caches"][0]["insertions"].as_u64() == Some(4 * MIB / 8192));
    let cached = &status["caches"][0]["classes"];
    let held = [0, 3, 7].map(|class| of(cached, class, "cached_bytes"));
    assert_eq!(held, [Some(MIB), Some(MIB), Some(2 * MIB)], "{cached}");
    // A hit counts for the class that reads; the content stays that of the class that brought it.
    classed.read(0, 65536);
    let status = place.status();
    let asked = &status["volumes"][0]["classes"];
    assert_eq!((of(asked, 7, "read_hit_extents"), of(asked, 7, "reads")), (Some(8), Some(1)), "{asked}");
    assert_eq!((of(asked, 3, "write_bytes"), of(asked, 3, "reads")), (Some(MIB), Some(0)), "{asked}");
    assert_eq!(of(&status["caches"][0]["classes"], 3, "cached_bytes"), Some(MIB));
    // Overwritten by another class.
    assert_eq!(classed.write(0, &noise(4, MIB as usize)), 0);
    place.until("taken over", |status| {
        let cached = &status["caches"][0]["classes"];
        of(cached, 3, "cached_bytes").is_none() && of(cached, 7, "cached_bytes") == Some(3 * MIB)
    });
    let text = place.stdout("status");
    assert!(text.contains("by class      none: 1 MiB, 7: 3 MiB"), "{text}");
    drop((client, classed, plain));
    assert!(server.stop().0.success());
    // Classes of what is cached survive a restart.
    let server = place.serve("--origin vm.img --cache cache.img --ram 0");
    let status = place.until("loaded", |status| status["caches"][0]["loading"] == false);
    let cached = &status["caches"][0]["classes"];
    assert_eq!([0, 7].map(|class| of(cached, class, "cached_bytes")), [Some(MIB), Some(3 * MIB)], "{cached}");
    assert!(server.stop().0.success());

    let file = File::open(place.path("requests.parquet")).unwrap();
    let reader = ParquetReader::new(file, BadRecords::Fatal).unwrap();
    let recorded: BTreeSet<_> =
        reader.requests().map(Result::unwrap).filter(|r| r.op == Op::Write).map(|r| r.class.number()).collect();
    assert_eq!(recorded, [0, 3, 7].into());
}

#[test]
fn a_class_that_does_not_exist_is_refused() {
    let place = place();
    let said = place.failure("serve --origin vm.img --cache cache.img --cache-size 32M --class 32", 1);
    assert!(said.contains("volume.vm.class = 32: classes are 0 to 31"), "{said}");
    place.file("odd.img", MIB);
    let server = place.serve("--origin odd.img --name vm?class=7 --cache cache.img --cache-size 32M");
    let client = Nbd::connect(&place.path("run/nitro/vm?class=7.sock"), "vm?class=7");
    // The name as it is wins over a class in it.
    place.until("connected", |status| status["volumes"][0]["clients"] == 1);
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn policies_are_chosen_by_name() {
    let place = place();
    let said = place.failure("serve --origin vm.img --cache cache.img --cache-size 32M --eviction clock", 2);
    assert!(said.contains("there is no policy of eviction \"clock\"; there are: heat, lru, fifo"), "{said}");
    let cache = "--origin vm.img --cache cache.img --cache-size 32M --ram 0 --sequential-threshold 0";
    let server = place.serve(&format!("{cache} --admission second-miss --eviction fifo"));
    let mut client = place.client();
    let insertions = |wanted: u64, refused: u64| {
        place.until("seen", |status| {
            let cache = &status["caches"][0];
            (cache["insertions"].as_u64(), cache["rejections"].as_u64()) == (Some(wanted), Some(refused))
        })
    };
    assert_eq!(client.write(0, &noise(1, MIB as usize)), 0);
    insertions(0, 128);
    // What was missed once is taken when it is missed again, but for the few whose place another one took.
    client.read(0, MIB as usize);
    let status = place.until("taken", |status| status["caches"][0]["insertions"].as_u64() >= Some(100));
    assert!(status["caches"][0]["insertions"].as_u64() <= Some(128), "{status}");
    assert!(server.stop().0.success());
    // Policies are no part of what is on the SSD.
    assert!(place.serve(&format!("{cache} --admission by-source")).stop().0.success());
}
