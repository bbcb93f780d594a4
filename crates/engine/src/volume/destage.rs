//! Destage: writes dirty data to the origin in offset order, with neighbours merged. Only a few writes run at a time
//! while clients read from the origin, unless there is no room for further dirty data (paper §3).

use super::rounds::Written;
use super::{EXTENTS_PER_LOCK, Volume};
use crate::error::Error;
use crate::format::journal::FORGET_BYTES;
use event_listener::Event;
use futures_util::future::select;
use nitro_cache::CacheManager;
use nitro_cache::destage::{ROUND_EXTENTS, TICK};
use nitro_port::yielding::{attempt_at, yield_now};
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentRange};
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Number of consecutive rounds that the origin refuses completely, after which destage stops.
const REFUSALS_MAX: u32 = 4;
/// How soon to try again when clients' writes prevented destage of some extents.
pub(super) const SKIPPED_WAIT: Duration = Duration::from_millis(10);
/// How often a volume checks for work after a failure.
pub(super) const TICK_FAILED: Duration = Duration::from_secs(5);

/// Dirty extents whose age is examined under one lock of the manager.
const AGES_PER_LOCK: usize = 512;

/// Rounds of destage that write at a time: the volume's own, and those of requests that need a range destaged first.
pub(crate) const ROUNDS_MAX: u32 = 2;

/// The requests for destage, and its progress.
#[derive(Debug, Default)]
pub(super) struct Destage {
    wanted: Event,
    /// Number of callers that need everything destaged, and of writers that wait for room.
    drainers: AtomicU32,
    /// Number of writers that wait for room.
    pub(super) starved: AtomicU32,
    /// The origin refused a write in this pass over all dirty extents.
    refused: AtomicBool,
    took: AtomicBool,
    /// The policy chose nothing the last time.
    gave_nothing: AtomicBool,
    /// Rounds that write.
    rounds: AtomicU32,
    round_ended: Event,
}

impl Destage {
    /// Has the volume look for work.
    pub(super) fn wake(&self) {
        self.wanted.notify(usize::MAX);
    }

    /// Waits until the volume is to look for work.
    pub(super) fn listen(&self) -> event_listener::EventListener {
        self.wanted.listen()
    }

    /// Whether a caller needs everything destaged, or a writer waits for room.
    pub(super) fn is_drained(&self) -> bool {
        self.drainers.load(Ordering::SeqCst) > 0
    }

    /// Notes that a writer waits for room: everything is destaged while the result exists.
    pub(super) fn starved(&self) -> Starved<'_> {
        self.starved.fetch_add(1, Ordering::SeqCst);
        Starved(Drainer::new(self))
    }

    /// Waits until fewer than [`ROUNDS_MAX`] rounds write, and begins one.
    pub(super) async fn round(&self) -> Round<'_> {
        let begin = |rounds: u32| (rounds < ROUNDS_MAX).then_some(rounds + 1);
        let try_begin = || {
            let began = self.rounds.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).is_ok();
            began.then(|| Round(self))
        };
        attempt_at(&self.round_ended, try_begin).await
    }
}

/// A round of destage that writes. It bounds the data that destage reads into RAM.
pub(super) struct Round<'a>(&'a Destage);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.0.rounds.fetch_sub(1, Ordering::SeqCst);
        self.0.round_ended.notify(1);
    }
}

/// A caller that needs everything destaged; it is counted while this exists.
pub(super) struct Drainer<'a>(&'a Destage);

impl<'a> Drainer<'a> {
    pub(super) fn new(destage: &'a Destage) -> Self {
        destage.drainers.fetch_add(1, Ordering::SeqCst);
        destage.wanted.notify(usize::MAX);
        Self(destage)
    }
}

