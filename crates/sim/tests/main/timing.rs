//! Virtual time.

use crate::{duplicates, run, zipf};
use nitro_cache::destage::Watermarks;
use nitro_sim::policies::PolicyKind;
use nitro_sim::timing::{Cos, Disks, Load, Origin, Raid, Timing};
use nitro_sim::{Measures, Settings, Variant, Warmup};
use nitro_trace::synth::RandomReads;
use nitro_trace::{Listed, Op, Request};

fn one_disk(load: Load) -> Timing {
    let disks = Disks { spindles: 1, raid: Raid::Raid0, disk_bytes: 64 << 20, ..Disks::default() };
    Timing { load, disks, nvram_bytes: 0, ..Timing::default() }
}

fn iops(measures: &Measures) -> f64 {
    measures.pace.as_ref().unwrap().iops
}

#[test]
fn without_a_cache_reads_are_as_fast_as_the_disk() {
    // 79 a second one at a time, 185 with 32, as the server's emulated disk (nitro_device::hdd).
    let reads = RandomReads {
        working_set_bytes: 8 << 30,
        dedup_ratio: 1.0,
        request_bytes: 8192,
        requests: 4000,
        interval_ns: 0,
        seed: 1,
    };
    let workload = nitro_sim::workload::stored(&|| Ok(Box::new(reads.reader()?)), 8192).unwrap();
    for (depth, expected) in [(1, 79.0), (32, 185.0)] {
        let mut timing = one_disk(Load::Closed(depth));
        timing.disks.disk_bytes = 8 << 30;
        let settings = Settings { variant: Variant::None, timing: Some(timing), ..Settings::new(0) };
        let reached = iops(&run(&workload, &settings).measured);
        assert!((reached / expected - 1.0).abs() < 0.05, "{depth} at a time: {reached}");
    }
}

#[test]
fn time_changes_no_hit() {
    let workload = zipf();
    for variant in [Variant::Weu, Variant::ExtentLruTrim, Variant::Naive] {
        let timed = Settings { variant, timing: Some(Timing::default()), ..Settings::new(32 << 20) };
        let mut with = run(&workload, &timed).measured;
        assert!(with.pace.take().is_some_and(|pace| pace.iops > 0.0));
        assert_eq!(with, run(&workload, &Settings { timing: None, ..timed }).measured, "{variant}");
    }
}

#[test]
fn hits_cost_what_the_ssd_costs_and_misses_what_the_disk_costs() {
    let workload = duplicates(30_000);
    let timing = one_disk(Load::Closed(1));
    let warm = nitro_sim::Warmup::Requests(25_000);
    let at = |variant, compress| {
        let settings = Settings { variant, compress, warmup: warm, timing: Some(timing), ..Settings::new(128 << 20) };
        run(&workload, &settings).measured.pace.unwrap().read_response
    };
    let (none, raw, packed) = (at(Variant::None, false), at(Variant::Weu, false), at(Variant::Weu, true));
    // A page read, its transfers and the controller: some 200 us; half a turn and a seek: some 12 ms.
    assert!((60.0..400.0).contains(&raw.p50_us), "{raw:?}");
    assert!(packed.p50_us > raw.p50_us, "decompression takes time");
    assert!(none.mean_us > 10_000.0 && none.p50_us > raw.p50_us * 20.0, "{none:?}");
    assert!(raw.p50_us <= raw.p90_us && raw.p90_us <= raw.p99_us && raw.p99_us <= raw.max_us * 1.001);
}

#[test]
fn requests_that_come_faster_than_they_are_done_wait() {
    let workload = duplicates(3000);
    let at = |speed| {
        let timing = Some(one_disk(Load::Open(speed)));
        run(&workload, &Settings { variant: Variant::None, timing, ..Settings::new(0) }).measured.pace.unwrap()
    };
    // A request a millisecond in the trace: 20 a second leave the disk idle most of the time, 1000 swamp it.
    let (slow, fast) = (at(0.02), at(1.0));
    assert!(slow.disks_busy < 0.4 && fast.disks_busy > 0.95, "{slow:?} {fast:?}");
    assert!(fast.read_response.mean_us > slow.read_response.mean_us * 20.0);
    assert!((slow.iops / 20.0 - 1.0).abs() < 0.05 && fast.iops < 250.0);
}

#[test]
fn the_measurement_is_free_of_what_the_warm_up_left_to_be_done() {
    // The disk reads some 180 of these a second. The first second of the trace has 10,000, those after it come at 50.
    let workload = {
        let burst = |number: u64| if number < 10_000 { number * 100_000 } else { (number - 10_000) * 20_000_000 };
        let request = |number: u64| Request {
            time_ns: burst(number) + if number < 10_000 { 0 } else { 1_000_000_000 },
            op: Op::Read,
            offset: number * 7919 % 8000 * 8192,
            len: 8192,
            ..Request::default()
        };
        let requests: Vec<_> = (0..11_000).map(request).collect();
        nitro_sim::workload::stored(&|| Ok(Box::new(Listed::new(requests.clone()))), 8192).unwrap()
    };
    let timing = Some(one_disk(Load::Open(1.0)));
    let at = |warmup| {
        let settings = Settings { variant: Variant::None, timing, warmup, ..Settings::new(0) };
        run(&workload, &settings).measured.pace.unwrap()
    };
    let (all, measured) = (at(Warmup::None), at(Warmup::Time(1_000_000_000)));
    assert!(all.read_response.mean_us > 10_000_000.0, "{all:?}");
    assert!(measured.read_response.mean_us < 30_000.0, "{measured:?}");
    assert!((measured.iops / 50.0 - 1.0).abs() < 0.05, "{measured:?}");
}

