//! A sharded hash table of small fixed-size slots whose memory stays close to what the slots in use take, at any size.
//!
//! Each shard is one array, kept in the order of its slots' *home bits*, the part of the hash that each slot stores itself.
//! Therefore a search ends at the first larger value, a removal needs no tombstone, and only true candidates are
//! dereferenced. No operation ever moves more than one shard (some 1,000 slots). There are two layouts of a shard:
//! [`Spread`] has gaps between its slots, [`Dense`] has none.

mod dense;
mod spread;

pub(crate) use dense::Dense;
pub(crate) use spread::Spread;

use std::marker::PhantomData;

/// A table slot. One value means "empty".
pub trait Slot: Copy + PartialEq + 'static {
    /// The empty slot.
    const EMPTY: Self;
    /// How many home bits a slot stores (at most 24).
    const HOME_BITS: u32;
    /// The stored home bits, below `1 << HOME_BITS`; the empty slot must return the highest possible value.
    fn home(&self) -> u32;
}

/// A shard: slots in the order of their home bits. Positions count all slots, empty ones included, and are valid until the
/// next change.
pub(crate) trait Shard<S: Slot>: Default {
    /// Target number of entries of a shard, from which the number of shards follows.
    const ENTRIES_TARGET: u64;

    /// The slot at a position.
    fn get(&self, at: usize) -> Option<&S>;

    /// The slots from a position on.
    fn slots_from(&self, at: usize) -> impl Iterator<Item = &S>;

    /// The number of slots in use.
    fn len(&self) -> usize;

    /// Where the slots with these home bits probably are.
    fn start(&self, home: u32) -> usize;

    /// The position of the first slot that is empty or has home bits of at least `home`.
    fn lower_bound(&self, home: u32) -> usize;

    /// Adds a slot at the lower bound of its home.
    fn insert_at(&mut self, at: usize, slot: S);

    /// Replaces a slot by one with the same home bits.
    fn replace_at(&mut self, at: usize, slot: S) -> S;

    /// Removes a slot that is in use. The slot that takes its position, if any, comes next in the order.
    fn remove_at(&mut self, at: usize) -> S;

    /// RAM of the slots in bytes.
    fn ram_bytes(&self) -> usize;

    /// Among the slots from `from` on, the [lower bound](Self::lower_bound) of `home`, the first for which `is` holds.
    fn find_from(&self, from: usize, home: u32, is: impl FnMut(&S) -> bool) -> Option<usize> {
        let mut run = self.slots_from(from).take_while(|slot| slot.home() == home && **slot != S::EMPTY);
        run.position(is).map(|number| from + number)
    }

    /// The first slot with these home bits for which `is` holds.
    fn find(&self, home: u32, is: impl FnMut(&S) -> bool) -> Option<usize> {
        self.find_from(self.lower_bound(home), home, is)
    }
}

/// The table. Hashes have 64 bits: the highest ones choose the shard, [`home_of`](Table::home_of) the position in it.
pub struct Table<S, L = Spread<S>> {
    shards: Box<[L]>,
    shard_shift: u32,
    len: usize,
    slots: PhantomData<S>,
}

impl<S: Slot, L: Shard<S>> Table<S, L> {
    /// A table with a shard count suitable for about `expected` entries, and at least `1 << shard_bits_min` shards.
    /// More entries make the shards larger.
    #[must_use]
    pub fn new(expected: u64, shard_bits_min: u32) -> Self {
        let bits = (expected / L::ENTRIES_TARGET).max(1).ilog2().clamp(shard_bits_min.max(1), 24);
        let shards = (0..1usize << bits).map(|_| L::default()).collect();
        Self { shards, shard_shift: 64 - bits, len: 0, slots: PhantomData }
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

    /// All slots of that hash, the newest first.
    pub fn find_all(&self, hash: u64) -> impl Iterator<Item = S> {
        let (shard, home) = (&self.shards[self.shard_of(hash)], Self::home_of(hash));
        shard
            .slots_from(shard.lower_bound(home))
            .take_while(move |slot| slot.home() == home && **slot != S::EMPTY)
            .copied()
    }

    /// The first slot of that hash for which `is` holds.
    pub fn find(&self, hash: u64, is: impl FnMut(&S) -> bool) -> Option<S> {
        let shard = &self.shards[self.shard_of(hash)];
        shard.get(shard.find(Self::home_of(hash), is)?).copied()
    }

    /// Reads the memory that a search for this hash reads first, without using the result: in most cases, all slots of
    /// the search.
    #[inline]
    pub fn touch(&self, hash: u64) -> u32 {
        let shard = &self.shards[self.shard_of(hash)];
        let at = shard.start(Self::home_of(hash));
        let slot = |at: usize| shard.get(at).map_or(0, S::home);
        slot(at) ^ slot(at + 3)
    }

    /// Replaces the first slot of that hash for which `is` holds; the new slot must have the same home bits.
    pub fn replace(&mut self, hash: u64, is: impl FnMut(&S) -> bool, new: S) -> Option<S> {
        debug_assert_eq!(new.home(), Self::home_of(hash));
        let at = self.shard_of(hash);
        let shard = &mut self.shards[at];
        let at = shard.find(Self::home_of(hash), is)?;
        Some(shard.replace_at(at, new))
    }

    /// Adds a slot, even if the table has an equal one.
    pub fn insert(&mut self, hash: u64, slot: S) {
        debug_assert!(slot != S::EMPTY && slot.home() == Self::home_of(hash));
        let at = self.shard_of(hash);
        let shard = &mut self.shards[at];
        shard.insert_at(shard.lower_bound(slot.home()), slot);
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
        let at = (0..count).map(|i| (first + i) % count).find(|i| self.shards[*i].len() > 0)?;
        let shard = &mut self.shards[at];
        let used = shard.slots_from(0).enumerate().filter(|(_, s)| **s != S::EMPTY);
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
        let (before, mut at) = (shard.len(), 0);
        while let Some(slot) = shard.get(at) {
            if *slot != S::EMPTY && !keep(slot) {
                shard.remove_at(at); // the slot that moved here is examined next
            } else {
                at += 1;
            }
        }
        let removed = before - shard.len();
        self.len -= removed;
        (before, removed)
    }

    /// RAM in bytes.
    #[must_use]
    pub fn ram_bytes(&self) -> usize {
        self.shards.iter().map(L::ram_bytes).sum::<usize>() + self.shards.len() * size_of::<L>()
    }
}

#[cfg(test)]
mod tests;
