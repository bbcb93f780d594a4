//! Pinning and unpinning; see [`pins`](crate::pins).

use super::CacheManager;
use crate::class::ClassError;
use crate::file_index::Reference;
use crate::pins::{PIN_STEP_EXTENTS, PinRanges, with_range};
use crate::settings::Settings;
use nitro_units::{ExtentIndex, ExtentKey, ObjectId, WeuId};
use std::ops::Range;

impl CacheManager {
    /// The pinned ranges of an object.
    #[must_use]
    pub fn pins(&self, object: ObjectId) -> &[Range<u64>] {
        self.pins.of(object)
    }

    /// Number of pinned extents, and how many of them are cached.
    #[must_use]
    pub fn pinned_extents(&self) -> (u64, u64) {
        self.pins.extents()
    }

    /// Whether an extent is pinned.
    #[must_use]
    pub fn is_pinned(&self, key: ExtentKey) -> bool {
        self.pins.has(key)
    }

    /// Checks that the cache can keep this number of pinned extents in addition to the minimums of classes, with
    /// `dirty_percent` for dirty ones.
    ///
    /// # Errors
    /// [`ClassError::Promised`]: more than [`RESERVED_PERCENT_MAX`](crate::class::RESERVED_PERCENT_MAX) would be
    /// guaranteed, and eviction might find no victim.
    pub fn check_pins(&self, extents: u64, dirty_percent: u8) -> Result<(), ClassError> {
        let settings =
            Settings { cache_bytes: u64::from(self.weus.len()) * u64::from(self.settings.weu_bytes), ..self.settings };
        settings.check_classes(&self.settings.classes, dirty_percent, extents)
    }

    /// Pins or unpins at most [`PIN_STEP_EXTENTS`] extents of an object, so that the manager is not locked for long.
    ///
    /// # Panics
    /// The range has more extents.
    pub fn set_pinned(&mut self, object: ObjectId, extents: &Range<u64>, pinned: bool) {
        assert!(extents.end.saturating_sub(extents.start) <= PIN_STEP_EXTENTS, "{extents:?}");
        for index in extents.clone() {
            let key = ExtentKey::new(object, ExtentIndex(index));
            if self.pins.has(key) != pinned
                && let Some(weu) = self.named_in(key)
            {
                self.note_pinned(weu, pinned);
            }
        }
        let ranges = with_range(self.pins(object), extents, pinned);
        self.pins.set(object, ranges);
    }

    /// Restores the pins of an object at a restart: to be called before anything else is restored.
    pub fn restore_pins(&mut self, object: ObjectId, ranges: PinRanges) {
        self.pins.set(object, ranges);
    }

    /// Unpins all extents of an object without cached data.
    pub fn forget_pins(&mut self, object: ObjectId) {
        self.pins.set(object, PinRanges::new());
    }

    /// Notes that a key became the base key of a unit's entry, or is not any more.
    #[inline]
    pub(crate) fn note_base(&mut self, key: ExtentKey, weu: WeuId, is_more: bool) {
        if self.pins.has(key) {
            self.note_pinned(weu, is_more);
        }
    }

    /// The unit whose header has a key for what the key refers to.
    fn named_in(&self, key: ExtentKey) -> Option<WeuId> {
        match self.find(key)? {
            Reference::Base(weu, _) => self.weus.is_filled(weu).then_some(weu),
            Reference::Dup(number) => self.dups.get(number).filter(|dup| self.is_named(dup)).map(|dup| dup.weu()),
        }
    }

    fn note_pinned(&mut self, weu: WeuId, is_more: bool) {
        self.weus.note_kept(weu, is_more);
        self.pins.note_cached(is_more);
    }
}
