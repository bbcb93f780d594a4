//! The manager's counters. Their names, units and meanings are defined only here.

use serde::{Deserialize, Serialize};

/// Counters since the start, and a few gauges, which are marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Extent look-ups answered by the file index.
    pub hits: u64,
    /// Extent look-ups that the file index could not answer.
    pub misses: u64,
    /// Extents handed to insertion.
    pub insertions: u64,
    /// Insertions whose content the fingerprint index knew.
    pub duplicates: u64,
    /// Insertions of all-zero extents without payload.
    pub zeroes: u64,
    /// Bytes handed to insertion, before deduplication and compression.
    pub inserted_bytes: u64,
    /// Bytes of extents that were not duplicates, before compression.
    pub unique_bytes: u64,
    /// Payload bytes of extents that were not duplicates, after compression.
    pub stored_bytes: u64,
    /// Contents that were refused: by the policy of admission, by their class, or because of the write budget.
    pub rejections: u64,
    /// The number among them that were refused because of the write budget.
    pub spared: u64,
    /// Entries removed because their extent was overwritten or trimmed.
    pub invalidations: u64,
    /// WEUs evicted.
    pub weus_evicted: u64,
    /// Base entries evicted with their WEUs.
    pub extents_evicted: u64,
    /// Extents copied forward before their WEUs were evicted.
    pub forwarded: u64,
    /// Payload bytes of the extents copied forward.
    pub forwarded_bytes: u64,
    /// Stale dup entries found by the cleaner.
    pub dups_cleaned: u64,
    /// Stale dup entries found when a client touched them.
    pub dups_stale_touched: u64,
    /// Dup entries removed because their number had reached its bound.
    pub dups_displaced: u64,
    /// Fingerprints evicted from a partial index.
    pub fingerprints_evicted: u64,
    /// Stale fingerprints removed.
    pub fingerprints_cleaned: u64,
    /// Gauge: keys in the file index (cached extents, duplicates included).
    pub cached_extents: u64,
    /// Gauge: dup entries in the file index.
    pub dup_entries: u64,
    /// Gauge: base entries in WEUs, including overwritten ones.
    pub base_entries: u64,
    /// Gauge: fingerprints in the index.
    pub fingerprints: u64,
    /// Gauge: WEU slots that are not on lost devices.
    pub weus: u64,
    /// Gauge: empty WEU slots.
    pub weus_free: u64,
    /// Gauge: pinned WEU slots, which hold dirty content and cannot be evicted.
    pub weus_pinned: u64,
    /// Gauge: dirty extents.
    pub dirty_extents: u64,
    /// Gauge: RAM of all indexes in bytes.
    pub index_ram_bytes: u64,
}

impl Stats {
    /// Share of look-ups that hit, 0 to 1; 0 when there were none.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.hits + self.misses, 0.0)
    }

    /// Inserted bytes divided by unique bytes (paper §5.1); 1 if nothing was inserted.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.inserted_bytes, self.unique_bytes, 1.0)
    }

    /// Unique bytes divided by the bytes stored for them; 1 if nothing was inserted.
    #[must_use]
    pub fn compression_ratio(&self) -> f64 {
        ratio(self.unique_bytes, self.stored_bytes, 1.0)
    }
}

fn ratio(a: u64, b: u64, without: f64) -> f64 {
    if b == 0 { without } else { a as f64 / b as f64 }
}
