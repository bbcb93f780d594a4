//! Pinned extents stay, whatever else is asked for.

use crate::world::{WEU_BYTES, World, key};
use nitro_cache::Settings;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::class::{ClassError, Classes};
use nitro_cache::eviction::EvictionKind;
use nitro_cache::pins::PIN_STEP_EXTENTS;
use nitro_units::ObjectId;
use proptest::prelude::*;
use std::ops::Range;

const WEUS: u64 = 64;
const EXTENTS: u64 = WEUS * WEU_BYTES as u64 / 8192;
const VOLUME: ObjectId = ObjectId(1);

fn settings(eviction: EvictionKind, admission: AdmissionKind) -> Settings {
    Settings { weu_bytes: WEU_BYTES, eviction, admission, ..Settings::new(WEUS * u64::from(WEU_BYTES)) }
}

fn pin(world: &mut World, extents: Range<u64>, pinned: bool) {
    let mut from = extents.start;
    while from < extents.end {
        let to = extents.end.min(from + PIN_STEP_EXTENTS);
        world.manager.set_pinned(VOLUME, &(from..to), pinned);
        from = to;
    }
}

/// Reads extents, each once; says how many were cached.
fn read(world: &mut World, extents: Range<u64>) -> u64 {
    extents.map(|n| u64::from(world.read(key(n), n))).sum()
}

#[test]
fn what_is_pinned_survives_any_scan_under_every_policy() {
    let kinds = EvictionKind::ALL.into_iter().flat_map(|e| AdmissionKind::ALL.map(|a| (e, a)));
    for (eviction, admission) in kinds {
        let pinned = 1000..1000 + EXTENTS * 6 / 10;
        let len = pinned.end - pinned.start;
        let mut world = World::with(settings(eviction, admission));
        // Half of it is there before it is pinned, as far as the policy of admission takes it.
        let half = pinned.start..pinned.start + len / 2;
        read(&mut world, half);
        pin(&mut world, pinned.clone(), true);
        read(&mut world, pinned.clone());
        assert_eq!(world.manager.pinned_extents(), (len, len), "{eviction}, {admission}");
        read(&mut world, 100_000..100_000 + EXTENTS * 5);
        assert_eq!(read(&mut world, pinned.clone()), len, "{eviction}, {admission}");
        assert_eq!(world.manager.pinned_extents(), (len, len));
        // Others are cached beside them.
        let last = 100_000 + EXTENTS * 5;
        let takes_all =
            !matches!(admission, AdmissionKind::SecondMiss | AdmissionKind::TwoLevel | AdmissionKind::TwoLevelStatic);
        assert!(!takes_all || read(&mut world, last - 100..last) > 0, "{eviction}, {admission}");
        pin(&mut world, pinned.clone(), false);
        assert_eq!(world.manager.pinned_extents(), (0, 0));
        // They have heat by now, and go when others have more.
        for _ in 0..6 {
            let hot = 200_000..200_000 + EXTENTS * 8 / 10;
            for _ in 0..3 {
                read(&mut world, hot.clone());
            }
        }
        if admission == AdmissionKind::All {
            assert!(read(&mut world, pinned) < len, "{eviction}, {admission}");
        }
    }
}

#[test]
fn a_pinned_duplicate_outlives_what_it_is_a_duplicate_of() {
    let mut world = World::with(settings(EvictionKind::Heat, AdmissionKind::Probation));
    assert!(!world.read(key(1), 77));
    pin(&mut world, 2..3, true);
    assert!(!world.read(key(2), 77));
    let place = |world: &World, n| world.manager.peek(key(n)).map(|l| (l.weu, l.entry));
    assert!(place(&world, 2).is_some() && place(&world, 1) != place(&world, 2), "it has content of its own");
    // The next duplicate refers to it.
    assert!(!world.read(key(3), 77));
    assert_eq!(place(&world, 3), place(&world, 2));
    world.manager.invalidate(key(1));
    read(&mut world, 100_000..100_000 + EXTENTS * 3);
    assert!(world.read(key(2), 77));
}

#[test]
fn more_than_the_cache_can_keep_is_refused() {
    let world = World::with(settings(EvictionKind::Heat, AdmissionKind::Probation));
    assert!(world.manager.check_pins(EXTENTS / 2, 20).is_ok());
    for (extents, dirty) in [(EXTENTS, 0), (EXTENTS / 2, 60), (u64::MAX, 0), (EXTENTS * 100, 0)] {
        let refused = world.manager.check_pins(extents, dirty).unwrap_err();
        assert!(matches!(refused, ClassError::Promised { pins: 50.., .. }), "{refused}");
        assert!(refused.to_string().contains("pins would take"), "{refused}");
    }
    assert!(
        settings(EvictionKind::Heat, AdmissionKind::All).check_classes(&Classes::default(), 95, 0).is_ok(),
        "nothing is promised"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The number of cached pinned extents is that of the extents that can be had, whatever happened.
    #[test]
    fn cached_pins_are_counted(
        operations in prop::collection::vec((0u8..8, 0u64..6000, 1u64..300), 1..120),
    ) {
        let mut world = World::with(settings(EvictionKind::Heat, AdmissionKind::Probation));
        let mut pinned = std::collections::BTreeSet::new();
        for (operation, at, len) in operations {
            let range = at..at + len;
            match operation {
                0 if (pinned.len() as u64) < EXTENTS / 2 => {
                    pin(&mut world, range.clone(), true);
                    pinned.extend(range);
                }
                1 => {
                    pin(&mut world, range.clone(), false);
                    range.for_each(|n| { pinned.remove(&n); });
                }
                2 => range.for_each(|n| {
                    let _ = world.manager.invalidate(key(n));
                }),
                3 => {
                    world.evict(&mut |manager, survivor| {
                        if survivor.key.index().0 % 7 == 0 {
                            manager.invalidate(survivor.key);
                        }
                    });
                }
                _ => {
                    read(&mut world, range.start..range.start + len * 4);
                }
            }
            let cached = pinned.iter().filter(|n| world.manager.peek(key(**n)).is_some()).count() as u64;
            prop_assert_eq!(world.manager.pinned_extents(), (pinned.len() as u64, cached));
        }
    }
}
