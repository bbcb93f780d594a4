//! The engine's settings, in addition to the manager's.

use crate::discard::Discard;
use crate::doubts::CrashMemory;
use crate::endurance::Endurance;
use crate::journal::Counts;
use crate::live::live_settings;
use nitro_cache::Settings;
use nitro_cache::destage::Watermarks;
use nitro_cache::partial::{PartialWrites, WAITING_BYTES, Waiting};
use nitro_cache::ram::{OVERHEAD_BYTES, RAM_CACHE_BYTES, READAHEAD_RAM_BYTES};
use nitro_port::buf::held_bytes;
use nitro_port::codec::{Compression, FingerprintHash};
use std::time::Duration;

/// Settings of one cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineSettings {
    /// The cache manager's.
    pub manager: Settings,
    /// How extents are compressed.
    pub compression: Compression,
    /// The hash function of fingerprints.
    pub fingerprint_hash: FingerprintHash,
    /// Bytes of the cache device for an index of fingerprints on flash, when the cache is created; 0: none.
    pub index_bytes: u64,
    /// Whether an extent is treated as a duplicate only after its bytes were compared with the cached ones. The
    /// insertion of a duplicate then costs a read of the cache device, and recipes of origins are not used.
    pub verify_duplicates: bool,
    /// RAM for whole extents in front of the SSD, in bytes; 0: none.
    pub ram_cache_bytes: u64,
    /// RAM for data read ahead, in bytes.
    pub readahead_ram_bytes: u64,
    /// RAM for extents waiting to be inserted, in bytes; beyond it fills are dropped and counted.
    pub insert_queue_bytes: u64,
    /// RAM in which clean content waits before it is inserted, in bytes, in addition to the queue: content that is
    /// overwritten meanwhile never reaches the SSD. Waiting content is served from this RAM, and lost in a crash. 0:
    /// content does not wait.
    pub staging_bytes: u64,
    /// How a write of a part of an extent that is not cached is treated, in write-through.
    pub partial_writes: PartialWrites,
    /// The limit of bytes written to the SSD; `None`: no limit. If it changes, the new budget starts with nothing saved.
    pub endurance: Option<Endurance>,
    /// Whether the SSD is told of evicted WEUs (TRIM).
    pub discard: Discard,
    /// At a restart, drop clean content: the origins may have changed without a record in the cache.
    pub distrust_clean: bool,
    /// RAM for dirty extents waiting to be inserted, in bytes; beyond it writers wait.
    pub dirty_queue_bytes: u64,
    /// Destage runs while more than this share of the cache, in percent, is dirty or pinned by dirty extents.
    pub dirty_start_percent: u8,
    /// Writers wait for destage at this share of the cache, in percent.
    pub dirty_max_percent: u8,
    /// Age at which dirty data are destaged.
    pub dirty_age: Duration,
    /// How long a write in write-back waits for room after destage of its volume began to fail; then it fails with the
    /// origin's error.
    pub dirty_wait: Duration,
    /// A request fails if it has waited for this time and the origin has not answered anything for this time; `None`:
    /// it waits. A request that changes the origin continues in the background, since it may still arrive: until it has
    /// ended, no other request reads or writes its extents.
    pub origin_timeout: Option<Duration>,
    /// The memory in which a start after a kill of the program finds the extents that were being written through;
    /// `None`: the start distrusts whole write-intent regions, as after a power cut.
    pub crash_memory: Option<CrashMemory>,
}

live_settings! {
    compression: Compression,
    dirty_start_percent: u8,
    dirty_max_percent: u8,
    dirty_age: Duration,
    dirty_wait: Duration,
    origin_timeout: Option<Duration>;
    endurance: Option<Endurance>
}

/// WEUs of dirty extents that may have no header on the SSD yet.
const UNSEALED_WEUS: u32 = 4;

/// Bytes of extents that are being inserted at the same time, and the least and the largest number of extents: enough for
/// look-ups in an index on flash, and for many workers.
const AT_WORK_BYTES: usize = 2 << 20;
const AT_WORK: (usize, usize) = (64, 512);

impl EngineSettings {
    /// Defaults around the manager's settings.
    #[must_use]
    pub fn new(manager: Settings) -> Self {
        Self {
            manager,
            compression: Compression::default(),
            fingerprint_hash: FingerprintHash::default(),
            index_bytes: 0,
            verify_duplicates: false,
            ram_cache_bytes: RAM_CACHE_BYTES,
            readahead_ram_bytes: READAHEAD_RAM_BYTES,
            insert_queue_bytes: 64 << 20,
            staging_bytes: 0,
            partial_writes: PartialWrites::default(),
            endurance: None,
            discard: Discard::Off,
            distrust_clean: false,
            dirty_queue_bytes: 64 << 20,
            dirty_start_percent: Watermarks::USUAL.start_percent,
            dirty_max_percent: Watermarks::USUAL.max_percent,
            dirty_age: Duration::from_secs(Watermarks::USUAL.age_seconds.into()),
            dirty_wait: Duration::from_secs(10),
            origin_timeout: None,
            crash_memory: None,
        }
    }

    /// Whether requests that the origin does not answer are given up, and continue in the background.
    pub(crate) const fn gives_up(&self) -> bool {
        self.origin_timeout.is_some()
    }

    /// Maximum number of extents that are fingerprinted and compressed, and not yet appended, by all workers of the cache.
    pub(crate) fn insertions_at_work_max(&self) -> usize {
        (AT_WORK_BYTES / self.manager.extent_bytes as usize).clamp(AT_WORK.0, AT_WORK.1)
    }

    /// RAM in bytes for parts of extents that are not cached.
    pub(crate) const fn parts_bytes(&self) -> u64 {
        if self.partial_writes.keeps_parts() { WAITING_BYTES } else { 0 }
    }

    /// Room for parts of extents that are not cached.
    pub(crate) fn parts<V>(&self) -> Waiting<V> {
        Waiting::new(self.parts_bytes(), held_bytes(self.manager.extent_bytes as usize) + OVERHEAD_BYTES)
    }

    /// The hash function of fingerprints, if there are any.
    #[must_use]
    pub fn fingerprints(&self) -> Option<FingerprintHash> {
        self.manager.dedup.then_some(self.fingerprint_hash)
    }

    /// The quantities for which the journal must have room. They depend only on settings that cannot change between
    /// starts, and on sizes.
    #[must_use]
    pub fn journal_counts(&self) -> Counts {
        Counts {
            slots: self.manager.weu_count(),
            weu_bytes: self.manager.weu_bytes,
            weu_entries_max: self.manager.weu_entries_max(),
            dirty_extents: self.manager.extents_raw(),
            unsealed_weus: UNSEALED_WEUS,
        }
    }
}
