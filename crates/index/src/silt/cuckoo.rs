//! Partial-key cuckoo hashing (SILT §4.1): finds slots of a log by tags of 15 bits.
//!
//! A key has two buckets of four cells. The other bucket of a cell is computed from its tag alone, so no key is read
//! from the flash: `b' = (h(tag) − b) mod buckets`, which is its own inverse for any number of buckets.

use smallvec::SmallVec;

const WAYS: usize = 4;
const TAG_BITS: u32 = 15;
/// Bits of a slot's number; the highest number is reserved for empty cells.
const SLOT_BITS: u32 = 32 - TAG_BITS;
/// The maximum number of slots of a table.
pub(super) const SLOTS_MAX: u32 = (1 << SLOT_BITS) - 1;
const EMPTY: u32 = u32::MAX;
/// The maximum number of cells that are moved for an insertion.
const MOVES_MAX: u32 = 250;
/// A table with this number of cells in its stash is full.
const STASH_MAX: usize = 4;
/// The maximum percentage of cells in use: above it, insertions would often fail.
const LOAD_PERCENT: u64 = 92;

/// The partial key: the bits of a key's hash that the table uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    tag: u32,
    /// 32 bits that choose the first bucket.
    spread: u32,
}

impl Partial {
    /// The partial key from 64 bits of a key's hash.
    #[must_use]
    pub fn new(low: u64) -> Self {
        Self { tag: low as u32 & ((1 << TAG_BITS) - 1), spread: (low >> 32) as u32 }
    }
}

/// A cuckoo hash table.
pub struct Cuckoo {
    cells: Box<[u32]>,
    /// Cells that did not fit into their buckets, with one of these.
    stash: Vec<(u32, u32)>,
    random: u32,
}

/// The slots that a table has for a key; some may be of other keys.
pub type Slots = SmallVec<[u32; 4]>;

fn scale(random: u32, buckets: u32) -> u32 {
    ((u64::from(random) * u64::from(buckets)) >> 32) as u32
}

fn cell(tag: u32, slot: u32) -> u32 {
    tag << SLOT_BITS | slot
}

impl Cuckoo {
    /// The number of buckets for `slots` slots.
    fn buckets_for(slots: u64) -> usize {
        (slots * 100 / LOAD_PERCENT).div_ceil(WAYS as u64).max(2) as usize
    }

    /// RAM of a table for `slots` slots, in bytes.
    #[must_use]
    pub fn ram_bytes_for(slots: u64) -> u64 {
        (Self::buckets_for(slots) * WAYS * size_of::<u32>()) as u64
    }

