//! Adding and removing slots while the cache is in use.

use super::{CacheManager, Evicted};
use crate::weu::SlotState;
use nitro_units::Generation;

impl CacheManager {
    /// Adds slots, and reactivates those that a shrink removed, so that there are `count`. A slot that this manager did not
    /// have before may have had fillings up to `last`: it never gets one of their generations again.
    pub fn grow(&mut self, count: u32, last: Generation) {
        self.weus.grow(count, last);
        self.set_classes(self.settings.classes);
    }

    /// From now on, slots from number `limit` on are not opened.
    pub fn begin_shrink(&mut self, limit: u32) {
        self.weus.begin_shrink(limit);
        self.set_classes(self.settings.classes);
    }

    /// Begins to evict a WEU from number `limit` on permanently, or one before if there are more records than the smaller
    /// cache may have; `None`: none is evictable now. To be followed by [`evict_step`](Self::evict_step)s.
    pub fn begin_eviction_beyond(&mut self, limit: u32) -> Option<Evicted> {
        let weu = self.weus.evictable_beyond(limit)?;
        Some(self.begin_eviction_of(weu, if weu.0 < limit { SlotState::Free } else { SlotState::Retired }))
    }

    /// Number of slots from number `limit` on that are not removed yet, and of others that have to be emptied.
    #[must_use]
    pub fn occupied_beyond(&self, limit: u32) -> usize {
        self.weus.occupied_beyond(limit)
    }
}
