//! The kind of an access, which decides what is cached on the SSD and what is looked up there.

use crate::Store;
use crate::object::Object;
use lru::LruCache;
use nitro_cache::pattern::{Pattern, RegionDetector, RegionPattern};
use nitro_port::{Device, Work, WorkKind};
use parking_lot::Mutex;
use std::num::NonZeroUsize;

/// The maximum number of objects whose patterns are tracked.
const OBJECTS_MAX: usize = 1024;
/// Requests of an unknown pattern count as random up to this size, in bytes.
const SMALL_BYTES: u64 = 64 << 10;

/// The group of work that belongs to no object.
pub(crate) const OF_THE_STORE: u64 = u64::MAX;

/// The kind of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// An access of the store itself: it uses only the disk, not the SSD.
    Disk,
    /// A sequential access of a client: recipe blocks are looked up on the SSD, and nothing is cached there.
    Sequential,
    /// An access of a client that goes upwards with gaps (NSIO-Monotonic in the paper). The next recipe block is read in
    /// advance, and recipe blocks are cached on the SSD. Data are neither read ahead nor cached there: each part is
    /// accessed once. Duplicates are searched for as in a sequence, because what was written in order is stored in order.
    Monotonic,
    /// An access of a client at random (NSIO).
    Random,
}

impl Access {
    /// Whether recipe blocks that it reads are cached on the SSD.
    pub(crate) const fn keeps_recipes(self) -> bool {
        matches!(self, Self::Monotonic | Self::Random)
    }

    /// The work that a read of an object is a part of.
    pub(crate) const fn reading(self, object: u64) -> Work {
        let kind = if self.keeps_recipes() { WorkKind::RandomRead } else { WorkKind::SequentialRead };
        Work::new(kind, object)
    }

    /// The work that a write of an object is a part of.
    pub(crate) const fn writing(self, object: u64) -> Work {
        let kind = if self.keeps_recipes() { WorkKind::RandomWrite } else { WorkKind::Ingest };
        Work::new(kind, object)
    }
}

/// The patterns of the objects that were used most recently.
pub(crate) struct Patterns(Mutex<LruCache<u64, RegionDetector>>);

impl Default for Patterns {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(NonZeroUsize::new(OBJECTS_MAX).unwrap_or(NonZeroUsize::MIN))))
    }
}

impl Patterns {
    /// The maximum RAM of the patterns in bytes.
    pub(crate) const RAM_BYTES_MAX: u64 = (OBJECTS_MAX * (RegionDetector::RAM_BYTES_MAX + 64)) as u64;

    fn access(&self, object: u64, offset: u64, len: u64) -> Pattern {
        self.0.lock().get_or_insert_mut(object, RegionDetector::default).access(offset, len)
    }
}

impl<D: Device> Store<D> {
    /// Records a client's access to an object, and returns its kind.
    pub(crate) fn access(&self, object: &Object, offset: u64, len: u64) -> Access {
        if !self.settings.patterns {
            return if len <= SMALL_BYTES { Access::Random } else { Access::Sequential };
        }
        match self.patterns.access(object.id, offset, len) {
            Pattern::Random => Access::Random,
            Pattern::Monotonic => Access::Monotonic,
            Pattern::Unknown if len <= SMALL_BYTES => Access::Random,
            Pattern::Unknown | Pattern::Sequential => Access::Sequential,
        }
    }

    /// The access patterns of an object's pattern regions since the store was opened, in order; regions without
    /// accesses are omitted.
    ///
    /// # Errors
    /// [`Error::NoObject`](crate::Error::NoObject), or the directory cannot be read.
    pub async fn patterns(&self, name: &str) -> Result<Vec<RegionPattern>, crate::Error> {
        let object = self.object(name).await?;
        let patterns = self.patterns.0.lock();
        Ok(patterns.peek(&object.id).map(|detector| detector.regions().collect()).unwrap_or_default())
    }
}
