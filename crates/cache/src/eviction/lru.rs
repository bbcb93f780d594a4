//! Least recently used first: the order of the Nitro paper (§3.2).

use super::list::LruList;
use super::{Eviction, LOOKED_AT_MAX, Units, Victim};
use nitro_units::WeuId;

/// Evicts the unit with the oldest last hit. A unit counts as hit when its last pin is removed.
#[derive(Debug)]
pub struct Lru(LruList);

impl Lru {
    /// An order for `count` units.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self(LruList::new(count))
    }
}

impl Eviction for Lru {
    fn touched(&mut self, weu: WeuId) {
        if self.0.contains(weu.0) {
            self.0.touch(weu.0);
        }
    }

    fn enter(&mut self, weu: WeuId) {
        self.0.touch(weu.0);
    }

    fn restored(&mut self, weu: WeuId) {
        self.0.put_oldest(weu.0);
    }

    fn leave(&mut self, weu: WeuId) {
        self.0.remove(weu.0);
    }

    fn victim(&mut self, units: &dyn Units) -> Option<Victim> {
        self.0.oldest().take(LOOKED_AT_MAX).map(WeuId).find(|weu| !units.is_kept(*weu)).map(Victim::whole)
    }

    fn grow(&mut self, count: u32) {
        self.0.grow(count);
    }

    fn ram_bytes(&self) -> usize {
        self.0.ram_bytes()
    }
}
