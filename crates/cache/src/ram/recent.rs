//! The RAM cache: extents that were recently read from the SSD.

use super::OVERHEAD_BYTES;
use crate::lru_map::{LruMap, RANKS};
use crate::shelf::Band;
use nitro_units::{ExtentKey, ObjectId};

/// Extents that reads found on the SSD. Those of the lowest band are evicted first, in LRU order (the multi-level caching of
/// Differentiated Storage Services, SOSP 2011, §3.2). Extents read from the origin are kept only once they are
/// read again, from the SSD. Written extents are not kept. An extent stays even if the SSD evicts it.
pub struct RamCache<V>(LruMap<ExtentKey, V>);

const _: () = assert!(Band::COUNT <= RANKS);

impl<V> RamCache<V> {
    /// An empty cache of `bytes_max` bytes; with 0, it keeps nothing.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self(LruMap::new(bytes_max))
    }

    /// Whether it may hold anything.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.0.bytes_max() > 0
    }

    /// The extent for a client that reads it; this counts as a use.
    pub fn read(&mut self, key: &ExtentKey) -> Option<&V> {
        self.0.get(key).map(|value| &*value)
    }

    /// The extent, without counting a use.
    #[must_use]
    pub fn peek(&self, key: &ExtentKey) -> Option<&V> {
        self.0.peek(key)
    }

    /// Keeps an extent that a client read from the SSD, and that occupies `held_bytes` of memory.
    pub fn keep(&mut self, key: ExtentKey, value: V, held_bytes: u64, band: Band) {
        self.0.insert_ranked(key, value, held_bytes + OVERHEAD_BYTES, band.level());
    }

    /// Forgets an extent that is written or trimmed.
    pub fn forget(&mut self, key: &ExtentKey) {
        self.0.remove(key);
    }

    /// Forgets all extents of an object.
    pub fn forget_object(&mut self, object: ObjectId) {
        self.0.remove_all(|key| key.object() == object);
    }

    /// Bytes of RAM that it occupies.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::ExtentIndex;

    #[test]
    fn a_scan_of_low_priority_displaces_nothing_else() {
        let key = |number| ExtentKey::new(ObjectId(1), ExtentIndex(number));
        let mut ram = RamCache::new(4 * (4096 + OVERHEAD_BYTES));
        let [low, normal, high, _] = Band::ALL;
        (0..2).for_each(|number| ram.keep(key(number), (), 4096, high));
        ram.keep(key(2), (), 4096, normal);
        (10..20).for_each(|number| ram.keep(key(number), (), 4096, low));
        assert!((0..3).chain([19]).all(|number| ram.peek(&key(number)).is_some()));
        assert!(ram.peek(&key(18)).is_none());
        // The priority decides first, then the last use.
        assert!(ram.read(&key(2)).is_some() && ram.read(&key(1)).is_some());
        (3..5).for_each(|number| ram.keep(key(number), (), 4096, high));
        assert!([0, 1, 3, 4].into_iter().all(|number| ram.peek(&key(number)).is_some()) && ram.peek(&key(2)).is_none());
        ram.keep(key(5), (), 4096, high);
        assert!(ram.peek(&key(0)).is_none(), "the least recently used of the lowest band that is left");
    }
}
