//! Reading ahead of sequential streams into RAM, and scan resistance: data of a sequential stream goes to the SSD only
//! when it is read a second time (paper §3).

use super::{Token, Volume};
use crate::kept::{Kept, OVERHEAD_BYTES, Room};
use bytes::Bytes;
use event_listener::Event;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_port::yielding::attempt_at;
use nitro_port::{Clock, Device, Origin};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

/// Ranges waiting to be read ahead; older ones give way.
const WAITING_MAX: usize = 64;
/// Ranges read ahead at once.
pub(crate) const AT_ONCE_MAX: usize = 8;

/// An extent of a sequential stream.
#[derive(Debug, Clone)]
pub(crate) struct Prefetched {
    kept: Kept,
    /// What it keeps alive, together with others of one read.
    _room: Arc<Room>,
    /// Up to which byte of the extent clients have read. A read that begins below it is a second reading.
    pub(super) read_to: u32,
}

#[derive(Debug, Default)]
pub(super) struct ReadaheadQueue {
    ranges: Mutex<VecDeque<Range<u64>>>,
    pushed: Event,
}

impl ReadaheadQueue {
    pub(super) fn push(&self, extents: Range<u64>) {
        let mut ranges = self.ranges.lock();
        if ranges.len() == WAITING_MAX {
            ranges.pop_front();
        }
        ranges.push_back(extents);
        drop(ranges);
        self.pushed.notify(1);
    }

    async fn take(&self) -> Range<u64> {
        attempt_at(&self.pushed, || self.ranges.lock().pop_front()).await
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Reads ahead of sequential readers for as long as it is polled.
    pub async fn readahead_worker(&self) {
        let mut reads = FuturesUnordered::new();
        loop {
            let range = if reads.is_empty() {
                self.readahead.take().await
            } else if reads.len() >= AT_ONCE_MAX {
                reads.next().await;
                continue;
            } else {
                match select(pin!(self.readahead.take()), reads.next()).await {
                    Either::Left((range, _)) => range,
                    Either::Right(_) => continue,
                }
            };
            reads.push(self.read_ahead(range));
        }
    }

    /// Asks for a range of bytes to be read ahead.
    pub(super) fn want_ahead(&self, (from, to): (u64, u64)) {
        let to = to.min(self.size_bytes());
        if from < to {
            self.readahead.push(self.extents(from, to - from));
        }
    }

    async fn read_ahead(&self, extents: Range<u64>) {
        let mut first = extents.start;
        while first < extents.end {
            let wanted = |index: &u64| !self.is_at_hand(*index);
            let Some(start) = (first..extents.end).find(wanted) else { return };
            let end = (start..extents.end).take_while(wanted).last().map_or(start, |last| last + 1);
            first = end;
            if !self.flights.is_idle(&(start..end)) {
                continue;
            }
            let (_, range, Some(reading)) = self.flights.start(start..end) else { continue };
            first = range.end;
            if self.first_dirty(range.clone()).is_some() {
                continue; // it is at hand now
            }
            self.metrics.readahead_extents.add(range.end - range.start);
            let result = self.read_missing(range).await.map(|(read, _)| read);
            let miss = reading.miss.clone();
            // Copied here, where no client waits, they need not be when clients read them one by one.
            let own =
                |extents: &Vec<Bytes>| extents.iter().map(|extent| Kept::own(Bytes::copy_from_slice(extent))).collect();
            let keep = result.as_ref().map_or_else(|_| Vec::new(), own);
            for (index, kept, token) in reading.finish(result, keep) {
                let read_to = if miss.is_joined(index) { self.extent_bytes() as u32 } else { 0 };
                let room = self.cache.prefetched_bytes.take(self.extent_bytes() + OVERHEAD_BYTES);
                self.hold_back(index, kept, read_to, &token, &room);
            }
        }
    }

    /// Whether an extent is in RAM or on the SSD.
    fn is_at_hand(&self, index: u64) -> bool {
        let key = self.key(index);
        self.cache.prefetched.lock().peek(&key).is_some()
            || self.cache.ram.lock().peek(&key).is_some()
            || self.cache.manager.lock().peek(key).is_some()
    }

    /// Keeps an extent of a sequential stream in RAM, away from the SSD, unless it has been written to since.
    pub(super) fn hold_back(&self, index: u64, kept: Kept, read_to: u32, token: &Arc<Token>, room: &Arc<Room>) {
        let weight = kept.bytes().len() as u64;
        let mut prefetched = self.cache.prefetched.lock();
        // A writer makes the token void before it comes here to remove the extent.
        if !token.is_void() {
            prefetched.insert(self.key(index), Prefetched { kept, _room: room.clone(), read_to }, weight);
        }
        // What is left of a read keeps all of it alive.
        while self.cache.prefetched_bytes.is_over() && prefetched.pop_oldest().is_some() {}
        drop(prefetched);
        self.flights.settle(index, token);
    }

    /// Takes bytes `within` of an extent from what was read ahead. `true`: it has been read before, and deserves the SSD
    /// now.
    pub(super) fn take_ahead(&self, index: u64, within: Range<u32>) -> Option<(Kept, bool)> {
        let mut prefetched = self.cache.prefetched.lock();
        if prefetched.is_empty() {
            return None;
        }
        let key = self.key(index);
        let held = prefetched.get(&key)?;
        let again = within.start < held.read_to;
        held.read_to = held.read_to.max(within.end);
        let kept = held.kept.clone();
        if again {
            prefetched.remove(&key);
        }
        Some((kept, again))
    }
}
