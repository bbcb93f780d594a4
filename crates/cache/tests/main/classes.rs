//! What classes promise: priorities, allocation, minimum and maximum occupancy.

use crate::world::{WEU_BYTES, World, key};
use nitro_cache::Settings;
use nitro_cache::admission::Provenance;
use nitro_cache::class::{Allocation, Band, ClassError, ClassPolicy, Classes};
use nitro_cache::eviction::EvictionKind;
use nitro_cache::{Gone, builtin};
use nitro_units::ClassId;
use proptest::prelude::*;

const WEUS: u64 = 128;
const EXTENTS: u64 = WEUS * WEU_BYTES as u64 / 8192;

fn class(number: u8) -> ClassId {
    ClassId::new(number).unwrap()
}

fn settings(eviction: EvictionKind, policies: &[(u8, ClassPolicy)]) -> Settings {
    let mut classes = Classes::default();
    policies.iter().for_each(|(number, policy)| classes.set(class(*number), *policy));
    Settings { weu_bytes: WEU_BYTES, eviction, classes, ..Settings::new(WEUS * u64::from(WEU_BYTES)) }
}

/// Reads `count` extents from number `from` on that are of a class, each once; says how many were cached.
fn scan(world: &mut World, number: u8, from: u64, count: u64) -> u64 {
    (from..from + count).map(|n| u64::from(world.read_as(class(number), key(n), n))).sum()
}

#[test]
fn a_scan_of_a_lower_class_evicts_nothing_of_a_higher_one() {
    for eviction in EvictionKind::ALL {
        let high = ClassPolicy { priority: Band::named("high").unwrap(), ..ClassPolicy::default() };
        let mut world = World::with(settings(eviction, &[(3, high)]));
        assert_eq!(scan(&mut world, 3, 0, 2000), 0);
        scan(&mut world, 4, 100_000, EXTENTS * 3);
        assert_eq!(scan(&mut world, 3, 0, 2000), 2000, "{eviction}");
        // Without priorities nothing is left of them.
        let mut world = World::with(settings(eviction, &[]));
        scan(&mut world, 3, 0, 2000);
        scan(&mut world, 4, 100_000, EXTENTS * 3);
        assert!(scan(&mut world, 3, 0, 2000) < 200, "{eviction}");
    }
}

#[test]
fn what_a_class_may_not_bring_in_stays_out() {
    let policies = [
        (1, ClassPolicy { allocation: Allocation::Never, ..ClassPolicy::default() }),
        (2, ClassPolicy { allocation: Allocation::SecondAccess, ..ClassPolicy::default() }),
        (3, ClassPolicy { on_read: false, ..ClassPolicy::default() }),
        (4, ClassPolicy { on_write: false, ..ClassPolicy::default() }),
        (5, ClassPolicy { allocation: Allocation::WhileClean, ..ClassPolicy::default() }),
    ];
    let mut world = World::with(settings(EvictionKind::Heat, &policies));
    for (number, hits) in [(1, [0, 0]), (2, [0, 50]), (3, [0, 0]), (4, [50, 50]), (5, [50, 50])] {
        let from = u64::from(number) * 1000;
        scan(&mut world, number, from, 50);
        let again = [scan(&mut world, number, from, 50), scan(&mut world, number, from, 50)];
        assert_eq!(again, hits, "class {number}");
    }
    for (number, is_taken) in [(3, true), (4, false)] {
        let at = key(50_000 + u64::from(number));
        world.insert_as(Provenance::written(class(number)), at, 50_000 + u64::from(number));
        assert_eq!(world.manager.peek(at).is_some(), is_taken, "written by class {number}");
    }
}

#[test]
fn a_class_keeps_its_minimum_and_stays_near_its_maximum() {
    for eviction in EvictionKind::ALL {
        let least = ClassPolicy { min_percent: 20, ..ClassPolicy::default() };
        let most = ClassPolicy { max_percent: 30, ..ClassPolicy::default() };
        let mut world = World::with(settings(eviction, &[(1, least), (2, most)]));
        scan(&mut world, 1, 0, EXTENTS / 2);
        for round in 1..12 {
            scan(&mut world, 2, round * 100_000, EXTENTS / 2);
            scan(&mut world, 3, round * 100_000 + 50_000, EXTENTS / 2);
            let cached = world.manager.cached_by_class();
            assert!(cached[1] >= EXTENTS / 5, "{eviction}: {} of {}", cached[1], EXTENTS / 5);
            assert!(cached[2] <= EXTENTS * 30 / 100 * 9 / 8 + 64, "{eviction}: {}", cached[2]);
        }
        // It had far more, and lost what is above its minimum.
        assert!(world.manager.cached_by_class()[1] <= EXTENTS / 4, "{eviction}");
    }
}

