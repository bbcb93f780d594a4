//! Eviction: a policy is notified of events of write-evict units, and chooses the unit to evict next.
//!
//! A policy is one file here and a variant of [`EvictionKind`]; docs/adding-a-policy.md shows how to add one.

mod bands;
mod duel;
mod fifo;
mod heat;
mod keep;
mod list;
mod lru;

pub(crate) use bands::Bands;
pub use fifo::Fifo;
pub use heat::Heat;
pub use keep::{Cooling, Keep};
pub use lru::Lru;

use crate::shelf::Lane;
use nitro_units::{ExtentKey, WeuId};
use std::fmt;

/// Number of entries of an evicted unit that are removed from the indexes in one step, that is, under one lock of the
/// manager.
pub const EVICT_STEP_ENTRIES: usize = 64;

/// Information about units for a policy that chooses a victim.
pub trait Units {
    /// The sum of the heats of a unit's extents, each at most [`HEAT_MAX`](crate::weu::HEAT_MAX).
    fn heat(&self, weu: WeuId) -> u32;

    /// Whether a unit must not be evicted while there are other candidates, because of pins or the bounds of a class.
    fn is_kept(&self, _weu: WeuId) -> bool {
        false
    }
}

/// Maximum number of candidates that a policy examines for one that is not [kept](Units::is_kept).
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
    /// The unit is evicted without copying forward.
    #[must_use]
    pub const fn whole(weu: WeuId) -> Self {
        Self { weu, keep: Keep::NOTHING }
    }
}

/// A policy: the order in which write-evict units are evicted.
///
/// A unit is [`opened`](Self::opened), [`sealed`](Self::sealed) and [`emptied`](Self::emptied). In between it is a
/// *candidate* from [`enter`](Self::enter) to [`leave`](Self::leave): it is on the SSD and not pinned. Only candidates
/// may be victims. Units are numbered from 0. All calls but [`victim`](Self::victim) and [`grow`](Self::grow) should
/// take constant or logarithmic time, because they are part of look-ups.
pub trait Eviction: fmt::Debug + Send {
    /// The unit begins to be filled, with content of this lane.
    fn opened(&mut self, _weu: WeuId, _lane: Lane) {}

    /// The unit is full.
    fn sealed(&mut self, _weu: WeuId) {}

    /// An extent of the unit was hit, or another extent of the same content was inserted. The unit may be open, sealed,
    /// pinned or a candidate.
    fn touched(&mut self, weu: WeuId);

    /// An extent, cached or not, was looked up for a read or a write.
    fn looked_up(&mut self, _key: ExtentKey, _read: bool) {}

    /// `extents`: the number of extents that refer to the unit now, which its eviction would lose; `entries`: the
    /// number stored in it. Called at each change.
    fn live_changed(&mut self, _weu: WeuId, _extents: u32, _entries: u32) {}

    /// The unit becomes a candidate: it is on the SSD and not pinned any more.
    fn enter(&mut self, weu: WeuId);

    /// The unit was found at a restart, and becomes a candidate. The newest unit comes first.
    fn restored(&mut self, weu: WeuId);

    /// The unit is not a candidate any more: it was pinned, or is about to be emptied. Also called for units that are
    /// not candidates.
    fn leave(&mut self, weu: WeuId);

    /// The unit is empty.
    fn emptied(&mut self, _weu: WeuId) {}

    /// The candidate to evict next; `None`: there are no candidates, or the first [`LOOKED_AT_MAX`] in each order are
    /// [kept](Units::is_kept). A second call without an eviction in between may return another unit.
    fn victim(&mut self, units: &dyn Units) -> Option<Victim>;

    /// The number of units is now `count`.
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

    /// Creates a policy for `count` units without candidates, which hold `extents` without compression; `seed` prevents
    /// clients from predicting the sample.
    #[must_use]
    pub fn build(self, count: u32, extents: u64, seed: u64) -> Box<dyn Eviction> {
        match self {
            Self::Heat => Box::new(Heat::new(count, extents, seed)),
            Self::Lru => Box::new(Lru::new(count)),
            Self::Fifo => Box::new(Fifo::new(count)),
        }
    }

    /// The maximum RAM in bytes for a cache of `count` units.
    #[must_use]
    pub const fn ram_bytes_max(self, count: u32) -> u64 {
        match self {
            Self::Heat => Heat::ram_bytes_max(count),
            Self::Lru | Self::Fifo => 32 * count as u64,
        }
    }
}

crate::by_name::by_name!(EvictionKind, "policy of eviction");

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
        /// For each policy: victims are candidates, and all candidates become victims.
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
