//! Classes: what is counted of each, and what their policies do.

use crate::{run, zipf};
use nitro_cache::class::{Allocation, Band, ClassPolicy, Comparison, Condition, Join, Rule, Rules};
use nitro_sim::workload::{Classified, Precedence, Stored, stored};
use nitro_sim::{ClassMeasures, Outcome, Settings, Variant};
use nitro_trace::synth::{RandomReads, Zipf};
use nitro_trace::{Listed, Op, Request};
use nitro_units::ClassId;
use std::sync::Arc;

const EXTENT: u64 = 8192;
/// Offsets below are of class 20; the others are not classified.
const BORDER: u64 = 24 << 20;
/// Of 128 units: all four bands are told apart.
const CACHE: u64 = 64 << 20;

fn class(number: u8) -> ClassId {
    ClassId::new(number).unwrap()
}

fn rules(number: u8) -> Arc<Rules> {
    let below = vec![(Join::And, Condition::Offset(Comparison::Lt, BORDER))];
    Arc::new(Rules(vec![Rule { class: class(number), conditions: below }]))
}

/// Random reads of 192 MiB, of which the first 24 MiB are of class 20.
fn reads() -> Stored {
    let reads = RandomReads {
        working_set_bytes: 192 << 20,
        dedup_ratio: 1.0,
        request_bytes: 8192,
        requests: 120_000,
        interval_ns: 1000,
        seed: 5,
    };
    stored(&|| Ok(Box::new(Classified::new(reads.reader()?, rules(20), Precedence::Trace))), 8192).unwrap()
}

fn settings(policy: ClassPolicy) -> Settings {
    let mut settings = Settings { weu_bytes: 512 << 10, dedup: false, compress: false, ..Settings::new(CACHE) };
    settings.classes.set(class(20), policy);
    settings
}

fn of(outcome: &Outcome, id: u8) -> ClassMeasures {
    *outcome.measured.classes.iter().find(|measures| measures.id == id).unwrap()
}

#[test]
fn classes_add_up_to_the_whole_in_every_variant() {
    let zipf = Zipf { objects: 20_000, requests: 60_000, write_share: 0.25, object_bytes: 12_288, ..Zipf::default() };
    let trace = stored(&|| Ok(Box::new(Classified::new(zipf.reader()?, rules(7), Precedence::Trace))), 8192).unwrap();
    for name in ["weu", "weu-lru-trim", "weu-lru-mod", "extent", "4-way", "lru", "belady", "none"] {
        let variant: Variant = name.parse().unwrap();
        let settings =
            Settings { variant, dedup: false, compress: false, period_ns: 1 << 33, ..Settings::new(32 << 20) };
        let outcome = run(&trace, &settings);
        for m in outcome.periods.iter().chain([&outcome.measured]) {
            let sum = |count: fn(&ClassMeasures) -> u64| m.classes.iter().map(count).sum::<u64>();
            assert_eq!(sum(|c| c.reads), m.reads, "{name}");
            assert_eq!((sum(|c| c.hits), sum(|c| c.read_hit_extents)), (m.read_hits, m.read_extent_hits), "{name}");
            assert_eq!((sum(|c| c.read_extents), sum(|c| c.read_bytes)), (m.read_extents, m.read_bytes), "{name}");
            assert_eq!((sum(|c| c.writes), sum(|c| c.write_bytes)), (m.writes, m.written_bytes), "{name}");
            let ids: Vec<_> = m.classes.iter().map(|measures| measures.id).collect();
            assert_eq!(ids, [0, 7], "{name}");
            let cached = m.classes.iter().map(|c| c.cached_bytes).sum::<Option<u64>>();
            assert_eq!(cached, variant.has_weus().then_some(m.cached_extents * EXTENT), "{name}");
        }
    }
}

#[test]
fn nothing_is_told_of_classes_where_there_are_none() {
    assert_eq!(run(&zipf(), &settings(ClassPolicy::default())).measured.classes, []);
}

