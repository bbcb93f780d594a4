//! Eviction of a WEU that somebody else has chosen: an SSD designed together with the cache knows best which one is cheap to lose
//! (paper §4, "Potential SSD customization").

use crate::manager::{CacheManager, Evicted};
use crate::weu::SlotState;
use nitro_units::WeuId;

impl CacheManager {
    /// As [`evict`](Self::evict), of that WEU; `None` if it may not be evicted.
    pub fn evict_weu(&mut self, weu: WeuId) -> Option<Evicted> {
        if self.weus.evictable_beyond(weu.0) != Some(weu) {
            return None;
        }
        let generation = self.weus.generation(weu);
        let extents = self.clear(weu, SlotState::Free);
        self.stats.weus_evicted += 1;
        self.stats.extents_evicted += extents;
        self.sweep.owe(self.sweep_units());
        Some(Evicted { weu, generation })
    }
}
