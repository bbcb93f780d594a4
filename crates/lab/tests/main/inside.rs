//! The laboratory inside another program: what it returns is what the commands print, and it can be stopped. python/tests has the rest.

use crate::support::Place;
use nitro_lab::inside::{self, Call, Inside, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

fn on() -> Inside {
    Inside::new(|| true)
}

fn texts(given: &[(&str, &str)]) -> Vec<(String, Value)> {
    given.iter().map(|(name, text)| ((*name).to_owned(), Value::Text((*text).to_owned()))).collect()
}

fn zipf(place: &Place) -> Vec<PathBuf> {
    place.stdout("trace synth zipf zipf.parquet --objects 2000 --object-size 8K --requests 20000 --writes 10");
    vec![place.path("zipf.parquet")]
}

#[test]
fn a_call_returns_what_the_command_prints() {
    let place = Place::new();
    let traces = zipf(&place);
    let given = texts(&[("cache_size", "4M"), ("variant", "s3-fifo")]);
    let told = place.stdout("sim zipf.parquet --cache-size 4M --variant s3-fifo -o json");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    for keep in [false, true, true] {
        assert_eq!(inside::simulate(&traces, &given, keep, &on()).unwrap(), told, "kept: {keep}");
    }
    inside::forget();
    let curve = inside::lru_curve(&traces, Some(100.0), &[], &on()).unwrap();
    let told: serde_json::Value =
        serde_json::from_str(&place.stdout("sim zipf.parquet --mrc --sample 100 -o json")).unwrap();
    assert_eq!(curve, told);
}

#[test]
fn a_program_that_does_not_go_on_ends_every_call() {
    let place = Place::new();
    let traces = zipf(&place);
    let given = texts(&[("cache_size", "4M")]);
    let calls: [&dyn Fn(&Inside) -> bool; 5] = [
        &|inside| inside::simulate(&traces, &given, false, inside).is_err(),
        &|inside| inside::simulate(&traces, &given, true, inside).is_err(),
        &|inside| inside::misses(&traces, "lru", 100, None, &[], inside).is_err(),
        &|inside| inside::lru_curve(&traces, None, &[], inside).is_err(),
        &|inside| inside::answer(&traces, &[], inside).is_err(),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        assert!(call(&Inside::new(|| false)), "call {number}");
        assert!(!call(&on()), "call {number}: what was stopped leaves nothing behind");
    }
    inside::forget();
    let asked = std::sync::Arc::new(AtomicU32::new(0));
    let counted = std::sync::Arc::clone(&asked);
    let late = Inside::new(move || counted.fetch_add(1, Ordering::Relaxed) < 2);
    assert!(inside::simulate(&traces, &given, false, &late).is_err());
    assert_eq!(asked.load(Ordering::Relaxed), 3, "nothing is asked once it has said no");
}

#[test]
fn settings_are_the_options_of_the_commands() {
    let names = |call: Call| call.settings().into_iter().map(|setting| setting.name).collect::<Vec<_>>();
    for (call, has, lacks) in [
        (Call::Simulation, "cache_size", "sweep"),
        (Call::Curve, "extent_size", "cache_size"),
        (Call::Size, "hits", "output"),
        (Call::Reading, "trace_format", "cache_size"),
    ] {
        let names = names(call);
        assert!(names.iter().any(|name| name == has), "{call:?}: {has}");
        assert!(!names.iter().any(|name| name == lacks || name == "output" || name == "parquet"), "{call:?}: {lacks}");
    }
    let refused = |given: &[(&str, &str)]| {
        inside::simulate(&["/nowhere".into()], &texts(given), false, &on()).unwrap_err().to_string()
    };
    let told = refused(&[("colour", "red")]);
    assert!(told.starts_with("colour: there is no such setting; there are ") && told.contains("admission"), "{told}");
    let told = refused(&[("cache_size", "4 elephants")]);
    assert!(told.contains("4 elephants"), "{told}");
}
