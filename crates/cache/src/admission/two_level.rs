//! Two levels (Azor: "Two-level Block Selection"): metadata of file systems has precedence over data, and data is
//! admitted if it is accessed more often than the extents that would be evicted for it.

use super::counters::Counters;
use super::{Admission, Admitted, Lane, ObjectCounters, Provenance};
use crate::builtin;
use nitro_units::{ClassId, ExtentKey, ObjectId};

/// Number of calls of `admit` after which the next victim is examined again.
const LOOK_EVERY: u32 = 64;

/// Admits metadata always, and data if it was accessed more often than half of the data in the unit that is evicted
/// next. It admits no data while that unit holds mostly metadata. While the cache has room, it admits everything.
/// Metadata goes to [`Lane::Main`], data to [`Lane::Side`].
///
/// Caches that replace extents one by one call [`saw_victim`](Admission::saw_victim) with the extent that would be evicted,
/// before each call of [`admit`](Admission::admit): as in the paper, data must then have more accesses than that extent.
#[derive(Debug)]
pub struct TwoLevel {
    counters: Counters,
    bar: Bar,
    /// Number of calls until the victim is examined.
    left: u32,
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

/// Whether a class belongs to the first level of [`TwoLevel`].
#[must_use]
pub fn is_metadata(class: ClassId) -> bool {
    [builtin::METADATA, builtin::DIRECTORY, builtin::JOURNAL].contains(&class)
}

impl TwoLevel {
    /// A policy for a cache of `extents`, with counters of accessed extents and their neighbours.
    #[must_use]
    pub fn new(extents: u64) -> Self {
        Self { counters: Counters::dynamic(extents), bar: Bar::None, left: 0 }
    }

    /// The same with counters of all extents of the origins, as in the paper.
    #[must_use]
    pub fn with_static_counters(extents: u64) -> Self {
        Self { counters: Counters::of_all(extents), ..Self::new(extents) }
    }

    /// The maximum RAM in bytes of [`new`](Self::new).
    pub(super) const fn ram_bytes_max(extents: u64) -> u64 {
        Counters::dynamic_ram_bytes_max(extents)
    }
}

impl Admission for TwoLevel {
    fn looked_up(&mut self, key: ExtentKey) {
        self.counters.note(key);
    }

    fn counters_missing(&self, object: ObjectId, extents: u64) -> u64 {
        self.counters.missing(object, extents)
    }

    fn add_counters(&mut self, object: ObjectId, more: ObjectCounters) {
        self.counters.add(object, more);
    }

    fn take_counters(&mut self, object: ObjectId) -> Option<ObjectCounters> {
        self.counters.take(object)
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
                data[usize::from(self.counters.count(key))] += 1;
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
            Bar::Count(count) => self.counters.count(key) > count,
            Bar::Metadata => false,
        };
        is_taken.then_some(Admitted { lane: Lane::Side, ..Admitted::NEW })
    }

    fn ram_bytes(&self) -> usize {
        self.counters.ram_bytes()
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
    }

    #[test]
    fn a_single_extent_is_replaced_by_one_with_more_accesses_only() {
        let mut policy = TwoLevel::with_static_counters(1000);
        let read = Provenance::read(ClassId::UNCLASSIFIED);
        (0..3).for_each(|number| (0..=number).for_each(|_| policy.looked_up(key(number))));
        for (victim_number, admitted) in [(0, true), (1, false), (2, false)] {
            victim(&mut policy, victim_number..victim_number + 1, ClassId::UNCLASSIFIED);
            assert_eq!(policy.admit(key(1), read).is_some(), admitted, "{victim_number}");
        }
        victim(&mut policy, 0..1, builtin::JOURNAL);
        assert!(policy.admit(key(2), read).is_none(), "metadata is not replaced by data");
        assert!(policy.admit(key(9), Provenance::read(builtin::DIRECTORY)).is_some());
    }
}
