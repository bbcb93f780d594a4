//! The policies of classes of I/O: which of them may enter the cache, and in which order they are evicted
//! (Differentiated Storage Services, SOSP 2011, §3.2: selective allocation and selective eviction).
//!
//! A class has a *band* of priority. A write-evict unit holds extents of one band, and units of the lowest band are
//! evicted first, in the order of the policy of eviction; so eviction by priority is still eviction of whole units. In
//! addition, a class has two bounds: up to its minimum it is evicted last, and above its maximum its own units are
//! evicted first.

mod rule;

pub use crate::shelf::Band;
pub use rule::{Asked, Comparison, Condition, Found, Join, Rule, Rules};

use crate::admission::{Admission, SecondMiss};
use nitro_units::ClassId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// If less than this percentage of the cache is clean, [`Allocation::WhileClean`] admits nothing (SOSP 2011, §4.2).
pub const CLEAN_PERCENT_MIN: u32 = 15;
/// Maximum percentage of the cache for minimums of classes, pins, dirty extents and open units together, so that
/// eviction always has a victim.
pub const RESERVED_PERCENT_MAX: u64 = 90;
/// A cache has at most one band for each this many units.
const UNITS_PER_BAND: u32 = 32;

const _: () = assert!(RESERVED_PERCENT_MAX < 100);

/// When new content of a class is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// According to the policy of admission.
    #[default]
    Always,
    /// The same, while more than [`CLEAN_PERCENT_MIN`] percent of the units are not pinned by dirty data. In
    /// write-through, none is pinned.
    WhileClean,
    /// At its second miss.
    SecondAccess,
    /// Never.
    Never,
}

impl Allocation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Always, Self::WhileClean, Self::SecondAccess, Self::Never];

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::WhileClean => "while-clean",
            Self::SecondAccess => "second-access",
            Self::Never => "never",
        }
    }
}

/// The rule of a class that keeps content out of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Barred {
    /// [`Allocation::Never`].
    Never,
    /// [`ClassPolicy::on_read`] or [`ClassPolicy::on_write`] is not set.
    Source,
    /// [`Allocation::WhileClean`], and too much of the cache is dirty.
    NotClean,
    /// [`Allocation::SecondAccess`], and this is the first one.
    FirstAccess,
    /// The class has its [maximum](ClassPolicy::max_percent).
    Maximum,
}

/// The policy of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassPolicy {
    /// Its priority in eviction, and among requests that wait for SSD and origin.
    pub priority: Band,
    /// When its new content is admitted.
    pub allocation: Allocation,
    /// Whether content of read misses is admitted.
    pub on_read: bool,
    /// Whether written content is admitted.
    pub on_write: bool,
    /// Percentage of the cache, counted before compression, up to which it is evicted last.
    pub min_percent: u8,
    /// Percentage of the cache, counted before compression, above which its own units are evicted first.
    pub max_percent: u8,
}

impl Default for ClassPolicy {
    fn default() -> Self {
        Self {
            priority: Band::NORMAL,
            allocation: Allocation::Always,
            on_read: true,
            on_write: true,
            min_percent: 0,
            max_percent: 100,
        }
    }
}

/// The policies of all classes. Serialised as a list of those that differ from the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Deserved>", into = "Vec<Deserved>")]
pub struct Classes([ClassPolicy; ClassId::COUNT]);

/// The serialised policy of a class.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Deserved {
    /// The class's number; one beyond the last class is ignored.
    id: u8,
    #[serde(flatten)]
    policy: ClassPolicy,
}

impl From<Classes> for Vec<Deserved> {
    fn from(classes: Classes) -> Self {
        let usual = ClassPolicy::default();
        let all = ClassId::all().map(|class| Deserved { id: class.number(), policy: *classes.of(class) });
        all.filter(|deserved| deserved.policy != usual).collect()
    }
}

impl From<Vec<Deserved>> for Classes {
    fn from(all: Vec<Deserved>) -> Self {
        let mut classes = Self::default();
        for Deserved { id, policy } in all {
            if let Some(class) = ClassId::new(id) {
                classes.set(class, policy);
            }
        }
        classes
    }
}

impl Classes {
    /// The policy of a class.
    #[must_use]
    pub const fn of(&self, class: ClassId) -> &ClassPolicy {
        &self.0[class.index()]
    }

    /// Sets the policy of a class.
    pub const fn set(&mut self, class: ClassId, policy: ClassPolicy) {
        self.0[class.index()] = policy;
    }

