//! A sharded hash table of small fixed-size slots with a bounded load factor at any size.
//!
//! Each shard is one array, probed linearly and kept in the order of its slots' *home bits*, the part of the hash that
//! each slot stores itself. Therefore a search ends at the first larger value, a removal needs no tombstone, and only
//! true candidates are dereferenced. A shard grows by about a tenth when it is 93 % full: memory stays within 1.08–1.25
//! × the slots in use, and no operation ever rehashes more than one shard (some 1,000 slots).

/// A table slot. One value means "empty".
pub trait Slot: Copy + PartialEq {
    /// The empty slot.
    const EMPTY: Self;
    /// How many home bits a slot stores (at most 24).
    const HOME_BITS: u32;
    /// The stored home bits, below `1 << HOME_BITS`; the empty slot must return the highest possible value.
    fn home(&self) -> u32;
}

/// Slots beyond the last home, so that probing needs no wrap-around.
const TAIL_SLOTS: usize = 8;
/// Target number of entries of a shard, from which the number of shards follows.
const SHARD_ENTRIES_TARGET: u64 = 1024;

struct Shard<S> {
    slots: Box<[S]>,
    len: u32,
}

/// The table. Hashes have 64 bits: the highest ones choose the shard, [`home_of`](Table::home_of) the position in it.
pub struct Table<S> {
    shards: Box<[Shard<S>]>,
    shard_shift: u32,
    len: usize,
}

impl<S: Slot> Shard<S> {
    fn capacity(&self) -> usize {
        self.slots.len().saturating_sub(TAIL_SLOTS)
    }

    fn start(&self, home: u32) -> usize {
        ((u64::from(home) * self.capacity() as u64) >> S::HOME_BITS) as usize
    }

    /// The position of the first slot that is empty or has home bits of at least `home`.
    fn lower_bound(&self, home: u32) -> usize {
        let start = self.start(home);
        let behind = self.slots.get(start..).unwrap_or_default();
        start + behind.iter().position(|slot| slot.home() >= home).unwrap_or(behind.len())
    }

    /// Among the slots from `from` on, the [lower bound](Self::lower_bound) of `home`, the first for which `is` holds.
    fn find_from(&self, from: usize, home: u32, is: impl FnMut(&S) -> bool) -> Option<usize> {
        let behind = self.slots.get(from..).unwrap_or_default();
        let mut run = behind.iter().take_while(|slot| slot.home() == home && **slot != S::EMPTY);
        run.position(is).map(|number| from + number)
    }

    fn find(&self, home: u32, is: impl FnMut(&S) -> bool) -> Option<usize> {
        self.find_from(self.lower_bound(home), home, is)
    }

    /// Stores `slot` at its position; false: the cluster would exceed the end.
    fn place(&mut self, slot: S) -> bool {
        !self.slots.is_empty() && self.place_at(self.lower_bound(slot.home()), slot)
    }

    /// As [`place`](Self::place), at the lower bound of the slot's home.
    fn place_at(&mut self, at: usize, slot: S) -> bool {
        let Some(gap) = self.slots[at..].iter().position(|s| *s == S::EMPTY) else { return false };
        self.slots.copy_within(at..at + gap, at + 1);
        self.slots[at] = slot;
        self.len += 1;
        true
    }

    fn insert(&mut self, slot: S) {
        self.insert_at(self.lower_bound(slot.home()), slot);
    }

    /// As [`insert`](Self::insert), at the lower bound of the slot's home.
    fn insert_at(&mut self, at: usize, slot: S) {
        let full = (self.len as usize + 1) * 100 > self.capacity() * 93;
        if full || !self.place_at(at, slot) {
            let mut capacity = (self.len as usize + 2) * 100 / 84 + 2;
            loop {
                let mut grown = Self { slots: vec![S::EMPTY; capacity + TAIL_SLOTS].into_boxed_slice(), len: 0 };
                let all = self.slots.iter().filter(|s| **s != S::EMPTY);
                if all.chain([&slot]).all(|s| grown.place(*s)) {
                    *self = grown;
                    return;
                }
                capacity += capacity / 8 + 1;
            }
        }
    }

    fn remove_at(&mut self, at: usize) -> S {
        let removed = self.slots[at];
        let mut end = at + 1;
        while end < self.slots.len() && self.slots[end] != S::EMPTY && self.start(self.slots[end].home()) < end {
            end += 1;
        }
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = S::EMPTY;
        self.len -= 1;
        removed
    }
}

impl<S: Slot> Table<S> {
    /// A table with a shard count suitable for about `expected` entries, and at least `1 << shard_bits_min` shards.
    /// More entries make the shards larger.
    #[must_use]
    pub fn new(expected: u64, shard_bits_min: u32) -> Self {
        let bits = (expected / SHARD_ENTRIES_TARGET).max(1).ilog2().clamp(shard_bits_min.max(1), 24);
        let shards = (0..1usize << bits).map(|_| Shard { slots: Box::default(), len: 0 }).collect();
        Self { shards, shard_shift: 64 - bits, len: 0 }
    }

