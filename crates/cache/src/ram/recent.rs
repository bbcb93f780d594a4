//! The RAM cache: extents that were recently read from the SSD.

use super::OVERHEAD_BYTES;
use crate::lru_map::LruMap;
use nitro_units::{ExtentKey, ObjectId};

/// Extents that reads found on the SSD, evicted in LRU order. Extents read from the origin are kept only once they are
/// read again, from the SSD. Written extents are not kept. An extent stays even if the SSD evicts it.
pub struct RamCache<V>(LruMap<ExtentKey, V>);

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
    pub fn keep(&mut self, key: ExtentKey, value: V, held_bytes: u64) {
        self.0.insert(key, value, held_bytes + OVERHEAD_BYTES);
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
