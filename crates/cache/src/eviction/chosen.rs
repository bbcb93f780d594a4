//! Eviction of a WEU that the SSD has chosen: an SSD that is designed for the cache knows which WEU is cheap to evict
//! (paper §4, "Potential SSD customization").

use crate::manager::{CacheManager, Evicted};
use crate::weu::SlotState;
use nitro_units::WeuId;

impl CacheManager {
    /// As [`evict`](Self::evict), but evicts `weu`; `None`: it is not evictable.
    pub fn evict_weu(&mut self, weu: WeuId) -> Option<Evicted> {
        if !self.weus.is_evictable(weu) {
            return None;
        }
        let evicted = self.begin_eviction_of(weu, SlotState::Free);
        while self.evict_step(weu) {}
        Some(evicted)
    }
}
