//! Extents of sequential streams, which are kept off the SSD until they are read a second time (paper §3): those that
//! were read ahead, and those that a client read from the origin before they were read ahead.

use crate::lru_map::LruMap;
use nitro_units::{ExtentKey, ObjectId};
use std::collections::HashMap;
use std::ops::Range;

struct Held<V> {
    value: V,
    /// The number of its read.
    read: u64,
    /// The byte up to which clients have read the extent. A read that begins below it is a second reading.
    read_to: u32,
}

/// Memory that the extents of one read keep allocated together.
struct Memory {
    bytes: u64,
    extents: u32,
}

/// The extents; the least recently used ones are evicted first.
pub struct Ahead<V> {
    extents: LruMap<ExtentKey, Held<V>>,
    /// Reads of which extents are left, by number.
    reads: HashMap<u64, Memory>,
    next: u64,
    bytes: u64,
    bytes_max: u64,
}

impl<V: Clone> Ahead<V> {
    /// An empty buffer for `bytes_max` of memory.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self { extents: LruMap::new(u64::MAX), reads: HashMap::new(), next: 0, bytes: 0, bytes_max }
    }

    /// Keeps extents of one read of the origin, each with the byte up to which clients have read it. Together they keep
    /// `bytes` of memory allocated, until the last of them is removed.
    pub fn hold(&mut self, extents: impl IntoIterator<Item = (ExtentKey, V, u32)>, bytes: u64) {
        let (read, mut count) = (self.next, 0);
        for (key, value, read_to) in extents {
            self.forget(&key);
            self.extents.insert(key, Held { value, read, read_to }, 0);
            count += 1;
        }
        if count == 0 {
            return;
        }
        self.next += 1;
        self.reads.insert(read, Memory { bytes, extents: count });
        self.bytes += bytes;
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.extents.pop_oldest()
        {
            self.release(oldest.read);
        }
    }

    /// Returns an extent for a client that reads bytes `within` of it, and whether some of them were read before. If
    /// so, the extent is removed, because it is inserted into the SSD.
    pub fn take(&mut self, key: &ExtentKey, within: Range<u32>) -> Option<(V, bool)> {
        let held = self.extents.get(key)?;
        let again = within.start < held.read_to;
        held.read_to = held.read_to.max(within.end);
        let value = held.value.clone();
        if again {
            self.forget(key);
        }
        Some((value, again))
    }

    /// Whether an extent is held.
    #[must_use]
    pub fn has(&self, key: &ExtentKey) -> bool {
        self.extents.peek(key).is_some()
    }

    /// Whether no extent is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Forgets an extent.
    pub fn forget(&mut self, key: &ExtentKey) {
        if let Some(held) = self.extents.remove(key) {
            self.release(held.read);
        }
    }

    /// Forgets all extents of an object.
    pub fn forget_object(&mut self, object: ObjectId) {
        for held in self.extents.remove_all(|key| key.object() == object) {
            self.release(held.read);
        }
    }

    /// Memory that is kept allocated, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes that one extent of a read was removed.
    fn release(&mut self, read: u64) {
        let Some(memory) = self.reads.get_mut(&read) else { return };
        memory.extents -= 1;
        if memory.extents == 0 {
            self.bytes -= memory.bytes;
            self.reads.remove(&read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::ExtentIndex;
    use proptest::prelude::*;

    fn key(index: u64) -> ExtentKey {
        ExtentKey::new(ObjectId((index % 2) as u16), ExtentIndex(index))
    }

    /// One entry for each extent, the oldest first.
    #[derive(Default)]
    struct Naive(Vec<(u64, u64, u32)>, Vec<u64>);

    impl Naive {
        fn bytes(&self) -> u64 {
            let alive = |read: &usize| self.0.iter().any(|(_, of, _)| *of == *read as u64);
            (0..self.1.len()).filter(alive).map(|read| self.1[read]).sum()
        }
    }

    proptest! {
        #[test]
        fn holds_what_a_naive_list_holds(
            operations in prop::collection::vec((0u8..5, 0u64..16, 1u64..5, 0u32..8, 1u32..8), 0..300),
        ) {
            let (mut ahead, mut naive) = (Ahead::new(40), Naive::default());
            for (operation, index, count, from, to) in operations {
                match operation {
                    0 | 1 => {
                        let bytes = count * 12;
                        ahead.hold((index..index + count).map(|index| (key(index), index, to)), bytes);
                        naive.0.retain(|held| !(index..index + count).contains(&held.0));
                        let read = naive.1.len() as u64;
                        naive.1.push(bytes);
                        naive.0.extend((index..index + count).map(|index| (index, read, to)));
                        while naive.bytes() > 40 {
                            naive.0.remove(0);
                        }
                    }
                    2 | 3 => {
                        let at = naive.0.iter().position(|held| held.0 == index);
                        let mut expected = None;
                        if let Some(mut held) = at.map(|at| naive.0.remove(at)) {
                            let again = from < held.2;
                            held.2 = held.2.max(from + 1);
                            naive.0.extend((!again).then_some(held));
                            expected = Some((index, again));
                        }
                        prop_assert_eq!(ahead.take(&key(index), from..from + 1), expected);
                    }
                    _ if index == 0 => {
                        ahead.forget_object(ObjectId(0));
                        naive.0.retain(|held| held.0 % 2 != 0);
                    }
                    _ => {
                        ahead.forget(&key(index));
                        naive.0.retain(|held| held.0 != index);
                    }
                }
                prop_assert_eq!(ahead.bytes(), naive.bytes());
                for index in 0..24 {
                    prop_assert_eq!(ahead.has(&key(index)), naive.0.iter().any(|held| held.0 == index));
                }
            }
        }
    }
}
