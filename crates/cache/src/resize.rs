//! Slots that come and go while the cache is in use.

use crate::manager::{CacheManager, Evicted};
use crate::weu::SlotState;

impl CacheManager {
    /// Adds slots, or takes back those that a shrink gave up, so that there are `count`.
    pub fn grow(&mut self, count: u32) {
        self.weus.grow(count);
    }

    /// Opens no slot from number `limit` on any more.
    pub fn begin_shrink(&mut self, limit: u32) {
        self.weus.begin_shrink(limit);
    }

    /// Evicts a WEU from number `limit` on for good; `None` where none can be evicted now.
    pub fn evict_beyond(&mut self, limit: u32) -> Option<Evicted> {
        let weu = self.weus.evictable_beyond(limit)?;
        let generation = self.weus.generation(weu);
        self.stats.weus_evicted += 1;
        self.stats.extents_evicted += self.clear(weu, SlotState::Retired);
        self.sweep.owe(self.sweep_units());
        Some(Evicted { weu, generation })
    }

    /// Slots from number `limit` on that have not been given up yet.
    #[must_use]
    pub fn occupied_beyond(&self, limit: u32) -> usize {
        self.weus.occupied_beyond(limit)
    }
}
