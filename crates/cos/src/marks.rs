//! The live chunks found by the collector: a bit for each chunk of the containers that may be emptied.

use crate::place::Place;
use hashbrown::HashMap;

/// The marks of live chunks, by slot.
pub(crate) struct Marks {
    bits: HashMap<u32, Box<[u64]>>,
}

impl Marks {
    /// Marks without live chunks for `containers`: their slots, and the number of chunks in each.
    pub(crate) fn new(containers: impl Iterator<Item = (u32, u16)>) -> Self {
        let bits = containers
            .map(|(slot, chunks)| (slot, vec![0; usize::from(chunks).div_ceil(64)].into_boxed_slice()))
            .collect();
        Self { bits }
    }

    /// Marks a chunk as alive; returns true if it was not marked before.
    pub(crate) fn mark(&mut self, place: Place) -> bool {
        let Some(bits) = self.bits.get_mut(&place.slot) else { return false };
        let number = usize::from(place.number);
        let Some(word) = bits.get_mut(number / 64) else { return false };
        let bit = 1 << (number % 64);
        let news = *word & bit == 0;
        *word |= bit;
        news
    }

    /// Whether the collector examines the container in this slot.
    pub(crate) fn covers(&self, slot: u32) -> bool {
        self.bits.contains_key(&slot)
    }

    pub(crate) fn is_alive(&self, slot: u32, number: u16) -> bool {
        let number = usize::from(number);
        self.bits.get(&slot).and_then(|b| b.get(number / 64)).is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    /// The number of live chunks in a container.
    pub(crate) fn alive(&self, slot: u32) -> u32 {
        self.bits.get(&slot).map_or(0, |bits| bits.iter().map(|word| word.count_ones()).sum())
    }
}
