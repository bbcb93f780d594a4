//! A compact hash table from names to node numbers: open addressing with linear probing, one word for each slot, and no
//! tombstones.

/// The value of an empty slot.
const EMPTY: u64 = u64::MAX;

/// Mixes a name so that every bit affects every bit of the hash; a bijection.
const fn mix(name: u64) -> u64 {
    let x = (name ^ (name >> 32)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 32)
}

/// Node numbers by name. A slot has the upper half of the name's hash and the node number. The home slot is given by
/// the hash's top bits, so searches and the closing of gaps read slots only.
#[derive(Debug, Clone)]
pub struct Table {
    slots: Box<[u64]>,
    mask: usize,
    shift: u32,
}

impl Table {
    /// A table for up to `capacity` names, at a load of at most two thirds.
    pub fn new(capacity: u32) -> Self {
        let slots = Self::slots_for(capacity);
        let shift = 64 - slots.trailing_zeros();
        Self { slots: vec![EMPTY; slots].into_boxed_slice(), mask: slots - 1, shift }
    }

    fn slots_for(capacity: u32) -> usize {
        (u64::from(capacity) * 3 / 2 + 1).next_power_of_two() as usize
    }

    /// Grows the table to hold up to `capacity` names.
    #[inline]
    pub fn reserve(&mut self, capacity: u32) {
        if Self::slots_for(capacity) > self.slots.len() {
            self.grow(capacity);
        }
    }

    #[cold]
    fn grow(&mut self, capacity: u32) {
        let mut larger = Self::new(capacity);
        for slot in self.slots.iter().copied().filter(|slot| *slot != EMPTY) {
            larger.put(slot);
        }
        *self = larger;
    }

    fn home(&self, hash: u64) -> usize {
        // A table with one slot would shift by 64; the smallest table has two.
        (hash >> (self.shift & 63)) as usize & self.mask
    }

    fn tag_of(name: u64) -> u64 {
        mix(name) & 0xFFFF_FFFF_0000_0000
    }

    /// The node number of `name`; `bears` returns whether a candidate node has that name.
    #[inline]
    pub fn find(&self, name: u64, bears: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = Self::tag_of(name);
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if slot & 0xFFFF_FFFF_0000_0000 == tag && bears(slot as u32) {
                return Some(slot as u32);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The first node number whose hash matches that of `name`: a guess, for prefetching.
    #[inline]
    pub fn guess(&self, name: u64) -> Option<u32> {
        let tag = Self::tag_of(name);
        let at = self.home(tag);
        let near = [self.slots[at], self.slots[(at + 1) & self.mask]];
        near.into_iter().find(|slot| slot & 0xFFFF_FFFF_0000_0000 == tag && *slot != EMPTY).map(|slot| slot as u32)
    }

    /// Inserts a name that is not in the table.
    #[inline]
    pub fn insert(&mut self, name: u64, node: u32) {
        self.put(Self::tag_of(name) | u64::from(node));
    }

    #[inline]
    fn put(&mut self, slot: u64) {
        let mut at = self.home(slot);
        while self.slots[at] != EMPTY {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = slot;
    }

    /// Removes a name that is in the table with this node number.
    #[inline]
    pub fn remove(&mut self, name: u64, node: u32) {
        let tag = Self::tag_of(name);
        let wanted = tag | u64::from(node);
        let mut at = self.home(tag);
        while self.slots[at] != wanted {
            if self.slots[at] == EMPTY {
                debug_assert!(false, "only names in the table are removed");
                return;
            }
            at = (at + 1) & self.mask;
        }
        // Close the gap: each following entry moves up, unless that would be before its home slot.
        let mut behind = at;
        loop {
            behind = (behind + 1) & self.mask;
            let slot = self.slots[behind];
            if slot == EMPTY {
                break;
            }
            let home = self.home(slot);
            let from_home = behind.wrapping_sub(home) & self.mask;
            let from_gap = behind.wrapping_sub(at) & self.mask;
            if from_home >= from_gap {
                self.slots[at] = slot;
                at = behind;
            }
        }
        self.slots[at] = EMPTY;
    }

    /// RAM in bytes.
    pub fn ram_bytes(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn finds_what_a_map_finds(operations in prop::collection::vec((any::<bool>(), 0u64..60), 0..600)) {
            let mut table = Table::new(1);
            let mut most = 0;
            let mut model: HashMap<u64, u32> = HashMap::new();
            let mut names: Vec<u64> = Vec::new();
            for (insert, name) in operations {
                if insert && !model.contains_key(&name) {
                    let node = names.len() as u32;
                    names.push(name);
                    model.insert(name, node);
                    most = most.max(model.len() as u32);
                    table.reserve(most);
                    table.insert(name, node);
                } else if let (false, Some(node)) = (insert, model.get(&name).copied()) {
                    table.remove(name, node);
                    model.remove(&name);
                }
                for name in 0..60 {
                    let found = table.find(name, |node| names[node as usize] == name);
                    prop_assert_eq!(found, model.get(&name).copied());
                }
            }
        }
    }
}
