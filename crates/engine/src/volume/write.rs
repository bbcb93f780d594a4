//! Writes that touch the origin: write-through, trim and zeroes. They are acknowledged when they are in the origin;
//! from then on, no read returns older bytes. Dirty data of their extents are destaged before.

use super::Volume;
use super::context::RequestContext;
use super::flights::{Token, Touches, Writing};
use super::mode::WriteMode;
use super::partial::Before;
use super::read::Entrance;
use super::regions::Intent;
use super::write_back::Written;
use crate::error::Error;
use crate::insert::Content;
use crate::kept::{OVERHEAD_BYTES, Room, settle};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, ready};
use nitro_cache::Gone;
use nitro_cache::admission::{Provenance, WritePolicy};
use nitro_port::buf::{BufMut, held_bytes};
use nitro_port::{Clock, Device, DeviceError, ErrorKind as DeviceErrorKind, Operation, Origin};
use nitro_units::{ExtentIndex, ExtentRange};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Zeroes are written in parts of this size if the origin has no faster way.
const ZERO_BYTES: u64 = 1 << 20;

/// A write of the origin that excludes other writes. If it is dropped before the origin has answered, it may still
/// arrive: its extents then stay locked, and its write-intent regions open.
pub(super) struct OriginWrite<'a, F, C: Clock> {
    writing: Option<Writing>,
    intent: Option<Intent<'a, F, C>>,
    under_way: bool,
}

impl<F, C: Clock> OriginWrite<'_, F, C> {
    /// A request to the origin, from now until it has ended.
    fn during<T>(&mut self, request: impl Future<Output = T>) -> impl Future<Output = T> {
        self.under_way = true;
        // Not async: that future would contain the request twice.
        request.map(|result| {
            self.under_way = false;
            result
        })
    }

    /// See [`Writing::finish`].
    fn finish(mut self, contents: impl Iterator<Item = (ExtentIndex, Content)>) -> Vec<(ExtentIndex, Arc<Token>)> {
        self.writing.take().map_or_else(Vec::new, |writing| writing.finish(contents))
    }
}

