//! The maximum RAM of a cache, by component. The program adds its own components, and prints all of them.

use crate::cache::Cache;
use crate::insert::UnitTables;
use crate::settings::EngineSettings;
use crate::volume::{DESTAGE_ROUNDS_MAX, GIVEN_UP_BYTES_MAX, READAHEADS_MAX, REMAINDERS_MAX, destage_round_bytes};
use nitro_cache::IndexKind;
use nitro_cache::eviction::EvictionKind;
use nitro_port::buf::held_bytes;
use serde::Serialize;

/// Write-evict units in RAM at once: the open ones of clean and of dirty extents, one of records of duplicates, those on their way
/// to the SSD, and those that wait for the committer.
const WEUS_IN_RAM: u64 = 9;
/// An entry of a write-evict unit in RAM: its header, and where its payload is.
const WEU_ENTRY_BYTES: u64 = 192;
/// A dirty extent in the manager's list, and its fingerprint if the origin uses fingerprints.
const DIRTY_EXTENT_BYTES: u64 = 128;
/// A volume's counters, latencies and tables.
const VOLUME_BYTES: u64 = 1 << 20;

/// A component that takes RAM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RamPart {
    /// What it is.
    pub name: &'static str,
    /// Its maximum, in bytes.
    pub bytes: u64,
}

impl EngineSettings {
    /// The maximum RAM of a cache with these settings, by component, in bytes, in addition to the data of requests. The
    /// cache has write-evict units of `cache_bytes` in total.
    #[must_use]
    pub fn ram_parts(&self, cache_bytes: u64) -> Vec<RamPart> {
        let manager = nitro_cache::Settings { cache_bytes, ..self.manager };
        let lanes = manager.open_max(manager.weu_count());
        // One that is read to be copied forward, and one that is full of what was.
        let forwarded = if manager.eviction == EvictionKind::Heat { 2 } else { 0 };
        let unique = u64::from(manager.weu_count()) * u64::from(manager.weu_entries_max());
        let dirty = manager.extents_raw() * u64::from(self.dirty_max_percent) / 100;
        let weu = held_bytes(manager.weu_bytes as usize) * 2 + u64::from(manager.weu_entries_max()) * WEU_ENTRY_BYTES;
        let journal = EngineSettings { manager, ..*self }.journal_counts().area_bytes();
        [
            ("indexes", manager.index_ram_bytes(unique, manager.dup_entries_max().into())),
            ("dirty list", dirty * DIRTY_EXTENT_BYTES),
            ("tables of units", UnitTables::ram_bytes(&manager)),
            ("RAM cache", self.ram_cache_bytes),
            ("read-ahead", self.readahead_ram_bytes),
            ("insertion queue", self.insert_queue_bytes),
            (
                "extents being compressed",
                self.insertions_at_work_max() as u64 * held_bytes(manager.extent_bytes as usize),
            ),
            ("staging", self.staging_bytes),
            ("parts of extents", self.parts_bytes()),
            ("dirty queue", self.dirty_queue_bytes),
            ("policies and classes", manager.policy_ram_bytes(dirty)),
            ("open write-evict units", weu * (WEUS_IN_RAM + u64::from(lanes) - 1 + forwarded)),
            ("journal", journal),
            ("doubtful extents", self.crash_memory.map_or(0, |memory| memory.bytes())),
        ]
        .map(|(name, bytes)| RamPart { name, bytes })
        .into()
    }

    /// The maximum RAM of a volume, in bytes, in addition to its cache and the data of requests: destage, read-ahead,
    /// requests that were given up, counters. `unit_bytes`: those of its origin ([`Origin::unit_bytes`](nitro_port::Origin::unit_bytes)).
    #[must_use]
    pub fn volume_ram_bytes(&self, unit_bytes: Option<u32>) -> u64 {
        let readahead = READAHEADS_MAX as u64 * held_bytes(self.manager.streams.readahead_bytes as usize);
        let given_up = if self.gives_up() { 2 * GIVEN_UP_BYTES_MAX } else { 0 };
        u64::from(DESTAGE_ROUNDS_MAX) * destage_round_bytes(self.manager.extent_bytes as usize, unit_bytes)
            + readahead
            + REMAINDERS_MAX as u64 * held_bytes(self.manager.extent_bytes as usize)
            + given_up
            + VOLUME_BYTES
    }

    /// The maximum RAM of the counters of accesses that the policy of admission keeps for a volume of `size_bytes`, in bytes.
    #[must_use]
    pub fn counters_ram_bytes(&self, size_bytes: u64) -> u64 {
        self.manager.admission.object_ram_bytes(size_bytes.div_ceil(self.manager.extent_bytes.into()))
    }

    /// These settings with the other index, which finds all duplicates.
    #[must_use]
    pub fn with_other_index(&self) -> Self {
        let index = match self.manager.index {
            IndexKind::Exact => IndexKind::Lean,
            IndexKind::Lean => IndexKind::Exact,
        };
        let manager = nitro_cache::Settings { index, fingerprint_index_percent: 100, ..self.manager };
        Self { manager, ..*self }
    }

    /// RAM in bytes that the indexes take once the cache is full of extents that shrink by `reduction` (compression) and bear `dups`
    /// further keys each.
    #[must_use]
    pub fn usual_index_bytes(&self, reduction: f64, dups: f64) -> u64 {
        let unique = self.manager.extents_raw() as f64 * reduction;
        self.manager.usual_index_ram_bytes(unique as u64, (unique * dups) as u64)
    }
}

impl<F: nitro_port::Device, C: nitro_port::Clock> Cache<F, C> {
    /// See [`EngineSettings::ram_parts`]; as large as the cache is now, with its write log.
    pub fn ram_parts(&self) -> Vec<RamPart> {
        let cache_bytes = u64::from(self.weu_count()) * u64::from(self.settings.manager.weu_bytes);
        let mut parts = self.settings.ram_parts(cache_bytes);
        // A restart reads all that the ring holds.
        let log = self.log_status().map(|log| RamPart { name: "write log", bytes: 2 * log.ring_bytes + (4 << 20) });
        parts.extend(log);
        parts
    }
}
