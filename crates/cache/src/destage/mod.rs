//! Destage: which dirty extents are written to the origin next (write-back, Nitro §3), and when.

mod backlog;
mod contention;
mod elevator;
mod oldest;
mod rounds;
mod slowing;

pub use backlog::Backlog;
pub use contention::{Contention, WRITES_AT_ONCE_MAX};
pub use elevator::Elevator;
pub use oldest::Oldest;
pub use rounds::Rounds;
pub use slowing::Slowing;

use crate::dirty::Held;
use nitro_units::ExtentIndex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Extents destaged between two flushes of the origin.
pub const ROUND_EXTENTS: usize = 512;
/// How often a volume checks for work.
pub const TICK: Duration = Duration::from_secs(1);

/// Neighbouring extents that are written to the origin with one write: up to 1 MiB.
#[must_use]
pub const fn run_extents_max(extent_bytes: usize) -> usize {
    match (1 << 20) / extent_bytes {
        0 => 1,
        extents => extents,
    }
}

/// The dirty extents of one object that are not known to be unreadable.
#[derive(Debug, Clone, Copy)]
pub struct DirtyExtents<'a>(Option<&'a BTreeMap<ExtentIndex, Held>>);

impl<'a> DirtyExtents<'a> {
    /// Those in the list of an object.
    pub(crate) const fn of(all: Option<&'a BTreeMap<ExtentIndex, Held>>) -> Self {
        Self(all)
    }

    /// The extents from `index` on, in order of offset, each with the second since which it is dirty.
    pub fn from(&self, index: ExtentIndex) -> impl Iterator<Item = (ExtentIndex, u32)> + '_ {
        let all = self.0.into_iter().flat_map(move |all| all.range(index..));
        all.filter(|(_, held)| held.is_readable()).map(|(index, held)| (*index, held.since))
    }

    /// The second since which an extent is dirty; `None`: it is not, or is unreadable.
    #[must_use]
    pub fn since(&self, index: ExtentIndex) -> Option<u32> {
        self.0?.get(&index).filter(|held| held.is_readable()).map(|held| held.since)
    }

    /// Number of dirty extents, including unreadable ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.map_or(0, BTreeMap::len)
    }

    /// Whether nothing is dirty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A policy: the order in which the dirty extents of one object are destaged.
pub trait Destage: fmt::Debug + Send {
    /// Notes that an extent became dirty at this second. It is called again if the second changes, or if an unreadable
    /// extent was overwritten. An overwrite of another dirty extent does not change the second, unless the older
    /// version is being destaged. Seconds do not decrease, unless the clock does.
    fn dirtied(&mut self, _index: ExtentIndex, _since: u32) {}

    /// Up to `count` extents to destage next, of those that became dirty at second `before` or earlier. An empty result
    /// ends the pass; the next call begins another one. The returned extents stay dirty until the origin has them, so
    /// they may be returned again.
    fn next(&mut self, dirty: DirtyExtents<'_>, before: u32, count: usize) -> Vec<ExtentIndex>;

    /// RAM in bytes.
    fn ram_bytes(&self) -> usize;
}

/// The policies that can be chosen by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DestageKind {
    /// See [`Elevator`].
    #[default]
    Elevator,
    /// See [`Oldest`].
    Oldest,
}

impl DestageKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Elevator, Self::Oldest];

    /// Its name in configurations and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Elevator => "elevator",
            Self::Oldest => "oldest",
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The maximum RAM in bytes with `dirty` dirty extents of one object.
    #[must_use]
    pub const fn ram_bytes_max(self, dirty: u64) -> u64 {
        match self {
            Self::Elevator => 0,
            Self::Oldest => Oldest::ram_bytes_max(dirty),
        }
    }

    /// Creates a policy for one object.
    #[must_use]
    pub fn build(self) -> Box<dyn Destage> {
        match self {
            Self::Elevator => Box::new(Elevator::default()),
            Self::Oldest => Box::new(Oldest::default()),
        }
    }
}

crate::by_name::by_name!(DestageKind, "policy of destage");

/// When destage runs: by the amount and the age of dirty data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    /// Percentage of the cache that may be dirty before destage runs independently of the age.
    pub start_percent: u8,
    /// Percentage at which writers wait for destage.
    pub max_percent: u8,
    /// Age in seconds at which dirty data are destaged.
    pub age_seconds: u32,
}

/// The use of a cache by dirty data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyUse {
    /// Pinned units.
    pub pinned: u32,
    /// Units that dirty content may pin.
    pub weus: u32,
    /// Dirty extents.
    pub dirty: u64,
    /// Number of extents that the cache holds without compression.
    pub extents: u64,
}

