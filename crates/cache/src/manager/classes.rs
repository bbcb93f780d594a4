//! The policies of classes in force.

use super::CacheManager;
use crate::admission::{Admission, Provenance, SecondMiss, Source};
use crate::builtin;
use crate::class::{Allocation, Barred, CLEAN_PERCENT_MIN, ClassPolicy, ClassRules, Classes};
use crate::file_index::Reference;
use crate::gone::Gone;
use crate::shelf::Band;
use crate::weu::Location;
use nitro_units::{ClassId, ExtentKey, WeuId};

/// A class that exceeds its maximum by this fraction of it, and by at least a unit, is refused: its extents may be too
/// scattered to be evicted.
const OVER_MAX_PART: u64 = 8;

impl CacheManager {
    /// The policies of all classes.
    #[must_use]
    pub const fn classes(&self) -> &Classes {
        &self.settings.classes
    }

    /// The place of a class in the order of the existing bands.
    #[must_use]
    pub fn band(&self, class: ClassId) -> Band {
        self.rules.place(class)
    }

    /// The priority of a cached extent; of another extent, and if there is one band only, the default.
    #[must_use]
    pub fn priority_of(&self, key: ExtentKey) -> Band {
        if !self.has_bands() {
            return Band::default();
        }
        let class = self.peek(key).map_or(ClassId::UNCLASSIFIED, |at| self.weus.class_of(at.weu, at.entry));
        self.settings.classes.of(class).priority
    }

    /// The provenance of new content with the class of the [pattern](Provenance::pattern) if it has no other. Content of
    /// class [`builtin::READ_ONCE`] that was used before, as far as this is remembered, is of class [`builtin::RANDOM`].
    #[must_use]
    pub fn by_pattern(&self, key: ExtentKey, from: Provenance) -> Provenance {
        if !self.settings.patterns {
            return from;
        }
        let class = if from.class.is_classified() { from.class } else { from.pattern };
        let is_used = || from.used || self.why_gone(key).is_some();
        let class = if class == builtin::READ_ONCE && is_used() { builtin::RANDOM } else { class };
        Provenance { class, ..from }
    }

    /// Notes that the extent at a location was read by a request of class `by`, its own or by its pattern. If content is
    /// classified by patterns, a use outside of a run makes data of the classes [`builtin::READ_ONCE`] and [`builtin::SCAN`] one of class
    /// [`builtin::RANDOM`]. Content shared by several extents keeps its class.
    pub fn note_read_by(&mut self, by: ClassId, location: &Location) {
        if self.settings.patterns && by.is_classified() {
            let (weu, entry) = (location.weu, location.entry);
            let class = self.weus.class_of(weu, entry);
            let after = builtin::used_again(class, by);
            if after != class && !self.weus.is_shared(weu, entry) {
                self.weus.reclassify(weu, entry, after);
            }
        }
    }

    /// Whether a unit that may be evicted holds an extent whose class is in a lower band. Looks at all extents.
    #[must_use]
    pub fn could_evict_below(&self, band: Band) -> bool {
        let has_class = |class: ClassId| self.band(class) < band && self.weus.live_of(class) > 0;
        let is_below = |weu: WeuId, entry: u16| {
            self.band(self.weus.class_of(weu, entry)) < band
                && self.weus.key(weu, entry).is_some_and(|key| self.find(key) == Some(Reference::Base(weu, entry)))
        };
        let mut units = (0..self.weus.len()).map(WeuId).filter(|weu| self.weus.is_evictable(*weu));
        ClassId::all().any(has_class)
            && units.any(|weu| (0..self.weus.entry_count(weu) as u16).any(|entry| is_below(weu, entry)))
    }

    /// Whether there are several bands.
    #[must_use]
    pub fn has_bands(&self) -> bool {
        self.rules.bands() > 1
    }

    /// Whether classes have different priorities, also if the cache is too small for several bands.
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        ClassId::all().any(|class| self.settings.classes.of(class).priority != Band::NORMAL)
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
        let (used, wanted) = (classes.priorities(), classes.bands(self.weus.len()).max(self.rules.bands()));
        let bands = self.weus.tell_bands_apart(wanted, Band::NORMAL.place(&used, wanted));
        self.rules = ClassRules {
            bands,
            places: ClassId::all().map(|class| classes.of(class).priority.place(&used, bands)).collect(),
            minimums: bounded(&|policy| (policy.min_percent > 0).then(|| percent(policy.min_percent))),
            maximums: bounded(&|policy| (policy.max_percent < 100).then(|| percent(policy.max_percent))),
            seen,
        };
        self.settings.classes = classes;
    }

    /// The class that keeps an extent, which is written in write-back, out of the cache, and its rule: the write goes around
    /// the cache. `None`: it becomes dirty in the cache, or is dirty already. To be called once for each written extent,
    /// since it may be remembered as seen.
    pub fn goes_around(&mut self, key: ExtentKey, from: Provenance) -> Option<(ClassId, Barred)> {
        if self.is_dirty(key) || self.pins.has(key) {
            return None;
        }
        let from = self.by_pattern(key, from);
        let rule = self.barred(key, from)?;
        self.note_gone(key, Gone::Refused);
        Some((from.class, rule))
    }

    /// Which rule of its class keeps an extent out of the cache.
    pub(crate) fn barred(&mut self, key: ExtentKey, from: Provenance) -> Option<Barred> {
        let policy = *self.settings.classes.of(from.class);
        let is_wanted = match from.source {
            Source::Read => policy.on_read,
            Source::Write => policy.on_write,
        };
        match policy.allocation {
            Allocation::Never => Some(Barred::Never),
            _ if !is_wanted => Some(Barred::Source),
            _ if self.is_far_above_maximum(from.class) => Some(Barred::Maximum),
            Allocation::WhileClean => {
                let (pinned, units) = (u64::from(self.weus.pinned_count()), u64::from(self.weus.len()));
                let is_clean = (units - pinned.min(units)) * 100 > units * u64::from(CLEAN_PERCENT_MIN);
                (!is_clean).then_some(Barred::NotClean)
            }
            Allocation::SecondAccess => {
                let is_second = self.rules.seen.as_mut().is_none_or(|seen| seen.admit(key, from).is_some());
                (!is_second).then_some(Barred::FirstAccess)
            }
            Allocation::Always => None,
        }
    }

    fn is_far_above_maximum(&self, class: ClassId) -> bool {
        let unit = u64::from(self.settings.weu_bytes / self.settings.extent_bytes);
        let of = self.rules.maximums.iter().find(|(bounded, _)| *bounded == class);
        of.is_some_and(|(_, max)| self.weus.live_of(class) > max + (max / OVER_MAX_PART).max(unit))
    }
}
