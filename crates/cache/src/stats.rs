//! What the manager counts. Names, units and meanings stand here and nowhere else.

use serde::Serialize;

/// Counters since the start, and a few gauges (said so).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
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
    /// Contents that the policy of admission refused.
    pub rejections: u64,
    /// Of those, contents that were refused to keep to a budget of writes.
    pub spared: u64,
    /// Entries removed because their extent was overwritten or trimmed.
    pub invalidations: u64,
    /// WEUs evicted.
    pub weus_evicted: u64,
    /// Base entries evicted with their WEUs.
    pub extents_evicted: u64,
    /// Extents copied forward before their WEUs were evicted.
    pub forwarded: u64,
    /// Payload bytes of these.
    pub forwarded_bytes: u64,
    /// Stale dup entries found by the cleaner.
    pub dups_cleaned: u64,
    /// Stale dup entries found when a client touched them.
    pub dups_stale_touched: u64,
    /// Dup entries displaced because their number reached its bound.
    pub dups_displaced: u64,
    /// Fingerprints evicted from a partial index.
    pub fingerprints_evicted: u64,
    /// Stale fingerprints removed.
    pub fingerprints_cleaned: u64,
    /// Gauge: keys in the file index (cached extents, duplicates included).
    pub cached_extents: u64,
    /// Gauge: dup entries among them.
    pub dup_entries: u64,
    /// Gauge: base entries in WEUs, those overwritten since included.
    pub base_entries: u64,
    /// Gauge: fingerprints in the index.
    pub fingerprints: u64,
    /// Gauge: WEU slots.
    pub weus: u64,
    /// Gauge: WEU slots that hold nothing.
    pub weus_free: u64,
    /// Gauge: WEU slots that may not be evicted, since they hold content which the origin does not have yet.
    pub weus_pinned: u64,
    /// Gauge: extents that the origin does not have yet.
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

    /// Inserted bytes over unique bytes (paper §5.1); 1 when nothing was inserted.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.inserted_bytes, self.unique_bytes, 1.0)
    }

    /// Unique bytes over what was stored of them; 1 when nothing was inserted.
    #[must_use]
    pub fn compression_ratio(&self) -> f64 {
        ratio(self.unique_bytes, self.stored_bytes, 1.0)
    }
}

fn ratio(a: u64, b: u64, without: f64) -> f64 {
    if b == 0 { without } else { a as f64 / b as f64 }
}
