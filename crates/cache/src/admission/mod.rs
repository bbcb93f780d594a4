//! Admission: whether new content is stored on the SSD, and in which open unit.
//!
//! A policy is called after the search for duplicates, because content that is cached already costs nothing. Dirty
//! content (write-back) is always admitted, without a call of the policy.

mod all;
mod by_source;
mod counters;
mod ghost;
mod probation;
mod second_miss;
mod two_level;
mod write_policy;

pub use crate::shelf::{Lane, Shelf};
pub use all::All;
pub use by_source::BySource;
pub use counters::ObjectCounters;
pub use probation::Probation;
pub use second_miss::SecondMiss;
pub use two_level::{TwoLevel, is_metadata};
pub use write_policy::WritePolicy;

use crate::shelf::Band;
use nitro_units::{ClassId, ExtentKey, ObjectId};
use std::fmt;

/// The kind of request that inserts content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Source {
    /// A read miss.
    #[default]
    Read,
    /// A write.
    Write,
}

/// The provenance of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Provenance {
    /// The kind of request.
    pub source: Source,
    /// The class that the request gives, or the content itself.
    pub class: ClassId,
    /// The class by the pattern of the requests, for content without another one.
    pub pattern: ClassId,
    /// It was used again while it waited in RAM.
    pub used: bool,
}

impl Provenance {
    /// The provenance of content that a request of this class read.
    #[must_use]
    pub const fn read(class: ClassId) -> Self {
        Self { source: Source::Read, class, pattern: ClassId::UNCLASSIFIED, used: false }
    }

    /// The provenance of content that a request of this class wrote.
    #[must_use]
    pub const fn written(class: ClassId) -> Self {
        Self { source: Source::Write, class, pattern: ClassId::UNCLASSIFIED, used: false }
    }
}

/// How new content is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// The lane.
    pub lane: Lane,
    /// Its initial heat, at most [`HEAT_MAX`](crate::weu::HEAT_MAX).
    pub heat: u8,
    /// It is unknown: it is refused first if writes have to be reduced.
    pub is_new: bool,
    /// The band of its class. Policies of admission do not choose it.
    pub band: Band,
}

impl Admitted {
    /// Unknown content, into [`Lane::Main`].
    pub const NEW: Self = Self { lane: Lane::Main, heat: 0, is_new: true, band: Band::NORMAL };

    /// Known content without uses, into [`Lane::Main`].
    pub const MAIN: Self = Self { lane: Lane::Main, heat: 0, is_new: false, band: Band::NORMAL };

    /// The shelf to which it goes.
    #[must_use]
    pub const fn shelf(&self) -> Shelf {
        Shelf { lane: self.lane, band: self.band }
    }
}

/// A policy of admission.
pub trait Admission: fmt::Debug + Send {
    /// Whether and how new content of an extent is admitted; `None`: it is refused.
    fn admit(&mut self, key: ExtentKey, from: Provenance) -> Option<Admitted>;

    /// Notes that an extent was looked up for a read or write, cached or not.
    fn looked_up(&mut self, _key: ExtentKey) {}

    /// Whether the policy must be shown the unit that is evicted next, before the next call of `admit`.
    fn wants_victim(&mut self) -> bool {
        false
    }

    /// Shows the extents in the unit that is evicted next, with their classes; `None`: there is room without eviction.
    fn saw_victim(&mut self, _extents: Option<&mut dyn Iterator<Item = (ExtentKey, ClassId)>>) {}

    /// Notes that an extent was evicted on probation, or refused; `again`: how to admit it if it is inserted again.
    fn dropped(&mut self, _key: ExtentKey, _again: Admitted) {}

    /// Notes that an extent is overwritten or trimmed; `again`: how to admit its next content.
    fn overwritten(&mut self, _key: ExtentKey, _again: Admitted) {}

    /// Number of extents, of an object of `extents`, for which the policy needs counters that it does not have yet.
    fn counters_missing(&self, _object: ObjectId, _extents: u64) -> u64 {
        0
    }

    /// Adds the counters of an object that are [missing](Self::counters_missing).
    fn add_counters(&mut self, _object: ObjectId, _more: ObjectCounters) {}

    /// Gives up the counters of an object that is no longer cached.
    fn take_counters(&mut self, _object: ObjectId) -> Option<ObjectCounters> {
        None
    }

    /// RAM in bytes.
    fn ram_bytes(&self) -> usize;
}

