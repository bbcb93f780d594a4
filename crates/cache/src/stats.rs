//! The manager's counters. Their names, units and meanings are defined only here.

nitro_units::counters! {
    /// Counters since the start, and a few gauges.
    pub struct Stats {
        /// Extent look-ups answered by the file index.
        {lookups result hit} hits,
        /// Extent look-ups that the file index could not answer.
        {lookups result miss} misses,
        /// Extents handed to insertion.
        insertions,
        /// Insertions whose content the fingerprint index knew.
        duplicates,
        /// Insertions of all-zero extents without payload.
        zeroes,
        /// Bytes handed to insertion, before deduplication and compression.
        inserted_bytes,
        /// Bytes of extents that were not duplicates, before compression.
        unique_bytes,
        /// Payload bytes of extents that were not duplicates, after compression.
        stored_bytes,
        /// Contents that were refused: by the policy of admission, by their class, or because of the write budget.
        rejections,
        /// The number among them that were refused because of the write budget.
        spared,
        /// Entries removed because their extent was overwritten or trimmed.
        invalidations,
        /// WEUs evicted.
        weus_evicted,
        /// Base entries evicted with their WEUs.
        extents_evicted,
        /// Extents copied forward before their WEUs were evicted.
        forwarded,
        /// Payload bytes of the extents copied forward.
        forwarded_bytes,
        /// Stale dup entries found by the cleaner.
        dups_cleaned,
        /// Stale dup entries found when a client touched them.
        dups_stale_touched,
        /// Dup entries removed because their number had reached its bound.
        dups_displaced,
        /// Records of duplicates written to WEUs, so that a restart brings the duplicates back.
        dups_recorded,
        /// Duplicates that a restart brought back.
        dups_restored,
        /// Fingerprints evicted from a partial index.
        fingerprints_evicted,
        /// Stale fingerprints removed.
        fingerprints_cleaned,
        /// Keys in the file index (cached extents, duplicates included).
        [gauge] cached_extents,
        /// Dup entries in the file index.
        [gauge] dup_entries,
        /// Base entries in WEUs, including overwritten ones.
        [gauge] base_entries,
        /// Fingerprints in the index.
        [gauge] fingerprints,
        /// WEU slots that are not on lost devices.
        [gauge] weus,
        /// Empty WEU slots.
        [gauge] weus_free,
        /// Pinned WEU slots, which hold dirty content and cannot be evicted.
        [gauge] weus_pinned,
        /// Dirty extents.
        [gauge] dirty_extents,
        /// RAM of all indexes in bytes.
        [gauge] index_ram_bytes,
    }
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
