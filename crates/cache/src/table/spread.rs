//! A shard with gaps, probed linearly. It grows by about a tenth when it is 93 % full: memory stays within 1.08–1.25 × the
//! slots in use.

use super::{Shard, Slot};

/// Slots beyond the last home, so that probing needs no wrap-around.
const TAIL_SLOTS: usize = 8;

/// The shard.
pub(crate) struct Spread<S> {
    slots: Box<[S]>,
    len: u32,
}

impl<S> Default for Spread<S> {
    fn default() -> Self {
        Self { slots: Box::default(), len: 0 }
    }
}

impl<S: Slot> Spread<S> {
    fn capacity(&self) -> usize {
        self.slots.len().saturating_sub(TAIL_SLOTS)
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
}

impl<S: Slot> Shard<S> for Spread<S> {
    const ENTRIES_TARGET: u64 = 1024;

    fn get(&self, at: usize) -> Option<&S> {
        self.slots.get(at)
    }

    fn slots_from(&self, at: usize) -> impl Iterator<Item = &S> {
        self.slots.get(at..).unwrap_or_default().iter()
    }

    fn len(&self) -> usize {
        self.len as usize
    }

    fn start(&self, home: u32) -> usize {
        ((u64::from(home) * self.capacity() as u64) >> S::HOME_BITS) as usize
    }

    fn lower_bound(&self, home: u32) -> usize {
        let start = self.start(home);
        let behind = self.slots.get(start..).unwrap_or_default();
        start + behind.iter().position(|slot| slot.home() >= home).unwrap_or(behind.len())
    }

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

    fn replace_at(&mut self, at: usize, slot: S) -> S {
        std::mem::replace(&mut self.slots[at], slot)
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

    fn ram_bytes(&self) -> usize {
        self.slots.len() * size_of::<S>()
    }
}
