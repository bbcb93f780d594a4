//! Eviction of a WEU that somebody else has chosen: an SSD designed together with the cache knows best which one is cheap to lose
//! (paper §4, "Potential SSD customization").

use crate::manager::{CacheManager, Evicted};
use crate::weu::SlotState;
use nitro_units::WeuId;

impl CacheManager {
    /// As [`evict`](Self::evict), of that WEU; `None` if it may not be evicted.
    pub fn evict_weu(&mut self, weu: WeuId) -> Option<Evicted> {
        if !self.weus.is_evictable(weu) {
            return None;
        }
        let evicted = self.begin_eviction_of(weu, SlotState::Free);
        while self.evict_step(weu) {}
        Some(evicted)
    }
}
