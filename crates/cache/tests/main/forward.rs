//! Copying forward: what survives the eviction of its unit, with which keys, and that nothing stale does.

use crate::world::{WEUS, World, key};
use proptest::prelude::*;
use std::collections::HashMap;

#[test]
fn what_was_used_again_outlives_its_unit_with_all_its_keys() {
    const HOT: u64 = 150;
    let mut world = World::new();
    let (mut hits, rounds) = (0, 60);
    for round in 0..rounds {
        // Each content is used now and then, by two keys, and by far more others come than the cache has room for.
        for n in 0..HOT {
            let first = world.read(key(n), n);
            let again = world.read(key(1000 + n), n);
            hits += u64::from(first && again);
            world.churn(10_000 + (round * HOT + n) * 4, 4);
        }
    }
    let (evicted, forwarded) = (world.manager.stats().weus_evicted, world.forwarded);
    assert!(evicted > 10 * WEUS && forwarded > HOT / 2, "{evicted} units evicted, {forwarded} extents copied forward");
    assert!(hits >= (rounds - 1) * HOT, "{hits} of {} uses found content and both keys", rounds * HOT);
    assert!(world.manager.stats().dup_entries >= HOT);
}

#[test]
fn what_is_overwritten_while_its_unit_is_read_is_not_copied() {
    let mut world = World::new();
    world.churn(0, 600);
    for _ in 0..3 {
        for number in 0..400 {
            let _ = world.manager.lookup(key(number));
        }
    }
    let mut overwritten = Vec::new();
    while overwritten.is_empty() {
        assert!(world.evict(&mut |manager, survivor| {
            if survivor.location.entry % 2 == 0 {
                assert!(manager.invalidate(survivor.key).is_some());
                overwritten.push(survivor.key);
            }
        }));
    }
    assert!(world.forwarded > 0, "others were copied");
    for key in overwritten {
        assert_eq!(world.manager.peek(key), None, "{key:?} came back");
    }
}

#[test]
fn what_other_keys_use_outlives_its_unit_though_the_first_key_was_overwritten() {
    const HOT: u64 = 150;
    let mut world = World::new();
    for n in 0..HOT {
        world.read(key(n), n);
        world.read(key(1000 + n), n);
        world.read(key(2000 + n), n);
    }
    for n in 0..HOT {
        assert!(world.manager.invalidate(key(n)).is_some());
    }
    let (mut hits, rounds) = (0, 60);
    for round in 0..rounds {
        for n in 0..HOT {
            let first = world.read(key(1000 + n), n);
            let again = world.read(key(2000 + n), n);
            hits += u64::from(first && again);
            world.churn(10_000 + (round * HOT + n) * 4, 4);
        }
    }
    assert!(world.manager.stats().weus_evicted > 10 * WEUS);
    assert!(hits >= (rounds - 1) * HOT, "{hits} of {} uses found content and both keys", rounds * HOT);
    for n in 0..HOT {
        assert_eq!(world.manager.peek(key(n)), None, "the first key of {n} came back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However reads, writes, duplicates and evictions interleave, an extent is found with its newest content or not at all.
    #[test]
    fn nothing_stale_is_copied_forward(
        seed in any::<u64>(),
        contents in 1u64..3000,
        write_one_in in 2u64..20,
    ) {
        let mut world = World::new();
        let mut newest: HashMap<u64, u64> = HashMap::new();
        let (mut state, mut hits) = (seed | 1, 0u64);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..20_000 {
            // A hot tenth, and a long tail.
            let number = if random(2) == 0 { random(200) } else { random(4000) };
            if random(write_one_in) == 0 {
                let content = random(contents);
                newest.insert(number, content);
                world.manager.invalidate(key(number));
                world.insert(key(number), content);
            } else {
                let content = newest.get(&number).copied().unwrap_or(100_000 + number);
                hits += u64::from(world.read(key(number), content));
            }
        }
        let evicted = world.manager.stats().weus_evicted;
        prop_assert!(hits > 500 && evicted >= 8, "{hits} hits, {evicted} units evicted");
    }
}
