//! Why reads hit and miss.

use super::Volume;
use crate::metrics::{Counter, VolumeMetrics};
use nitro_cache::{Gone, Worth};
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, WeuId};
use std::ops::Range;

/// What the cache knows of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Its first byte in the volume, and how many it has there.
    pub range: Range<u64>,
    /// The origin has not got it.
    pub dirty: bool,
    /// It is on its way into the cache.
    pub pending: bool,
    /// The RAM cache has it.
    pub in_ram: bool,
    /// It stays in the cache once it is there.
    pub pinned: bool,
    /// Where the SSD has it.
    pub stored: Option<StoredAt>,
    /// Why the SSD has not, if that is remembered.
    pub gone: Option<Gone>,
}

/// Where an extent is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredAt {
    /// The write-evict unit.
    pub weu: WeuId,
    /// Bytes read for it; 0: it is all zero.
    pub read_bytes: u64,
    /// Its unit is still being filled or written, and has it in RAM.
    pub on_its_way: bool,
    /// What it is worth to the policies.
    pub worth: Worth,
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Counts extents that a read looked for in vain, by why they are not cached; `in_stream`: those of its kind are kept off the SSD.
    pub(super) fn note_missed(&self, missed: Range<u64>, in_stream: bool) {
        for index in missed {
            let gone = self.cache.manager.lock().why_gone(self.key(index));
            counter(&self.metrics, gone, in_stream).add(1);
        }
    }

    /// Notes for each of some extents why it will not be cached.
    pub(super) fn note_gone(&self, extents: impl Iterator<Item = u64>, gone: Gone) {
        for index in extents {
            self.cache.manager.lock().note_gone(self.key(index), gone);
        }
    }

    /// What the cache knows of the extent at an offset; changes nothing. `None`: the volume ends before it.
    #[must_use]
    pub fn explain(&self, offset: u64) -> Option<Explained> {
        self.check_range(offset, 1).ok()?;
        let (extent_bytes, index) = (self.extent_bytes(), ExtentIndex(offset / self.extent_bytes()));
        let (key, start) = (self.key(index.0), index.0 * extent_bytes);
        let in_ram = self.cache.ram.lock().peek(&key).is_some();
        let pending = self.flights.pending(index.0).is_some();
        let manager = self.cache.manager.lock();
        let stored = manager.peek(key).map(|location| StoredAt {
            weu: location.weu,
            read_bytes: location.span().len() as u64,
            on_its_way: location.in_ram,
            worth: manager.worth(&location),
        });
        let gone = if stored.is_none() { manager.why_gone(key) } else { None };
        let range = start..(start + extent_bytes).min(self.size_bytes());
        let (dirty, pinned) = (manager.is_dirty(key), manager.is_pinned(key));
        Some(Explained { range, dirty, pending, in_ram, pinned, stored, gone })
    }
}

fn counter(metrics: &VolumeMetrics, gone: Option<Gone>, in_stream: bool) -> &Counter {
    match gone {
        Some(Gone::Evicted) => &metrics.missed_evicted,
        Some(Gone::Overwritten) => &metrics.missed_overwritten,
        Some(Gone::Refused) => &metrics.missed_refused,
        Some(Gone::Dropped) => &metrics.missed_dropped,
        Some(Gone::Invalidated) => &metrics.missed_invalidated,
        None if in_stream => &metrics.missed_stream,
        None => &metrics.missed_cold,
    }
}
