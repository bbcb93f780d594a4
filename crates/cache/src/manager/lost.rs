//! Loss of a device of a cache that has several: what it held is dropped, and its slots are retired.

use super::CacheManager;
use crate::weu::{LostDevices, SlotState};
use nitro_units::{ExtentIndex, ObjectId, WeuId};

/// The progress of retiring a slot of a lost device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retirement {
    /// The slot is retired.
    Done,
    /// The slot is being emptied, here or by another caller: [`CacheManager::evict_step`]s follow.
    Emptying,
    /// The slot is being filled, written or discarded: it is retired once this has ended.
    Busy,
}

impl CacheManager {
    /// From now on, slots on lost devices are not opened, and no new journal record names their content. Dirty content
    /// there is lost by [`lose_dirty`](Self::lose_dirty), the slots are retired by [`retire_lost`](Self::retire_lost).
    pub fn lose_devices(&mut self, lost: LostDevices) {
        self.weus.lose(lost);
    }

    /// The devices whose slots are not opened.
    #[must_use]
    pub const fn lost_devices(&self) -> LostDevices {
        self.weus.lost()
    }

    /// Notes that dirty content on lost devices is lost, for up to `count` dirty extents of an object from `from` on:
    /// the extents stay dirty, without content. Content that the origin has already is not counted. Returns the number
    /// of extents that were lost here, with the first of them, and the extent to continue with; `None`: there is none.
    pub fn lose_dirty(
        &mut self,
        object: ObjectId,
        from: ExtentIndex,
        count: usize,
    ) -> (u64, Option<ExtentIndex>, Option<ExtentIndex>) {
        let devices = self.weus.lost();
        let mut extents = self.dirty.from(object, from);
        let lost: Vec<_> = extents
            .by_ref()
            .take(count)
            .filter_map(|(key, held)| {
                let (weu, _) = held.target.filter(|(weu, _)| devices.has(*weu) && !held.cleaning)?;
                Some((key, weu))
            })
            .collect();
        let next = extents.next().map(|(key, _)| key.index());
        drop(extents);
        for (key, weu) in &lost {
            if let Some(held) = self.dirty.get_mut(*key) {
                held.target = None;
            }
            self.unpin(object, *weu);
        }
        (lost.len() as u64, lost.first().map(|(key, _)| key.index()), next)
    }

    /// Begins to retire a slot of a lost device, whose dirty content is lost already.
    pub fn retire_lost(&mut self, weu: WeuId) -> Retirement {
        match self.weus.state(weu) {
            SlotState::Retired => Retirement::Done,
            SlotState::Clearing => Retirement::Emptying,
            SlotState::Stored if !self.weus.is_leaving(weu) => {
                self.begin_retiring(weu);
                Retirement::Emptying
            }
            // Unread ones come to be free, or stored, when the restart has read them.
            _ => Retirement::Busy,
        }
    }

    /// Slots that are not on lost devices.
    #[must_use]
    pub fn usable_weus(&self) -> u32 {
        self.weus.len() - self.weus.lost().slots_lost(self.weus.len())
    }
}
