//! Pins of extents: they are stored in the journal, so that they survive a restart.

use crate::cache::Cache;
use crate::error::Error;
use nitro_cache::pins::{PIN_STEP_EXTENTS, PINS_PER_VOLUME, PinRanges, with_range};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentIndex, ObjectId};
use std::fmt;
use std::ops::Range;

/// Steps after which other tasks of the thread run.
const STEPS_PER_TURN: usize = 16;

/// Why extents are not pinned.
#[derive(Debug)]
pub enum PinError {
    /// There are no such extents, or none at all.
    Range,
    /// The volume would have more than so many pinned ranges.
    Ranges(usize),
    /// The journal has no room for more of them.
    Room,
    /// The pins would exceed what the cache can guarantee.
    Promised(nitro_cache::class::ClassError),
    /// It could not be made durable.
    Journal(Error),
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range => f.write_str("there are no such extents"),
            Self::Ranges(most) => write!(f, "a volume has at most {most} pinned ranges that do not touch"),
            Self::Room => f.write_str("the journal has no room for more pinned ranges"),
            Self::Promised(error) => error.fmt(f),
            Self::Journal(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PinError {}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Pins or unpins extents of a volume that the cache knows, by their numbers: pinned extents stay cached. The
    /// change is durable when this returns. Pinned extents that are not cached yet are inserted when they are read or
    /// written next.
    ///
    /// # Errors
    /// [`PinError`]; nothing has changed, except after [`PinError::Journal`].
    pub async fn pin(&self, object: ObjectId, extents: Range<u64>, pinned: bool) -> Result<(), PinError> {
        if extents.start >= extents.end || extents.end > ExtentIndex::MAX.0 {
            return Err(PinError::Range);
        }
        // One after the other: the list that the journal has and what the manager goes by are changed apart.
        let _turn = self.pinning.lock().await;
        let ranges = with_range(&self.volumes.pins(object), &extents, pinned);
        if pinned {
            if ranges.len() > PINS_PER_VOLUME {
                return Err(PinError::Ranges(PINS_PER_VOLUME));
            }
            let manager = self.manager.lock();
            let len = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
            let others = manager.pinned_extents().0 - len(manager.pins(object));
            let dirty = self.live().dirty_max_percent;
            manager.check_pins(others.saturating_add(len(&ranges)), dirty).map_err(PinError::Promised)?;
        } else if ranges.len() > PINS_PER_VOLUME {
            return Err(PinError::Ranges(PINS_PER_VOLUME));
        }
        if !self.volumes.set_pins(object, ranges, self.budget.volumes_bytes) {
            return Err(PinError::Room);
        }
        let mut steps = 0;
        let mut from = extents.start;
        while from < extents.end {
            let to = extents.end.min(from + PIN_STEP_EXTENTS);
            self.manager.lock().set_pinned(object, &(from..to), pinned);
            (from, steps) = (to, steps + 1);
            if steps % STEPS_PER_TURN == 0 {
                yield_now().await;
            }
        }
        self.sync().await.map_err(PinError::Journal)
    }

    /// The pinned ranges of a volume, by the numbers of its extents.
    pub fn pins(&self, object: ObjectId) -> PinRanges {
        self.volumes.pins(object)
    }

    /// Extents that are pinned, and how many of them are cached.
    pub fn pinned_extents(&self) -> (u64, u64) {
        self.manager.lock().pinned_extents()
    }
}
