//! Read-ahead of sequential streams into RAM, and scan resistance: data of a sequential stream go to the SSD only when
//! they are read a second time (paper §3).

use super::{Token, Volume, remainder};
use crate::kept::{Kept, OVERHEAD_BYTES};
use bytes::Bytes;
use event_listener::Event;
use futures_util::future::{Either, join, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_cache::pattern::Access;
use nitro_port::yielding::attempt_at;
use nitro_port::{Clock, Device, Origin, Urgency};
use nitro_units::{ExtentIndex, ExtentRange};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

/// Maximum number of wishes of each kind that wait; the oldest ones are dropped.
const WAITING_MAX: usize = 64;
/// Ranges read ahead at once.
pub(crate) const AT_ONCE_MAX: usize = 8;

/// What is wanted from the origin, and that no client waits for.
#[derive(Debug)]
pub(crate) struct Wanted<T> {
    waiting: Mutex<VecDeque<T>>,
    pushed: Event,
}

impl<T> Default for Wanted<T> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), pushed: Event::new() }
    }
}

impl<T> Wanted<T> {
    /// Adds a wish; returns whether the oldest one was dropped for it.
    pub(super) fn push(&self, wish: T) -> bool {
        let mut waiting = self.waiting.lock();
        let is_full = waiting.len() == WAITING_MAX;
        if is_full {
            waiting.pop_front();
        }
        waiting.push_back(wish);
        drop(waiting);
        self.pushed.notify(1);
        is_full
    }

    async fn take(&self) -> T {
        attempt_at(&self.pushed, || self.waiting.lock().pop_front()).await
    }

    /// Fulfils wishes, so many at once, as long as it is polled.
    async fn fulfil<R: Future>(&self, at_once: usize, fulfilled: impl Fn(T) -> R) {
        let mut reads = FuturesUnordered::new();
        loop {
            let wish = if reads.is_empty() {
                self.take().await
            } else if reads.len() >= at_once {
                reads.next().await;
                continue;
            } else {
                match select(pin!(self.take()), reads.next()).await {
                    Either::Left((wish, _)) => wish,
                    Either::Right(_) => continue,
                }
            };
            reads.push(fulfilled(wish));
        }
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Reads ahead of sequential readers, and what parts of extents that were written are worth, as long as it is polled.
    pub async fn readahead_worker(&self) {
        let ahead = self.readahead.fulfil(AT_ONCE_MAX, |extents| self.read_ahead(extents));
        join(ahead, self.remainders.fulfil(remainder::AT_ONCE_MAX, |wanted| self.read_remainder(wanted))).await;
    }

    /// Requests the read-ahead that follows from an access.
    pub(super) fn want_ahead(&self, access: Access) {
        let (from, to) = access.readahead;
        let to = to.min(self.size_bytes());
        if from < to {
            self.readahead.push(self.extents(from, to - from));
        }
    }

    async fn read_ahead(&self, extents: ExtentRange) {
        let mut first = extents.start;
        while first < extents.end {
            let wanted = |index| !self.is_at_hand(index);
            let rest = ExtentRange::new(first, extents.end);
            let Some(start) = rest.iter().find(|index| wanted(*index)) else { return };
            let missing = ExtentRange::new(start, extents.end).take_while(wanted);
            first = missing.end;
            if missing.is_empty() || !self.flights.is_idle(missing) {
                continue;
            }
            let (_, range, Some(reading)) = self.flights.start(missing) else { continue };
            first = range.end;
            if self.first_dirty(range).is_some() {
                continue; // it is at hand now
            }
            self.metrics.readahead_extents.add(range.count());
            // One run after the other, as in the simulator.
            let Some(result) = self.read_missing(&[range], Urgency::Normal).await.runs.pop() else { return };
            let miss = reading.miss.clone();
            // Copied here, where no client waits, they need not be when clients read them one by one.
            let own =
                |extents: &Vec<Bytes>| extents.iter().map(|extent| Kept::own(Bytes::copy_from_slice(extent))).collect();
            let keep = result.as_ref().map_or_else(|_| Vec::new(), own);
            let read_to = |index| if miss.is_joined(index) { self.extent_bytes() as u32 } else { 0 };
            for extent in reading.finish(result, keep) {
                self.hold_back(vec![extent], read_to, self.extent_bytes() + OVERHEAD_BYTES);
            }
        }
    }

    /// Whether an extent is in RAM or on the SSD.
    pub(super) fn is_at_hand(&self, index: ExtentIndex) -> bool {
        let key = self.key(index);
        self.cache.ahead.lock().has(&key)
            || self.cache.ram.lock().peek(&key).is_some()
            || self.cache.manager.lock().peek(key).is_some()
    }

    /// Keeps extents of a sequential stream in RAM and off the SSD, except those that have been written to since. They
    /// come from one read and keep `held` bytes of memory; clients have read each extent up to the byte in `read_to`.
    pub(super) fn hold_back(
        &self,
        extents: Vec<(ExtentIndex, Kept, Arc<Token>)>,
        read_to: impl Fn(ExtentIndex) -> u32,
        held: u64,
    ) {
        let mut ahead = self.cache.ahead.lock();
        let attached = self.is_attached();
        // A writer makes the token void before it comes here to remove the extent.
        let valid = extents.iter().filter(|(_, _, token)| attached && !token.is_void());
        ahead.hold(valid.map(|(index, kept, _)| (self.key(*index), kept.clone(), read_to(*index))), held);
        drop(ahead);
        extents.iter().for_each(|(index, _, token)| self.flights.settle(*index, token));
    }
}
