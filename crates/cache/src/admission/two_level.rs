//! Two levels (Azor: "Two-level Block Selection"): metadata of file systems has precedence over data, and data is
//! admitted if it is accessed more often than the extents that would be evicted for it.

use super::{Admission, Admitted, Lane, Provenance};
use crate::builtin;
use nitro_units::{ClassId, ExtentKey};
use std::collections::HashMap;

/// Extents whose numbers differ only in this many low bits have their counters in one chunk.
const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;
/// Maximum number of counters for each extent that the cache holds. Azor has one for each 4 KiB of the disks, 256 MB a
/// TB; here, only accessed extents and their neighbours have counters.
const COUNTERS_PER_EXTENT: u64 = 16;
/// Number of accesses after which counts are halved, for each extent that the cache holds.
const HALVED_AFTER: u64 = 4;
/// Number of calls of `admit` after which the next victim is examined again.
const LOOK_EVERY: u32 = 64;

/// Admits metadata always, and data if it was accessed more often than half of the data in the unit that is evicted
/// next. It admits no data while that unit holds mostly metadata. While the cache has room, it admits everything.
/// Metadata goes to [`Lane::Main`], data to [`Lane::Side`].
#[derive(Debug)]
pub struct TwoLevel {
    chunks: HashMap<u64, Chunk>,
    chunks_max: usize,
    /// Number of times that counts were halved.
    epoch: u32,
    accesses: u64,
    halved_after: u64,
    bar: Bar,
    /// Number of calls until the victim is examined.
    left: u32,
}

/// The counters of adjacent extents, and the epoch up to which they were halved.
#[derive(Debug)]
struct Chunk {
    epoch: u32,
    counts: Box<[u8; CHUNK]>,
}

/// The number of accesses that data must exceed to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bar {
    /// No bar: there is room.
    None,
    /// This number of accesses.
    Count(u8),
    /// Data is not admitted: the victim holds mostly metadata.
    Metadata,
}

/// Whether a class belongs to the first level.
fn is_metadata(class: ClassId) -> bool {
    [builtin::METADATA, builtin::DIRECTORY, builtin::JOURNAL].contains(&class)
}

impl TwoLevel {
    /// A policy for a cache of `extents`.
    #[must_use]
    pub fn new(extents: u64) -> Self {
        Self {
            chunks: HashMap::new(),
            chunks_max: (extents * COUNTERS_PER_EXTENT).div_ceil(CHUNK as u64).max(1) as usize,
            epoch: 0,
            accesses: 0,
            halved_after: (extents * HALVED_AFTER).max(1),
            bar: Bar::None,
            left: 0,
        }
    }

    pub(super) const fn ram_bytes_max(extents: u64) -> u64 {
        (extents * COUNTERS_PER_EXTENT).div_ceil(CHUNK as u64) * (CHUNK as u64 + CHUNK_OVERHEAD)
    }

    fn count(&self, key: ExtentKey) -> u8 {
        let Some(chunk) = self.chunks.get(&(key.raw() >> CHUNK_BITS)) else { return 0 };
        chunk.counts[key.raw() as usize % CHUNK].checked_shr(self.epoch - chunk.epoch).unwrap_or(0)
    }
}

/// RAM of a chunk in addition to its counters, in bytes.
const CHUNK_OVERHEAD: u64 = 64;

impl Admission for TwoLevel {
    fn looked_up(&mut self, key: ExtentKey) {
        self.accesses += 1;
        if self.accesses >= self.halved_after {
            (self.accesses, self.epoch) = (0, self.epoch + 1);
        }
        let number = key.raw() >> CHUNK_BITS;
        if self.chunks.len() >= self.chunks_max && !self.chunks.contains_key(&number) {
            // An arbitrary one, because the map has no order.
            let other = self.chunks.keys().next().copied();
            other.map(|other| self.chunks.remove(&other));
        }
        let epoch = self.epoch;
        let chunk = self.chunks.entry(number).or_insert_with(|| Chunk { epoch, counts: Box::new([0; CHUNK]) });
        if chunk.epoch != epoch {
            let halvings = epoch - chunk.epoch;
            chunk.counts.iter_mut().for_each(|count| *count = count.checked_shr(halvings).unwrap_or(0));
            chunk.epoch = epoch;
        }
        let count = &mut chunk.counts[key.raw() as usize % CHUNK];
        *count = count.saturating_add(1);
    }