#[test]
fn a_class_of_higher_priority_is_evicted_last() {
    let trace = reads();
    let usual = run(&trace, &settings(ClassPolicy::default()));
    let high = run(&trace, &settings(ClassPolicy { priority: Band::ALL[3], ..ClassPolicy::default() }));
    // All 3072 extents of the class stay once they were read, but for those that are read for the first time.
    let class = of(&high, 20);
    assert!(class.read_extents - class.read_hit_extents <= BORDER / EXTENT, "{class:?}");
    assert!(class.cached_bytes.unwrap() > BORDER * 98 / 100, "{class:?}");
    assert!(of(&usual, 20).hits < class.hits / 2, "{:?} {class:?}", of(&usual, 20));
    assert!(of(&usual, 0).hits > of(&high, 0).hits);
}

#[test]
fn allocation_and_bounds_of_a_class_are_kept() {
    let trace = reads();
    let with = |policy: ClassPolicy| of(&run(&trace, &settings(policy)), 20);
    let usual = with(ClassPolicy::default());
    let never = with(ClassPolicy { allocation: Allocation::Never, ..ClassPolicy::default() });
    assert_eq!((never.hits, never.cached_bytes), (0, Some(0)));
    let unread = with(ClassPolicy { on_read: false, ..ClassPolicy::default() });
    assert_eq!((unread.hits, unread.cached_bytes), (0, Some(0)));
    let twice = with(ClassPolicy { allocation: Allocation::SecondAccess, ..ClassPolicy::default() });
    assert!(twice.hits < usual.hits && twice.hits > 0, "{twice:?} {usual:?}");
    // At most 4 % of 64 MiB, and an eighth and a unit above that.
    let bounded = with(ClassPolicy { priority: Band::ALL[3], max_percent: 4, ..ClassPolicy::default() });
    assert!(bounded.cached_bytes.unwrap() <= CACHE * 4 / 100 * 9 / 8 + (512 << 10), "{bounded:?}");
    assert!(bounded.hits > 0);
}

#[test]
fn a_class_keeps_its_minimum_while_others_pass() {
    // The class, then a scan of three times the cache.
    let order: Vec<_> = (0..BORDER / EXTENT).chain(10_000..10_000 + 3 * CACHE / EXTENT).collect();
    let read = |extent| Request { op: Op::Read, offset: extent * EXTENT, len: EXTENT, ..Request::default() };
    let reader = || Listed::new(order.clone().into_iter().map(read));
    let trace = stored(&|| Ok(Box::new(Classified::new(reader(), rules(20), Precedence::Trace))), 8192).unwrap();
    let kept = |min_percent| {
        let outcome = run(&trace, &settings(ClassPolicy { min_percent, ..ClassPolicy::default() }));
        of(&outcome, 20).cached_bytes.unwrap() / EXTENT
    };
    let [none, tenth, all] = [0, 10, 40].map(kept);
    assert_eq!((none, all), (0, BORDER / EXTENT));
    // 10 % of 64 MiB are 819 extents; units have 64.
    assert!((819..819 + 64).contains(&tenth), "{tenth}");
}

#[test]
fn policies_that_a_variant_has_not_and_promises_that_no_cache_keeps_are_refused() {
    let trace = zipf();
    let highest = ClassPolicy { priority: Band::ALL[3], ..ClassPolicy::default() };
    for (variant, policy, word) in [
        (Variant::WeuLruMod, highest, "weu-lru-trim"),
        (Variant::Extent { ways: 0 }, highest, "weu-lru-trim"),
        (Variant::Weu, ClassPolicy { min_percent: 95, ..highest }, "minimums"),
        (Variant::Weu, ClassPolicy { max_percent: 0, ..highest }, "not valid"),
    ] {
        let settings = Settings { variant, ..settings(policy) };
        let error = nitro_sim::simulate(&mut trace.replay(), &settings, &mut |_| true).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn outcomes_keep_what_classes_deserve() {
    let settings = settings(ClassPolicy { priority: Band::ALL[2], max_percent: 50, ..ClassPolicy::default() });
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    assert!(text.contains(r#""classes":[{"id":20,"priority":"high","#), "{text}");
    assert!(!serde_json::to_string(&Settings::new(1 << 30)).unwrap().contains("classes"));
}
