//! What deserves the SSD: whether new content is taken, and which open unit it goes to.
//!
//! A policy is asked after duplicates were found: what is cached already costs nothing. Content that the origin does
//! not have (write-back) has to be taken, so nobody is asked about it.

mod all;
mod by_source;
mod ghost;
mod probation;
mod second_miss;
mod two_level;
mod write_policy;

pub use all::All;
pub use by_source::BySource;
pub use probation::Probation;
pub use second_miss::SecondMiss;
pub use two_level::TwoLevel;
pub use write_policy::WritePolicy;

use crate::class::Band;
use crate::eviction::Victim;
use crate::file_index::{Reference, mix};
use crate::gone::Gone;
use crate::manager::CacheManager;
use crate::settings::WEU_COUNT_MIN;
use crate::thrift::Thrift;
use nitro_units::{ClassId, ExtentKey};
use std::fmt;

/// Extents that stand together, by so many bits of their number, are refused together: a request is a hit only if all of it is cached.
const NEIGHBOURS_BITS: u32 = 6;

/// What brings content to the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Source {
    /// It was read, and missing.
    #[default]
    Read,
    /// It was written.
    Write,
}

/// Where content comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Provenance {
    /// What brings it.
    pub source: Source,
    /// The request's class.
    pub class: ClassId,
    /// It was used again while it waited in RAM.
    pub used: bool,
}

impl Provenance {
    /// Of what a request of that class read.
    #[must_use]
    pub const fn read(class: ClassId) -> Self {
        Self { source: Source::Read, class, used: false }
    }

    /// Of what a request of that class wrote.
    #[must_use]
    pub const fn written(class: ClassId) -> Self {
        Self { source: Source::Write, class, used: false }
    }
}

/// Which open unit content goes to: units of different lanes fill side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lane {
    /// What is expected to stay.
    #[default]
    Main,
    /// What a policy wants apart from the rest.
    Side,
    /// What the origin does not have. Policies of admission do not choose it.
    Dirty,
}

impl Lane {
    /// The lanes that policies choose among.
    pub const CLEAN: [Self; 2] = [Self::Main, Self::Side];

    /// Its place among [`CLEAN`](Self::CLEAN).
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Main | Self::Dirty => 0,
            Self::Side => 1,
        }
    }
}

/// What an open unit is filled with: units of different shelves fill side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Shelf {
    /// What policies tell apart.
    pub lane: Lane,
    /// What classes tell apart.
    pub band: Band,
}

impl Shelf {
    /// How many there are for clean content.
    pub const COUNT: usize = Lane::CLEAN.len() * Band::COUNT;

    /// Those for clean content.
    pub fn clean() -> impl Iterator<Item = Self> {
        Band::ALL.into_iter().flat_map(|band| Lane::CLEAN.map(|lane| Self { lane, band }))
    }

    /// Its place among those for [clean](Self::clean) content.
    #[must_use]
    pub const fn index(self) -> usize {
        self.band.index() * Lane::CLEAN.len() + self.lane.index()
    }
}

impl From<Lane> for Shelf {
    /// Of that lane, without regard to classes.
    fn from(lane: Lane) -> Self {
        Self { lane, band: Band::default() }
    }
}

/// How new content is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// Into which lane.
    pub lane: Lane,
    /// How often it counts as used again, at most [`HEAT_MAX`](crate::weu::HEAT_MAX).
    pub heat: u8,
    /// Nothing is known of it: where writes have to be spared, it is spared first.
    pub is_new: bool,
    /// The band of its class. Policies of admission do not choose it.
    pub band: Band,
}

impl Admitted {
    /// Into [`Lane::Main`], as if it were seen for the first time.
    pub const NEW: Self = Self { lane: Lane::Main, heat: 0, is_new: true, band: Band::NORMAL };

    /// Into [`Lane::Main`], without uses, but known to come again.
    pub const MAIN: Self = Self { lane: Lane::Main, heat: 0, is_new: false, band: Band::NORMAL };

    /// The open unit that it goes to.
    #[must_use]
    pub const fn shelf(&self) -> Shelf {
        Shelf { lane: self.lane, band: self.band }
    }
}

/// A policy of admission.
pub trait Admission: fmt::Debug + Send {
    /// Whether new content of an extent is taken, and how; `None`: it is not.
    fn admit(&mut self, key: ExtentKey, from: Provenance) -> Option<Admitted>;

    /// An extent was looked up, to be read or written; whether it is cached or not.
    fn looked_up(&mut self, _key: ExtentKey) {}

    /// Whether it wants to see the unit that is evicted next, before the next candidate.
    fn wants_victim(&mut self) -> bool {
        false
    }

    /// The extents in the unit that is evicted next, with their classes; `None`: there is room.
    fn saw_victim(&mut self, _extents: Option<&mut dyn Iterator<Item = (ExtentKey, ClassId)>>) {}

