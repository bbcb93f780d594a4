//! RAM in front of the SSD: the RAM cache, and sequential streams.

use crate::{run, zipf};
use nitro_sim::timing::{Disks, Load, Raid, Timing};
use nitro_sim::workload::{self, Stored};
use nitro_sim::{Measures, Settings, Variant, simulate};
use nitro_trace::{Listed, Op, Request};

const SCAN_BYTES: u64 = 8 << 20;
const REQUEST_BYTES: u64 = 64 << 10;

/// Requests, one after the other: what is asked for, first byte, length.
fn stored(requests: &[(Op, u64, u64)]) -> Stored {
    let request = |&(op, offset, len): &_| Request { op, offset, len, ..Request::default() };
    let kept: Vec<_> = requests.iter().map(request).collect();
    workload::stored(&|| Ok(Box::new(Listed::new(kept.clone()))), 8192).unwrap()
}

/// All of a volume is read from its beginning to its end, so many times.
fn scans(times: u64) -> Stored {
    let scan = (0..SCAN_BYTES).step_by(REQUEST_BYTES as usize).map(|offset| (Op::Read, offset, REQUEST_BYTES));
    stored(&scan.collect::<Vec<_>>().repeat(times as usize))
}

/// Sequential from 256 KiB on.
fn settings() -> Settings {
    Settings { sequential_bytes: 256 << 10, compress: false, ..Settings::new(32 << 20) }
}

#[test]
fn what_is_read_in_sequence_goes_to_the_ssd_once_it_is_read_again() {
    let [once, twice, thrice] = [1, 2, 3].map(|times| run(&scans(times), &settings()).measured);
    let extents = SCAN_BYTES / 8192;
    // The beginning, before the stream was one.
    assert!(once.cached_extents < 32 && once.bypassed_extents > 0, "{once:?}");
    assert!(once.readahead_extents > extents * 9 / 10 && once.readahead_hits > extents * 8 / 10, "{once:?}");
    assert_eq!(twice.cached_extents, extents, "{twice:?}");
    assert_eq!(thrice.read_extent_hits - twice.read_extent_hits, extents);
    assert_eq!(thrice.readahead_hits, twice.readahead_hits, "the third time all is on the SSD");
}

#[test]
fn what_does_not_fit_into_its_ram_has_to_be_read_again() {
    let small = Settings { readahead_ram_bytes: SCAN_BYTES / 4, ..settings() };
    let [all, quarter] = [settings(), small].map(|settings| run(&scans(2), &settings).measured);
    assert!(all.cached_extents > quarter.cached_extents * 4, "{all:?} {quarter:?}");
    assert_eq!(all.reads, quarter.reads);
}

/// A single disk, and one request at a time.
fn timed(settings: Settings) -> Settings {
    let disks = Disks { spindles: 1, raid: Raid::Raid0, disk_bytes: 64 << 20, ..Disks::default() };
    let timing = Timing { load: Load::Closed(1), disks, nvram_bytes: 0, ..Timing::default() };
    Settings { timing: Some(timing), ..settings }
}

#[test]
fn time_changes_no_hit() {
    for (workload, settings) in [(scans(3), settings()), (zipf(), Settings { ram_bytes: 4 << 20, ..settings() })] {
        let mut with = run(&workload, &timed(settings)).measured;
        assert!(with.pace.take().is_some());
        assert_eq!(with, run(&workload, &settings).measured);
    }
}

fn read_us(measures: &Measures) -> f64 {
    measures.pace.as_ref().unwrap().read_response.mean_us
}

#[test]
fn what_is_read_ahead_takes_the_disks_time() {
    let ahead = run(&scans(1), &timed(settings())).measured;
    let alone = run(&scans(1), &timed(Settings { sequential_bytes: 0, ..settings() })).measured;
    assert!(ahead.read_hits > alone.read_hits + 100, "{} {}", ahead.read_hits, alone.read_hits);
    // The next request comes at once, and waits for what has just been asked for.
    let (ahead, alone) = (read_us(&ahead), read_us(&alone));
    assert!((ahead / alone - 1.0).abs() < 0.05, "{ahead} {alone}");
}

#[test]
fn every_variant_on_an_ssd_has_a_ram_cache_if_it_is_given_one() {
    let workload = zipf();
    for name in ["weu", "weu-lru-trim", "extent", "extent-lru-trim", "4-way", "512-way", "naive"] {
        let variant: Variant = name.parse().unwrap();
        let dedup = !matches!(variant, Variant::Extent { ways: 1.. });
        let without = Settings { variant, dedup, compress: false, ..Settings::new(32 << 20) };
        let with = run(&workload, &Settings { ram_bytes: 8 << 20, ..without }).measured;
        let without = run(&workload, &without).measured;
        assert!(with.ram_hits > with.read_extent_hits / 4 && with.ram_hits < with.read_extent_hits, "{name}: {with:?}");
        assert_eq!((without.ram_hits, without.readahead_hits), (0, 0));
        // It holds what the SSD has, or had.
        assert!(with.read_hit_ratio > without.read_hit_ratio * 0.98, "{name}: {with:?} {without:?}");
    }
}

#[test]
fn what_only_ram_has_is_merged_with_what_is_written_of_it() {
    // Read from the SSD once, and evicted there; then a part is written, and all is read.
    let read = |extent: u64| (Op::Read, extent * 8192, 8192);
    let others = (0..2000).map(|number| read(10 + number * 7919 % 2000));
    let all = [read(0), read(0)].into_iter().chain(others).chain([(Op::Write, 0, 4096), read(0)]);
    let workload = stored(&all.collect::<Vec<_>>());
    let hits = |ram_bytes| {
        let small = Settings { weu_bytes: 512 << 10, compress: false, ..Settings::new(4 << 20) };
        run(&workload, &Settings { ram_bytes, ..small }).measured.read_hits
    };
    assert_eq!((hits(0), hits(1 << 20)), (1, 2));
}

#[test]
fn what_has_no_ssd_has_no_ram_in_front_of_it() {
    let workload = zipf();
    for name in ["lru", "belady", "none"] {
        let plain = Settings { variant: name.parse().unwrap(), dedup: false, ..Settings::new(32 << 20) };
        for settings in [Settings { ram_bytes: 1 << 20, ..plain }, Settings { sequential_bytes: 1 << 20, ..plain }] {
            let error = simulate(&mut workload.replay(), &settings, &mut |_| true).unwrap_err();
            assert!(error.to_string().contains("variants on an SSD"), "{name}: {error}");
        }
    }
}
