//! Which write-evict unit is evicted next: the order is a policy, told of what happens to units and asked for a victim.
//!
//! A policy is one file here and a variant of [`EvictionKind`]; docs/adding-a-policy.md adds one.

mod bands;
mod chosen;
mod duel;
mod fifo;
mod heat;
mod list;
mod lru;

pub(crate) use bands::Bands;
pub use fifo::Fifo;
pub use heat::Heat;
pub use lru::Lru;

use crate::admission::Lane;
use crate::forward::Keep;
use crate::manager::{CacheManager, Evicted};
use crate::weu::SlotState;
use nitro_units::{ExtentKey, WeuId};
use std::fmt;

/// Entries of an evicted unit that are removed from the indexes in one step, that is under one hold of whatever locks the
/// manager.
pub const EVICT_STEP_ENTRIES: usize = 64;

/// What a policy may ask about units when it chooses a victim.
pub trait Units {
    /// The heats of a unit's extents together: how often they were used again since they got there, each at most
    /// [`HEAT_MAX`](crate::weu::HEAT_MAX).
    fn heat(&self, weu: WeuId) -> u32;

    /// Whether a class forbids that a unit is evicted, while there are others.
    fn is_kept(&self, _weu: WeuId) -> bool {
        false
    }
}

/// Candidates that a policy looks at for one that is not [kept](Units::is_kept).
pub const LOOKED_AT_MAX: usize = 64;

/// The unit to evict next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// Which unit.
    pub weu: WeuId,
    /// Which of its extents are copied forward first.
    pub keep: Keep,
}

impl Victim {
    /// Evicts all that a unit holds.
    #[must_use]
    pub const fn whole(weu: WeuId) -> Self {
        Self { weu, keep: Keep::NOTHING }
    }
}

/// A policy: the order in which write-evict units are evicted.
///
/// A unit's life is [`opened`](Self::opened), [`sealed`](Self::sealed), and [`emptied`](Self::emptied). In between it is a
/// *candidate* from [`enter`](Self::enter) to [`leave`](Self::leave): it is on the SSD, and nothing pins it. Only candidates
/// may be victims. Units are numbered from 0; all calls but [`victim`](Self::victim) and [`grow`](Self::grow) should take
/// constant or logarithmic time, since they are part of look-ups.
pub trait Eviction: fmt::Debug + Send {
    /// The unit begins to be filled, with content of that lane.
    fn opened(&mut self, _weu: WeuId, _lane: Lane) {}

    /// The unit is full.
    fn sealed(&mut self, _weu: WeuId) {}

    /// An extent of the unit was hit, or another extent of the same content was inserted. The unit may be open, sealed, pinned or
    /// a candidate.
    fn touched(&mut self, weu: WeuId);

    /// An extent was looked up, to be read or written; whether it is cached or not.
    fn looked_up(&mut self, _key: ExtentKey, _read: bool) {}

    /// So many extents refer to the unit now, what its eviction would lose; and so many were put into it. Called at each change.
    fn live_changed(&mut self, _weu: WeuId, _extents: u32, _entries: u32) {}

    /// The unit becomes a candidate: it is on the SSD, and its last pin, if it had any, is gone.
    fn enter(&mut self, weu: WeuId);

    /// The unit was found at a restart, and becomes a candidate. The newest one is told first.
    fn restored(&mut self, weu: WeuId);

    /// The unit is no candidate any more: it was pinned, or is about to be emptied. Also called of units that are none.
    fn leave(&mut self, weu: WeuId);

    /// The unit holds nothing any more.
    fn emptied(&mut self, _weu: WeuId) {}

    /// The candidate to evict next; `None`: there are no candidates, or the first [`LOOKED_AT_MAX`] in each order are
    /// [kept](Units::is_kept). Asked again without an eviction in between it may answer otherwise.
    fn victim(&mut self, units: &dyn Units) -> Option<Victim>;

    /// There are units up to number `count` from now on.
    fn grow(&mut self, count: u32);

    /// RAM in bytes.
    fn ram_bytes(&self) -> usize;
}

/// The policies that can be chosen by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EvictionKind {
    /// See [`Heat`].
    #[default]
    Heat,
    /// See [`Lru`].
    Lru,
    /// See [`Fifo`].
    Fifo,
}

