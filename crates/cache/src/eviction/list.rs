//! Least-recently-used order over WEU slots: a doubly linked list through arrays.

const NONE: u32 = u32::MAX;

/// The list. Each slot is in it at most once.
#[derive(Debug)]
pub(super) struct LruList {
    /// `(towards most recent, towards least recent)` by slot; a slot that is not in the list points to itself.
    links: Vec<(u32, u32)>,
    most: u32,
    least: u32,
    len: u32,
}

impl LruList {
    pub(super) fn new(slots: u32) -> Self {
        Self { links: (0..slots).map(|s| (s, s)).collect(), most: NONE, least: NONE, len: 0 }
    }

    /// Whether `slot` is in the list.
    pub(super) fn contains(&self, slot: u32) -> bool {
        self.links[slot as usize] != (slot, slot)
    }

    /// Makes `slot` the most recently used one; adds it if it is not in the list.
    pub(super) fn touch(&mut self, slot: u32) {
        if self.most == slot {
            return;
        }
        self.remove(slot);
        self.len += 1;
        self.links[slot as usize] = (NONE, self.most);
        match self.most {
            NONE => self.least = slot,
            most => self.links[most as usize].0 = slot,
        }
        self.most = slot;
    }

    /// Makes `slot` the least recently used one; adds it if it is not in the list.
    pub(super) fn put_oldest(&mut self, slot: u32) {
        self.remove(slot);
        self.len += 1;
        self.links[slot as usize] = (self.least, NONE);
        match self.least {
            NONE => self.most = slot,
            least => self.links[least as usize].1 = slot,
        }
        self.least = slot;
    }

    pub(super) fn remove(&mut self, slot: u32) {
        if !self.contains(slot) {
            return;
        }
        self.len -= 1;
        let (newer, older) = self.links[slot as usize];
        match newer {
            NONE => self.most = older,
            n => self.links[n as usize].1 = older,
        }
        match older {
            NONE => self.least = newer,
            o => self.links[o as usize].0 = newer,
        }
        self.links[slot as usize] = (slot, slot);
    }

    /// The least recently used slot.
    pub(super) fn least_recent(&self) -> Option<u32> {
        (self.least != NONE).then_some(self.least)
    }

    /// The slots, the least recently used first.
    pub(super) fn oldest(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.least_recent(), |slot| {
            Some(self.links[*slot as usize].0).filter(|newer| *newer != NONE)
        })
    }

    /// Number of slots in the list.
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Enlarges the list to slots below `slots`.
    pub(super) fn grow(&mut self, slots: u32) {
        let from = self.links.len() as u32;
        self.links.extend((from..slots).map(|slot| (slot, slot)));
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.links.capacity() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_the_order_of_a_naive_list(operations in prop::collection::vec((any::<bool>(), 0u32..12), 0..300)) {
            let (mut list, mut model) = (LruList::new(12), Vec::<u32>::new());
            for (touch, slot) in operations {
                model.retain(|s| *s != slot);
                if touch {
                    model.push(slot);
                    list.touch(slot);
                } else {
                    list.remove(slot);
                }
                prop_assert_eq!(list.least_recent(), model.first().copied());
                prop_assert_eq!(list.contains(slot), touch);
                prop_assert_eq!(list.oldest().collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(list.len() as usize, model.len());
            }
            for expected in model {
                prop_assert_eq!(list.least_recent(), Some(expected));
                list.remove(expected);
            }
            prop_assert_eq!(list.least_recent(), None);
        }
    }
}
