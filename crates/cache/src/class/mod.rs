//! The policies of classes of I/O: which of them may enter the cache, and in which order they are evicted
//! (Differentiated Storage Services, SOSP 2011, §3.2: selective allocation and selective eviction).
//!
//! A class has a *band* of priority. A write-evict unit holds extents of one band, and units of the lowest band are
//! evicted first, in the order of the policy of eviction; so eviction by priority is still eviction of whole units. In
//! addition, a class has two bounds: up to its minimum it is evicted last, and above its maximum its own units are
//! evicted first.

pub mod builtin;
mod rule;

pub use rule::{Asked, Comparison, Condition, Found, Join, Rule, Rules};

use crate::admission::{Admission, Provenance, SecondMiss, Source};
use crate::manager::CacheManager;
use crate::settings::Settings;
use nitro_units::{ClassId, ExtentKey};
use serde::{Deserialize, Serialize};
use std::fmt;

/// If less than this percentage of the cache is clean, [`Allocation::WhileClean`] admits nothing (SOSP 2011, §4.2).
pub const CLEAN_PERCENT_MIN: u32 = 15;
/// Maximum percentage of the cache for minimums of classes, pins, dirty extents and open units together, so that
/// eviction always has a victim.
pub const RESERVED_PERCENT_MAX: u64 = 90;
/// A cache has at most one band for each this many units.
const UNITS_PER_BAND: u32 = 32;
/// A class that exceeds its maximum by this fraction of it, and by at least a unit, is refused: its extents may be too
/// scattered to be evicted.
const OVER_MAX_PART: u64 = 8;

/// A band of priority. The lowest band is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct Band(u8);

impl Band {
    /// The number of bands.
    pub const COUNT: usize = 4;
    /// The default band.
    pub const NORMAL: Self = Self(1);
    /// From the first to be evicted to the last.
    pub const ALL: [Self; Self::COUNT] = [Self(0), Self(1), Self(2), Self(3)];

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "low",
            1 => "normal",
            2 => "high",
            _ => "highest",
        }
    }

    /// The band of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|band| band.name() == name)
    }

    /// Its index in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The band that represents this one if there are only `bands`: adjacent bands are merged.
    pub(crate) const fn merged(self, bands: usize) -> Self {
        Self((self.index() * bands / Self::COUNT) as u8)
    }
}

impl Default for Band {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl From<Band> for &'static str {
    fn from(band: Band) -> Self {
        band.name()
    }
}

impl TryFrom<String> for Band {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name)
            .ok_or_else(|| format!("there is no priority {name:?}; there are: low, normal, high, highest"))
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When new content of a class is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// According to the policy of admission.
    #[default]
    Always,
    /// The same, while more than [`CLEAN_PERCENT_MIN`] percent of the units are not pinned by dirty data. In
    /// write-through, none is.
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

/// The policy of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassPolicy {
    /// Its priority in eviction.
    pub priority: Band,
    /// When its new content is admitted.
    pub allocation: Allocation,
    /// Whether content of read misses is admitted.
    pub on_read: bool,
    /// Whether written content is admitted. Dirty content always is.
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

    /// Checks that the cache can guarantee the minimums, with `dirty_percent` of it for dirty extents.
    ///
    /// # Errors
    /// [`ClassError`].
    pub fn check(&self, settings: &Settings, dirty_percent: u8) -> Result<(), ClassError> {
        self.check_with_pins(settings, dirty_percent, 0)
    }

    /// As [`check`](Self::check), in addition to pinned extents.
    ///
    /// # Errors
    /// [`ClassError`].
    pub fn check_with_pins(&self, settings: &Settings, dirty_percent: u8, pinned: u64) -> Result<(), ClassError> {
        for class in ClassId::all() {
            let ClassPolicy { min_percent, max_percent, .. } = *self.of(class);
            if min_percent > max_percent || max_percent > 100 || max_percent == 0 {
                return Err(ClassError::Bounds { class, min_percent, max_percent });
            }
        }
        let minimums = self.0.iter().map(|policy| u64::from(policy.min_percent)).sum::<u64>();
        if minimums == 0 && pinned == 0 {
            return Ok(());
        }
        let open = Settings { classes: *self, ..*settings }.open_max(settings.weu_count()) + 1;
        let open = (u64::from(open) * 100).div_ceil(u64::from(settings.weu_count()));
        let pins = crate::pins::percent(pinned, settings.extents_raw());
        if minimums.saturating_add(pins) + u64::from(dirty_percent) + open > RESERVED_PERCENT_MAX {
            return Err(ClassError::Promised { minimums, pins, dirty: dirty_percent, open });
        }
        Ok(())
    }

    /// Whether any class has this allocation.
    #[must_use]
    pub fn uses(&self, allocation: Allocation) -> bool {
        self.0.iter().any(|policy| policy.allocation == allocation)
    }

    /// Number of bands in a cache of `weus` units.
    #[must_use]
    pub fn bands(&self, weus: u32) -> usize {
        if self.0.iter().all(|policy| policy.priority == Band::NORMAL) {
            return 1;
        }
        (weus / UNITS_PER_BAND).clamp(1, Band::COUNT as u32) as usize
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
    bands: usize,
    /// The minimum of each class that has one, in extents.
    minimums: Vec<(ClassId, u64)>,
    /// The maximum of each class that has one, in extents.
    maximums: Vec<(ClassId, u64)>,
    /// Extents that missed once, for classes that are admitted at their second access.
    seen: Option<SecondMiss>,
}