    /// Whether all classes have the default policy.
    #[must_use]
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the bounds of each class; returns the sum of the minimums in percent.
    pub(crate) fn check_bounds(&self) -> Result<u64, ClassError> {
        for class in ClassId::all() {
            let ClassPolicy { min_percent, max_percent, .. } = *self.of(class);
            if min_percent > max_percent || max_percent > 100 || max_percent == 0 {
                return Err(ClassError::Bounds { class, min_percent, max_percent });
            }
        }
        Ok(self.0.iter().map(|policy| u64::from(policy.min_percent)).sum())
    }

    /// Whether any class has this allocation.
    #[must_use]
    pub fn uses(&self, allocation: Allocation) -> bool {
        self.0.iter().any(|policy| policy.allocation == allocation)
    }

    /// Whether any class may keep written content out of the cache.
    #[must_use]
    pub fn restrict_writes(&self) -> bool {
        let restricts = |policy: &ClassPolicy| {
            !policy.on_write || policy.allocation != Allocation::Always || policy.max_percent < 100
        };
        self.0.iter().any(restricts)
    }

    /// The priorities that the classes have, and the default, in ascending order.
    pub(crate) fn priorities(&self) -> Vec<Band> {
        let mut used: Vec<_> = self.0.iter().map(|policy| policy.priority).chain([Band::NORMAL]).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Number of bands in a cache of `weus` units: one for each priority, and at least one for each word of priority, if
    /// the cache is large enough.
    #[must_use]
    pub fn bands(&self, weus: u32) -> usize {
        if self.0.iter().all(|policy| policy.priority == Band::NORMAL) {
            return 1;
        }
        let most = self.priorities().len().max(Band::COUNT);
        (weus / UNITS_PER_BAND).clamp(1, most as u32) as usize
    }

    /// If a cache of `weus` units is too small to tell all priorities of the classes apart: how many it tells apart, of how
    /// many, and the units that it would need.
    #[must_use]
    pub fn merged(&self, weus: u32) -> Option<(usize, usize, u32)> {
        let (used, bands) = (self.priorities().len(), self.bands(weus));
        (used > bands).then_some((bands, used, used as u32 * UNITS_PER_BAND))
    }
}

/// Why the policies of classes are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassError {
    /// The bounds of a class are invalid.
    Bounds {
        /// Which class.
        class: ClassId,
        /// Its minimum.
        min_percent: u8,
        /// Its maximum.
        max_percent: u8,
    },
    /// The guarantees together exceed [`RESERVED_PERCENT_MAX`]; all values in percent of the cache.
    Promised {
        /// All minimums.
        minimums: u64,
        /// The pinned extents.
        pins: u64,
        /// The share of dirty extents.
        dirty: u8,
        /// The share of open units.
        open: u64,
    },
}

impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounds { class, min_percent, max_percent } => write!(
                f,
                "class {class}: a minimum of {min_percent} % and a maximum of {max_percent} % are not valid; \
                 they are percentages of the cache; the maximum must be at least 1 and not less than the minimum"
            ),
            Self::Promised { minimums, pins: 0, dirty, open } => write!(
                f,
                "the minimums of the classes are {minimums} % of the cache together, dirty data may take {dirty} % and \
                 open units {open} %: more than {RESERVED_PERCENT_MAX} % cannot be guaranteed; lower the minimums, or \
                 dirty_max"
            ),
            Self::Promised { minimums, pins, dirty, open } => write!(
                f,
                "pins would take {pins} % of the cache, the minimums of classes {minimums} %, dirty data may take \
                 {dirty} % and open units {open} %: more than {RESERVED_PERCENT_MAX} % cannot be guaranteed; pin less, \
                 lower the minimums, or dirty_max"
            ),
        }
    }
}

impl std::error::Error for ClassError {}

/// The state of classes in the manager.
#[derive(Debug, Default)]
pub(crate) struct ClassRules {
    /// The number of bands.
    pub(crate) bands: usize,
    /// The place of each class in the order of bands.
    pub(crate) places: Vec<Band>,
    /// The minimum of each class that has one, in extents.
    pub(crate) minimums: Vec<(ClassId, u64)>,
    /// The maximum of each class that has one, in extents.
    pub(crate) maximums: Vec<(ClassId, u64)>,
    /// Extents that missed once, for classes that are admitted at their second access.
    pub(crate) seen: Option<SecondMiss>,
}

impl ClassRules {
    /// The number of bands.
    pub(crate) fn bands(&self) -> usize {
        self.bands.max(1)
    }

    /// The place of a class in the order of bands.
    pub(crate) fn place(&self, class: ClassId) -> Band {
        self.places.get(class.index()).copied().unwrap_or(Band::LOWEST)
    }

    pub(crate) fn minimums(&self) -> &[(ClassId, u64)] {
        &self.minimums
    }

    pub(crate) fn maximums(&self) -> &[(ClassId, u64)] {
        &self.maximums
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.seen.as_ref().map_or(0, Admission::ram_bytes)
    }
}
