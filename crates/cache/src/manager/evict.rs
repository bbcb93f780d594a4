//! Eviction of whole units. `forward` evicts units whose extents are copied forward before.

use super::{CacheManager, Evicted};
use crate::weu::SlotState;
use nitro_units::WeuId;

impl CacheManager {
    /// Whether fewer slots are free, or about to be, than the reserve requires.
    #[must_use]
    pub fn wants_eviction(&self) -> bool {
        self.weus.coming_free_count() < self.settings.free_reserve()
    }

    /// Evicts the whole unit that the policy chooses: its base entries are removed at once, its dups when touched or
    /// cleaned.
    pub fn evict(&mut self) -> Option<Evicted> {
        let evicted = self.begin_eviction(false)?;
        while self.evict_step(evicted.weu) {}
        Some(evicted)
    }

    /// As [`evict`](Self::evict), but evicts the unit that the SSD has chosen: an SSD that is designed for the cache
    /// knows which unit is cheap to evict (paper §4, "Potential SSD customization"). `None`: it is not evictable.
    pub fn evict_weu(&mut self, weu: WeuId) -> Option<Evicted> {
        if !self.weus.is_evictable(weu) {
            return None;
        }
        let evicted = self.begin_eviction_of(weu, SlotState::Free);
        while self.evict_step(weu) {}
        Some(evicted)
    }

    /// Begins to evict the whole unit that the policy chooses: its extents are not found any more. Its entries are
    /// removed from the indexes by [`evict_step`](Self::evict_step)s, and then its slot is free; with `to_discard`,
    /// only after [`discarded`](Self::discarded), so that a TRIM of the old contents cannot affect new ones.
    pub fn begin_eviction(&mut self, to_discard: bool) -> Option<Evicted> {
        let weu = self.weus.victim(&self.rules)?.weu;
        Some(self.begin_eviction_of(weu, if to_discard { SlotState::Discarding } else { SlotState::Free }))
    }

    pub(crate) fn begin_eviction_of(&mut self, weu: WeuId, then: SlotState) -> Evicted {
        let generation = self.weus.generation(weu);
        self.stats.weus_evicted += 1;
        self.stats.extents_evicted += self.weus.entry_count(weu) as u64;
        let kept = self.weus.begin_clearing(weu, then);
        self.pins.note_gone(kept);
        self.sweep.owe(self.sweep_units());
        Evicted { weu, generation }
    }

    /// Removes up to [`EVICT_STEP_ENTRIES`](crate::eviction::EVICT_STEP_ENTRIES) entries of a unit whose eviction was
    /// begun; returns whether there are more.
    pub fn evict_step(&mut self, weu: WeuId) -> bool {
        self.clear_step(weu)
    }

    /// Notes that the slot of an evicted WEU has been discarded on the device.
    pub fn discarded(&mut self, weu: WeuId) {
        self.weus.discarded(weu);
    }
}
