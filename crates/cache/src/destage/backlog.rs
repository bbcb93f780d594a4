//! Dirty extents of a cache without write-evict units.

use super::{Destage, DestageKind, DirtyExtents, next_in_order};
use crate::dirty::{DirtyList, Held};
use nitro_units::{ExtentKey, ObjectId, WeuId};
use std::collections::BTreeMap;

/// The counterpart of the dirty list of [`CacheManager`](crate::CacheManager) for a cache without write-evict units,
/// such as the simulator's reference policies. The same policies choose the extents to destage.
#[derive(Debug)]
pub struct Backlog {
    kind: DestageKind,
    dirty: DirtyList,
    policies: BTreeMap<ObjectId, Box<dyn Destage>>,
    version: u64,
}

impl Backlog {
    /// A backlog without dirty extents.
    #[must_use]
    pub fn new(kind: DestageKind) -> Self {
        Self { kind, dirty: DirtyList::default(), policies: BTreeMap::new(), version: 0 }
    }

    /// Notes that an extent was written at second `now`.
    pub fn dirtied(&mut self, key: ExtentKey, now: u32) {
        self.version += 1;
        let mut held = Held::new(self.version, Some((WeuId(0), 0)), now);
        let old = self.dirty.get(key);
        if let Some(old) = old {
            held.since = old.since;
        } else {
            let kind = self.kind;
            self.policies.entry(key.object()).or_insert_with(|| kind.build()).dirtied(key.index(), now);
        }
        self.dirty.insert(key, held);
    }

    /// Up to `count` extents of an object to destage next, in order of offset, each with its version: of those that
    /// became dirty at second `before` or earlier. An empty result ends a pass over all of them.
    pub fn destage_next(&mut self, object: ObjectId, before: u32, count: usize) -> Vec<(ExtentKey, u64)> {
        let Some(policy) = self.policies.get_mut(&object) else { return Vec::new() };
        let chosen = next_in_order(&mut **policy, DirtyExtents(self.dirty.all_of(object)), before, count);
        let keys = chosen.into_iter().map(|index| ExtentKey::new(object, index));
        keys.filter_map(|key| self.dirty.get(key).map(|held| (key, held.version))).collect()
    }

    /// The newest version of an extent; `None`: it is not dirty.
    #[must_use]
    pub fn version(&self, key: ExtentKey) -> Option<u64> {
        self.dirty.get(key).map(|held| held.version)
    }

    /// Notes that the origin has this version of an extent. `false`: the extent was written to since, and stays dirty.
    pub fn cleaned(&mut self, key: ExtentKey, version: u64) -> bool {
        if self.dirty.get(key).is_some_and(|held| held.version != version) {
            return false;
        }
        self.dirty.remove(key);
        true
    }

    /// Notes that an extent was trimmed: it need not be destaged any more.
    pub fn forget(&mut self, key: ExtentKey) {
        self.dirty.remove(key);
    }

    /// Objects that have dirty extents.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectId> {
        self.dirty.objects().collect()
    }

    /// Dirty extents.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.dirty.len()
    }

    /// Whether nothing is dirty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