impl ClassRules {
    /// The number of bands.
    pub(crate) fn bands(&self) -> usize {
        self.bands.max(1)
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

impl CacheManager {
    /// The policies of all classes.
    #[must_use]
    pub const fn classes(&self) -> &Classes {
        &self.settings.classes
    }

    /// The band of a class, among the existing ones.
    pub(crate) fn band(&self, class: ClassId) -> Band {
        self.settings.classes.of(class).priority.merged(self.rules.bands())
    }

    /// Sets the policies of classes. Units that are already full stay in the band that they were filled for.
    pub fn set_classes(&mut self, classes: Classes) {
        let extents = u64::from(self.weus.len()) * u64::from(self.settings.weu_bytes / self.settings.extent_bytes);
        let percent = |percent: u8| extents * u64::from(percent) / 100;
        let bounded = |bound: &dyn Fn(&ClassPolicy) -> Option<u64>| {
            ClassId::all().filter_map(|class| bound(classes.of(class)).map(|extents| (class, extents))).collect()
        };
        let wants_seen = classes.uses(Allocation::SecondAccess);
        let new = || SecondMiss::new(self.settings.extents_raw(), self.settings.seed);
        let seen = wants_seen.then(|| self.rules.seen.take().unwrap_or_else(new));
        // The number of bands never decreases, so that existing units keep their order.
        let bands = self.weus.tell_bands_apart(classes.bands(self.weus.len()).max(self.rules.bands()));
        self.rules = ClassRules {
            bands,
            minimums: bounded(&|policy| (policy.min_percent > 0).then(|| percent(policy.min_percent))),
            maximums: bounded(&|policy| (policy.max_percent < 100).then(|| percent(policy.max_percent))),
            seen,
        };
        self.settings.classes = classes;
    }

    /// Whether an extent's class may enter the cache.
    pub(crate) fn is_allocated(&mut self, key: ExtentKey, from: Provenance) -> bool {
        let policy = *self.settings.classes.of(from.class);
        let is_wanted = match from.source {
            Source::Read => policy.on_read,
            Source::Write => policy.on_write,
        };
        if !is_wanted || self.is_far_above_maximum(from.class) {
            return false;
        }
        match policy.allocation {
            Allocation::Always => true,
            Allocation::WhileClean => {
                let (pinned, units) = (u64::from(self.weus.pinned_count()), u64::from(self.weus.len()));
                (units - pinned.min(units)) * 100 > units * u64::from(CLEAN_PERCENT_MIN)
            }
            Allocation::SecondAccess => self.rules.seen.as_mut().is_none_or(|seen| seen.admit(key, from).is_some()),
            Allocation::Never => false,
        }
    }

    fn is_far_above_maximum(&self, class: ClassId) -> bool {
        let unit = u64::from(self.settings.weu_bytes / self.settings.extent_bytes);
        let of = self.rules.maximums.iter().find(|(bounded, _)| *bounded == class);
        of.is_some_and(|(_, max)| self.weus.live_of(class) > max + (max / OVER_MAX_PART).max(unit))
    }
}
