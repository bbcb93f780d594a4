//! Removal of whole objects, in steps over the cached extents.

use super::CacheManager;
use crate::file_index::Reference;
use nitro_units::{ExtentKey, ObjectId, WeuId};

impl CacheManager {
    /// Discards the dirty content of an extent, readable or lost. `false`: it has none.
    pub fn discard_dirty(&mut self, key: ExtentKey) -> bool {
        let Some(held) = self.dirty.remove(key) else { return false };
        if let Some((weu, _)) = held.target {
            self.unpin(key.object(), weu);
        }
        self.touch_restoring(key);
        if let Some(reference) = self.find(key) {
            self.drop_reference(key, reference);
        }
        // The journal has records of dups and of lost extents, too.
        self.note_forgotten(key);
        true
    }

    /// Drops the clean extents of an object among `count` base entries of a WEU from `from` on. Returns where to
    /// continue; `None`: there are no more.
    pub fn forget_in_weu(&mut self, object: ObjectId, weu: WeuId, from: u16, count: u16) -> Option<u16> {
        let end = self.weus.entry_count(weu).min(usize::from(from) + usize::from(count)) as u16;
        for entry in from..end {
            if let Some(key) = self.weus.key(weu, entry).filter(|key| key.object() == object)
                && self.find(key) == Some(Reference::Base(weu, entry))
            {
                self.invalidate(key);
            }
        }
        (from < end).then_some(end)
    }

    /// At most `max` keys of an object whose clean content a WEU holds.
    #[must_use]
    pub fn clean_in_weu(&self, object: ObjectId, weu: WeuId, max: usize) -> Vec<ExtentKey> {
        let entries = 0..self.weus.entry_count(weu).min(usize::from(u16::MAX)) as u16;
        let keys = entries.filter_map(|entry| Some((entry, self.weus.key(weu, entry)?)));
        let of_it = keys.filter(|(_, key)| key.object() == object && !self.is_dirty(*key));
        of_it
            .filter(|(entry, key)| self.find(*key) == Some(Reference::Base(weu, *entry)))
            .map(|(_, key)| key)
            .take(max)
            .collect()
    }

    /// As [`forget_in_weu`](Self::forget_in_weu), among `count` dup entries from number `from` on.
    pub fn forget_in_dups(&mut self, object: ObjectId, from: u32, count: u32) -> Option<u32> {
        let end = self.dups.capacity().min(from.saturating_add(count));
        for number in from..end {
            if let Some(dup) = self.dups.get(number).filter(|dup| dup.key.object() == object) {
                self.invalidate(dup.key);
            }
        }
        (from < end).then_some(end)
    }
}
