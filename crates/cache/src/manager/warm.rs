//! Prefetching into the processor's caches. A look-up is a chain of dependent memory reads; the chains of different
//! extents are independent. If a caller knows several extents in advance, their chains can overlap.

use super::CacheManager;
use crate::file_index::Reference;
use nitro_units::{ExtentKey, Fingerprint};
use std::hint::black_box;

/// Maximum number of extents that are prefetched together.
pub(crate) const TOGETHER: usize = 16;

impl CacheManager {
    /// Prefetches the memory for look-ups of up to 16 extents; for extents that are probably not cached, and for
    /// `written` ones, also the memory for look-ups of their fingerprints. Changes and counts nothing.
    pub fn warm<'a>(&self, extents: impl Iterator<Item = (ExtentKey, &'a Fingerprint, bool)> + Clone) {
        // Each loop is short and reads memory at independent addresses; which extents the last loop is about is decided before,
        // since a branch that is predicted wrongly ends the overlap.
        let sum = extents.clone().take(TOGETHER).fold(0, |sum, (key, ..)| sum ^ self.files.touch(key));
        black_box(sum);
        let mut found = [None; TOGETHER];
        for (found, (key, ..)) in found.iter_mut().zip(extents.clone()) {
            *found = self.files.guess(key);
        }
        let mut sum = 0;
        for reference in found.iter().flatten() {
            match *reference {
                Reference::Base(weu, entry) => sum ^= self.weus.key(weu, entry).map_or(0, ExtentKey::raw),
                Reference::Dup(number) => sum ^= self.dups.get(number).map_or(0, |dup| dup.key.raw()),
            }
        }
        black_box(sum);
        let Some(index) = &self.fingerprints else { return };
        let mut prints = [None; TOGETHER];
        let mut count = 0;
        for (found, (_, fingerprint, written)) in found.iter().zip(extents) {
            prints[count.min(TOGETHER - 1)] = Some(fingerprint);
            count += usize::from(written || found.is_none());
        }
        let touch = |print: &Fingerprint| {
            index.touch_memory(print) ^ self.tags.as_ref().map_or(0, |tags| tags.touch_memory(print))
        };
        black_box(prints.iter().take(count).flatten().fold(0, |sum, print| sum ^ touch(print)));
    }

    /// As [`warm`](Self::warm), for base entries that are about to be removed.
    pub(crate) fn warm_files(&self, keys: &[ExtentKey]) {
        black_box(keys.iter().fold(0, |sum, key| sum ^ self.files.touch(*key)));
    }
}