/// The policies that can be chosen by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AdmissionKind {
    /// See [`Probation`].
    #[default]
    Probation,
    /// See [`All`].
    All,
    /// See [`SecondMiss`].
    SecondMiss,
    /// See [`BySource`].
    BySource,
    /// See [`TwoLevel`].
    TwoLevel,
    /// See [`TwoLevel::with_static_counters`].
    TwoLevelStatic,
}

impl AdmissionKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Probation, Self::All, Self::SecondMiss, Self::BySource, Self::TwoLevel, Self::TwoLevelStatic];

    /// Its name in configurations and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probation => "probation",
            Self::All => "all",
            Self::SecondMiss => "second-miss",
            Self::BySource => "by-source",
            Self::TwoLevel => "two-level",
            Self::TwoLevelStatic => "two-level-static",
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Creates a policy for a cache of `extents`; `seed` prevents clients from provoking collisions.
    #[must_use]
    pub fn build(self, extents: u64, seed: u64) -> Box<dyn Admission> {
        match self {
            Self::Probation => Box::new(Probation::new(extents, seed)),
            Self::All => Box::new(All),
            Self::SecondMiss => Box::new(SecondMiss::new(extents, seed)),
            Self::BySource => Box::new(BySource),
            Self::TwoLevel => Box::new(TwoLevel::new(extents)),
            Self::TwoLevelStatic => Box::new(TwoLevel::with_static_counters(extents)),
        }
    }

    /// The maximum RAM in bytes for an object of `extents` extents, in addition to that of the cache.
    #[must_use]
    pub const fn object_ram_bytes(self, extents: u64) -> u64 {
        if matches!(self, Self::TwoLevelStatic) { ObjectCounters::ram_bytes(extents) } else { 0 }
    }

    /// The maximum RAM in bytes for a cache of `extents` extents.
    #[must_use]
    pub const fn ram_bytes_max(self, extents: u64) -> u64 {
        match self {
            Self::All | Self::BySource | Self::TwoLevelStatic => 0,
            Self::Probation => Probation::ram_bytes_max(extents),
            Self::SecondMiss => SecondMiss::ram_bytes_max(extents),
            Self::TwoLevel => TwoLevel::ram_bytes_max(extents),
        }
    }

    /// Whether it may also choose [`Lane::Side`].
    #[must_use]
    pub const fn has_side_lane(self) -> bool {
        match self {
            Self::Probation | Self::BySource | Self::TwoLevel | Self::TwoLevelStatic => true,
            Self::All | Self::SecondMiss => false,
        }
    }
}

crate::by_name::by_name!(AdmissionKind, "policy of admission");

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ObjectId};

    fn key(number: u64) -> ExtentKey {
        ExtentKey::new(ObjectId(1), ExtentIndex(number))
    }

    fn read() -> Provenance {
        Provenance::read(ClassId::UNCLASSIFIED)
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert!(AdmissionKind::ALL.into_iter().all(|kind| AdmissionKind::named(kind.name()) == Some(kind)));
        assert_eq!(AdmissionKind::named("tiny-lfu"), None);
    }

    #[test]
    fn a_scan_is_kept_out_and_what_comes_again_is_taken() {
        let mut policy = AdmissionKind::SecondMiss.build(1000, 1);
        let taken = (0..100_000).filter(|number| policy.admit(key(*number), read()).is_some()).count();
        assert_eq!(taken, 0, "nothing came twice");
        let (first, again) = (policy.admit(key(7), read()), policy.admit(key(7), read()));
        assert_eq!((first, again), (None, Some(Admitted::MAIN)));
        assert_eq!(policy.admit(key(7), read()), None, "it was taken; now it begins anew");
        // Most of the last extents, as many as the cache has room for, are remembered.
        for number in 0..500 {
            let _ = policy.admit(key(number), read());
        }
        let remembered = (0..500).filter(|number| policy.admit(key(*number), read()).is_some()).count();
        assert!(remembered > 250, "{remembered}");
    }

    #[test]
    fn what_is_read_and_what_is_written_fill_units_of_their_own() {
        let mut policy = AdmissionKind::BySource.build(1000, 1);
        assert_eq!(policy.admit(key(1), read()), Some(Admitted::NEW));
        let written = policy.admit(key(1), Provenance::written(ClassId::UNCLASSIFIED));
        assert_eq!(written.map(|admitted| admitted.lane), Some(Lane::Side));
    }
}