    /// A table for `slots` slots.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        let cells = vec![EMPTY; Self::buckets_for(slots.into()) * WAYS].into_boxed_slice();
        Self { cells, stash: Vec::new(), random: 1 }
    }

    /// RAM in use, in bytes.
    pub(super) fn ram_bytes(&self) -> u64 {
        (size_of_val(&*self.cells) + self.stash.capacity() * size_of::<(u32, u32)>()) as u64
    }

    fn buckets(&self) -> u32 {
        (self.cells.len() / WAYS) as u32
    }

    fn other(&self, bucket: u32, tag: u32) -> u32 {
        let buckets = self.buckets();
        let sum = scale(tag.wrapping_mul(0x9E37_79B1), buckets);
        if sum >= bucket { sum - bucket } else { sum + buckets - bucket }
    }

    fn pair(&self, key: Partial) -> [u32; 2] {
        let first = scale(key.spread, self.buckets());
        [first, self.other(first, key.tag)]
    }

    fn bucket(&self, bucket: u32) -> &[u32] {
        &self.cells[bucket as usize * WAYS..][..WAYS]
    }

    fn bucket_mut(&mut self, bucket: u32) -> &mut [u32] {
        &mut self.cells[bucket as usize * WAYS..][..WAYS]
    }

    /// Whether there is no room for another cell.
    pub(super) fn is_full(&self) -> bool {
        self.stash.len() >= STASH_MAX
    }

    /// The slots that were inserted with `key`'s tag, newest first; they include slots of other keys with a probability
    /// of `8 × 2⁻¹⁵`.
    #[must_use]
    pub fn find(&self, key: Partial) -> Slots {
        let [first, second] = self.pair(key);
        let mut slots = Slots::new();
        let mut look = |c: u32| {
            if c >> SLOT_BITS == key.tag && c != EMPTY {
                slots.push(c & SLOTS_MAX);
            }
        };
        self.bucket(first).iter().for_each(|c| look(*c));
        if second != first {
            self.bucket(second).iter().for_each(|c| look(*c));
        }
        for (bucket, c) in &self.stash {
            if *bucket == first || *bucket == second {
                look(*c);
            }
        }
        if slots.len() > 1 {
            slots.sort_unstable_by(|a, b| b.cmp(a));
        }
        slots
    }

    /// Inserts `slot` for `key`.
    pub fn insert(&mut self, key: Partial, slot: u32) {
        debug_assert!(slot < SLOTS_MAX);
        let [first, second] = self.pair(key);
        let mut homeless = cell(key.tag, slot);
        let mut bucket = first;
        if self.place(first, homeless) || self.place(second, homeless) {
            return;
        }
        for _ in 0..MOVES_MAX {
            self.random = self.random.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            let way = (self.random >> 30) as usize;
            std::mem::swap(&mut self.bucket_mut(bucket)[way], &mut homeless);
            bucket = self.other(bucket, homeless >> SLOT_BITS);
            if self.place(bucket, homeless) {
                return;
            }
        }
        self.stash.push((bucket, homeless));
    }

    fn place(&mut self, bucket: u32, new: u32) -> bool {
        match self.bucket_mut(bucket).iter_mut().find(|c| **c == EMPTY) {
            Some(empty) => {
                *empty = new;
                true
            }
            None => false,
        }
    }

    fn change(&mut self, key: Partial, slot: u32, new: u32) -> bool {
        let old = cell(key.tag, slot);
        for bucket in self.pair(key) {
            if let Some(found) = self.bucket_mut(bucket).iter_mut().find(|c| **c == old) {
                *found = new;
                return true;
            }
        }
        match self.stash.iter().position(|(_, c)| *c == old) {
            Some(at) if new == EMPTY => drop(self.stash.swap_remove(at)),
            Some(at) => self.stash[at].1 = new,
            None => return false,
        }
        true
    }

    /// Replaces `slot`, of the same key, by `new`; returns false if it is not in the table.
    pub(super) fn replace(&mut self, key: Partial, slot: u32, new: u32) -> bool {
        self.change(key, slot, cell(key.tag, new))
    }

    /// Removes a slot; returns false if it is not in the table.
    pub(super) fn remove(&mut self, key: Partial, slot: u32) -> bool {
        self.change(key, slot, EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> Partial {
        Partial::new(xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()))
    }

    #[test]
    fn a_full_table_finds_every_slot_and_others_as_seldom_as_tags_say() {
        for slots in [1, 3, 500, 64_512, SLOTS_MAX] {
            let mut table = Cuckoo::new(slots);
            (0..slots).for_each(|s| {
                assert!(!table.is_full(), "{s} of {slots}");
                table.insert(key(s.into()), s);
            });
            assert!((0..slots).all(|s| table.find(key(s.into())).contains(&s)));
            let asked = 2_000_000u64;
            let wrong: usize = (1 << 40..(1 << 40) + asked).map(|n| table.find(key(n)).len()).sum();
            let load = f64::from(slots) / table.cells.len() as f64;
            let expected = asked as f64 * 8.0 * load / 32768.0;
            if slots > 10_000 {
                let wrong = wrong as f64;
                assert!((expected * 0.8..expected * 1.2).contains(&wrong), "{wrong} false, {expected} expected");
            }
        }
    }

    #[test]
    fn the_table_takes_less_than_the_paper_s() {
        let table = Cuckoo::new(64_512);
        let each = table.ram_bytes() as f64 / 64_512.0;
        assert!(each <= 6.5, "{each} bytes an entry");
        assert_eq!(table.ram_bytes(), Cuckoo::ram_bytes_for(64_512));
    }

    #[test]
    fn slots_are_replaced_and_removed_among_many_of_one_key() {
        let mut table = Cuckoo::new(100);
        let one = key(1);
        (0..12).for_each(|s| table.insert(one, s));
        assert_eq!(table.find(one).to_vec(), (0..12).rev().collect::<Vec<u32>>());
        assert!(table.is_full());
        assert!(table.replace(one, 3, 50) && !table.replace(one, 3, 51));
        assert!((0..3).chain(4..12).all(|s| table.remove(one, s)));
        assert_eq!(table.find(one).to_vec(), [50]);
        assert!(!table.is_full());
    }
}
