//! Why reads hit and miss.

use super::Volume;
use crate::metrics::{Counter, VolumeMetrics};
use nitro_cache::{Gone, Worth};
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentRange, WeuId};
use std::ops::Range;

/// What the cache knows about an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Its first byte in the volume, and how many it has there.
    pub range: Range<u64>,
    /// Its newest content is not in the origin yet.
    pub dirty: bool,
    /// It waits for insertion.
    pub pending: bool,
    /// The RAM cache has it.
    pub in_ram: bool,
    /// It is pinned.
    pub pinned: bool,
    /// Its position on the SSD.
    pub stored: Option<StoredAt>,
    /// Why it is not on the SSD, if this is remembered.
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
    /// Its value for the policies.
    pub worth: Worth,
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Counts the missed extents of a read by cause; `in_stream`: they belong to a stream, which is kept off the SSD.
    pub(super) fn note_missed(&self, missed: ExtentRange, in_stream: bool) {
        for index in missed.iter() {
            let gone = self.cache.manager.lock().why_gone(self.key(index));
            counter(&self.metrics, gone, in_stream).add(1);
        }
    }

    /// Notes for each of some extents why it will not be cached.
    pub(super) fn note_gone(&self, extents: impl Iterator<Item = ExtentIndex>, gone: Gone) {
        for index in extents {
            self.cache.manager.lock().note_gone(self.key(index), gone);
        }
    }

    /// What the cache knows about the extent at an offset; changes nothing. `None`: the offset is behind the volume's
    /// end.
    #[must_use]
    pub fn explain(&self, offset: u64) -> Option<Explained> {
        self.check_range(offset, 1).ok()?;
        let (extent_bytes, index) = (self.extent_bytes(), ExtentIndex(offset / self.extent_bytes()));
        let (key, start) = (self.key(index), index.offset(extent_bytes));
        let in_ram = self.cache.ram.lock().peek(&key).is_some();
        let pending = self.flights.pending(index).is_some();
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
