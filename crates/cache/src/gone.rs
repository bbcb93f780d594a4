//! The reasons why extents are not cached, within limits: they are kept when extents are removed.

use crate::file_index::mix;
use crate::settings::IndexKind;
use crate::shelf::Lane;
use nitro_units::{ClassId, ExtentKey};
use serde::{Deserialize, Serialize};

/// Why an extent is not cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gone {
    /// Its unit was evicted.
    Evicted,
    /// It was overwritten or trimmed, and its new content is not cached.
    Overwritten,
    /// The policy of admission refused it.
    Refused,
    /// It was dropped because the insertion queue was full.
    Dropped,
    /// It was invalidated: another program changed its volume, or its bytes could not be read.
    Invalidated,
}

impl Gone {
    const ALL: [Self; 5] = [Self::Evicted, Self::Overwritten, Self::Refused, Self::Dropped, Self::Invalidated];
    const BITS: u32 = 3;
}

/// Missed extents of reads, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// Never cached, or the cause is not remembered.
    pub cold: u64,
    /// Evicted.
    pub evicted: u64,
    /// Overwritten or trimmed, and their new content is not cached.
    pub overwritten: u64,
    /// Refused by the policy of admission.
    pub refused: u64,
    /// Dropped because the insertion queue was full.
    pub dropped: u64,
    /// Another program changed the volume, or the bytes could not be read.
    pub invalidated: u64,
    /// Part of a sequential stream, which is kept off the SSD.
    pub stream: u64,
}

impl Missed {
    /// Counts a miss; `in_stream`: it belongs to a stream, which is kept off the SSD.
    pub fn note(&mut self, gone: Option<Gone>, in_stream: bool) {
        *match gone {
            Some(Gone::Evicted) => &mut self.evicted,
            Some(Gone::Overwritten) => &mut self.overwritten,
            Some(Gone::Refused) => &mut self.refused,
            Some(Gone::Dropped) => &mut self.dropped,
            Some(Gone::Invalidated) => &mut self.invalidated,
            None if in_stream => &mut self.stream,
            None => &mut self.cold,
        } += 1;
    }

    /// Those of all causes.
    #[must_use]
    pub const fn all(&self) -> u64 {
        let Self { cold, evicted, overwritten, refused, dropped, invalidated, stream } = *self;
        cold + evicted + overwritten + refused + dropped + invalidated + stream
    }

    /// Those since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            cold: self.cold - before.cold,
            evicted: self.evicted - before.evicted,
            overwritten: self.overwritten - before.overwritten,
            refused: self.refused - before.refused,
            dropped: self.dropped - before.dropped,
            invalidated: self.invalidated - before.invalidated,
            stream: self.stream - before.stream,
        }
    }
}

/// The value of a cached extent for the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worth {
    /// The lane of its unit: [`Lane::Side`] is on probation.
    pub lane: Lane,
    /// How often it was used since its unit became full, up to [`HEAT_MAX`](crate::weu::HEAT_MAX).
    pub heat: u8,
    /// The class with which it was cached.
    pub class: ClassId,
}

/// Why extents were removed, by a slot and 13 bits of their hash: three slots for each eight extents that the cache
/// holds without compression, and one with a lean index. A later extent with the same slot replaces the entry.
#[derive(Debug)]
pub(crate) struct Departed {
    places: Box<[u16]>,
    seed: u64,
}

impl Departed {
    pub(crate) fn new(index: IndexKind, extents: u64, seed: u64) -> Self {
        Self { places: vec![0; Self::count(index, extents)].into(), seed }
    }

    fn count(index: IndexKind, extents: u64) -> usize {
        let slots_per_eight = match index {
            IndexKind::Exact => 3,
            IndexKind::Lean => 1,
        };
        usize::try_from(extents * slots_per_eight / 8).unwrap_or(usize::MAX).max(1)
    }

    pub(crate) fn ram_bytes_max(index: IndexKind, extents: u64) -> u64 {
        (Self::count(index, extents) * size_of::<u16>()) as u64
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// The slot of a key, and its tag.
    fn find(&self, key: ExtentKey) -> (usize, u16) {
        let hash = mix(key.raw() ^ self.seed);
        let place = ((u128::from(hash) * self.places.len() as u128) >> 64) as usize;
        (place, (hash as u16) << Gone::BITS)
    }

    pub(crate) fn note(&mut self, key: ExtentKey, gone: Gone) {
        let (place, tag) = self.find(key);
        self.places[place] = tag | (gone as u16 + 1);
    }

    pub(crate) fn get(&self, key: ExtentKey) -> Option<Gone> {
        let (place, tag) = self.find(key);
        let known = self.places[place];
        let number = (known & ((1 << Gone::BITS) - 1)).checked_sub(1)?;
        if known >> Gone::BITS == tag >> Gone::BITS { Gone::ALL.get(usize::from(number)).copied() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ObjectId};

    #[test]
    fn what_went_last_is_remembered_and_what_never_came_is_not_known() {
        let mut departed = Departed::new(IndexKind::Exact, 8000, 5);
        let key = |index| ExtentKey::new(ObjectId(3), ExtentIndex(index));
        for index in 0..1000 {
            departed.note(key(index), Gone::ALL[index as usize % 5]);
        }
        let right = (0..1000).filter(|index| departed.get(key(*index)) == Some(Gone::ALL[*index as usize % 5])).count();
        assert!(right > 800, "{right} of 1000 with 3000 places");
        let taken_for_others = (1000..101_000).filter(|index| departed.get(key(*index)).is_some()).count();
        assert!(taken_for_others < 50, "{taken_for_others} of 100,000");
        departed.note(key(7), Gone::Refused);
        assert_eq!(departed.get(key(7)), Some(Gone::Refused));
        assert_eq!(departed.ram_bytes() as u64, Departed::ram_bytes_max(IndexKind::Exact, 8000));
    }
}
