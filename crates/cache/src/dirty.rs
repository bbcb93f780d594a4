//! The dirty list: extents that are not in the origin yet (write-back, paper §3), in order of offset, so that destage
//! can merge neighbours and hard disks seek less.

use crate::weu::Location;
use nitro_units::{ExtentIndex, ExtentKey, ObjectId, WeuId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A dirty extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirtyExtent {
    /// Its name.
    pub key: ExtentKey,
    /// The version of its content, the argument of [`CacheManager::cleaned`](crate::CacheManager::cleaned).
    pub version: u64,
    /// The location of its content; `None`: it is lost.
    pub location: Option<Location>,
    /// It is in the origin, and the journal record of this is being written.
    pub cleaning: bool,
    /// Its content is lost, or could not be read for destage.
    pub unreadable: bool,
}

/// The position of dirty content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) version: u64,
    /// `None`: lost.
    pub(crate) target: Option<(WeuId, u16)>,
    /// When it became dirty, in seconds of the caller's clock, or when it was written to while an older version was
    /// being destaged.
    pub(crate) since: u32,
    /// The last write, in the same seconds.
    pub(crate) written: u32,
    /// It is in the origin, and the journal record of this is being written.
    pub(crate) cleaning: bool,
    /// It could not be read for destage.
    pub(crate) unreadable: bool,
}

impl Held {
    pub(crate) fn new(version: u64, target: Option<(WeuId, u16)>, since: u32) -> Self {
        Self { version, target, since, written: since, cleaning: false, unreadable: false }
    }

    /// Whether it can be destaged, as far as known.
    pub(crate) fn is_readable(&self) -> bool {
        self.target.is_some() && !self.unreadable
    }
}

/// All dirty extents of a cache.
#[derive(Debug, Default)]
pub(crate) struct DirtyList {
    objects: BTreeMap<ObjectId, BTreeMap<ExtentIndex, Held>>,
    len: u64,
    /// Objects whose origins refuse writes.
    stuck: BTreeSet<ObjectId>,
    /// Pins of WEUs with content that was replaced by newer content, but which the journal still names.
    superseded: Vec<(ObjectId, WeuId)>,
    pins: Pins,
}

/// The number of pins, by object and WEU.
#[derive(Debug, Default)]
struct Pins {
    each: HashMap<(ObjectId, WeuId), u32>,
    /// Number of WEUs that an object pins.
    weus: BTreeMap<ObjectId, u32>,
}

impl DirtyList {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn count(&self, object: ObjectId) -> u64 {
        self.objects.get(&object).map_or(0, |all| all.len() as u64)
    }

    pub(crate) fn get(&self, key: ExtentKey) -> Option<Held> {
        if self.len == 0 {
            return None;
        }
        self.objects.get(&key.object())?.get(&key.index()).copied()
    }

    /// Inserts an extent; returns its former entry.
    pub(crate) fn insert(&mut self, key: ExtentKey, held: Held) -> Option<Held> {
        let old = self.objects.entry(key.object()).or_default().insert(key.index(), held);
        self.len += u64::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, key: ExtentKey) -> Option<Held> {
        let all = self.objects.get_mut(&key.object())?;
        let old = all.remove(&key.index());
        if all.is_empty() {
            self.objects.remove(&key.object());
        }
        self.len -= u64::from(old.is_some());
        old
    }

    /// All extents of an object.
    pub(crate) fn all_of(&self, object: ObjectId) -> Option<&BTreeMap<ExtentIndex, Held>> {
        self.objects.get(&object)
    }

    pub(crate) fn get_mut(&mut self, key: ExtentKey) -> Option<&mut Held> {
        self.objects.get_mut(&key.object())?.get_mut(&key.index())
    }

    /// The extents of an object from `from` on, in order of offset.
    pub(crate) fn from(&self, object: ObjectId, from: ExtentIndex) -> impl Iterator<Item = (ExtentKey, Held)> + '_ {
        let all = self.objects.get(&object);
        all.into_iter()
            .flat_map(move |all| all.range(from..))
            .map(move |(index, held)| (ExtentKey::new(object, *index), *held))
    }

    pub(crate) fn set_stuck(&mut self, object: ObjectId, stuck: bool) {
        if stuck {
            self.stuck.insert(object);
        } else {
            self.stuck.remove(&object);
        }
    }

    /// The objects with dirty extents whose origins accept writes.
    pub(crate) fn moving(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.objects().filter(|object| !self.stuck.contains(object))
    }

    /// The objects with dirty extents.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.objects.keys().copied()
    }

    pub(crate) fn supersede(&mut self, object: ObjectId, weu: WeuId) {
        self.superseded.push((object, weu));
    }

    pub(crate) fn take_superseded(&mut self) -> Vec<(ObjectId, WeuId)> {
        std::mem::take(&mut self.superseded)
    }

    /// Counts a pin of a WEU for an object's content.
    pub(crate) fn pin(&mut self, object: ObjectId, weu: WeuId) {
        let pins = self.pins.each.entry((object, weu)).or_default();
        *pins += 1;
        if *pins == 1 {
            *self.pins.weus.entry(object).or_default() += 1;
        }
    }

    /// Removes a counted pin.
    pub(crate) fn unpin(&mut self, object: ObjectId, weu: WeuId) {
        let Some(pins) = self.pins.each.get_mut(&(object, weu)) else { return };
        *pins -= 1;
        if *pins > 0 {
            return;
        }
        self.pins.each.remove(&(object, weu));
        if let Some(weus) = self.pins.weus.get_mut(&object) {
            *weus -= 1;
            if *weus == 0 {
                self.pins.weus.remove(&object);
            }
        }
    }

    /// Number of WEUs that an object's content pins.
    pub(crate) fn pinned(&self, object: ObjectId) -> u32 {
        self.pins.weus.get(&object).copied().unwrap_or(0)
    }

    /// RAM of one extent in bytes, with the slack of the tree.
    pub(crate) const EXTENT_RAM_BYTES: u64 = 56;

    pub(crate) fn ram_bytes(&self) -> usize {
        (self.len * Self::EXTENT_RAM_BYTES) as usize
    }
}
