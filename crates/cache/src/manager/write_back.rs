//! Write-back: inserts dirty extents, finds those to destage, and releases destaged ones. A WEU is *pinned*, and not
//! evicted, while it holds dirty content or content that the journal still names.

use super::{Append, CacheManager};
use crate::dirty::{DirtyExtent, Held};
use crate::file_index::Reference;
use crate::weu::{Location, Stored};
use nitro_units::{ExtentIndex, ExtentKey, Fingerprint, ObjectId, WeuId};

/// Pins to be released once the journal has the newer content; see [`CacheManager::superseded`].
#[derive(Debug, Default)]
#[must_use = "the pins stay until they are released"]
pub struct Superseded(Vec<(ObjectId, WeuId)>);

impl Superseded {
    /// Adds further pins.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl CacheManager {
    /// As [`append`](Self::append), for dirty content: `weu` must have been opened for such content. `now` in seconds.
    pub fn append_dirty(
        &mut self,
        weu: WeuId,
        key: ExtentKey,
        fingerprint: Option<&Fingerprint>,
        stored: Stored,
        now: u32,
    ) -> Append {
        self.touch_restoring(key);
        self.note_looked_up(key, false);
        let appended = self.append(weu, key, fingerprint, stored);
        if let Append::At(location) = appended {
            self.mark_dirty(key, location.weu, location.entry, now);
        }
        appended
    }

    /// As [`insert_duplicate`](Self::insert_duplicate), for dirty content; also returns its version. Content of a clean
    /// WEU that is not on the SSD yet is not used: the journal must not name content that may never get there. Content
    /// of a WEU that would have to be pinned is not used, either, if `pins_max` WEUs are pinned already.
    pub fn insert_dirty_duplicate(
        &mut self,
        key: ExtentKey,
        fingerprint: &Fingerprint,
        now: u32,
        pins_max: u32,
    ) -> Option<(Location, u64)> {
        let location = self.lookup_fingerprint(fingerprint)?;
        let may_pin = self.weus.is_pinned(location.weu) || self.weus.pinned_count() < pins_max;
        if !may_pin || !self.weus.is_safe_to_name(location.weu) {
            return None;
        }
        self.touch_restoring(key);
        self.insert_duplicate(key, fingerprint)?;
        self.version += 1;
        self.mark_dirty(key, location.weu, location.entry, now);
        Some((location, self.version))
    }

    fn mark_dirty(&mut self, key: ExtentKey, weu: WeuId, entry: u16, now: u32) {
        self.pin(key.object(), weu);
        let mut held = Held::new(self.version, Some((weu, entry)), now);
        let old = self.dirty.get(key);
        if let Some(old) = old.filter(|old| !old.cleaning) {
            // Otherwise an extent that is overwritten repeatedly would never reach the age for destage.
            held.since = old.since;
        }
        // A policy may have dropped an unreadable extent.
        if old.is_none_or(|old| old.since != held.since || !old.is_readable()) {
            self.note_dirtied(key, held.since);
        }
        let old = self.dirty.insert(key, held);
        if let Some(old) = old {
            self.keep_frozen(key, old);
        }
        if let Some(Held { target: Some((old, _)), .. }) = old {
            self.dirty.supersede(key.object(), old);
        }
    }

    /// Pins a WEU, because it holds content of an object.
    pub(crate) fn pin(&mut self, object: ObjectId, weu: WeuId) {
        self.weus.pin(weu);
        self.dirty.pin(object, weu);
    }

    /// Removes a pin.
    pub(crate) fn unpin(&mut self, object: ObjectId, weu: WeuId) {
        self.weus.unpin(weu);
        self.dirty.unpin(object, weu);
    }

    /// The pins of content that was replaced by newer dirty content since the last call. To be called before the
    /// journal is written; the pins are [released](Self::release) after that: until then, the older content is valid
    /// again after a crash.
    pub fn superseded(&mut self) -> Superseded {
        Superseded(self.dirty.take_superseded())
    }

    /// Releases pins.
    pub fn release(&mut self, superseded: Superseded) {
        for (object, weu) in superseded.0 {
            self.unpin(object, weu);
        }
    }

    /// Whether an extent is dirty.
    #[must_use]
    pub fn is_dirty(&self, key: ExtentKey) -> bool {
        self.dirty.get(key).is_some()
    }

    /// Whether the journal has to record an extent as dirty, with this version as its newest.
    #[must_use]
    pub fn is_dirty_at(&self, key: ExtentKey, version: u64) -> bool {
        self.dirty.get(key).is_some_and(|held| held.version == version && !held.cleaning)
    }

    /// Notes that the origin has this version of an extent, and that the journal record of this is about to be written:
    /// the extent need not be recorded as dirty from now on. [`cleaned`](Self::cleaned) follows after the write.
    pub fn begin_cleaning(&mut self, key: ExtentKey, version: u64) {
        if let Some(held) = self.dirty.get_mut(key).filter(|held| held.version == version) {
            held.cleaning = true;
        }
    }

