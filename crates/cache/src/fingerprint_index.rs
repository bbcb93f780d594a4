//! The in-RAM fingerprint index: `Fingerprint -> (WEU, entry, generation)`, possibly partial (the *fingerprint index
//! ratio*, paper §3), replaced in LRU order.
//!
//! 23 bytes a slot: 120 bits of the fingerprint (8 more are implied by the shard, so that 128 bits are compared), WEU,
//! entry, 12 bits of generation and 11 bits of age. Age advances with insertions, by 1/1024 of the index at a time, and
//! a victim is the oldest of its shard: LRU at that resolution, without links. An untouched entry is evicted before its
//! age can wrap around, and a stale one is swept before its generation can (see module `sweep`).

use crate::table::{Slot, Table};
use nitro_units::{Fingerprint, Generation, WeuId};

const TAG_BYTES: usize = 15;
const SHARD_BITS_MIN: u32 = 8;
/// Generations are compared modulo this.
pub(crate) const GENERATION_LAP: u32 = 1 << 12;
const AGE_MASK: u32 = (1 << 11) - 1;
/// Ticks of the age during as many insertions as the index may have entries.
const TICKS_PER_TURNOVER: u64 = 1024;

/// The position of a fingerprint's extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) weu: WeuId,
    pub(crate) entry: u16,
    /// Modulo [`GENERATION_LAP`].
    pub(crate) generation: u32,
}

impl Target {
    pub(crate) fn new(weu: WeuId, entry: u16, generation: Generation) -> Self {
        Self { weu, entry, generation: generation.0 % GENERATION_LAP }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct FingerprintSlot {
    tag: [u8; TAG_BYTES],
    /// WEU (24), entry (13), generation (12), age (11).
    packed: [u8; 8],
}

impl FingerprintSlot {
    fn new(tag: [u8; TAG_BYTES], target: Target, age: u32) -> Self {
        let packed = u64::from(target.weu.0) << 36
            | u64::from(target.entry) << 23
            | u64::from(target.generation) << 11
            | u64::from(age & AGE_MASK);
        Self { tag, packed: packed.to_le_bytes() }
    }

    fn target(&self) -> Target {
        let packed = u64::from_le_bytes(self.packed);
        Target {
            weu: WeuId((packed >> 36) as u32 & 0xFF_FFFF),
            entry: (packed >> 23) as u16 & 0x1FFF,
            generation: (packed >> 11) as u32 % GENERATION_LAP,
        }
    }

    fn age(&self) -> u32 {
        u64::from_le_bytes(self.packed) as u32 & AGE_MASK
    }
}

impl Slot for FingerprintSlot {
    const EMPTY: Self = Self { tag: [0xFF; TAG_BYTES], packed: [0xFF; 8] };
    const HOME_BITS: u32 = 24;
    fn home(&self) -> u32 {
        let [.., a, b, c] = self.tag;
        u32::from_be_bytes([0, a, b, c])
    }
}

/// The index.
pub(crate) struct FingerprintIndex {
    table: Table<FingerprintSlot>,
    tick: u32,
    inserted_since_tick: u64,
}

/// The hash of a fingerprint is a part of it: its first bytes choose the shard, its 14th to 16th are the home bits.
pub(crate) fn hash_of(fingerprint: &Fingerprint) -> u64 {
    let f = &fingerprint.0;
    u64::from_be_bytes([f[0], f[1], f[2], f[3], f[4], f[13], f[14], f[15]])
}

fn tag_of(fingerprint: &Fingerprint) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&fingerprint.0[1..=TAG_BYTES]);
    tag
}

