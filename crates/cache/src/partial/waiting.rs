//! Parts of extents that are not cached, until further parts complete them.

use crate::lru_map::LruMap;
use nitro_units::{ExtentKey, ObjectId};

/// The parts of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered<V> {
    /// The parts themselves, which belong to the caller: bytes in the server, ranges in the simulator.
    pub parts: V,
    /// One of them was the edge of a write that covered other extents, too: whoever reads these needs this one.
    pub is_edge: bool,
}

/// One extent may be read from the origin for so many that were written: it adds no more than this to what the SSD gets.
const WRITTEN_FOR_A_READ: u64 = 32;
/// Reads that may be saved up, in written extents, and those that there are at first.
const CREDIT_MAX: u64 = 1024 * WRITTEN_FOR_A_READ;
const CREDIT_AT_FIRST: u64 = 64 * WRITTEN_FOR_A_READ;

/// Parts by extent, in bounded memory: those that were added to longest ago leave first.
pub struct Waiting<V> {
    extents: LruMap<ExtentKey, Gathered<V>>,
    extent_bytes: u64,
    /// Written extents for which no read was made yet.
    credit: u64,
}

impl<V> Waiting<V> {
    /// Parts in `bytes_max` of memory, of which those of an extent occupy `extent_bytes`.
    #[must_use]
    pub fn new(bytes_max: u64, extent_bytes: u64) -> Self {
        Self { extents: LruMap::new(bytes_max), extent_bytes, credit: CREDIT_AT_FIRST }
    }

    /// Notes that so many extents are written.
    pub fn note_written(&mut self, extents: u64) {
        self.credit = self.credit.saturating_add(extents).min(CREDIT_MAX);
    }

    /// Whether the rest of an extent that is worth it may be read now; then this counts as a read.
    pub fn affords_read(&mut self) -> bool {
        let left = self.credit.checked_sub(WRITTEN_FOR_A_READ);
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }

    /// Takes the parts of an extent out: whoever writes to it adds to them, or drops them.
    pub fn take(&mut self, key: &ExtentKey) -> Option<Gathered<V>> {
        self.extents.remove(key)
    }

    /// Keeps the parts of an extent, none of which are here. Returns what has to leave for them.
    pub fn keep(&mut self, key: ExtentKey, gathered: Gathered<V>) -> Option<(ExtentKey, Gathered<V>)> {
        if self.extent_bytes > self.extents.bytes_max() {
            return Some((key, gathered));
        }
        let is_full = self.extents.bytes() + self.extent_bytes > self.extents.bytes_max();
        let leaving = if is_full { self.extents.pop_oldest() } else { None };
        self.extents.insert(key, gathered, self.extent_bytes);
        leaving
    }

    /// Forgets the parts of all extents of an object.
    pub fn forget_object(&mut self, object: ObjectId) {
        self.extents.remove_all(|key| key.object() == object);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::ExtentIndex;

    #[test]
    fn few_extents_are_read_for_those_that_are_written() {
        let mut waiting = Waiting::<()>::new(0, 100);
        while waiting.affords_read() {}
        waiting.note_written(10 * WRITTEN_FOR_A_READ + 1);
        assert_eq!((0..100).filter(|_| waiting.affords_read()).count(), 10);
        waiting.note_written(u64::MAX);
        assert_eq!((0..10_000).filter(|_| waiting.affords_read()).count(), 1024);
    }

    #[test]
    fn the_parts_added_to_longest_ago_leave() {
        let key = |number| ExtentKey::new(ObjectId(1), ExtentIndex(number));
        let gathered = |parts| Gathered { parts, is_edge: false };
        let mut waiting = Waiting::new(350, 100);
        assert!((0..3).all(|number| waiting.keep(key(number), gathered(number)).is_none()));
        let first = waiting.take(&key(0)).unwrap();
        assert_eq!(waiting.keep(key(0), gathered(first.parts + 10)), None);
        assert_eq!(waiting.keep(key(3), gathered(3)), Some((key(1), gathered(1))));
        let left = [0, 1, 2, 3].map(|number| waiting.take(&key(number)).map(|gathered| gathered.parts));
        assert_eq!(left, [Some(10), None, Some(2), Some(3)]);
        assert!(waiting.is_empty());
        assert_eq!(Waiting::new(99, 100).keep(key(4), gathered(4)), Some((key(4), gathered(4))));
    }
}
