//! Treatment of extents that were read from the origin.

use super::Span;
use crate::error::Error;
use crate::insert::{Content, Job};
use crate::kept::{Kept, Room, settle};
use crate::volume::flights::{Reading, Start};
use crate::volume::{Token, Volume};
use bytes::Bytes;
use nitro_cache::admission::Provenance;
use nitro_cache::{Gone, builtin};
use nitro_port::{Clock, Device, Origin, Urgency};
use nitro_units::{ClassId, ExtentIndex, ExtentRange, Fingerprint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How to treat an extent that was read from the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It is inserted, unless the queue is full.
    Insert,
    /// It is inserted; the request waits for room in the queue.
    Wait,
    /// It is kept in RAM: part of a sequential stream.
    HoldBack,
}

/// How extents enter the insertion queue.
#[derive(Clone, Copy)]
pub(in crate::volume) struct Entrance<'a> {
    /// Where their contents come from.
    pub(in crate::volume) from: Provenance,
    /// The room that they take in the queue.
    pub(in crate::volume) room: &'a Arc<Room>,
}

/// How to treat extents that were read from the origin, the class of the read, and the class by the pattern of the
/// requests if the read has none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    pub(super) then: Then,
    pub(super) class: ClassId,
    pub(super) pattern: ClassId,
    /// The order in which the read waits for SSD and origin.
    pub(super) urgency: Urgency,
}

impl Fill {
    /// The class of the read, its own or by the pattern of the requests.
    pub(super) fn by(self) -> ClassId {
        if self.class.is_classified() { self.class } else { self.pattern }
    }

    /// The provenance of content that the read brings.
    fn provenance(self) -> Provenance {
        Provenance { pattern: self.pattern, ..Provenance::read(self.class) }
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Queues an extent for insertion that a stream brought into RAM and that is read again; it was in RAM when its write
    /// epoch was `epoch`. Does nothing if another operation on it is in progress.
    pub(super) fn promote(&self, index: ExtentIndex, bytes: Bytes, epoch: u32, fill: Fill) {
        if self.fill_paused() {
            return;
        }
        if let (Start::Own, _, Some(reading)) = self.flights.start(ExtentRange::one(index)) {
            // Only now: a volume that leaves its cache makes the fills void that it finds.
            if !self.is_cached() {
                return;
            }
            // From here on a write makes the fill void; one that came before has raised the epoch.
            if self.write_epoch(index).load(Ordering::SeqCst) != epoch {
                return;
            }
            let mut keep = vec![Kept::own(bytes.clone())];
            let Some(room) = self.admit_fills(&mut keep) else { return };
            let from = Provenance { pattern: builtin::used_again(builtin::SCAN, fill.pattern), ..fill.provenance() };
            for (index, kept, token) in reading.finish(Ok(vec![bytes]), keep) {
                let entrance = Entrance { from, room: &room };
                self.enqueue(index, Content::Whole(kept, None), token, entrance);
            }
        }
    }

    /// Completes a read of the origin, and inserts or keeps its extents.
    pub(super) async fn keep(
        &self,
        reading: Reading,
        result: Result<Vec<Bytes>, Error>,
        known: impl Fn(ExtentIndex) -> Option<Fingerprint>,
        fill: Fill,
        span: Span,
    ) {
        let mut keep = match &result {
            Ok(extents) if self.is_cached() && !self.fill_paused() => Kept::parts(extents, &self.cache.zero_extent),
            _ => Vec::new(),
        };
        let from = fill.provenance();
        match fill.then {
            Then::Insert => self.insert_read(reading, result, keep, known, from),
            Then::Wait => {
                let held = settle(keep.iter_mut());
                let kept = reading.finish(result, keep);
                let room = self.cache.queue.admit_wait(held).await;
                for (index, kept, token) in kept {
                    match &room {
                        Some(room) => {
                            self.enqueue(index, Content::Whole(kept, known(index)), token, Entrance { from, room });
                        }
                        None => self.flights.settle(index, &token),
                    }
                }
            }
            Then::HoldBack => {
                let held = settle(keep.iter_mut());
                let kept = reading.finish(result, keep);
                self.metrics.bypassed_extents.add(kept.len() as u64);
                self.hold_back(kept, |index| self.within(index, span).end as u32, held);
            }
        }
    }

    /// Completes a read of the origin, and queues the extents `keep` of it for insertion, if there is room.
    pub(in crate::volume) fn insert_read(
        &self,
        reading: Reading,
        result: Result<Vec<Bytes>, Error>,
        mut keep: Vec<Kept>,
        known: impl Fn(ExtentIndex) -> Option<Fingerprint>,
        from: Provenance,
    ) {
        let missed = reading.miss.extents.iter().take(keep.len());
        let room = self.admit_fills(&mut keep);
        if room.is_none() {
            self.note_gone(missed, Gone::Dropped);
        }
        for (index, kept, token) in reading.finish(result, keep) {
            if let Some(room) = &room {
                self.enqueue(index, Content::Whole(kept, known(index)), token, Entrance { from, room });
            }
        }
    }

    /// Room in the queue for extents to insert; if there is none, `keep` is cleared.
    fn admit_fills(&self, keep: &mut Vec<Kept>) -> Option<Arc<Room>> {
        if keep.is_empty() {
            return None;
        }
        let room = self.cache.queue.admit(settle(keep.iter_mut()));
        if room.is_none() {
            self.cache.metrics.fills_dropped.add(keep.len() as u64);
            keep.clear();
        }
        room
    }

    pub(in crate::volume) fn job(
        &self,
        index: ExtentIndex,
        content: Content,
        token: Arc<Token>,
        Entrance { from, room }: Entrance<'_>,
    ) -> Job {
        let (key, flights) = (self.key(index), self.flights.clone());
        Job { key, content, from, token, flights, room: Some(room.clone()) }
    }

    /// Queues an extent for insertion.
    pub(in crate::volume) fn enqueue(
        &self,
        index: ExtentIndex,
        content: Content,
        token: Arc<Token>,
        entrance: Entrance<'_>,
    ) {
        match self.cache.queue.push(self.job(index, content, token, entrance)) {
            Ok(void) => self.cache.metrics.fills_voided.add(void),
            Err(job) => {
                self.cache.metrics.fills_dropped.add(1);
                self.note_gone(std::iter::once(index), Gone::Dropped);
                self.flights.settle(index, &job.token);
            }
        }
    }
}
