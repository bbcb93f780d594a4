//! Tables as traces: converted, and simulated with the options of `nitro serve`.

use crate::support::Place;
use nitro_testkit::programs::wait;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::process::Stdio;

const TABLE: &str = "0,R,0,4096\n1,W,4096,8192\n2,R,4096,8192\n";
const COLUMNS: &str = "--columns time=0,op=1,offset=2,len=3,sep=comma";

#[test]
fn a_trace_is_converted_to_what_its_name_says() {
    let place = Place::new();
    place.write("table.csv", TABLE);
    place.stdout(&format!("trace convert table.csv whole.parquet {COLUMNS}"));
    assert!(fs::read(place.path("whole.parquet")).unwrap().starts_with(b"PAR1"));
    place.stdout("trace convert whole.parquet again.csv");
    let again = fs::read_to_string(place.path("again.csv")).unwrap();
    assert_eq!(again.lines().nth(2), Some("1000000000,write,0,4096,8192"), "{again}");
    let info = |arguments: &str| -> serde_json::Value {
        serde_json::from_str(&place.stdout(&format!("trace info -o json {arguments}"))).unwrap()
    };
    let back = info("--columns time=0:ns,op=1,object=2,offset=3,len=4,skip=1,sep=comma again.csv");
    for key in ["requests", "reads", "writes", "first_ns", "last_ns", "footprint_bytes"] {
        assert_eq!(back[key], info("whole.parquet")[key], "{key}");
    }
    let said = place.failure("trace convert whole.parquet whole.csv.gz", 1);
    assert!(said.contains("files of type .gz cannot be written") && said.contains(".parquet"), "{said}");
    let said = place.failure("trace synth zipf made.csv --objects 10 --requests 10", 1);
    assert!(said.contains("no fingerprints") && !place.path("made.csv").exists(), "{said}");
}

#[test]
fn a_conversion_that_is_interrupted_leaves_nothing() {
    let place = Place::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = place.command(&format!("trace convert - whole.parquet {COLUMNS}"));
        let mut converting = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = converting.stdin.take().unwrap();
        // More than a pipe holds: some of it is read, and the file is there.
        (0..20_000).for_each(|at| writeln!(input, "{at},R,0,4096").unwrap());
        assert!(place.path("whole.parquet.part").exists());
        kill_process(Pid::from_child(&converting), signal).unwrap();
        assert!(!wait(&mut converting).success());
        drop(input);
        assert!(!place.path("whole.parquet.part").exists() && !place.path("whole.parquet").exists());
    }
}

#[test]
fn a_warm_up_that_is_longer_than_the_trace_is_refused() {
    let place = Place::new();
    place.write("table.csv", TABLE);
    for options in ["--warmup 16d", "--warmup 1000", "--warmup 16d --sweep dedup=on,off"] {
        let said = place.failure(&format!("sim table.csv {COLUMNS} --cache-size 16M {options}"), 1);
        assert!(said.contains("--warmup") && said.contains("longer than the trace"), "{options}: {said}");
    }
    place.stdout(&format!("sim table.csv {COLUMNS} --cache-size 16M --warmup 1"));
}

#[test]
fn the_report_says_what_was_done_with_writes_of_parts_of_extents() {
    let place = Place::new();
    place.write("table.csv", "0,W,512,512\n1,R,512,512\n2,W,9000,512\n");
    let sim = format!("sim table.csv {COLUMNS} --cache-size 16M");
    for (how, fetched) in [("merge", 0), ("worth", 0), ("fetch", 2)] {
        let said = place.stdout(&format!("{sim} --partial-writes {how}"));
        let done = format!("0.0 % were completed by a further part; {fetched} extents were read from the origin");
        assert!(said.contains("part writes") && said.contains(&done), "{said}");
    }
    // The rest of the first extent.
    place.write("table.csv", "0,W,0,4096\n1,W,4096,4096\n2,R,0,8192\n");
    let said = place.stdout(&sim);
    assert!(
        said.contains("50.0 % were completed by a further part") && said.contains("100.00 % of requests"),
        "{said}"
    );
    place.write("whole.csv", TABLE.replace("4096,8192", "8192,8192"));
    assert!(!place.stdout(&sim.replace("table.csv", "whole.csv")).contains("part writes"));
}

#[test]
fn names_that_serve_has_mean_the_same_in_sim() {
    let place = Place::new();
    place.write("table.csv", TABLE);
    for (option, instead) in [
        ("--compression 2", "possible values: lz4, zstd, none"),
        ("--compress off", "--compression"),
        ("--fingerprint-index 50", "--fingerprint-index-ratio"),
        ("--sequential 1M", "--sequential-threshold"),
        ("--origin cos", "--origin-kind"),
    ] {
        let said = place.failure(&format!("sim table.csv {COLUMNS} --cache-size 16M {option}"), 2);
        assert!(said.contains(instead), "{said}");
    }
    let renamed = "--compression-ratio 2 --fingerprint-index-ratio 50 --sequential-threshold 1M";
    place.stdout(&format!("sim table.csv {COLUMNS} --cache-size 16M {renamed}"));
}
