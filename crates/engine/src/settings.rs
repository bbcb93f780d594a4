//! What the engine is configured with, beyond the manager's own settings.

use crate::doubts::CrashMemory;
use crate::endurance::Endurance;
use crate::journal::Counts;
use nitro_cache::Settings;
use nitro_cache::destage::Watermarks;
use nitro_cache::ram::READAHEAD_RAM_BYTES;
use nitro_port::codec::{Compression, FingerprintHash};
use std::time::Duration;

/// Settings of one cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineSettings {
    /// The cache manager's.
    pub manager: Settings,
    /// How extents are compressed.
    pub compression: Compression,
    /// Which hash names contents.
    pub fingerprint_hash: FingerprintHash,
    /// Bytes of the cache device for an index of fingerprints on flash, when the cache is made; 0: none.
    pub index_bytes: u64,
    /// Whether a duplicate is believed only after its bytes were compared with those that are cached: an extent costs a read of the cache
    /// device more when it is inserted, and what an origin's recipe tells is not believed.
    pub verify_duplicates: bool,
    /// RAM for whole extents in front of the SSD, in bytes; 0: none.
    pub ram_cache_bytes: u64,
    /// RAM for data read ahead, in bytes.
    pub readahead_ram_bytes: u64,
    /// RAM for extents waiting to be inserted, in bytes; beyond it fills are dropped and counted.
    pub insert_queue_bytes: u64,
    /// RAM in which clean content waits before it is inserted, in bytes, beside the queue: what is overwritten meanwhile never reaches the
    /// SSD. Such content is served from there, and lost in a crash. 0: none waits.
    pub staging_bytes: u64,
    /// How much may be written to the SSD; `None`: as much as brings hits.
    pub endurance: Option<Endurance>,
    /// Tell the SSD of evicted WEUs (TRIM).
    pub discard_evicted: bool,
    /// At a restart, leave out what is clean: the origins may have changed without the cache's knowing.
    pub distrust_clean: bool,
    /// RAM for dirty extents waiting to be inserted, in bytes; beyond it writers wait.
    pub dirty_queue_bytes: u64,
    /// Destage runs while more than this share of the cache, in percent, is dirty or kept by dirty extents.
    pub dirty_start_percent: u8,
    /// Writers wait for destage at this share of the cache, in percent.
    pub dirty_max_percent: u8,
    /// Destage writes what has been dirty for so long.
    pub dirty_age: Duration,
    /// A write in write-back for which there is no room waits for so long after destage of its volume began to fail; then it fails
    /// with the origin's error.
    pub dirty_wait: Duration,
    /// A request fails that has waited so long, where the origin has owed an answer for as long; `None`: it waits. One that
    /// changes the origin goes on unseen, since it may yet arrive: until it has ended, nobody reads or writes its extents.
    pub origin_timeout: Option<Duration>,
    /// Where a start that follows a kill of the program finds which extents were being written through; `None`: then it
    /// distrusts whole regions, as after a power cut.
    pub crash_memory: Option<CrashMemory>,
}

/// WEUs of dirty extents that may have no header on the SSD yet.
const UNSEALED_WEUS: u32 = 4;

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
            ram_cache_bytes: 64 << 20,
            readahead_ram_bytes: READAHEAD_RAM_BYTES,
            insert_queue_bytes: 64 << 20,
            staging_bytes: 0,
            endurance: None,
            discard_evicted: false,
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

    /// What names contents, if anything does.
    #[must_use]
    pub fn fingerprints(&self) -> Option<FingerprintHash> {
        self.manager.dedup.then_some(self.fingerprint_hash)
    }

    /// What the journal must have room for. Depends on nothing that may change from one start to the next but sizes.
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