impl<F, C: Clock> Drop for OriginWrite<'_, F, C> {
    fn drop(&mut self) {
        if self.under_way {
            std::mem::forget((self.writing.take(), self.intent.take()));
        }
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Writes a range. With `fua`, it is durable before this returns.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::ReadOnly`] or [`Error::Origin`]; after the latter the range holds old or new
    /// bytes, as after a failed write to any disk, and is not cached.
    ///
    /// Waits for the origin without a time limit; see [`change`](Self::change). The future must be polled to its end:
    /// if it is dropped, its write may still be in progress at the origin, and its extents stay locked.
    pub async fn write(&self, offset: u64, data: Bytes, fua: bool) -> Result<(), Error> {
        let pattern = self.pattern(Provenance::written(self.class()), offset, data.len() as u64);
        let context = RequestContext::patient(self.class()).with_pattern(pattern);
        self.write_with(offset, data, fua, &context).await
    }

    pub(super) fn write_with(
        &self,
        offset: u64,
        data: Bytes,
        fua: bool,
        context: &RequestContext,
    ) -> impl Future<Output = Result<(), Error>> {
        let begun = self.cache.clock.now();
        self.metrics.writes.add(1);
        self.metrics.write_bytes.add(data.len() as u64);
        self.classes.written(context.class(), data.len() as u64);
        // Not async: that future would contain the arguments twice.
        self.write_inner(offset, data, fua, context).map(move |result| {
            self.latencies.write.record(self.cache.clock.now().saturating_sub(begun));
            self.counted(result)
        })
    }

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: something failed, now or earlier, and writes acknowledged before may be lost.
    pub async fn flush(&self) -> Result<(), Error> {
        let begun = self.cache.clock.now();
        self.metrics.flushes.add(1);
        let result = self.flush_inner().await;
        self.latencies.flush.record(self.cache.clock.now().saturating_sub(begun));
        self.counted(result)
    }

    /// Tells the origin that the data of a range are not needed. Parts smaller than a block are not changed; if the
    /// origin cannot trim, nothing is changed.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), Error> {
        self.trim_with(offset, len, fua, &RequestContext::patient(self.class())).await
    }

    pub(super) async fn trim_with(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        context: &RequestContext,
    ) -> Result<(), Error> {
        self.metrics.trims.add(1);
        let result = self.trim_inner(offset, len, fua, context).await;
        self.counted(result)
    }

    /// Makes a range read as zeroes. With `may_unmap`, the origin may release its storage. With `fast`, fails with
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported), and changes nothing, if that would take as long as
    /// writing.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        may_unmap: bool,
        fast: bool,
        fua: bool,
    ) -> Result<(), Error> {
        self.zero_with(offset, len, Zeroing { may_unmap, fast }, fua, &RequestContext::patient(self.class())).await
    }

    pub(super) async fn zero_with(
        &self,
        offset: u64,
        len: u64,
        how: Zeroing,
        fua: bool,
        context: &RequestContext,
    ) -> Result<(), Error> {
        self.metrics.write_zeroes.add(1);
        let result = self.zero_inner(offset, len, how, fua, context).await;
        // That it would not be fast is an answer, not a failure.
        if how.fast && result.as_ref().is_err_and(|e| e.kind() == crate::ErrorKind::Unsupported) {
            return result;
        }
        self.counted(result)
    }

    fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.count_failure(error);
        }
        result
    }

    /// Counts a request that failed.
    pub(super) fn count_failure(&self, error: &Error) {
        self.metrics.errors.add(1);
        self.metrics.errors_of_cache.add(error.is_of_cache().into());
    }

    fn check_write(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_range(offset, len)?;
        if self.options.read_only { Err(Error::ReadOnly) } else { self.check_poisoned() }
    }

    pub(super) fn check_poisoned(&self) -> Result<(), Error> {
        self.poisoned().map_or(Ok(()), |reason| Err(Error::Poisoned { reason }))
    }

    async fn flush_inner(&self) -> Result<(), Error> {
        self.check_poisoned()?;
        if self.may_be_dirty() && (self.mode() == WriteMode::WriteBack || self.has_dirty()) {
            self.flush_buffered().await?;
            // Most flushes of a volume in write-back are for the cache alone.
            if self.is_origin_durable() {
                self.freeze_at_flush();
                return Ok(());
            }
        }
        self.flush_origin().await?;
        self.freeze_at_flush();
        Ok(())
    }

    /// Flushes the origin, even if writes are refused.
    ///
    /// # Errors
    /// The origin's.
    pub async fn sync_origin(&self) -> Result<(), DeviceError> {
        self.answered(self.origin.flush()).await
    }

    /// Whether every write of the origin that has returned is durable.
    pub(super) fn is_origin_durable(&self) -> bool {
        self.origin_durable.load(Ordering::SeqCst) == self.origin_writes.load(Ordering::SeqCst)
    }

    /// Makes every write of the origin that has returned durable.
    pub(super) async fn flush_origin(&self) -> Result<(), Error> {
        self.check_poisoned()?;
        let writes = self.origin_writes.load(Ordering::SeqCst);
        self.sync_origin().await.map_err(|error| self.poison(&format_args!("origin: {error}")))?;
        self.origin_durable.fetch_max(writes, Ordering::SeqCst);
        Ok(())
    }

    /// Excludes other writes from some extents, and prevents readers from sharing reads of them; destages their dirty
    /// data, and records in the journal that they may change.
    pub(super) async fn begin_origin_write(
        &self,
        extents: ExtentRange,
        context: &RequestContext,
        found: impl FnMut(ExtentIndex, Content),
    ) -> Result<OriginWrite<'_, F, C>, Error> {
        let writing = self.flights.begin_write(extents, Touches::Origin, context, found).await;
        self.drain(extents).await?;
        // What the log holds of them must not come back over what the origin is about to get.
        self.cache.void_in_log(self.key(extents.start), extents.count()).await?;
        let intent = self.intend(extents).await?;
        let Range { start, end } = extents.bytes(self.extent_bytes());
        context.check(start, end - start)?;
        Ok(OriginWrite { writing: Some(writing), intent, under_way: false })
    }

    /// Not async: that future would contain the arguments twice.
    fn write_inner(
        &self,
        offset: u64,
        data: Bytes,
        fua: bool,
        context: &RequestContext,
    ) -> impl Future<Output = Result<(), Error>> {
        let len = data.len() as u64;
        let mut checked = self.check_write(offset, len);
        if checked.is_ok() && len > 0 && self.mode() == WriteMode::WriteBack {
            checked = self.cache.ledger.failed().map_or(Ok(()), |reason| Err(Error::Poisoned { reason }));
        }
        if checked.is_err() || len == 0 {
            return Either::Left(ready(checked));
        }
        // Nothing goes around a point.
        let restricts = || self.cache.restricts_writes.load(Ordering::Relaxed) && self.points().is_none();
        Either::Right(match self.mode() == WriteMode::WriteBack && restricts() {
            true => Either::Left(Box::pin(self.write_by_class(offset, data, fua, context))),
            false => Either::Right(self.write_alike(offset, data, fua, context)),
        })
    }

    /// A write whose extents become dirty in the cache in write-back. Where others leave no room, or the volume is detached,
    /// the origin gets it at once: it is well.
    pub(super) async fn write_alike(
        &self,
        offset: u64,
        data: Bytes,
        mut fua: bool,
        context: &RequestContext,
    ) -> Result<(), Error> {
        while self.mode() == WriteMode::WriteBack {
            // A change of the mode waits for the writes that it finds under way.
            let is_write_back =
                || self.mode() == WriteMode::WriteBack && self.is_cached() && !self.is_closed_for_points();
            if let Some(buffered) = self.buffering.begin(is_write_back) {
                if self.write_back(offset, data.clone(), fua, context).await? {
                    return Ok(());
                }
                drop(buffered);
            } else if self.is_closed_for_points() {
                Box::pin(self.opened_for_points()).await;
                continue;
            } else if self.points().is_some() {
                return Err(Error::Around { why: "the cache device was given up" });
            }
            // With a log, a write is durable when it is acknowledged, there too.
            fua |= self.cache.promises_durable_writes();
            break;
        }
        self.write_through(offset, data, fua, Keep::Content, context).await
    }

    pub(super) async fn write_through(
        &self,
        offset: u64,
        data: Bytes,
        fua: bool,
        keep: Keep,
        context: &RequestContext,
    ) -> Result<(), Error> {
        let extents = self.extents(offset, data.len() as u64);
        let mut before = Before::default();
        let is_edge = |index: ExtentIndex| index == extents.start || index.next() == extents.end;
        let policy = self.write_policy();
        let updates = policy == WritePolicy::Update;
        // The extents that are cached, wherever; needed to update them alone.
        let mut cached = Vec::new();
        let found = |index, content| {
            if updates {
                cached.push(index);
            }
            if is_edge(index) {
                before.pending(index, content);
            }
        };
        let mut begun = self.begin_origin_write(extents, context, found).await?;
        self.check_edges(extents, offset, data.len() as u64)?;
        self.take_parts(extents, &mut before);
        for index in extents.iter().filter(|index| updates || is_edge(*index)) {
            if let Some(bytes) = self.cache.ram.lock().peek(&self.key(index)) {
                if updates {
                    cached.push(index);
                }
                if is_edge(index) {
                    before.in_ram(index, bytes.clone());
                }
            }
        }
        self.forget_cached(extents, |index, location| {
            if updates {
                cached.push(index);
            }
            if is_edge(index) {
                before.on_ssd(index, location);
            }
        })
        .await;
        cached.sort_unstable();
        let known = self.fingerprints(offset, &data);
        begun.during(self.write_known(offset, data.clone(), &known)).await?;
        self.heal(extents).await?;
        if fua {
            self.flush_origin().await?;
        }
        let (written, from) = (Written { offset, data }, context.provenance());
        let mut contents: Vec<_> = if keep == Keep::Content && self.is_cached() {
            let content = |(i, index)| {
                if !policy.takes(cached.binary_search(&index).is_ok()) {
                    return None;
                }
                let known = known.get(i).copied().flatten();
                Some((index, self.content(index, (&written, from), known, &mut before)?))
            };
            extents.iter().enumerate().filter_map(content).collect()
        } else {
            Vec::new()
        };
        let worth = before.take_worth();
        drop((written, before));
        if let Some(room) = self.admit(&mut contents) {
            let tokens = begun.finish(contents.iter().cloned());
            for ((index, token), (_, content)) in tokens.into_iter().zip(contents) {
                self.enqueue(index, content, token, Entrance { from, room: &room });
            }
        } else {
            drop(begun);
        }
        // Only now: a read of the origin finds no write in progress.
        self.want_remainders(worth);
        Ok(())
    }

    /// Room for contents in the insertion queue; `None`: there is none, or there is nothing to insert.
    fn admit(&self, contents: &mut [(ExtentIndex, Content)]) -> Option<Arc<Room>> {
        if contents.is_empty() {
            return None;
        }
        let merges = contents.iter().filter(|(_, content)| matches!(content, Content::Merge(_))).count() as u64;
        let whole = contents.iter_mut().filter_map(|(_, content)| match content {
            Content::Whole(kept, _) => Some(kept),
            Content::Merge(_) => None,
        });
        // A patch is no longer than an extent.
        let room = self
            .cache
            .queue
            .admit(settle(whole) + merges * (held_bytes(self.extent_bytes() as usize) + OVERHEAD_BYTES));
        if room.is_none() {
            self.cache.metrics.fills_dropped.add(contents.len() as u64);
            self.note_gone(contents.iter().map(|(index, _)| *index), Gone::Dropped);
        }
        room
    }

    async fn trim_inner(&self, offset: u64, len: u64, fua: bool, context: &RequestContext) -> Result<(), Error> {
        self.check_write(offset, len)?;
        let block = u64::from(self.origin.geometry().block_bytes);
        let (start, end) = (offset.next_multiple_of(block), (offset + len) / block * block);
        if start >= end {
            return Ok(());
        }
        if let Some(on) = self.points() {
            return Box::pin(self.trim_in_point(on, start, end - start, context)).await;
        }
        let extents = self.extents(start, end - start);
        let mut begun = self.begin_origin_write(extents, context, |_, _| {}).await?;
        self.forget_cached(extents, |_, _| {}).await;
        match begun.during(self.answered(self.origin.discard(start, end - start))).await {
            Err(error) if error.kind == DeviceErrorKind::Unsupported => return Ok(()),
            result => result.map_err(Error::Origin)?,
        }
        self.origin_writes.fetch_add(1, Ordering::SeqCst);
        if fua { self.flush_origin().await } else { Ok(()) }
    }

    async fn zero_inner(
        &self,
        offset: u64,
        len: u64,
        how: Zeroing,
        fua: bool,
        context: &RequestContext,
    ) -> Result<(), Error> {
        let Zeroing { may_unmap, fast } = how;
        self.check_write(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        if self.points().is_some() {
            return Box::pin(self.zero_in_point(offset, len, fast, fua, context)).await;
        }
        // With a log, zeroes are as durable as a write: what they replace may have been durable.
        let fua = fua || self.mode() == WriteMode::WriteBack && self.cache.promises_durable_writes();
        let extents = self.extents(offset, len);
        let mut begun = self.begin_origin_write(extents, context, |_, _| {}).await?;
        self.check_edges(extents, offset, len)?;
        self.forget_cached(extents, |_, _| {}).await;
        begun.during(self.zero_origin(offset, len, may_unmap, fast)).await?;
        self.heal(extents).await?;
        if fua { self.flush_origin().await } else { Ok(()) }
    }

    /// Zeroes of a volume that reaches points: they are dirty data as others.
    async fn zero_in_point(
        &self,
        offset: u64,
        len: u64,
        fast: bool,
        fua: bool,
        context: &RequestContext,
    ) -> Result<(), Error> {
        if fast {
            let (kind, operation) = (DeviceErrorKind::Unsupported, Operation::WriteZeroes);
            return Err(Error::Origin(DeviceError::new(kind, operation, offset, len)));
        }
        let mut at = offset;
        while at < offset + len {
            let some = (offset + len - at).min(ZERO_BYTES);
            self.write_alike(at, BufMut::zeroed(some as usize).freeze(), fua, context).await?;
            at += some;
        }
        Ok(())
    }

    pub(super) async fn zero_origin(&self, offset: u64, len: u64, may_unmap: bool, fast: bool) -> Result<(), Error> {
        let block = u64::from(self.origin.geometry().block_bytes);
        let whole = offset.next_multiple_of(block)..(offset + len) / block * block;
        self.origin_writes.fetch_add(1, Ordering::SeqCst);
        let edges = if whole.start < whole.end {
            match self.answered(self.origin.write_zeroes(whole.start, whole.end - whole.start, may_unmap)).await {
                Ok(()) => {}
                Err(error) if error.kind == DeviceErrorKind::Unsupported && !fast => {
                    self.put_zeroes(whole.clone()).await?
                }
                Err(error) => return Err(Error::Origin(error)),
            }
            [offset..whole.start, whole.end..offset + len]
        } else {
            [offset..offset + len, 0..0]
        };
        for edge in edges {
            self.put_zeroes(edge).await?;
        }
        self.origin_writes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn put_zeroes(&self, range: Range<u64>) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(ZERO_BYTES);
            self.write_origin(at, BufMut::zeroed(len as usize).freeze()).await?;
            at += len;
        }
        Ok(())
    }
}

/// What the cache gets of a write of the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Its content, if the policies admit it.
    Content,
    /// Nothing.
    Nothing,
}

/// How a range is made to read as zeroes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zeroing {
    /// The origin may release the storage.
    pub(super) may_unmap: bool,
    /// It fails if it would take as long as writing.
    pub(super) fast: bool,
}
