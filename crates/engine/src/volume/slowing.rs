//! How fast the writes of a volume in write-back may come, so that they need not wait for room all at once.

use super::Volume;
use super::mode::WriteMode;
use nitro_cache::destage::Slowing;
use nitro_port::{Clock, Device, Origin};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes of writes after which it is looked at again whether they have to be slowed.
const LOOK_BYTES: u64 = 256 << 10;

/// What has little room left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowedBy {
    /// Dirty data.
    Dirty,
    /// The journal, or the write log.
    Journal,
    /// The RAM of dirty data that wait for the SSD.
    Ram,
    /// The age, or the bytes, by which the origin may be behind its volume.
    Point,
}

/// Writes have to be slowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slowed {
    /// For lack of this.
    pub by: SlowedBy,
    /// Bytes a second that may come.
    pub bytes_per_second: NonZeroU64,
}

/// When it was looked last, and the result.
#[derive(Debug, Default)]
pub(super) struct Looks {
    bytes: AtomicU64,
    is_slowed: AtomicBool,
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Whether a write of so many bytes has to be slowed, and how. Whoever does not heed it waits for room in the write.
    pub fn slowed(&self, bytes: u64) -> Option<Slowed> {
        let since = self.looks.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes);
        if since < LOOK_BYTES && !self.looks.is_slowed.load(Relaxed) {
            return None;
        }
        self.looks.bytes.store(0, Relaxed);
        self.slowed_now()
    }

    /// As [`slowed`](Self::slowed), for writes that wait.
    pub fn slowed_now(&self) -> Option<Slowed> {
        let slowed = self.look();
        if !self.looks.is_slowed.swap(slowed.is_some(), Relaxed) && slowed.is_some() {
            self.destage.wake();
        }
        slowed
    }

    fn look(&self) -> Option<Slowed> {
        // If destage fails, slow writes would only fail later.
        let is_vain = || self.destage_failure().is_some() || self.poisoned().is_some();
        if self.mode() != WriteMode::WriteBack || !self.cache.device_health.is_caching() || is_vain() {
            return None;
        }
        let slowed = |by, slowing: Slowing, used| {
            let slowed = |bytes_per_second| Slowed { by, bytes_per_second };
            slowing.bytes_per_second(used).map(slowed)
        };
        let all = [
            slowed(SlowedBy::Dirty, Slowing::dirty(self.cache.watermarks()), self.cache.dirty_used(self.object())),
            slowed(SlowedBy::Journal, Slowing::JOURNAL, self.cache.journal_used()),
            slowed(SlowedBy::Ram, Slowing::RAM, self.cache.dirty_ram_used()),
            slowed(SlowedBy::Point, Slowing::POINT, self.behind().unwrap_or(0.0)),
        ];
        all.into_iter().flatten().min_by_key(|slowed| slowed.bytes_per_second)
    }

    /// Whether writes are slowed for lack of room for dirty data.
    pub(super) fn lacks_room_soon(&self) -> bool {
        Slowing::dirty(self.cache.watermarks()).bytes_per_second(self.cache.dirty_used(self.object())).is_some()
    }
}
