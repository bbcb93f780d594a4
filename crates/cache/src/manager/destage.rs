//! Destage: the choice of dirty extents, by the policy of their object.

use super::CacheManager;
use crate::destage::{DirtyExtents, next_in_order};
use crate::dirty::DirtyExtent;
use nitro_units::{ExtentKey, ObjectId};

impl CacheManager {
    /// The dirty extents of an object that its policy destages next, in order of offset: up to `count` of those that
    /// became dirty at second `before` or earlier. An empty result ends a pass over all of them.
    pub fn destage_next(&mut self, object: ObjectId, before: u32, count: usize) -> Vec<DirtyExtent> {
        let kind = self.settings.destage;
        let policy = self.destage.entry(object).or_insert_with(|| kind.build());
        let chosen = next_in_order(&mut **policy, DirtyExtents::of(self.dirty.all_of(object)), before, count);
        let held = |index| {
            let key = ExtentKey::new(object, index);
            self.dirty.get(key).map(|held| self.dirty_extent(key, held))
        };
        chosen.into_iter().filter_map(held).collect()
    }

    /// Notes for an object's policy that an extent became dirty.
    pub(crate) fn note_dirtied(&mut self, key: ExtentKey, since: u32) {
        let kind = self.settings.destage;
        self.destage.entry(key.object()).or_insert_with(|| kind.build()).dirtied(key.index(), since);
    }
}
