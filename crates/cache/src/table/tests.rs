use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A slot with the value in the low bits and the home bits above; the real slots are smaller.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TestSlot(u64);

impl Slot for TestSlot {
    const EMPTY: Self = Self(u64::MAX);
    const HOME_BITS: u32 = 18;
    fn home(&self) -> u32 {
        (self.0 >> 40) as u32 & 0x3_ffff
    }
}

fn slot(hash: u64, value: u32) -> TestSlot {
    TestSlot(u64::from(Table::<TestSlot, Spread<TestSlot>>::home_of(hash)) << 40 | u64::from(value))
}

/// Hashes that collide often: few shards and few homes.
fn hash_of(key: u16) -> u64 {
    u64::from(key % 3) << 62 | u64::from(key / 7) << 9
}

fn behaves_like_a_map<L: Shard<TestSlot>>(operations: &[(u8, u16)]) {
    let mut table = Table::<TestSlot, L>::new(0, 2);
    let mut model = BTreeMap::new();
    for (operation, key) in operations.iter().copied() {
        let (hash, value) = (hash_of(key), u32::from(key));
        let is = |s: &TestSlot| s.0 as u32 == value;
        match operation {
            0 | 1 => {
                if model.insert(key, ()).is_none() {
                    table.insert(hash, slot(hash, value));
                }
            }
            2 => assert_eq!(table.remove(hash, is).is_some(), model.remove(&key).is_some()),
            3 => {
                table.insert_over(hash, is, slot(hash, value));
                model.insert(key, ());
            }
            _ => {
                assert_eq!(table.find(hash, is).is_some(), model.contains_key(&key));
                let all = model.keys().filter(|known| hash_of(**known) == hash).count();
                assert_eq!(table.find_all(hash).count(), all);
            }
        }
        assert_eq!(table.len(), model.len());
    }
    for key in 0..300u16 {
        let found = table.find(hash_of(key), |s| s.0 as u32 == u32::from(key)).is_some();
        assert_eq!(found, model.contains_key(&key));
    }
    let shards = 0..table.shard_count();
    let removed: usize = shards.map(|s| table.retain_shard(s, |s| (s.0 as u32).is_multiple_of(2)).1).sum();
    assert_eq!(removed, model.keys().filter(|k| **k % 2 == 1).count());
    for key in model.keys() {
        assert_eq!(table.find(hash_of(*key), |s| s.0 as u32 == u32::from(*key)).is_some(), key % 2 == 0);
    }
}

proptest! {
    #[test]
    fn both_layouts_behave_like_a_map(operations in prop::collection::vec((0u8..5, 0u16..300), 1..2000)) {
        behaves_like_a_map::<Spread<TestSlot>>(&operations);
        behaves_like_a_map::<Dense<TestSlot>>(&operations);
        behaves_like_a_map::<Dense<TestSlot, 8>>(&operations);
    }
}

/// 300,000 slots are found, and take at most `percent_max` of their own size.
fn stays_within<L: Shard<TestSlot>>(percent_max: usize) {
    let mut table = Table::<TestSlot, L>::new(100_000, 2);
    let mut hash = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = |n: usize| {
        hash = hash.wrapping_mul(0xD120_0000_0000_0001 | 0x5851_F42D_4C95_7F2D).rotate_left(23) ^ n as u64;
        hash
    };
    let mut hashes = Vec::new();
    for n in 1..=300_000usize {
        hashes.push(next(n));
        table.insert(hashes[n - 1], slot(hashes[n - 1], n as u32));
        if n % 10_000 == 0 && n >= 100_000 {
            assert!(table.ram_bytes() < n * 8 * percent_max / 100, "{n} entries take {} bytes", table.ram_bytes());
        }
    }
    for (n, hash) in hashes.iter().enumerate() {
        assert!(table.find(*hash, |slot| slot.0 as u32 == n as u32 + 1).is_some());
    }
}

#[test]
fn both_layouts_stay_within_their_memory_bound() {
    stays_within::<Spread<TestSlot>>(128);
    stays_within::<Dense<TestSlot>>(112);
}