    /// The home bits of a hash.
    #[must_use]
    pub fn home_of(hash: u64) -> u32 {
        (hash & ((1 << S::HOME_BITS) - 1)) as u32
    }

    fn shard_of(&self, hash: u64) -> usize {
        (hash >> self.shard_shift) as usize
    }

    /// Entries in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first slot of that hash for which `is` holds.
    pub fn find(&self, hash: u64, is: impl FnMut(&S) -> bool) -> Option<S> {
        let shard = &self.shards[self.shard_of(hash)];
        shard.find(Self::home_of(hash), is).map(|at| shard.slots[at])
    }

    /// Reads the memory that a search for this hash reads first, without using the result: in most cases, all slots of
    /// the search.
    #[inline]
    pub fn touch(&self, hash: u64) -> u32 {
        let shard = &self.shards[self.shard_of(hash)];
        let at = shard.start(Self::home_of(hash));
        let slot = |at: usize| shard.slots.get(at).map_or(0, S::home);
        slot(at) ^ slot(at + 3)
    }

    /// Replaces the first slot of that hash for which `is` holds; the new slot must have the same home bits.
    pub fn replace(&mut self, hash: u64, is: impl FnMut(&S) -> bool, new: S) -> Option<S> {
        debug_assert_eq!(new.home(), Self::home_of(hash));
        let at = self.shard_of(hash);
        let shard = &mut self.shards[at];
        let at = shard.find(Self::home_of(hash), is)?;
        Some(std::mem::replace(&mut shard.slots[at], new))
    }

    /// Adds a slot, even if the table has an equal one.
    pub fn insert(&mut self, hash: u64, slot: S) {
        debug_assert!(slot != S::EMPTY && slot.home() == Self::home_of(hash));
        let at = self.shard_of(hash);
        self.shards[at].insert(slot);
        self.len += 1;
    }

    /// As [`insert`](Self::insert), after the first slot of that hash for which `is` holds was removed.
    pub fn insert_over(&mut self, hash: u64, is: impl FnMut(&S) -> bool, slot: S) {
        let (home, number) = (Self::home_of(hash), self.shard_of(hash));
        debug_assert!(slot != S::EMPTY && slot.home() == home);
        let shard = &mut self.shards[number];
        let mut at = shard.lower_bound(home);
        match shard.find_from(at, home, is) {
            Some(old) => {
                shard.remove_at(old);
                at = shard.lower_bound(home);
            }
            None => self.len += 1,
        }
        shard.insert_at(at, slot);
    }

    /// Removes the first slot of that hash for which `is` holds.
    pub fn remove(&mut self, hash: u64, is: impl FnMut(&S) -> bool) -> Option<S> {
        let at = self.shard_of(hash);
        let shard = &mut self.shards[at];
        let at = shard.find(Self::home_of(hash), is)?;
        self.len -= 1;
        Some(shard.remove_at(at))
    }

    /// Removes from the shard of `hash` (or, if it is empty, from the next one that is not) the slot for which `rank`
    /// returns the largest value.
    pub fn remove_max_near(&mut self, hash: u64, rank: impl Fn(&S) -> u32) -> Option<S> {
        let (first, count) = (self.shard_of(hash), self.shards.len());
        let at = (0..count).map(|i| (first + i) % count).find(|i| self.shards[*i].len > 0)?;
        let shard = &mut self.shards[at];
        let used = shard.slots.iter().enumerate().filter(|(_, s)| **s != S::EMPTY);
        let victim = used.max_by_key(|(_, s)| rank(s)).map(|(i, _)| i)?;
        self.len -= 1;
        Some(shard.remove_at(victim))
    }

    /// The number of shards: the steps of a whole pass of [`retain_shard`](Self::retain_shard).
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Removes the slots of one shard for which `keep` does not hold. Returns how many were examined and removed.
    pub fn retain_shard(&mut self, shard: usize, mut keep: impl FnMut(&S) -> bool) -> (usize, usize) {
        let shard = &mut self.shards[shard];
        let (before, mut at) = (shard.len as usize, 0);
        while at < shard.slots.len() {
            if shard.slots[at] != S::EMPTY && !keep(&shard.slots[at]) {
                shard.remove_at(at); // the slot that moved here is examined next
            } else {
                at += 1;
            }
        }
        let removed = before - shard.len as usize;
        self.len -= removed;
        (before, removed)
    }

    /// RAM in bytes.
    #[must_use]
    pub fn ram_bytes(&self) -> usize {
        let slots: usize = self.shards.iter().map(|s| s.slots.len()).sum();
        slots * size_of::<S>() + self.shards.len() * size_of::<Shard<S>>()
    }
}

#[cfg(test)]
mod tests;
