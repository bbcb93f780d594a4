//! First in, first out, as in log-structured caches (Flashield; CacheLib's large-object cache).

use super::{Eviction, LOOKED_AT_MAX, Units, Victim};
use nitro_units::WeuId;
use std::collections::BTreeSet;

/// Evicts the unit that was filled first, independently of hits. Units keep their position while they are pinned.
#[derive(Debug)]
pub struct Fifo {
    /// The position of each unit in the order; units found at a restart precede all others.
    filled: Vec<i64>,
    candidates: BTreeSet<(i64, u32)>,
    /// Number of units filled so far.
    next: i64,
    /// Number of units found at restarts so far, negated.
    before: i64,
}

impl Fifo {
    /// An order for `count` units.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self { filled: vec![0; count as usize], candidates: BTreeSet::new(), next: 0, before: 0 }
    }
}

impl Eviction for Fifo {
    fn sealed(&mut self, weu: WeuId) {
        self.next += 1;
        self.filled[weu.0 as usize] = self.next;
    }

    fn touched(&mut self, _weu: WeuId) {}

    fn enter(&mut self, weu: WeuId) {
        self.candidates.insert((self.filled[weu.0 as usize], weu.0));
    }

    fn restored(&mut self, weu: WeuId) {
        self.before -= 1;
        self.filled[weu.0 as usize] = self.before;
        self.enter(weu);
    }

    fn leave(&mut self, weu: WeuId) {
        self.candidates.remove(&(self.filled[weu.0 as usize], weu.0));
    }

    fn victim(&mut self, units: &dyn Units) -> Option<Victim> {
        let first = self.candidates.iter().take(LOOKED_AT_MAX).map(|(_, weu)| WeuId(*weu));
        first.into_iter().find(|weu| !units.is_kept(*weu)).map(Victim::whole)
    }

    fn grow(&mut self, count: u32) {
        self.filled.resize((count as usize).max(self.filled.len()), 0);
    }

    fn ram_bytes(&self) -> usize {
        self.filled.capacity() * size_of::<i64>() + self.candidates.len() * 2 * size_of::<(i64, u32)>()
    }
}