impl Drop for Drainer<'_> {
    fn drop(&mut self) {
        self.0.drainers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A writer that waits for room; it is counted while this exists.
pub(super) struct Starved<'a>(Drainer<'a>);

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        self.0.0.starved.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Dirty data that could not be read back: ranges of bytes, in order. Reads of them fail until they are written
    /// again.
    pub fn lost_ranges(&self) -> Vec<Range<u64>> {
        let (extent_bytes, object) = (self.extent_bytes(), self.options.object);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut from = ExtentIndex(0);
        loop {
            let count = EXTENTS_PER_LOCK as usize;
            let batch = self.cache.manager.lock().dirty_from(object, from, u32::MAX, count);
            let Some(last) = batch.last() else { return ranges };
            from = last.key.index().next();
            for extent in batch.iter().filter(|extent| extent.unreadable) {
                let start = extent.key.index().offset(extent_bytes);
                let end = (start + extent_bytes).min(self.size_bytes());
                match ranges.last_mut() {
                    Some(range) if range.end == start => range.end = end,
                    _ => ranges.push(start..end),
                }
            }
        }
    }

    /// Dirty extents, including lost ones and those that wait for insertion.
    pub fn dirty_extents(&self) -> u64 {
        let mut count = self.cache.manager.lock().dirty_count_of(self.options.object);
        for pending in self.flights.dirty(ExtentRange::ALL).chunks(EXTENTS_PER_LOCK as usize) {
            let manager = self.cache.manager.lock();
            count += pending.iter().filter(|index| !manager.is_dirty(self.key(**index))).count() as u64;
        }
        count
    }

    /// Age of the oldest dirty write in the cache, to the second; zero if there is none. Examines each dirty extent,
    /// some at a time.
    pub fn oldest_dirty(&self) -> Duration {
        let (mut oldest, mut next) = (None, Some(ExtentIndex(0)));
        while let Some(from) = next {
            let (since, further) = self.cache.manager.lock().oldest_dirty(self.options.object, from, AGES_PER_LOCK);
            oldest = oldest.into_iter().chain(since).min();
            next = further;
        }
        let age = oldest.map_or(0, |since: u32| self.cache.seconds().saturating_sub(since));
        Duration::from_secs(age.into())
    }

    /// Whether a restart may restore contents from the write log, including contents that are already in the origin.
    pub fn is_in_log(&self) -> bool {
        self.cache.log_holds(self.options.object)
    }

    /// Destages by watermark and age, and closes write-intent regions, as long as it is polled.
    pub async fn destage_worker(&self) {
        if let Some(on) = self.points_in_any_mode() {
            return Box::pin(self.point_worker(on)).await;
        }
        let (mut tick, mut last) = (TICK, None);
        loop {
            if last.is_none() {
                let wanted = select(self.destage.wanted.listen(), self.cache.destage_wanted.listen());
                if !self.has_work() {
                    // Soon after the last write its regions can be closed.
                    let tick = if self.has_open_regions() { tick / 4 } else { tick };
                    select(wanted, pin!(self.cache.clock.sleep(tick))).await;
                }
            }
            let result = match self.due() {
                Some(before) if self.has_work() => self.destage_round(before, &mut last).await,
                _ if last.is_some() => self.finish(last.take()).await,
                _ => self.close_regions(false).await,
            };
            tick = TICK;
            // What fails is a state of the volume or of its cache, and was logged when it began.
            if let Err(error) = result {
                tracing::debug!(%error, "destage failed");
                tick = TICK_FAILED;
                self.cache.clock.sleep(tick).await;
            }
        }
    }

    fn has_work(&self) -> bool {
        self.due().is_some_and(|before| {
            let manager = self.cache.manager.lock();
            !manager.destageable_from(self.options.object, ExtentIndex(0), before, 1).is_empty()
        })
    }

    /// Whether anything has to be destaged now: everything that became dirty up to the returned second.
    fn due(&self) -> Option<u32> {
        if !self.may_be_dirty() || !self.cache.device_health.is_caching() || self.poisoned().is_some() {
            return None;
        }
        if self.destage.is_drained() || self.cache.wants_destage_of(self.options.object) || self.lacks_room_soon() {
            return Some(u32::MAX);
        }
        self.cache.watermarks().due(false, self.cache.seconds())
    }

    /// Brings the origin up to date, without a time limit; ends when all data written before the call are durable in
    /// the origin. If the origin refuses some extents, the others are still destaged, unless it refuses several whole
    /// rounds. Extents whose content is lost stay dirty. [`destage_worker`](Self::destage_worker) must be polled
    /// meanwhile: it makes room for extents that wait for insertion.
    ///
    /// # Errors
    /// [`Error::Origin`], [`Error::Flash`] or [`Error::Poisoned`]: data that were not destaged stay dirty.
    /// [`Error::Lost`]: dirty content cannot be read from the cache; the origin has everything else.
    pub async fn destage_all(&self) -> Result<(), Error> {
        if !self.may_be_dirty() {
            return self.flush_origin().await;
        }
        if let Some(on) = self.points_in_any_mode() {
            return Box::pin(self.destage_by_points(on)).await;
        }
        let _drainer = Drainer::new(&self.destage);
        self.cache.dirty_queue.caught_up().await;
        let before = self.cache.seconds();
        loop {
            let (mut from, mut skipped, mut failed, mut refusals) = (ExtentIndex(0), 0, None, 0);
            let mut last = None;
            loop {
                let batch = self.round_from(from, before);
                let Some(end) = batch.last() else { break };
                from = end.key.index().next();
                let mut written = self.write_beside(&mut last, batch).await?;
                skipped += written.skipped;
                match (written.done.len(), written.failed.take()) {
                    (_, None) => {}
                    (0, error) => (failed, refusals) = (error, refusals + 1),
                    (_, error) => (failed, refusals) = (error, 0),
                }
                if self.rounds.overlap() {
                    last = Some(written);
                } else {
                    self.finish(Some(written)).await?;
                }
                if refusals == REFUSALS_MAX {
                    break;
                }
            }
            self.finish(last).await?;
            if let Some(error) = failed {
                return Err(error);
            }
            if skipped == 0 {
                self.flush_origin().await?;
                self.check_lost()?;
                return self.cache.released_by_log(self.options.object).await;
            }
            self.cache.clock.sleep(SKIPPED_WAIT).await;
        }
    }

    /// Fails if dirty content is lost.
    fn check_lost(&self) -> Result<(), Error> {
        let lost = self.lost_ranges();
        lost.first().map_or(Ok(()), |lost| Err(Error::Lost { offset: lost.start, len: lost.end - lost.start }))
    }

    /// Discards all dirty data, readable or lost. No writes may be in progress.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the cache device fails.
    pub async fn discard_dirty(&self) -> Result<(), Error> {
        while self.discard_some().await {
            yield_now().await;
        }
        self.flights.dirty_contents.clear();
        self.forget_all_ram();
        self.cache.room.notify(usize::MAX);
        self.cache.commit().await
    }

    async fn discard_some(&self) -> bool {
        let count = self.cache.ledger.step(FORGET_BYTES, EXTENTS_PER_LOCK) as usize;
        let discard = |manager: &mut CacheManager| {
            let batch = manager.dirty_from(self.options.object, ExtentIndex(0), u32::MAX, count);
            batch.iter().filter(|extent| manager.discard_dirty(extent.key)).count() > 0
        };
        self.cache.telling(count * FORGET_BYTES, discard).await
    }

    /// One round with the extents that the policy chooses. With an origin whose rounds overlap, it is left in `last` when it is written,
    /// and what was there is finished meanwhile.
    async fn destage_round(&self, before: u32, last: &mut Option<Written>) -> Result<(), Error> {
        let batch = self.next_round(before);
        if batch.is_empty() && last.is_none() {
            let refused = self.destage.refused.swap(false, Ordering::SeqCst);
            if self.destage.took.swap(false, Ordering::SeqCst) && !refused {
                self.destage_recovered();
            }
            // A pass that gives nothing although something is due must not repeat itself without end.
            if self.destage.gave_nothing.swap(true, Ordering::SeqCst) {
                self.cache.clock.sleep(SKIPPED_WAIT).await;
            }
            return Ok(());
        }
        self.destage.gave_nothing.store(false, Ordering::SeqCst);
        let had_last = last.is_some();
        let written = self.write_beside(last, batch).await?;
        let (done, failed) = (written.done.len(), written.failed.clone());
        if self.rounds.overlap() {
            *last = Some(written).filter(|_| done > 0);
        } else {
            self.finish(Some(written)).await?;
        }
        self.destage.took.fetch_or(done > 0, Ordering::SeqCst);
        self.destage.refused.fetch_or(failed.is_some(), Ordering::SeqCst);
        match failed {
            Some(error) if done == 0 => return Err(error),
            // Others are busy with all of these extents, or their content is lost.
            None if done == 0 && !had_last => self.cache.clock.sleep(SKIPPED_WAIT).await,
            _ => {}
        }
        Ok(())
    }

    /// Destages the dirty extents of a range from which the caller excludes all other writes.
    pub(super) async fn drain(&self, extents: ExtentRange) -> Result<(), Error> {
        // Boxed, as the rest of `heal`: it is large, and each write has such a future.
        if !self.may_be_dirty() {
            return Ok(());
        }
        match self.points_in_any_mode() {
            Some(on) => Box::pin(self.drain_by_points(on, extents)).await,
            None => Box::pin(self.drain_dirty(extents)).await,
        }
    }

    async fn drain_dirty(&self, extents: ExtentRange) -> Result<(), Error> {
        loop {
            // Before the pass: what settles during it may be missed.
            let pending = self.flights.has_dirty(extents);
            self.drain_once(extents).await?;
            if let Some(reason) = self.cache.ledger.failed().filter(|_| pending) {
                return Err(Error::Poisoned { reason });
            }
            if !pending {
                return Ok(());
            }
            // It may be that what is on its way waits for the room that this range takes.
            let settled = self.flights.dirty_settled(extents);
            select(pin!(settled), pin!(self.cache.clock.sleep(SKIPPED_WAIT))).await;
        }
    }

    async fn drain_once(&self, extents: ExtentRange) -> Result<(), Error> {
        let mut from = extents.start;
        loop {
            let object = self.options.object;
            let mut batch = self.cache.manager.lock().dirty_from(object, from, u32::MAX, ROUND_EXTENTS);
            batch.retain(|extent| extent.key.index() < extents.end);
            let Some(last) = batch.last() else { return Ok(()) };
            from = last.key.index().next();
            let written = self.write_extents(batch).await?;
            let failed = written.failed.clone();
            self.finish(Some(written)).await?;
            if let Some(error) = failed {
                return Err(error);
            }
            yield_now().await;
        }
    }

    /// Checks that a write of `len` bytes at `offset` leaves no part of a lost extent. The caller excludes all other writes,
    /// and has destaged the range: what is dirty still is lost.
    ///
    /// # Errors
    /// [`Error::Lost`]: the origin must not get the write. Next to it there are bytes that were outdated already when the
    /// extent was lost, and a read that began before that could see the two together.
    pub(super) fn check_edges(&self, extents: ExtentRange, offset: u64, len: u64) -> Result<(), Error> {
        if !self.may_be_dirty() {
            return Ok(());
        }
        let is_part = |index: &ExtentIndex| {
            let start = index.offset(self.extent_bytes());
            start < offset || (start + self.extent_bytes()).min(self.size_bytes()) > offset + len
        };
        // Only the first and the last extent can be written in part.
        let mut parts = [extents.start, ExtentIndex(extents.end.0 - 1)].into_iter().filter(is_part);
        match parts.find(|index| self.cache.manager.lock().is_dirty(self.key(*index))) {
            Some(lost) => Err(self.lost(lost)),
            None => Ok(()),
        }
    }

    /// Removes the lost state of extents after a write that [`check_edges`](Self::check_edges) allowed: the origin has their
    /// whole content.
    pub(super) async fn heal(&self, extents: ExtentRange) -> Result<(), Error> {
        if self.may_be_dirty() { Box::pin(self.heal_lost(extents)).await } else { Ok(()) }
    }

    async fn heal_lost(&self, extents: ExtentRange) -> Result<(), Error> {
        let (object, mut from) = (self.options.object, extents.start);
        loop {
            let count = EXTENTS_PER_LOCK as usize;
            let mut lost = self.cache.manager.lock().dirty_from(object, from, u32::MAX, count);
            lost.retain(|extent| extent.key.index() < extents.end);
            let Some(last) = lost.last() else { return Ok(()) };
            from = last.key.index().next();
            for extent in lost {
                let index = extent.key.index();
                self.flush_origin().await?;
                self.clean(&[extent]).await?;
                // It could not be forgotten while it was dirty.
                self.forget_cached(ExtentRange::one(index), |_, _| {}).await;
            }
        }
    }
}