    /// Dirty extents.
    #[must_use]
    pub fn dirty_count(&self) -> u64 {
        self.dirty.len()
    }

    /// Dirty extents of one object.
    #[must_use]
    pub fn dirty_count_of(&self, object: ObjectId) -> u64 {
        self.dirty.count(object)
    }

    /// Pinned WEUs.
    #[must_use]
    pub fn pinned_count(&self) -> u32 {
        self.weus.pinned_count()
    }

    /// Number of pinned WEUs after this number of further extents have become dirty, without compression and
    /// duplicates.
    #[must_use]
    pub fn pinned_after(&self, extents: u64) -> u64 {
        self.weus.pinned_after(extents)
    }

    /// Extents that may become dirty, without compression and duplicates, until `most` WEUs are pinned.
    #[must_use]
    pub fn dirty_room(&self, most: u64) -> u64 {
        self.weus.dirty_room(most)
    }

    /// WEUs pinned for content of one object; content of other objects may pin them, too.
    #[must_use]
    pub fn pinned_count_of(&self, object: ObjectId) -> u32 {
        self.dirty.pinned(object)
    }

    /// Objects that have dirty extents.
    #[must_use]
    pub fn dirty_objects(&self) -> Vec<ObjectId> {
        self.dirty.objects().collect()
    }

    /// Up to `count` dirty extents of an object from `from` on, in order of offset, that became dirty at second
    /// `before` or earlier.
    #[must_use]
    pub fn dirty_from(&self, object: ObjectId, from: ExtentIndex, before: u32, count: usize) -> Vec<DirtyExtent> {
        let old_enough = self.dirty.from(object, from).filter(|(_, held)| held.since <= before);
        old_enough.take(count).map(|(key, held)| self.dirty_extent(key, held)).collect()
    }

    /// Among `count` dirty extents of an object from `from` on: the second at which the oldest one became dirty; and
    /// the extent at which to continue. `None`: there are no such extents.
    #[must_use]
    pub fn oldest_dirty(
        &self,
        object: ObjectId,
        from: ExtentIndex,
        count: usize,
    ) -> (Option<u32>, Option<ExtentIndex>) {
        let mut extents = self.dirty.from(object, from);
        let oldest = extents.by_ref().take(count).map(|(_, held)| held.since).min();
        (oldest, extents.next().map(|(key, _)| key.index()))
    }

    /// As [`dirty_from`](Self::dirty_from), without extents that are known to be unreadable.
    #[must_use]
    pub fn destageable_from(&self, object: ObjectId, from: ExtentIndex, before: u32, count: usize) -> Vec<DirtyExtent> {
        let due = self.dirty.from(object, from).filter(|(_, held)| held.since <= before && held.is_readable());
        due.take(count).map(|(key, held)| self.dirty_extent(key, held)).collect()
    }

    /// Notes whether an object's origin refuses writes: its dirty extents then stay dirty.
    pub fn set_stuck(&mut self, object: ObjectId, stuck: bool) {
        self.dirty.set_stuck(object, stuck);
    }

    /// Whether destage can make room: there is a dirty extent that is not known to be unreadable and whose origin
    /// accepts writes.
    #[must_use]
    pub fn has_destageable(&self) -> bool {
        self.dirty.moving().any(|object| self.has_destageable_of(object))
    }

    /// Whether an object has a dirty extent that is not known to be unreadable.
    #[must_use]
    pub fn has_destageable_of(&self, object: ObjectId) -> bool {
        self.dirty.from(object, ExtentIndex(0)).any(|(_, held)| held.is_readable())
    }

    /// Notes that a dirty extent could not be read.
    pub fn unreadable(&mut self, key: ExtentKey, version: u64) {
        if let Some(held) = self.dirty.get_mut(key).filter(|held| held.version == version) {
            held.unreadable = true;
        }
    }

    pub(crate) fn dirty_extent(&self, key: ExtentKey, held: Held) -> DirtyExtent {
        let location = held.target.and_then(|(weu, entry)| self.weus.location(weu, entry));
        DirtyExtent { key, version: held.version, location, cleaning: held.cleaning, unreadable: !held.is_readable() }
    }

    /// Notes that the origin has this version of an extent, and that the journal has a record of it. `false`: it has
    /// been written to since, and is still dirty.
    pub fn cleaned(&mut self, key: ExtentKey, version: u64) -> bool {
        match self.dirty.get_mut(key) {
            None => return false,
            Some(held) if held.version != version => {
                // The origin has the older version: the extent is dirty only since its last write.
                if held.version > version && held.since != held.written {
                    held.since = held.written;
                    let since = held.since;
                    self.note_dirtied(key, since);
                }
                return false;
            }
            Some(_) => {}
        }
        if let Some(Held { target: Some((weu, _)), .. }) = self.dirty.remove(key) {
            self.unpin(key.object(), weu);
        }
        // What records say of it is older than its last write.
        if let Some(Reference::Dup(number)) = self.find(key) {
            self.record_again(number);
        }
        true
    }
}