    fn wants_victim(&mut self) -> bool {
        let wants = self.left == 0;
        self.left = if wants { LOOK_EVERY } else { self.left - 1 };
        wants
    }

    fn saw_victim(&mut self, extents: Option<&mut dyn Iterator<Item = (ExtentKey, ClassId)>>) {
        let Some(extents) = extents else {
            self.bar = Bar::None;
            return;
        };
        let (mut metadata, mut data) = (0u32, [0u32; 256]);
        for (key, class) in extents {
            if is_metadata(class) {
                metadata += 1;
            } else {
                data[usize::from(self.count(key))] += 1;
            }
        }
        let all: u32 = data.iter().sum();
        let mut below = 0;
        let median = data.iter().position(|count| {
            below += count;
            below * 2 >= all
        });
        self.bar = if metadata > all { Bar::Metadata } else { Bar::Count(median.unwrap_or(0) as u8) };
        if metadata + all == 0 {
            self.bar = Bar::None;
        }
    }

    fn admit(&mut self, key: ExtentKey, from: Provenance) -> Option<Admitted> {
        if is_metadata(from.class) {
            return Some(Admitted::MAIN);
        }
        let is_taken = match self.bar {
            Bar::None => true,
            Bar::Count(count) => self.count(key) > count,
            Bar::Metadata => false,
        };
        is_taken.then_some(Admitted { lane: Lane::Side, ..Admitted::NEW })
    }

    fn ram_bytes(&self) -> usize {
        self.chunks.capacity() * (size_of::<(u64, Chunk)>() + 1) + self.chunks.len() * CHUNK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ObjectId};

    fn key(number: u64) -> ExtentKey {
        ExtentKey::new(ObjectId(1), ExtentIndex(number))
    }

    fn victim(policy: &mut TwoLevel, numbers: std::ops::Range<u64>, class: ClassId) {
        policy.saw_victim(Some(&mut numbers.map(|number| (key(number), class))));
    }

    #[test]
    fn data_must_beat_the_median_and_never_displaces_metadata() {
        let mut policy = TwoLevel::new(1000);
        let read = Provenance::read(ClassId::UNCLASSIFIED);
        let metadata = Provenance::read(builtin::METADATA);
        assert!(policy.admit(key(1), read).is_some(), "there is room");
        (0..10).for_each(|number| (0..number).for_each(|_| policy.looked_up(key(number))));
        // 0 to 9 accesses: the median is 4.
        victim(&mut policy, 0..10, ClassId::UNCLASSIFIED);
        assert_eq!(policy.bar, Bar::Count(4));
        assert_eq!([4, 5].map(|number| policy.admit(key(number), read).is_some()), [false, true]);
        assert_eq!(policy.admit(key(500), metadata), Some(Admitted::MAIN));
        victim(&mut policy, 0..10, builtin::DIRECTORY);
        assert!(policy.admit(key(9), read).is_none() && policy.admit(key(500), metadata).is_some());
        policy.saw_victim(None);
        assert!(policy.admit(key(500), read).is_some());
        // Counts are halved from time to time, and RAM is bounded.
        (0..4000).for_each(|_| policy.looked_up(key(700)));
        assert_eq!((policy.count(key(9)), policy.epoch), (4, 1));
        assert!((128..255).contains(&policy.count(key(700))), "halved, and accessed since");
        (0..1000).for_each(|number| policy.looked_up(key(number << CHUNK_BITS)));
        assert!(policy.ram_bytes() as u64 <= TwoLevel::ram_bytes_max(1000) * 2, "{}", policy.ram_bytes());
    }
}
