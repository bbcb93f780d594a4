//! Frozen content: an object's dirty content at one moment, which stays readable while clients overwrite it, until it was copied.
//!
//! What is overwritten is kept where it is, pinned, beside the newer content: a client that waited until the older one was copied
//! would wait for an origin, and a copy made in its place would cost it a read of the SSD.

use super::CacheManager;
use crate::dirty::{DirtyExtent, Held};
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};
use std::collections::BTreeMap;

/// The frozen content of an object.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The version of the last change before that moment.
    version: u64,
    /// All before this extent was copied.
    from: ExtentIndex,
    /// What was overwritten since.
    kept: BTreeMap<ExtentIndex, Held>,
    /// An extent whose content was lost when it was overwritten: it cannot be copied any more.
    lost: Option<ExtentIndex>,
}

/// Some frozen extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenExtents {
    /// In order of offset.
    pub extents: Vec<DirtyExtent>,
    /// The extent to continue with; `None`: there are no more.
    pub next: Option<ExtentIndex>,
}

impl CacheManager {
    /// Freezes the dirty content of an object, of which none is frozen, as it is now. Returns the version of the last change before.
    pub fn freeze(&mut self, object: ObjectId) -> u64 {
        debug_assert!(!self.frozen.contains_key(&object), "{object:?} is frozen already");
        let version = self.version;
        let frozen = Frozen { version, from: ExtentIndex(0), kept: BTreeMap::new(), lost: None };
        self.frozen.insert(object, frozen);
        version
    }

    /// Among `count` dirty extents of an object from `from` on, those that are frozen, with the content that they had then.
    #[must_use]
    pub fn frozen_from(&self, object: ObjectId, from: ExtentIndex, count: usize) -> FrozenExtents {
        let none = FrozenExtents { extents: Vec::new(), next: None };
        let Some(frozen) = self.frozen.get(&object) else { return none };
        let mut rest = self.dirty.from(object, from);
        let mut some: BTreeMap<ExtentIndex, Held> = BTreeMap::new();
        for (key, held) in rest.by_ref().take(count) {
            if held.version <= frozen.version {
                some.insert(key.index(), held);
            }
        }
        // What was overwritten is dirty still, so that it is among them.
        let next = rest.next().map(|(key, _)| key.index());
        let kept = frozen.kept.range(from..).take_while(|(index, _)| next.is_none_or(|next| **index < next));
        some.extend(kept.map(|(index, held)| (*index, *held)));
        let extents = some.into_iter();
        let extents = extents.map(|(index, held)| self.dirty_extent(ExtentKey::new(object, index), held)).collect();
        FrozenExtents { extents, next }
    }

    /// A frozen extent that was overwritten when its content had been lost, if there is one.
    #[must_use]
    pub fn lost_frozen(&self, object: ObjectId) -> Option<ExtentIndex> {
        self.frozen.get(&object).and_then(|frozen| frozen.lost)
    }

    /// Releases the frozen content before an extent, which was copied.
    pub fn thaw_before(&mut self, object: ObjectId, to: ExtentIndex) {
        let Some(frozen) = self.frozen.get_mut(&object) else { return };
        frozen.from = to;
        let rest = frozen.kept.split_off(&to);
        let copied = std::mem::replace(&mut frozen.kept, rest);
        self.release_kept(object, copied);
    }

    /// Releases frozen content of an object, which is frozen no longer: that of at most `count` extents. Returns whether there is more.
    pub fn thaw_some(&mut self, object: ObjectId, count: usize) -> bool {
        let Some(frozen) = self.frozen.get_mut(&object) else { return false };
        frozen.from = ExtentIndex(u64::MAX);
        let to = frozen.kept.keys().nth(count).copied();
        match to {
            Some(to) => {
                let rest = frozen.kept.split_off(&to);
                let some = std::mem::replace(&mut frozen.kept, rest);
                self.release_kept(object, some);
                true
            }
            None => {
                let rest = std::mem::take(&mut frozen.kept);
                self.frozen.remove(&object);
                self.release_kept(object, rest);
                false
            }
        }
    }

    fn release_kept(&mut self, object: ObjectId, kept: BTreeMap<ExtentIndex, Held>) {
        for (weu, _) in kept.into_values().filter_map(|held| held.target) {
            self.unpin(object, weu);
        }
    }

    /// To be called when dirty content is replaced by newer dirty content: keeps it if it is frozen.
    pub(crate) fn keep_frozen(&mut self, key: ExtentKey, old: Held) {
        let Some(frozen) = self.frozen.get_mut(&key.object()) else { return };
        if old.version > frozen.version || key.index() < frozen.from {
            return;
        }
        if !old.is_readable() {
            frozen.lost = Some(key.index());
        }
        if let Some((weu, _)) = old.target {
            frozen.kept.insert(key.index(), old);
            self.pin(key.object(), weu);
        }
    }

    /// Among `count` dirty extents of an object from `from` on, those whose content is of this version or an older one.
    #[must_use]
    pub fn dirty_up_to(&self, object: ObjectId, version: u64, from: ExtentIndex, count: usize) -> FrozenExtents {
        let mut rest = self.dirty.from(object, from);
        let some = rest.by_ref().take(count).filter(|(_, held)| held.version <= version);
        let extents = some.map(|(key, held)| self.dirty_extent(key, held)).collect();
        FrozenExtents { extents, next: rest.next().map(|(key, _)| key.index()) }
    }
}