impl EvictionKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Heat, Self::Lru, Self::Fifo];

    /// Its name in configurations and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heat => "heat",
            Self::Lru => "lru",
            Self::Fifo => "fifo",
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A policy over so many units, none of them a candidate, that hold so many `extents` if none shrinks; `seed` keeps clients
    /// from aiming at what is sampled.
    #[must_use]
    pub fn build(self, count: u32, extents: u64, seed: u64) -> Box<dyn Eviction> {
        match self {
            Self::Heat => Box::new(Heat::new(count, extents, seed)),
            Self::Lru => Box::new(Lru::new(count)),
            Self::Fifo => Box::new(Fifo::new(count)),
        }
    }

    /// The maximum RAM in bytes that it takes for a cache of so many units.
    #[must_use]
    pub const fn ram_bytes_max(self, count: u32) -> u64 {
        match self {
            Self::Heat => Heat::ram_bytes_max(count),
            Self::Lru | Self::Fifo => 32 * count as u64,
        }
    }
}

crate::settings::by_name!(EvictionKind, "policy of eviction");

impl CacheManager {
    /// Whether fewer slots are free than should be ahead of need.
    #[must_use]
    pub fn wants_eviction(&self) -> bool {
        self.weus.coming_free_count() < self.settings.free_reserve()
    }

    /// Evicts the unit that the policy chooses, all of it: its base entries go at once, its dups when touched or cleaned.
    pub fn evict(&mut self) -> Option<Evicted> {
        let evicted = self.begin_eviction(false)?;
        while self.evict_step(evicted.weu) {}
        Some(evicted)
    }

    /// Begins to evict the unit that the policy chooses, all of it: from now on nothing of it is found. Its entries leave the indexes by
    /// [`evict_step`](Self::evict_step)s, and then its slot is free; with `to_discard`, only after
    /// [`discarded`](Self::discarded), so that what the device is told of the old contents does not meet the new ones.
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

    /// Removes up to [`EVICT_STEP_ENTRIES`] entries of a unit whose eviction was begun; returns whether there are more.
    pub fn evict_step(&mut self, weu: WeuId) -> bool {
        self.clear_step(weu)
    }

    /// The device has been told that an evicted WEU's slot holds nothing.
    pub fn discarded(&mut self, weu: WeuId) {
        self.weus.discarded(weu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    struct Cold;

    impl Units for Cold {
        fn heat(&self, _weu: WeuId) -> u32 {
            0
        }
    }

    proptest! {
        /// Whatever the policy: victims are candidates, and all candidates become victims.
        #[test]
        fn every_policy_chooses_among_candidates(operations in prop::collection::vec((0u8..6, 0u32..12), 0..300)) {
            for kind in EvictionKind::ALL {
                let mut policy = kind.build(6, 600, 1);
                policy.grow(12);
                let mut candidates = BTreeSet::new();
                for (operation, number) in &operations {
                    let weu = WeuId(*number);
                    match operation {
                        0 if !candidates.contains(number) => {
                            policy.opened(weu, Lane::Main);
                            policy.sealed(weu);
                            policy.enter(weu);
                            candidates.insert(*number);
                        }
                        1 if !candidates.contains(number) => {
                            policy.restored(weu);
                            candidates.insert(*number);
                        }
                        2 => {
                            policy.leave(weu);
                            candidates.remove(number);
                        }
                        3 => policy.live_changed(weu, *number, 12),
                        _ => policy.touched(weu),
                    }
                    let victim = policy.victim(&Cold).map(|victim| victim.weu);
                    prop_assert_eq!(victim.is_some(), !candidates.is_empty(), "{}", kind);
                    prop_assert!(victim.is_none_or(|weu| candidates.contains(&weu.0)), "{}: {:?}", kind, victim);
                }
                while let Some(Victim { weu: victim, .. }) = policy.victim(&Cold) {
                    prop_assert!(candidates.remove(&victim.0), "{}: {}", kind, victim.0);
                    policy.leave(victim);
                    policy.emptied(victim);
                }
                prop_assert!(candidates.is_empty());
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert!(EvictionKind::ALL.into_iter().all(|kind| EvictionKind::named(kind.name()) == Some(kind)));
        assert_eq!(EvictionKind::named("clock"), None);
    }
}
