//! Two-level selection with any associativity (Azor).

use crate::run;
use nitro_cache::admission::{AdmissionKind, WritePolicy};
use nitro_cache::builtin;
use nitro_cache::destage::Watermarks;
use nitro_sim::timing::{Load, SsdSpeed, Timing};
use nitro_sim::workload::{Stored, stored};
use nitro_sim::{Settings, Variant};
use nitro_trace::{Listed, Op, Request};

const EXTENT_BYTES: u64 = 8192;
const CACHE_EXTENTS: u64 = 1024;

fn settings(variant: Variant, admission: AdmissionKind) -> Settings {
    let (dedup, compress) = (false, false);
    Settings { variant, admission, dedup, compress, ..Settings::new(CACHE_EXTENTS * EXTENT_BYTES) }
}

fn request(op: Op, extent: u64) -> Request {
    Request { op, offset: extent * EXTENT_BYTES, len: EXTENT_BYTES, ..Request::default() }
}

/// Extents that are read again and again, between extents of a scan; the last ones are metadata that is read once, and then
/// once more at the end.
fn scanned() -> Stored {
    let read = |extent: u64, class| Request { class, ..request(Op::Read, extent) };
    let data = nitro_units::ClassId::UNCLASSIFIED;
    let metadata = |at: u64| read(3_000_000 + at * 3, builtin::METADATA);
    let mut all: Vec<Request> = (0..100).map(metadata).collect();
    for round in 0..20u64 {
        for hot in 0..400 {
            all.push(read(hot * 7, data));
            all.extend((0..4).map(|at| read(10_000 + round * 1600 + hot * 4 + at, data)));
        }
    }
    all.extend((0..100).map(metadata));
    stored(&|| Ok(Box::new(Listed::new(all.clone()))), EXTENT_BYTES as u32).unwrap()
}

#[test]
fn what_is_read_often_and_metadata_stay_in_caches_of_any_associativity() {
    let workload = scanned();
    for variant in ["direct-mapped", "4-way", "512-way", "extent"].map(|name| name.parse::<Variant>().unwrap()) {
        let hits = |admission| {
            let measured = run(&workload, &settings(variant, admission)).measured;
            let of = |id: u8| measured.classes.iter().find(|class| class.id == id).map_or(0, |class| class.hits);
            (of(0), of(builtin::METADATA.number()), measured.ssd_bytes_written)
        };
        let (all, two_level) = (hits(AdmissionKind::All), hits(AdmissionKind::TwoLevel));
        assert!(two_level.0 > all.0 + 1000, "{variant}: data: {two_level:?} against {all:?}");
        assert!(two_level.1 >= 90 && all.1 < 60, "{variant}: metadata: {two_level:?} against {all:?}");
        assert!(two_level.2 * 2 < all.2, "{variant}: a scan is not written: {two_level:?} against {all:?}");
        // Static counters forget nothing.
        let of_all = hits(AdmissionKind::TwoLevelStatic);
        assert!(of_all.0 >= two_level.0 && of_all.1 == two_level.1, "{variant}: {of_all:?} against {two_level:?}");
    }
}

#[test]
fn the_same_places_in_one_set_and_without_sets_admit_the_same() {
    let workload = scanned();
    for admission in [AdmissionKind::All, AdmissionKind::TwoLevel] {
        let hits = |variant: Variant| {
            let measured = run(&workload, &settings(variant, admission)).measured;
            (measured.read_hits, measured.evictions)
        };
        assert_eq!(
            hits(Variant::Extent { ways: CACHE_EXTENTS as u32 }),
            hits(Variant::Extent { ways: 0 }),
            "{admission}"
        );
    }
}

#[test]
fn combinations_without_two_levels_are_refused_with_the_reason() {
    let write_back = Settings {
        write_back: Some(Watermarks::USUAL),
        ..settings(Variant::Extent { ways: 1 }, AdmissionKind::TwoLevel)
    };
    let of = |variant: &str, admission| settings(variant.parse().unwrap(), admission);
    for (settings, told) in [
        (write_back, "write-through"),
        (of("direct-mapped", AdmissionKind::Probation), "has all, two-level and two-level-static"),
        (of("extent", AdmissionKind::SecondMiss), "probation"),
        (of("arc", AdmissionKind::TwoLevel), "arc has no policies of admission"),
        (of("none", AdmissionKind::TwoLevel), "admits everything"),
    ] {
        let error = settings.check().map_err(|error| error.to_string());
        let told = if told == "probation" { "second-miss is for" } else { told };
        assert!(error.as_ref().is_err_and(|error| error.contains(told)), "{error:?}");
    }
}

#[test]
fn the_ssd_is_busy_for_less_of_the_time_if_neighbours_are_one_command() {
    let reads =
        nitro_trace::synth::Zipf { objects: 5000, requests: 20_000, object_bytes: 16_384, ..Default::default() };
    let workload = stored(&|| Ok(Box::new(reads.reader()?)), 4096).unwrap();
    let timed = |ssd_merges| {
        let timing = Timing { load: Load::Closed(4), ssd: SsdSpeed::azor(), ssd_merges, ..Timing::default() };
        let settings = settings(Variant::Extent { ways: 1 }, AdmissionKind::All);
        run(&workload, &Settings { extent_bytes: 4096, timing: Some(timing), ..settings }).measured.pace.unwrap()
    };
    let (each, merged) = (timed(false), timed(true));
    assert!(merged.ssd_busy > 0.0 && merged.ssd_busy < each.ssd_busy && each.ssd_busy < 1.0, "{each:?} {merged:?}");
}

#[test]
fn what_a_write_invalidates_gives_up_its_place_first() {
    let half = CACHE_EXTENTS / 2;
    let steps = [(Op::Read, half), (Op::Read, 0), (Op::Write, 0), (Op::Read, 10 * half), (Op::Read, half)];
    let of = |(op, first): (Op, u64)| (first..first + half).map(move |at| request(op, at));
    let all: Vec<Request> = steps.into_iter().flat_map(of).collect();
    let workload = stored(&|| Ok(Box::new(Listed::new(all.clone()))), EXTENT_BYTES as u32).unwrap();
    for ways in [0, CACHE_EXTENTS as u32] {
        let settings = settings(Variant::Extent { ways }, AdmissionKind::All);
        let measured = run(&workload, &Settings { write_policy: WritePolicy::Invalidate, ..settings }).measured;
        assert_eq!(measured.read_hits, half, "{ways} ways: those that were read first are still there");
    }
}
