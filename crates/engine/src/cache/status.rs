//! The status of a cache.

use super::Cache;
use crate::flash::DeviceStatus;
use crate::health::Health;
use crate::metrics::CacheCounters;
use crate::write_log::LogStatus;
use nitro_cache::Stats;
use nitro_cache::curve::WhatIf;
use nitro_cache::weu::{Space, Unit};
use nitro_port::{Clock, Device};
use nitro_units::ClassId;
use serde::Serialize;

/// Write-evict units examined under one lock of the manager.
const WEUS_PER_LOCK: u32 = 1024;

/// The state and counters of one cache, for status displays.
#[derive(Debug, Clone, Serialize)]
pub struct CacheStatus {
    /// The cache device's state.
    pub health: Health,
    /// Each of several devices; empty for a single one.
    pub devices: Vec<DeviceStatus>,
    /// Why nothing can be made durable on the device any more, if it has failed.
    pub failed: Option<String>,
    /// Clean contents are still being restored after a restart.
    pub restoring: bool,
    /// Open write-intent regions: their cached extents are not trusted after a power cut.
    pub open_regions: u64,
    /// Bytes of dirty extents waiting for insertion.
    pub dirty_queue_bytes: u64,
    /// The write log, if there is one.
    pub log: Option<LogStatus>,
    /// The manager's counters.
    pub manager: Stats,
    /// The engine's counters.
    pub engine: CacheCounters,
    /// Whether evicted units are discarded: `evicted`, `off`, or `off: ` and the reason.
    pub discard: String,
    /// Bytes waiting for insertion.
    pub insert_queue_bytes: u64,
    /// Bytes in the RAM cache.
    pub ram_cache_bytes: u64,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Cached extents, by the class for which their content was stored.
    pub fn cached_by_class(&self) -> [u64; ClassId::COUNT] {
        self.manager.lock().cached_by_class()
    }

    /// Its state and counters.
    pub fn status(&self) -> CacheStatus {
        let manager = self.manager.lock();
        let index_ram_bytes = manager.index_ram_bytes() as u64;
        let stats = Stats { index_ram_bytes, ..manager.stats() };
        drop(manager);
        let failed = self.ledger.failed();
        CacheStatus {
            health: if failed.is_some() && stats.dirty_extents > 0 {
                Health::Failed
            } else if self.device_health.is_caching() && self.flash.lost().lost != 0 {
                Health::Degraded
            } else {
                self.device_health.state()
            },
            devices: self.flash.status(&self.space_by_device()),
            failed: failed.map(|reason| reason.to_string()),
            restoring: self.is_restoring(),
            open_regions: self.regions.count(),
            dirty_queue_bytes: self.dirty_queue.bytes(),
            log: self.log_status(),
            manager: stats,
            engine: self.metrics.snapshot(),
            discard: self.discards.told(),
            insert_queue_bytes: self.queue.bytes(),
            ram_cache_bytes: self.ram.lock().bytes(),
        }
    }

    /// Estimated hits of caches of other sizes; empty before the first read.
    pub fn what_if(&self) -> Vec<WhatIf> {
        self.manager.lock().what_if()
    }

    /// The same for more sizes.
    pub fn hit_curve(&self) -> Vec<WhatIf> {
        self.manager.lock().hit_curve()
    }

    /// The use of the space of its write-evict units.
    pub fn space(&self) -> Space {
        let (weus, mut space) = (self.weu_count(), Space::default());
        for first in (0..weus).step_by(WEUS_PER_LOCK as usize) {
            self.manager.lock().add_space(first..first + WEUS_PER_LOCK, &mut space);
        }
        space
    }

    /// Every `stride`-th of its write-evict units.
    pub fn units(&self, stride: u32) -> Vec<Unit> {
        let (weus, stride) = (self.weu_count(), stride.max(1));
        let mut units = Vec::with_capacity((weus / stride) as usize + 1);
        let mut first = 0;
        while first < weus {
            let end = first.saturating_add(stride.saturating_mul(WEUS_PER_LOCK)).min(weus);
            units.extend(self.manager.lock().units((first..end).step_by(stride as usize)));
            first = end;
        }
        units
    }
}
