//! The lean fingerprint index: `part of a fingerprint -> units`, 6 bytes a slot: 20 home bits of the fingerprint, and of the
//! shard's number some ten more, 4 bits of generation, and the unit. A unit is a *candidate*: which of its entries has the
//! content, and whether any has, its table on the SSD says (AustereCache, USENIX ATC 2020, §3.1, keeps prefixes of
//! fingerprints in the same way).
//!
//! Slots of fillings that are gone are removed by the cleaner, and refused by the check before that. One that is older by a
//! multiple of 16 fillings is a candidate again, which the check refuses as well.

use crate::fingerprint_index::hash_of;
use crate::table::{Dense, Slot, Table};
use nitro_units::{Fingerprint, Generation, WeuId};

/// Generations are compared modulo this.
const GENERATION_LAP: u32 = 1 << 4;
const SHARD_BITS_MIN: u32 = 8;
/// Candidates that a look-up may have. They nearly always have the same fingerprint: content that is stored several times.
pub(crate) const CANDIDATES_MAX: usize = 4;

/// A unit that may have a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) weu: WeuId,
    /// Modulo [`GENERATION_LAP`].
    generation: u32,
}

impl Tagged {
    pub(crate) fn new(weu: WeuId, generation: Generation) -> Self {
        Self { weu, generation: generation.0 % GENERATION_LAP }
    }

    /// Whether it may be of this filling of its unit.
    pub(crate) fn may_be_of(&self, generation: Generation) -> bool {
        self.generation == generation.0 % GENERATION_LAP
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct TagSlot([u8; 6]);

const GENERATION_SHIFT: u32 = WeuId::COUNT_MAX.ilog2();
const HOME_SHIFT: u32 = GENERATION_SHIFT + GENERATION_LAP.ilog2();

impl TagSlot {
    fn new(home: u32, target: Tagged) -> Self {
        let raw =
            u64::from(home) << HOME_SHIFT | u64::from(target.generation) << GENERATION_SHIFT | u64::from(target.weu.0);
        let [a, b, c, d, e, f, ..] = raw.to_le_bytes();
        Self([a, b, c, d, e, f])
    }

    fn raw(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    fn target(self) -> Tagged {
        let weu = WeuId(self.raw() as u32 % WeuId::COUNT_MAX);
        Tagged { weu, generation: (self.raw() >> GENERATION_SHIFT) as u32 % GENERATION_LAP }
    }
}

impl Slot for TagSlot {
    /// No slot is this one: the last unit of the largest cache is not used.
    const EMPTY: Self = Self([0xFF; 6]);
    const HOME_BITS: u32 = 48 - HOME_SHIFT;
    fn home(&self) -> u32 {
        (self.raw() >> HOME_SHIFT) as u32
    }
}

type Tags = Table<TagSlot, Dense<TagSlot>>;

/// The index.
pub(crate) struct TagIndex {
    table: Tags,
}

impl TagIndex {
    /// For about `expected` fingerprints.
    pub(crate) fn new(expected: u64) -> Self {
        Self { table: Tags::new(expected, SHARD_BITS_MIN) }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Units that may have a fingerprint's content, the newest first; some of these fillings are gone.
    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> impl Iterator<Item = Tagged> {
        self.table.find_all(hash_of(fingerprint)).map(TagSlot::target)
    }

    /// Reads the memory that a search reads first.
    #[inline]
    pub(crate) fn touch_memory(&self, fingerprint: &Fingerprint) -> u64 {
        self.table.touch(hash_of(fingerprint)).into()
    }

    /// Adds the unit of a fingerprint's content. It replaces one that is `gone`, or, if there are too many, another one:
    /// that content is stored again when it is inserted the next time.
    pub(crate) fn insert(&mut self, fingerprint: &Fingerprint, target: Tagged, gone: impl Fn(Tagged) -> bool) {
        let hash = hash_of(fingerprint);
        let (mut found, mut replaced) = (0, None);
        for slot in self.table.find_all(hash) {
            found += 1;
            if gone(slot.target()) || (found == CANDIDATES_MAX && replaced.is_none()) {
                replaced = Some(slot);
            }
        }
        let slot = TagSlot::new(Tags::home_of(hash), target);
        self.table.insert_over(hash, |old| Some(*old) == replaced, slot);
    }

    /// Replaces a unit by another one, if it is there.
    pub(crate) fn replace(&mut self, fingerprint: &Fingerprint, old: Tagged, new: Tagged) {
        let hash = hash_of(fingerprint);
        let new = TagSlot::new(Tags::home_of(hash), new);
        self.table.replace(hash, |slot| slot.target() == old, new);
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.table.shard_count()
    }

    /// Removes the entries of one shard for which `keep` returns false; returns how many were removed.
    pub(crate) fn retain_shard(&mut self, shard: usize, keep: impl Fn(Tagged) -> bool) -> usize {
        self.table.retain_shard(shard, |slot| keep(slot.target())).1
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.table.ram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fingerprint(content: u8) -> Fingerprint {
        let mut bytes = [content / 8; 20];
        bytes[19] = content;
        Fingerprint(bytes)
    }

    proptest! {
        /// The candidates of a content include its units, beside those of contents with the same tag, as long as these are
        /// few; and none has another tag.
        #[test]
        fn candidates_are_those_of_the_tag(
            operations in prop::collection::vec((0u8..64, 0..WeuId::COUNT_MAX - 1, 0u32..40, any::<bool>()), 0..300),
        ) {
            let (mut index, mut model) = (TagIndex::new(0), Vec::<(u8, Tagged)>::new());
            for (content, weu, generation, moves) in operations {
                let target = Tagged::new(WeuId(weu), Generation(generation));
                let tag = content / 8;
                let at = model.iter().position(|(of, _)| *of == tag);
                match at.filter(|_| moves) {
                    Some(at) => {
                        index.replace(&fingerprint(content), model[at].1, target);
                        model[at].1 = target;
                    }
                    None => {
                        index.insert(&fingerprint(content), target, |_| false);
                        model.push((tag, target));
                        if model.iter().filter(|(of, _)| *of == tag).count() > CANDIDATES_MAX {
                            let left: Vec<_> = index.find(&fingerprint(content)).collect();
                            model.retain(|(of, target)| *of != tag || left.contains(target));
                        }
                    }
                }
                let mut found: Vec<_> = index.find(&fingerprint(content)).collect();
                prop_assert!(found.len() <= CANDIDATES_MAX && found.contains(&target));
                let mut known: Vec<_> = model.iter().filter(|(of, _)| *of == tag).map(|(_, target)| *target).collect();
                let order = |target: &Tagged| (target.weu, target.generation);
                found.sort_by_key(order);
                known.sort_by_key(order);
                prop_assert_eq!(found, known);
            }
            let removed: usize = (0..index.shard_count()).map(|s| index.retain_shard(s, |t| t.weu.0 % 2 == 0)).sum();
            prop_assert_eq!(removed, model.iter().filter(|(_, target)| target.weu.0 % 2 == 1).count());
            prop_assert_eq!(index.len() + removed, model.len());
        }
    }

    #[test]
    fn what_is_gone_is_replaced_first() {
        let mut index = TagIndex::new(0);
        let target = |weu| Tagged::new(WeuId(weu), Generation(15));
        for weu in 0..3 {
            index.insert(&fingerprint(0), target(weu), |_| false);
        }
        index.insert(&fingerprint(0), target(9), |old| old.weu == WeuId(1));
        let mut found: Vec<_> = index.find(&fingerprint(0)).map(|target| target.weu.0).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 2, 9]);
    }
}