#[test]
fn promises_that_cannot_be_kept_are_refused() {
    let check = |policy: ClassPolicy, dirty| {
        let settings = settings(EvictionKind::Heat, &[(1, policy), (2, ClassPolicy { min_percent: 30, ..policy })]);
        settings.check_classes(&settings.classes, dirty, 0)
    };
    let policy = ClassPolicy { min_percent: 20, ..ClassPolicy::default() };
    assert_eq!(check(policy, 30), Ok(()));
    let refused = check(policy, 60).unwrap_err();
    assert!(matches!(refused, ClassError::Promised { minimums: 50, pins: 0, dirty: 60, .. }), "{refused}");
    let refused = check(ClassPolicy { min_percent: 40, max_percent: 39, ..policy }, 0).unwrap_err();
    assert!(refused.to_string().contains("class 1: a minimum of 40 % and a maximum of 39 %"), "{refused}");
    assert!(check(ClassPolicy { min_percent: 0, max_percent: 0, ..policy }, 0).is_err());
}

/// The class with which new content of an extent is cached that a request of this class by its pattern brings.
fn by_pattern(world: &World, number: u64, pattern: ClassId) -> ClassId {
    let from = Provenance { pattern, ..Provenance::read(ClassId::UNCLASSIFIED) };
    world.manager.by_pattern(key(number), from).class
}

#[test]
fn content_without_another_class_gets_that_of_the_pattern() {
    let mut world = World::with(Settings { patterns: true, ..settings(EvictionKind::Heat, &[]) });
    assert_eq!(by_pattern(&world, 1, builtin::SCAN), builtin::SCAN);
    assert_eq!(by_pattern(&world, 1, builtin::READ_ONCE), builtin::READ_ONCE);
    // It was used before: while it waited, or until it was dropped.
    let from = Provenance { pattern: builtin::READ_ONCE, used: true, ..Provenance::default() };
    assert_eq!(world.manager.by_pattern(key(1), from).class, builtin::RANDOM);
    world.manager.note_gone(key(1), Gone::Evicted);
    assert_eq!(by_pattern(&world, 1, builtin::READ_ONCE), builtin::RANDOM);
    assert_eq!(by_pattern(&world, 1, builtin::SCAN), builtin::SCAN);
    // Another class comes first; and without the setting there are none.
    let known = Provenance { pattern: builtin::SCAN, ..Provenance::read(builtin::METADATA) };
    assert_eq!(world.manager.by_pattern(key(1), known).class, builtin::METADATA);
    let off = World::with(settings(EvictionKind::Heat, &[]));
    assert_eq!(by_pattern(&off, 1, builtin::SCAN), ClassId::UNCLASSIFIED);
}

#[test]
fn a_further_use_changes_the_class_by_pattern() {
    let mut world = World::with(Settings { patterns: true, ..settings(EvictionKind::Heat, &[]) });
    let known = builtin::METADATA;
    for (number, class) in [(1, builtin::READ_ONCE), (2, builtin::SCAN), (3, known)] {
        assert!(!world.read_as(class, key(number), number));
    }
    let read = |world: &mut World, by| {
        [1, 2, 3].map(|number| {
            let location = world.manager.lookup(key(number)).unwrap();
            world.manager.note_read_by(by, &location);
            world.manager.worth(&location).class
        })
    };
    assert_eq!(read(&mut world, ClassId::UNCLASSIFIED), [builtin::READ_ONCE, builtin::SCAN, known]);
    assert_eq!(read(&mut world, builtin::SCAN), [builtin::READ_ONCE, builtin::SCAN, known]);
    assert_eq!(read(&mut world, builtin::READ_ONCE), [builtin::RANDOM, builtin::RANDOM, known]);
    let cached = world.manager.cached_by_class();
    assert_eq!((cached[builtin::RANDOM.index()], cached[known.index()], cached.iter().sum::<u64>()), (2, 1, 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is promised to classes, and however that changes: what is read is what was written last, the counts are right, and
    /// there is always something to evict.
    #[test]
    fn any_classes_leave_the_cache_at_work(
        policies in prop::collection::vec((1u8..6, 0usize..4, 0usize..4, 0u8..60, 40u8..100), 1..12),
        eviction in 0usize..3,
        seed in any::<u64>(),
    ) {
        let mut world = World::with(settings(EvictionKind::ALL[eviction], &[]));
        let mut state = seed | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut classes = Classes::default();
        for (number, priority, allocation, min_percent, max_percent) in policies {
            let policy = ClassPolicy {
                priority: Band::ALL[priority],
                allocation: Allocation::ALL[allocation],
                min_percent: min_percent.min(max_percent),
                max_percent,
                ..ClassPolicy::default()
            };
            classes.set(class(number), policy);
            // Even where more is promised than there is.
            world.manager.set_classes(classes);
            for _ in 0..6000 {
                let number = random(20_000);
                world.read_as(class((number % 6) as u8), key(number), number);
            }
            let stats = world.manager.stats();
            prop_assert_eq!(world.manager.cached_by_class().iter().sum::<u64>(), stats.cached_extents);
        }
        // Nothing gets stuck: what always may enter does, in the end.
        world.manager.set_classes(Classes::default());
        world.churn(1_000_000, EXTENTS * 2);
        prop_assert!(world.manager.stats().weus_evicted > 0);
    }
}
