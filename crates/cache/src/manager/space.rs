//! The use of the cache's space.

use super::CacheManager;
use crate::weu::{Space, Unit};
use std::ops::Range;

impl CacheManager {
    /// Adds the bytes of a range of units; in several calls, so that the manager is not locked for long.
    pub fn add_space(&self, weus: Range<u32>, space: &mut Space) {
        self.weus.add_space(weus, space);
    }

    /// As [`add_space`](Self::add_space), by device: as many as there are elements in `spaces`.
    pub fn add_space_by_device(&self, weus: Range<u32>, spaces: &mut [Space]) {
        let devices = spaces.len().max(1) as u32;
        for weu in weus {
            if let Some(space) = spaces.get_mut((weu % devices) as usize) {
                self.weus.add_space(weu..weu + 1, space);
            }
        }
    }

    /// The units with these numbers; numbers without a unit are skipped.
    pub fn units(&self, weus: impl Iterator<Item = u32>) -> impl Iterator<Item = Unit> {
        self.weus.units(weus)
    }
}
