//! The RAM that a simulation tells of its indexes is what the process takes: each organisation runs in a process of its own, whose
//! resident memory is read from proc(5) while the cache is full.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nitro_sim::{Settings, simulate, workload};
use nitro_trace::{Listed, Op, Reader, Request};
use std::env;
use std::fs;
use std::process::Command;

const EXTENT: u64 = 4096;
/// Of a cache of 4 GiB.
const EXTENTS: u64 = 1 << 20;
/// What the child is to simulate.
const VARIANT: &str = "NITRO_TEST_VARIANT";

/// Writes of all extents, the last one first.
fn scan() -> impl Reader {
    let write = |extent| Request { op: Op::Write, offset: extent * EXTENT, len: EXTENT, ..Request::default() };
    Listed::new((0..EXTENTS).rev().map(write))
}

/// Bytes of this process that are in RAM.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Of a run of a variant in another process: the resident bytes, and what is told of the indexes.
fn measured(variant: &str) -> (f64, f64) {
    let mut child = Command::new(env::current_exe().unwrap());
    let ran = child.args(["--exact", "child", "--ignored", "--nocapture"]).env(VARIANT, variant).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("measured ")).unwrap_or_else(|| panic!("{text}")).1;
    let (resident, told) = line.split_once(' ').unwrap();
    (resident.parse().unwrap(), told.parse().unwrap())
}

#[test]
#[ignore = "run by ram_is_what_the_process_takes, with a variant"]
fn child() {
    let variant = env::var(VARIANT).unwrap().parse().unwrap();
    let settings = Settings {
        variant,
        extent_bytes: EXTENT as u32,
        dedup: false,
        compress: false,
        ..Settings::new(EXTENTS * EXTENT)
    };
    let mut pieces = workload::without_contents(scan(), settings.extent_bytes).unwrap();
    let mut most = 0;
    let outcome = simulate(&mut pieces, &settings, &mut |_| {
        most = resident();
        true
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.measured.cached_extents, EXTENTS);
    assert_eq!(outcome.ram_bytes_per_extent, outcome.ram_bytes as f64 / EXTENTS as f64);
    println!("measured {most} {}", outcome.ram_bytes);
}

#[test]
fn ram_is_what_the_process_takes() {
    let (base, base_told) = measured("direct-mapped");
    println!("direct-mapped: {:.2} bytes an extent", base_told / EXTENTS as f64);
    // Nothing but the index differs: the modelled SSD is the same.
    for variant in ["2-way", "64-way", "512-way", "8192-way", "fully-associative"] {
        let (resident, told) = measured(variant);
        let [more, more_told] = [resident - base, told - base_told].map(|bytes| bytes / EXTENTS as f64);
        println!("{variant}: {:.2} bytes an extent; {more:.2} measured beyond direct-mapped", told / EXTENTS as f64);
        assert!((more - more_told).abs() < 0.5 + more_told / 50.0, "{variant}: {more} measured, {more_told} told");
    }
}
