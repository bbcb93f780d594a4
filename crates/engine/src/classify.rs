//! Classes from the blocks of a volume: a classifier that knows file systems determines the class of an extent when the
//! extent is about to be cached.

use crate::volume::Volume;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ClassId, ObjectId};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A range of a volume and its class.
pub type Learned = (Range<u64>, ClassId);

/// Determines the classes of blocks.
pub trait Classifier: Send + Sync {
    /// Examines bytes of the volume that were read or written, and returns their class, if it is known. Adds the
    /// classes that it learned for other bytes. Several threads call it, off the path of requests.
    fn look(&self, offset: u64, bytes: &[u8], learned: &mut Vec<Learned>) -> Option<ClassId>;

    /// The class of a range of the volume, in bytes, if it follows from blocks that were examined before.
    fn class_of(&self, range: Range<u64>) -> Option<ClassId>;
}

/// The classifiers of all volumes.
#[derive(Default)]
pub(crate) struct Classifiers(RwLock<BTreeMap<ObjectId, Arc<dyn Classifier>>>);

impl Classifiers {
    /// The classifier of a volume.
    pub(crate) fn of(&self, object: ObjectId) -> Option<Arc<dyn Classifier>> {
        self.0.read().get(&object).cloned()
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
