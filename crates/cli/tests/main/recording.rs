//! `nitro serve --record`: what clients did, told by `nitro-lab trace`.

use crate::support::{Place, noise};
use serde_json::Value;

const SERVED: &str = "--origin vm.img --cache cache.img --cache-size 32M --record requests.parquet";

/// The laboratory, in the folder of the server.
fn lab(place: &Place) -> nitro_testkit::programs::Place {
    place.of("nitro-lab")
}

fn info(place: &Place, name: &str) -> Value {
    serde_json::from_str(&lab(place).stdout(&format!("trace info -o json {name}"))).unwrap()
}

/// Eight blocks of which four are different, written and read; and what has no fingerprints.
fn do_some(place: &Place) {
    let mut client = place.client();
    let unique = noise(1, 16 << 10);
    assert_eq!(client.write(0, &unique), 0);
    assert_eq!(client.write(64 << 10, &unique), 0);
    assert_eq!(client.read(64 << 10, 16 << 10), unique);
    assert_eq!(client.write(512, &noise(2, 1024)), 0);
    assert_eq!(client.flush(), 0);
    // A block of zeroes, from the origin.
    assert_eq!(client.read(1 << 20, 4096), vec![0; 4096]);
}

fn check(told: &Value) {
    assert_eq!(told["requests"], 6);
    assert_eq!((&told["reads"]["count"], &told["reads"]["bytes"]), (&2.into(), &(20 << 10).into()));
    assert_eq!((&told["writes"]["count"], &told["writes"]["bytes"]), (&3.into(), &((32 << 10) + 1024).into()));
    assert_eq!(told["flushes"]["count"], 1);
    assert_eq!(
        (&told["prints"], &told["unique_prints"], &told["unique_written_prints"]),
        (&13.into(), &5.into(), &4.into())
    );
    assert_eq!(told["out_of_order"], 0);
    assert_eq!(told["notes"]["object.0"], "vm");
    let compressed = told["compressed_bytes"].as_u64().unwrap();
    assert!((49 << 10..50 << 10).contains(&compressed), "noise as it is, zeroes small: {told}");
}

#[test]
fn what_clients_do_is_recorded_without_their_data() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve(SERVED);
    do_some(&place);
    let status = place.until("recorded", |status| status["server"]["recording"]["requests"] == 6);
    assert_eq!(status["server"]["recording"]["dropped"], 0);
    assert!(place.stdout("status").contains("requests.parquet: 6 requests, 0 left out"));
    let (status, said) = server.stop();
    assert!(status.success() && said.contains("6 requests recorded in requests.parquet, 0 left out"), "{said}");
    let told = info(&place, "requests.parquet");
    check(&told);
    assert_eq!(told["notes"]["left_out"], "0");
    // The simulator does what the server did: one read hits what was written, the other does not.
    let simulated = lab(&place).stdout("sim requests.parquet --cache-size 16M --staging 0 -o json");
    let simulated: Value = serde_json::from_str(&simulated).unwrap();
    assert_eq!((&simulated["reads"], &simulated["read_hits"], &simulated["writes"]), (&2.into(), &1.into(), &3.into()));
    assert!(simulated["dedup_ratio"].as_f64().unwrap() >= 1.5, "{simulated}");
    let bytes = std::fs::read(place.path("requests.parquet")).unwrap();
    let data = noise(1, 64);
    assert!(!bytes.windows(64).any(|window| window == data));
    // Another server does not overwrite it.
    let said = place.failure(&format!("serve {SERVED}"), 1);
    assert!(said.contains("recording requests.parquet: it exists; choose another name"), "{said}");
}

#[test]
fn a_recording_survives_the_kill_of_its_server() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve(SERVED);
    do_some(&place);
    place.until("recorded", |status| status["server"]["recording"]["requests"] == 6);
    // Written ten seconds after it was begun.
    let begun = std::time::Instant::now();
    while std::fs::metadata(place.path("requests.parquet")).unwrap().len() < 1000 {
        assert!(begun.elapsed().as_secs() < 60, "it is not written");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    server.kill();
    let output = lab(&place).run("trace info -o json requests.parquet");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("requests.parquet: it is incomplete because its writer was killed"), "{said}");
    check(&serde_json::from_slice(&output.stdout).unwrap());
    lab(&place).stdout("trace convert requests.parquet whole.parquet");
    check(&info(&place, "whole.parquet"));
}
