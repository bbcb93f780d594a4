//! Counts distinct items in bounded memory.

use hashbrown::HashSet;
use hashbrown::hash_set::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// The hasher of keys that are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A count of distinct items, exact up to a maximum. Beyond it, only items whose hash has a number of zero bits are
/// kept, as in SHARDS (Waldspurger et al., FAST 2015), and the total is estimated from them.
pub struct Distinct {
    kept: HashSet<u64, BuildHasherDefault<Same>>,
    max: usize,
    /// One of 2^`halvings` items is kept.
    halvings: u32,
}

impl Distinct {
    /// Counts up to `max` items exactly, in 9 to 18 bytes each.
    pub fn new(max: usize) -> Self {
        Self { kept: HashSet::default(), max: max.max(1), halvings: 0 }
    }

    /// Counts an item by its hash, whose bits must all be well mixed; `false` if it is known that the item was counted
    /// before.
    pub fn add(&mut self, hash: u64) -> bool {
        if hash & self.mask() != 0 {
            return true;
        }
        let Entry::Vacant(entry) = self.kept.entry(hash) else { return false };
        entry.insert();
        while self.kept.len() > self.max {
            self.halvings += 1;
            let mask = self.mask();
            self.kept.retain(|hash| hash & mask == 0);
        }
        true
    }

    /// Keeps only items that `whole` would keep as well. For a count of some of `whole`'s items of which those that
    /// `whole` no longer keeps were not all added: the count is then an estimate from the same sample.
    pub fn sample_as(&mut self, whole: &Self) {
        self.halvings = self.halvings.max(whole.halvings);
        let mask = self.mask();
        self.kept.retain(|hash| hash & mask == 0);
    }

    /// The bits that must be zero: in the middle of the hash, since the table uses those at both ends.
    const fn mask(&self) -> u64 {
        ((1u64 << self.halvings) - 1) << 16
    }

    /// The number of distinct items, or its estimate.
    pub fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.halvings
    }

    /// Whether the count is exact.
    pub const fn is_exact(&self) -> bool {
        self.halvings == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::hash;

    #[test]
    fn exact_while_it_can_be_then_within_a_few_percent() {
        let mut distinct = Distinct::new(10_000);
        for round in 0..2 {
            (0..10_000).for_each(|thing| assert_eq!(distinct.add(hash(1, thing)), round == 0));
            assert_eq!((distinct.count(), distinct.is_exact()), (10_000, true), "round {round}");
        }
        for thing in 0..1_000_000 {
            distinct.add(hash(1, thing));
        }
        assert!(!distinct.is_exact());
        let error = distinct.count() as f64 / 1e6 - 1.0;
        assert!(error.abs() < 0.05, "{error}");
    }
}
