//! `nitro-lab size` of a running server: what its clients read lately tells how large its cache should be.

use crate::support::{Place, noise};
use serde_json::Value;

const SOCKET: &str = "run/nitro/vm.control";

#[test]
fn a_running_server_tells_how_large_its_cache_should_be() {
    let place = Place::new();
    place.file("vm.img", 128 << 20);
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 32M --ram 0 --staging 0");
    let lab = place.of("nitro-lab");
    let said = lab.failure(&format!("size {SOCKET}"), 1);
    assert!(said.contains("nothing was read from its caches yet") && said.contains("ask again"), "{said}");
    let mut client = place.client();
    for at in 0..80 {
        assert_eq!(client.write(at << 20, &noise(at, 1 << 20)), 0);
    }
    // 80 MiB, round and round, and not one after the other.
    for number in 0..1200 {
        client.read((number * 37 % 80) << 20, 1 << 20);
    }
    let answers: Value = serde_json::from_str(&lab.stdout(&format!("size {SOCKET} -o json"))).unwrap();
    let answer = &answers[0];
    assert_eq!((answers.as_array().unwrap().len(), &answer["reached"]), (1, &true.into()), "{answer}");
    // Noise has no duplicates, and cannot be compressed.
    let needed = answer["recommended"]["capacity_bytes"].as_u64().unwrap();
    assert!((64 << 20..112 << 20).contains(&needed), "{needed}: 80 MiB and what a unit has besides extents");
    assert!(answer["present"]["hit_ratio"].as_f64().unwrap() < 0.3, "{answer}");
    let words = lab.stdout(&format!("size {SOCKET}"));
    for told in
        ["Cache ", "of recent reads would hit with", "estimates for LRU", "An SSD of 240 GB", "misses of extents read"]
    {
        assert!(words.contains(told), "{told}: {words}");
    }
    let said = lab.failure(&format!("size {SOCKET} --mode write-back"), 1);
    assert!(said.contains("--mode") && said.contains("nitro serve --record"), "{said}");
    drop(client);
    assert!(server.stop().0.success());
}

#[test]
fn a_server_without_a_cache_and_a_socket_of_another_program_are_refused() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve("--origin vm.img --cache none");
    let lab = place.of("nitro-lab");
    let said = lab.failure(&format!("size {SOCKET}"), 1);
    assert!(said.contains("the server has no cache") && said.contains("--record"), "{said}");
    let said = lab.failure(&format!("size {SOCKET} other.parquet"), 1);
    assert!(said.contains("it is a socket") && said.contains("name it alone"), "{said}");
    // Its clients' socket speaks first, and another language.
    let said = lab.failure("size run/nitro/vm.sock", 1);
    assert!(said.contains("is it the control socket"), "{said}");
    drop(server);
}
