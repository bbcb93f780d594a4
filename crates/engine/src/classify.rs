//! Classes from the blocks of a volume: a classifier that knows file systems determines the class of an extent when the
//! extent is about to be cached.

use crate::cache::Cache;
use crate::volume::Volume;
use nitro_cache::admission::Provenance;
use nitro_port::buf::is_zero;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, ObjectId};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Extents looked up under one lock of the manager.
const EXTENTS_PER_HOLD: u64 = 64;
/// Maximum number of extents that one look reclassifies: the others keep their class until they are stored again.
const EXTENTS_PER_LOOK: u64 = 1 << 14;

/// A range of a volume and its class.
pub type Learned = (Range<u64>, ClassId);

/// Determines the classes of blocks.
pub trait Classifier: Send + Sync {
    /// Examines bytes of the volume that were read or written, and returns their class, if it is known. Adds the
    /// classes that it learned for other bytes. Several threads call it, off the path of requests.
    fn look(&self, offset: u64, bytes: &[u8], learned: &mut Vec<Learned>) -> Option<ClassId>;
}

/// The classifiers of all volumes.
#[derive(Default)]
pub(crate) struct Classifiers(RwLock<BTreeMap<ObjectId, Arc<dyn Classifier>>>);

impl<F: Device, C: Clock> Cache<F, C> {
    /// The provenance of an extent with its class: that of the request, otherwise the class of its bytes.
    pub(crate) fn classified(&self, key: ExtentKey, from: Provenance, bytes: &[u8]) -> Provenance {
        let Some(classifier) = self.classifiers.0.read().get(&key.object()).cloned() else { return from };
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
    fn reclassify(&self, object: ObjectId, learned: &[Learned]) {
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

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Sets the classifier of the volume's blocks; `None`: no classifier.
    pub fn classify_by(&self, classifier: Option<Arc<dyn Classifier>>) {
        let mut known = self.cache.classifiers.0.write();
        match classifier {
            Some(classifier) => known.insert(self.object(), classifier),
            None => known.remove(&self.object()),
        };
    }

    /// Applies the learned classes to the cached extents of the volume.
    pub fn reclassify(&self, learned: &[Learned]) {
        self.cache.reclassify(self.object(), learned);
    }
}