impl FingerprintIndex {
    pub(crate) fn new(expected: u64) -> Self {
        Self { table: Table::new(expected, SHARD_BITS_MIN), tick: 0, inserted_since_tick: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> Option<Target> {
        let tag = tag_of(fingerprint);
        self.table.find(hash_of(fingerprint), |s| s.tag == tag).map(|s| s.target())
    }

    /// Reads the memory that a search reads first.
    #[inline]
    pub(crate) fn touch_memory(&self, fingerprint: &Fingerprint) -> u64 {
        self.table.touch(hash_of(fingerprint)).into()
    }

    /// Marks an entry as just used.
    pub(crate) fn touch(&mut self, fingerprint: &Fingerprint, target: Target) {
        let tag = tag_of(fingerprint);
        let new = FingerprintSlot::new(tag, target, self.tick);
        self.table.replace(hash_of(fingerprint), |s| s.tag == tag, new);
    }

    pub(crate) fn remove(&mut self, fingerprint: &Fingerprint) {
        let tag = tag_of(fingerprint);
        self.table.remove(hash_of(fingerprint), |s| s.tag == tag);
    }

    /// Inserts a fingerprint, or replaces its entry. While the index has `len_max` or more entries, it evicts one: a
    /// stale one if the shard has any, otherwise the oldest. Returns the number of evicted entries.
    pub(crate) fn insert(
        &mut self,
        fingerprint: &Fingerprint,
        target: Target,
        len_max: usize,
        stale: impl Fn(Target) -> bool,
    ) -> u64 {
        let (hash, tick, tag) = (hash_of(fingerprint), self.tick, tag_of(fingerprint));
        let mut evicted = 0;
        if self.table.len() >= len_max {
            self.remove(fingerprint);
        }
        if len_max == 0 {
            return evicted;
        }
        while self.table.len() >= len_max {
            let age = |s: &FingerprintSlot| tick.wrapping_sub(s.age()) & AGE_MASK;
            self.table.remove_max_near(hash, |s| if stale(s.target()) { u32::MAX } else { age(s) });
            evicted += 1;
        }
        self.table.insert_over(hash, |s| s.tag == tag, FingerprintSlot::new(tag, target, tick));
        self.inserted_since_tick += 1;
        if self.inserted_since_tick * TICKS_PER_TURNOVER >= len_max as u64 {
            self.tick = (self.tick + 1) & AGE_MASK;
            self.inserted_since_tick = 0;
        }
        evicted
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.table.shard_count()
    }

    /// Removes the entries of one shard for which `keep` returns false; returns how many were examined and removed.
    pub(crate) fn retain_shard(&mut self, shard: usize, keep: impl Fn(Target) -> bool) -> (usize, usize) {
        self.table.retain_shard(shard, |s| keep(s.target()))
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.table.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(n: u64) -> Fingerprint {
        let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Fingerprint(std::array::from_fn(|_| {
            state = (state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(1);
            (state >> 56) as u8
        }))
    }

    fn target(n: u32) -> Target {
        Target { weu: WeuId(n), entry: 8191, generation: GENERATION_LAP - 1 }
    }

    #[test]
    fn finds_what_differs_in_any_of_128_bits() {
        let mut index = FingerprintIndex::new(0);
        let one = fingerprint(1);
        index.insert(&one, target(WeuId::COUNT_MAX - 1), usize::MAX, |_| false);
        assert_eq!(index.find(&one), Some(target(WeuId::COUNT_MAX - 1)));
        for bit in 0..128 {
            let mut other = one;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(index.find(&other), None, "bit {bit}");
        }
    }

    #[test]
    fn a_partial_index_keeps_what_is_in_use() {
        let mut index = FingerprintIndex::new(0);
        let limit = 200_000;
        let mut evicted = 0;
        for n in 0..600_000u64 {
            evicted += index.insert(&fingerprint(n), target(n as u32), limit, |_| false);
            for hot in 0..if n % 50 == 0 { 4 } else { 0 } {
                let f = fingerprint(hot);
                if let Some(t) = index.find(&f) {
                    index.touch(&f, t);
                }
            }
        }
        assert_eq!((index.len(), evicted), (limit, 400_000));
        assert!((0..4).all(|n| index.find(&fingerprint(n)).is_some()), "touched entries stay");
        assert!((590_000..600_000).all(|n| index.find(&fingerprint(n)).is_some()), "the newest stay");
        let old = (4..380_000).filter(|n| index.find(&fingerprint(*n)).is_some()).count();
        assert!(old < 400, "{old} of the oldest were kept");
    }
}