impl Watermarks {
    /// The server's defaults.
    pub const USUAL: Self = Self { start_percent: 20, max_percent: 60, age_seconds: 30 };

    /// Whether destage runs independently of the age.
    #[must_use]
    pub fn is_beyond_start(&self, used: DirtyUse) -> bool {
        let percent = u64::from(self.start_percent);
        u64::from(used.pinned) * 100 > u64::from(used.weus) * percent || used.dirty * 100 > used.extents * percent
    }

    /// Whether dirty extents take all the room that they may take.
    #[must_use]
    pub fn is_full(&self, used: DirtyUse) -> bool {
        let percent = u64::from(self.max_percent);
        u64::from(used.pinned) * 100 >= u64::from(used.weus) * percent || used.dirty * 100 >= used.extents * percent
    }

    /// At second `now`, data that became dirty at the returned second or earlier are destaged; `None`: no data are old
    /// enough.
    #[must_use]
    pub fn due(&self, is_wanted: bool, now: u32) -> Option<u32> {
        if is_wanted { Some(u32::MAX) } else { now.checked_sub(self.age_seconds) }
    }
}

/// The extents that a policy returns, without duplicates and in order of offset.
pub(crate) fn next_in_order(
    policy: &mut dyn Destage,
    dirty: DirtyExtents<'_>,
    before: u32,
    count: usize,
) -> Vec<ExtentIndex> {
    let mut chosen = policy.next(dirty, before, count);
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// For each policy: within two passes, all extents that are old enough are returned, and no others.
        #[test]
        fn every_policy_gives_all_that_is_due(
            extents in prop::collection::btree_map(0u64..200, (0u32..20, any::<bool>()), 0..100),
            cleaned in prop::collection::btree_set(0u64..200, 0..50),
            before in 0u32..20,
            count in 1usize..20,
        ) {
            for kind in DestageKind::ALL {
                let (mut policy, mut all) = (kind.build(), BTreeMap::new());
                let mut in_order: Vec<_> = extents.iter().collect();
                in_order.sort_by_key(|(_, (since, _))| *since);
                for (index, (since, is_readable)) in in_order {
                    let target = is_readable.then_some((nitro_units::WeuId(0), 0));
                    all.insert(ExtentIndex(*index), Held::new(1, target, *since));
                    policy.dirtied(ExtentIndex(*index), *since);
                }
                all.retain(|index, _| !cleaned.contains(&index.0));
                let due = |held: &Held| held.is_readable() && held.since <= before;
                let expected: BTreeSet<_> = all.iter().filter(|(_, held)| due(held)).map(|(index, _)| *index).collect();
                let mut given = BTreeSet::new();
                let mut passes = 0;
                while passes < 2 {
                    let some = policy.next(DirtyExtents(Some(&all)), before, count);
                    prop_assert!(some.len() <= count, "{}", kind);
                    passes += usize::from(some.is_empty());
                    // The returned extents are destaged.
                    all.retain(|index, _| !some.contains(index));
                    given.extend(some);
                }
                prop_assert_eq!(&given, &expected, "{}", kind);
            }
        }
    }

    #[test]
    fn the_elevator_goes_by_offset_and_the_other_by_age() {
        let mut all = BTreeMap::new();
        let mut policies = DestageKind::ALL.map(DestageKind::build);
        for (index, since) in [(9, 1), (5, 2), (7, 3), (1, 4)] {
            all.insert(ExtentIndex(index), Held::new(1, Some((nitro_units::WeuId(0), 0)), since));
            policies.iter_mut().for_each(|policy| policy.dirtied(ExtentIndex(index), since));
        }
        let mut two = |policy: usize| {
            policies[policy].next(DirtyExtents(Some(&all)), 3, 2).iter().map(|i| i.0).collect::<Vec<_>>()
        };
        assert_eq!((two(0), two(0), two(0)), (vec![5, 7], vec![9], vec![]));
        assert_eq!((two(1), two(1)), (vec![9, 5], vec![7]));
    }

    #[test]
    fn watermarks_count_units_and_extents() {
        let marks = Watermarks { start_percent: 20, max_percent: 60, age_seconds: 30 };
        let used = |pinned, dirty| DirtyUse { pinned, weus: 100, dirty, extents: 1000 };
        assert!(!marks.is_beyond_start(used(20, 200)) && marks.is_beyond_start(used(21, 0)));
        assert!(marks.is_beyond_start(used(0, 201)) && !marks.is_full(used(59, 599)));
        assert!(marks.is_full(used(60, 0)) && marks.is_full(used(0, 600)));
        assert_eq!((marks.due(true, 3), marks.due(false, 29), marks.due(false, 31)), (Some(u32::MAX), None, Some(1)));
    }
}
