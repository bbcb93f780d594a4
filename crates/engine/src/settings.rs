//! What the engine is configured with, beyond the manager's own settings.

use crate::codec::{Compression, FingerprintHash};
use nitro_cache::Settings;

/// Settings of one cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineSettings {
    /// The cache manager's.
    pub manager: Settings,
    /// How extents are compressed.
    pub compression: Compression,
    /// Which hash names contents.
    pub fingerprint_hash: FingerprintHash,
    /// RAM for whole extents in front of the SSD, in bytes; 0: none.
    pub ram_cache_bytes: u64,
    /// RAM for data read ahead, in bytes.
    pub readahead_ram_bytes: u64,
    /// RAM for extents waiting to be inserted, in bytes; beyond it fills are dropped and counted.
    pub insert_queue_bytes: u64,
    /// Tell the SSD of evicted WEUs (TRIM).
    pub discard_evicted: bool,
}

impl EngineSettings {
    /// Defaults around the manager's settings.
    #[must_use]
    pub fn new(manager: Settings) -> Self {
        Self {
            manager,
            compression: Compression::default(),
            fingerprint_hash: FingerprintHash::default(),
            ram_cache_bytes: 64 << 20,
            readahead_ram_bytes: 16 << 20,
            insert_queue_bytes: 64 << 20,
            discard_evicted: false,
        }
    }

    /// RAM in bytes that a cache with these settings takes once it is full of extents that shrink by `reduction`
    /// (compression) and bear `dups` further keys each: indexes, RAM cache, queues and WEU buffers.
    #[must_use]
    pub fn ram_bytes(&self, reduction: f64, dups: f64) -> u64 {
        let unique = self.manager.extents_raw() as f64 * reduction;
        let indexes = self.manager.index_ram_bytes(unique as u64, (unique * dups) as u64);
        let buffers = self.insert_queue_bytes + self.readahead_ram_bytes + 6 * u64::from(self.manager.weu_bytes);
        indexes + self.ram_cache_bytes + buffers
    }
}