    /// An extent was evicted on probation, or refused; what it deserves should it come again.
    fn dropped(&mut self, _key: ExtentKey, _again: Admitted) {}

    /// An extent is being overwritten or trimmed; what its next content deserves.
    fn overwritten(&mut self, _key: ExtentKey, _again: Admitted) {}

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
}

impl AdmissionKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Probation, Self::All, Self::SecondMiss, Self::BySource, Self::TwoLevel];

    /// Its name in configurations and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probation => "probation",
            Self::All => "all",
            Self::SecondMiss => "second-miss",
            Self::BySource => "by-source",
            Self::TwoLevel => "two-level",
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A policy for a cache of so many extents; `seed` keeps clients from aiming at collisions.
    #[must_use]
    pub fn build(self, extents: u64, seed: u64) -> Box<dyn Admission> {
        match self {
            Self::Probation => Box::new(Probation::new(extents, seed)),
            Self::All => Box::new(All),
            Self::SecondMiss => Box::new(SecondMiss::new(extents, seed)),
            Self::BySource => Box::new(BySource),
            Self::TwoLevel => Box::new(TwoLevel::new(extents)),
        }
    }

    /// The maximum RAM in bytes that it takes for a cache of so many extents.
    #[must_use]
    pub const fn ram_bytes_max(self, extents: u64) -> u64 {
        match self {
            Self::All | Self::BySource => 0,
            Self::Probation => Probation::ram_bytes_max(extents),
            Self::SecondMiss => SecondMiss::ram_bytes_max(extents),
            Self::TwoLevel => TwoLevel::ram_bytes_max(extents),
        }
    }

    /// Lanes that may be open at once in a cache of so many units: of the fewest that a cache can have, there is no unit to spare.
    #[must_use]
    pub const fn lanes(self, weus: u32) -> u32 {
        match self {
            Self::Probation | Self::BySource | Self::TwoLevel if weus as u64 > WEU_COUNT_MIN => 2,
            Self::Probation | Self::All | Self::SecondMiss | Self::BySource | Self::TwoLevel => 1,
        }
    }
}

crate::settings::by_name!(AdmissionKind, "policy of admission");

impl CacheManager {
    /// Whether new content of an extent is taken, and how. To be asked when no duplicate of it was found.
    pub fn admit(&mut self, key: ExtentKey, from: Provenance) -> Option<Admitted> {
        if from.source == Source::Write {
            self.note_looked_up(key, false);
        }
        if self.admission.wants_victim() {
            self.show_victim();
        }
        let has_lanes = self.settings.admission.lanes(self.weus.len()) > 1;
        let admitted = match self.pins.has(key) {
            true => Some(Admitted::MAIN),
            false => self
                .is_allocated(key, from)
                .then(|| self.admission.admit(key, from))
                .flatten()
                .filter(|admitted| !self.is_spared(key, from, *admitted)),
        };
        if admitted.is_none() {
            self.stats.rejections += 1;
            self.note_gone(key, Gone::Refused);
        }
        let band = self.band(from.class);
        admitted.map(|a| Admitted { lane: if has_lanes { a.lane } else { Lane::Main }, band, ..a })
    }

    /// Shows the policy of admission what makes room for new content.
    fn show_victim(&mut self) {
        // What is free ahead of need is no room.
        let has_room = self.weus.coming_free_count() > self.settings.free_reserve() + 1;
        let victim = if has_room { None } else { self.weus.victim(&self.rules) };
        let Some(Victim { weu, .. }) = victim else { return self.admission.saw_victim(None) };
        let (weus, files) = (&self.weus, &self.files);
        let is_base = |key, entry| {
            let base = |found| matches!(found, Reference::Base(at, number) if (at, number) == (weu, entry));
            files.find(key, base).is_some()
        };
        let mut extents = (0..weus.entry_count(weu) as u16).filter_map(|entry| {
            let key = weus.key(weu, entry)?;
            is_base(key, entry).then(|| (key, weus.class_of(weu, entry)))
        });
        self.admission.saw_victim(Some(&mut extents));
    }

    /// From now on writes are spared so much.
    pub fn set_thrift(&mut self, thrift: Thrift) {
        self.thrift = thrift;
    }

    /// Whether content is refused to spare the SSD a write. What it deserves is remembered should it come again.
    fn is_spared(&mut self, key: ExtentKey, from: Provenance, admitted: Admitted) -> bool {
        if self.thrift == Thrift::NONE {
            return false;
        }
        self.asked += 1;
        let turn = mix((self.asked >> NEIGHBOURS_BITS) ^ self.settings.seed);
        let draw = mix((key.raw() >> NEIGHBOURS_BITS) ^ turn);
        let is_spared = self.thrift.refuses(admitted.is_new && !from.used, draw);
        if is_spared {
            self.admission.dropped(key, Admitted { lane: Lane::Main, is_new: false, ..admitted });
            self.stats.spared += 1;
        }
        is_spared
    }
}

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
        // Most of what was seen within as many extents as the cache has is remembered.
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
