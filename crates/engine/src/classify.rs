//! Classes that the blocks of a volume tell: whoever knows file systems says what an extent is, when it comes to be cached.

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

/// Extents that are looked for under one hold of the manager's lock.
const EXTENTS_PER_HOLD: u64 = 64;
/// Extents that one look gives another class, at most: the others keep theirs until they are stored again.
const EXTENTS_PER_LOOK: u64 = 1 << 14;

/// What is known of a volume's bytes, and its class.
pub type Learned = (Range<u64>, ClassId);

/// Somebody who knows what blocks are.
pub trait Classifier: Send + Sync {
    /// Looks at bytes of the volume that were read or written; gives their class, if it is known. Adds what was learned of other
    /// bytes. Called off the path of requests, by several threads.
    fn look(&self, offset: u64, bytes: &[u8], learned: &mut Vec<Learned>) -> Option<ClassId>;
}

/// Those of all volumes.
#[derive(Default)]
pub(crate) struct Classifiers(RwLock<BTreeMap<ObjectId, Arc<dyn Classifier>>>);

impl<F: Device, C: Clock> Cache<F, C> {
    /// Where an extent comes from, with its class: the request's, if that says any, else what its bytes say.
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

    /// Gives what is cached of a volume the classes that were learned.
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
    /// Asks that classifier of the volume's blocks from now on; `None`: nobody.
    pub fn classify_by(&self, classifier: Option<Arc<dyn Classifier>>) {
        let mut known = self.cache.classifiers.0.write();
        match classifier {
            Some(classifier) => known.insert(self.object(), classifier),
            None => known.remove(&self.object()),
        };
    }

    /// Gives what is cached of the volume the classes that were learned.
    pub fn reclassify(&self, learned: &[Learned]) {
        self.cache.reclassify(self.object(), learned);
    }
}
