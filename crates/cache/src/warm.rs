//! Prefetching into the processor's caches. A look-up is a chain of dependent memory reads; the chains of different
//! extents are independent. If a caller knows several extents in advance, their chains can overlap.

use crate::file_index::Reference;
use crate::manager::CacheManager;
use nitro_units::{ExtentKey, Fingerprint};
use std::hint::black_box;

/// Maximum number of extents that are prefetched together.
pub(crate) const TOGETHER: usize = 16;

impl CacheManager {
    /// Prefetches the memory for look-ups of up to 16 extents; for extents that are probably not cached, and for
    /// `written` ones, also the memory for look-ups of their fingerprints. Changes and counts nothing.
    pub fn warm<'a>(&self, extents: impl Iterator<Item = (ExtentKey, &'a Fingerprint, bool)> + Clone) {
        let sum = extents.clone().take(TOGETHER).fold(0, |sum, (key, ..)| sum ^ self.files.touch(key));
        black_box(sum);
        let mut sum = 0;
        for (key, fingerprint, written) in extents.take(TOGETHER) {
            let found = self.files.guess(key);
            match found {
                Some(Reference::Base(weu, entry)) => sum ^= self.weus.key(weu, entry).map_or(0, ExtentKey::raw),
                Some(Reference::Dup(number)) => sum ^= self.dups.get(number).map_or(0, |dup| dup.key.raw()),
                None => {}
            }
            if let Some(index) = self.fingerprints.as_ref().filter(|_| written || found.is_none()) {
                sum ^= index.touch_memory(fingerprint);
            }
        }
        black_box(sum);
    }

    /// As [`warm`](Self::warm), for base entries that are about to be removed.
    pub(crate) fn warm_files(&self, keys: &[ExtentKey]) {
        black_box(keys.iter().fold(0, |sum, key| sum ^ self.files.touch(*key)));
    }
}
