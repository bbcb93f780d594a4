//! The classes that a [classifier](crate::classify) finds.

use super::Cache;
use crate::classify::Learned;
use nitro_cache::admission::Provenance;
use nitro_port::buf::is_zero;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};

/// Extents looked up under one lock of the manager.
const EXTENTS_PER_HOLD: u64 = 64;
/// Maximum number of extents that one look reclassifies: the others keep their class until they are stored again.
const EXTENTS_PER_LOOK: u64 = 1 << 14;

impl<F: Device, C: Clock> Cache<F, C> {
    /// The provenance of an extent with its class: that of the request, otherwise the class of its bytes, otherwise that
    /// of the pattern of the requests.
    pub(crate) fn classified(&self, key: ExtentKey, from: Provenance, bytes: &[u8]) -> Provenance {
        let from = self.by_content(key, from, bytes);
        if self.settings.manager.patterns { self.manager.lock().by_pattern(key, from) } else { from }
    }

    fn by_content(&self, key: ExtentKey, from: Provenance, bytes: &[u8]) -> Provenance {
        let Some(classifier) = self.classifiers.of(key.object()) else { return from };
        // Says nothing, and is stored once for all.
        if is_zero(bytes) {
            return from;
        }
        let mut learned = Vec::new();
        let offset = key.index().0 * u64::from(self.settings.manager.extent_bytes);
        let found = classifier.look(offset, bytes, &mut learned);
        self.reclassify(key.object(), &learned);
        if from.class.is_classified() { from } else { Provenance { class: found.unwrap_or_default(), ..from } }
    }

    /// Applies the learned classes to the cached extents of a volume.
    pub(crate) fn reclassify(&self, object: ObjectId, learned: &[Learned]) {
        let extent_bytes = u64::from(self.settings.manager.extent_bytes);
        let mut left = EXTENTS_PER_LOOK;
        for (range, class) in learned {
            // Extents of which most is known.
            let (mut at, end) = ((range.start + extent_bytes / 2) / extent_bytes, range.end.div_ceil(extent_bytes));
            while at < end.min(ExtentIndex::MAX.0) && left > 0 {
                let next = end.min(at + EXTENTS_PER_HOLD.min(left));
                let mut manager = self.manager.lock();
                for index in at..next {
                    manager.reclassify(ExtentKey::new(object, ExtentIndex(index)), *class);
                }
                left -= next - at;
                at = next;
            }
        }
    }
}