#[test]
fn a_second_array_has_parity_of_its_own() {
    let workload = zipf();
    let at = |spindles, second_array| {
        let disks = Disks { spindles, second_array, raid: Raid::Raid6, disk_bytes: 1 << 30, ..Disks::default() };
        let timing = Some(Timing { disks, nvram_bytes: 0, load: Load::Closed(64), ..Timing::default() });
        run(&workload, &Settings { variant: Variant::None, timing, ..Settings::new(0) }).measured.pace.unwrap()
    };
    // As many disks in one or in two arrays do the same six requests for each small write.
    let (one, two) = (at(12, 0), at(12, 6));
    assert!((one.iops / two.iops - 1.0).abs() < 0.1, "{one:?} {two:?}");
    assert_eq!(Disks::cos().data_disks(), 19);
    for (spindles, second_array) in [(4, 2), (4, 3), (4, 5)] {
        let disks = Disks { spindles, second_array, raid: Raid::Raid6, ..Disks::default() };
        assert!(Timing { disks, ..Timing::default() }.check().is_err(), "{spindles} {second_array}");
    }
}

#[test]
fn parity_makes_writes_dear_and_nvram_hides_it() {
    let workload = zipf();
    let at = |raid, nvram_bytes| {
        let disks = Disks { spindles: 4, raid, disk_bytes: 1 << 30, ..Disks::default() };
        let timing = Some(Timing { disks, nvram_bytes, load: Load::Closed(8), ..Timing::default() });
        run(&workload, &Settings { variant: Variant::None, timing, ..Settings::new(0) }).measured.pace.unwrap()
    };
    let (plain, parity, buffered) = (at(Raid::Raid0, 0), at(Raid::Raid5, 0), at(Raid::Raid5, 1 << 30));
    assert!(parity.write_response.mean_us > plain.write_response.mean_us * 1.5);
    assert!(buffered.write_response.p99_us < 1000.0, "{buffered:?}");
}

#[test]
fn write_back_saves_the_disks_what_is_written_over() {
    let workload = zipf();
    let marks = Watermarks { max_percent: 50, ..Watermarks::USUAL };
    let at = |write_back, variant| {
        let disks = Disks { spindles: 4, raid: Raid::Raid5, disk_bytes: 1 << 30, ..Disks::default() };
        let timing = Timing { disks, nvram_bytes: 0, load: Load::Closed(8), ..Timing::default() };
        let settings = Settings { variant, write_back, timing: Some(timing), ..Settings::new(32 << 20) };
        run(&workload, &settings).measured
    };
    let (through, back) = (at(None, Variant::Weu), at(Some(marks), Variant::Weu));
    let (lru, none) = (at(Some(marks), Variant::Policy(PolicyKind::Lru)), at(Some(marks), Variant::None));
    assert!(iops(&back) > iops(&through) * 1.3, "{} {}", iops(&back), iops(&through));
    for measures in [&back, &lru] {
        let (destaged, writes) = (measures.destaged_extents, measures.destage_writes);
        assert!(0 < writes && writes < destaged && destaged < measures.writes, "{writes} writes, {destaged} extents");
    }
    assert_eq!((through.destaged_extents, none.destaged_extents), (0, 0));
    // Bursts are acknowledged at once, what is more waits for the disks.
    let writes = |measures: &Measures| measures.pace.as_ref().unwrap().write_response;
    assert!(writes(&back).p50_us < 100.0 && writes(&back).max_us > 10_000.0, "{:?}", writes(&back));
    assert!(writes(&none).p50_us > 1000.0, "nothing is dirty in a cache that is not there");
}

#[test]
fn reads_in_progress_do_not_make_writers_wait_for_destage() {
    // 300 reads of what is not cached and 300 writes a second. Eight disks do more, but two writes at a time are not
    // enough.
    let request = |number: u64| Request {
        time_ns: number * 1_666_667,
        op: if number.is_multiple_of(2) { Op::Read } else { Op::Write },
        offset: number * 7919 % 100_000 * 8192,
        len: 8192,
        ..Request::default()
    };
    let requests: Vec<_> = (0..20_000).map(request).collect();
    let workload = nitro_sim::workload::stored(&|| Ok(Box::new(Listed::new(requests.clone()))), 8192).unwrap();
    let disks = Disks { spindles: 8, raid: Raid::Raid0, disk_bytes: 1 << 30, ..Disks::default() };
    let timing = Some(Timing { disks, nvram_bytes: 0, load: Load::Open(1.0), ..Timing::default() });
    let settings = Settings { write_back: Some(Watermarks::USUAL), timing, ..Settings::new(16 << 20) };
    let pace = run(&workload, &settings).measured.pace.unwrap();
    assert!(pace.iops > 550.0 && pace.write_response.mean_us < 500_000.0, "{pace:?}");
}

#[test]
fn a_deduplicating_origin_is_slower_and_recipes_save_its_data_reads() {
    let workload = duplicates(20_000);
    let at = |origin, recipes, variant| {
        let timing = Timing { origin, ..one_disk(Load::Closed(16)) };
        let settings = Settings { variant, recipes, timing: Some(timing), ..Settings::new(32 << 20) };
        iops(&run(&workload, &settings).measured)
    };
    let cos = Origin::Cos(Cos::default());
    let (plain, deduplicating) = (at(Origin::Tps, false, Variant::None), at(cos, false, Variant::None));
    assert!(deduplicating < plain / 2.0, "{deduplicating} {plain}");
    let (without, with) = (at(cos, false, Variant::Weu), at(cos, true, Variant::Weu));
    assert!(with > without && without > deduplicating, "{with} {without} {deduplicating}");
}
