//! Destage: writes dirty data to the origin in offset order, with neighbours merged. Only a few writes run at a time
//! while clients read from the origin, unless there is no room for further dirty data (paper §3).

use super::{EXTENTS_PER_LOCK, Volume};
use crate::error::Error;
use crate::format::journal::{FORGET_BYTES, Record, VERSIONED_BYTES};
use crate::writeback::Room;
use bytes::Bytes;
use event_listener::Event;
use futures_util::future::{join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_cache::destage::{Contention, ROUND_EXTENTS, TICK, WRITES_AT_ONCE_MAX, run_extents_max};
use nitro_cache::{CacheManager, DirtyExtent};
use nitro_port::buf::{BufMut, held_bytes};
use nitro_port::yielding::{attempt_at, yield_now};
use nitro_port::{Clock, Device, Origin, Recipe, Urgency};
use nitro_units::{ExtentIndex, ExtentRange, Fingerprint};
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

/// Concurrent rounds of destage: the volume's own, and those of requests that need a range destaged first.
pub(crate) const ROUNDS_MAX: u32 = 2;

/// The maximum RAM of one round of destage, in bytes: the contents, and the runs made from them.
pub(crate) fn round_bytes(extent_bytes: usize) -> u64 {
    let extents = (WRITES_AT_ONCE_MAX * run_extents_max(extent_bytes)).min(ROUND_EXTENTS) as u64;
    extents * (held_bytes(extent_bytes) + extent_bytes as u64)
}

/// The requests for destage, and its progress.
#[derive(Debug, Default)]
pub(super) struct Destage {
    wanted: Event,
    /// Number of callers that need everything destaged, and of writers that wait for room.
    drainers: AtomicU32,
    /// Number of writers that wait for room.
    starved: AtomicU32,
    /// The origin refused a write in this pass over all dirty extents.
    refused: AtomicBool,
    took: AtomicBool,
    /// The policy chose nothing the last time.
    gave_nothing: AtomicBool,
    /// Rounds in progress.
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

    /// Waits until fewer than [`ROUNDS_MAX`] rounds are in progress, and begins one.
    async fn round(&self) -> Round<'_> {
        let begin = |rounds: u32| (rounds < ROUNDS_MAX).then_some(rounds + 1);
        let try_begin = || {
            let began = self.rounds.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).is_ok();
            began.then(|| Round(self))
        };
        attempt_at(&self.round_ended, try_begin).await
    }
}

/// A round of destage in progress. It bounds the data that destage reads into RAM.
struct Round<'a>(&'a Destage);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.0.rounds.fetch_sub(1, Ordering::SeqCst);
        self.0.round_ended.notify(1);
    }
}

/// The result of a step of destage.
#[derive(Debug)]
struct Step {
    /// Extents that are in use by other requests.
    skipped: usize,
    destaged: Destaged,
}

/// The result of destaging extents.
#[derive(Debug, Default)]
struct Destaged {
    /// Extents that are clean now.
    done: usize,
    /// Why other extents are still dirty.
    failed: Option<Error>,
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
        let mut tick = TICK;
        loop {
            {
                let wanted = select(self.destage.wanted.listen(), self.cache.destage_wanted.listen());
                if !self.has_work() {
                    // Soon after the last write its regions can be closed.
                    let tick = if self.has_open_regions() { tick / 4 } else { tick };
                    select(wanted, pin!(self.cache.clock.sleep(tick))).await;
                }
            }
            let result = match self.due() {
                Some(before) if self.has_work() => self.destage_round(before).await,
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
            loop {
                let object = self.options.object;
                let batch = self.cache.manager.lock().dirty_from(object, from, before, ROUND_EXTENTS);
                let Some(last) = batch.last() else { break };
                from = last.key.index().next();
                let step = self.destage_batch(batch).await?;
                skipped += step.skipped;
                match (step.destaged.done, step.destaged.failed) {
                    (_, None) => {}
                    (0, error) => (failed, refusals) = (error, refusals + 1),
                    (_, error) => (failed, refusals) = (error, 0),
                }
                if refusals == REFUSALS_MAX {
                    break;
                }
            }
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

    /// One round with the extents that the policy chooses.
    async fn destage_round(&self, before: u32) -> Result<(), Error> {
        let batch = self.cache.manager.lock().destage_next(self.options.object, before, ROUND_EXTENTS);
        let step = if batch.is_empty() { None } else { Some(self.destage_batch(batch).await?) };
        let Some(Step { destaged: Destaged { done, failed }, .. }) = step else {
            let refused = self.destage.refused.swap(false, Ordering::SeqCst);
            if self.destage.took.swap(false, Ordering::SeqCst) && !refused {
                self.destage_recovered();
            }
            // A pass that gives nothing although something is due must not repeat itself without end.
            if self.destage.gave_nothing.swap(true, Ordering::SeqCst) {
                self.cache.clock.sleep(SKIPPED_WAIT).await;
            }
            return Ok(());
        };
        self.destage.gave_nothing.store(false, Ordering::SeqCst);
        self.destage.took.fetch_or(done > 0, Ordering::SeqCst);
        self.destage.refused.fetch_or(failed.is_some(), Ordering::SeqCst);
        match failed {
            Some(error) if done == 0 => return Err(error),
            // Others are busy with all of these extents, or their content is lost.
            None if done == 0 => self.cache.clock.sleep(SKIPPED_WAIT).await,
            _ => {}
        }
        Ok(())
    }

    /// Destages some extents, in order of offset.
    async fn destage_batch(&self, batch: Vec<DirtyExtent>) -> Result<Step, Error> {
        let count = batch.len();
        let mut guards = Vec::new();
        let mut taken = Vec::new();
        for extent in batch {
            // Where a client is writing to the origin, it has seen to it itself.
            if let Some(guard) = self.flights.try_begin_destage(ExtentRange::one(extent.key.index())) {
                guards.push(guard);
                taken.push(extent);
            }
        }
        let skipped = count - taken.len();
        let destaged = self.destage_extents(taken).await?;
        Ok(Step { skipped, destaged })
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
            if let Some(error) = self.destage_extents(batch).await?.failed {
                return Err(error);
            }
            yield_now().await;
        }
    }

    /// Writes dirty extents, in order, to the origin, after which they are clean. Lost content stays dirty, and so does
    /// content that the origin refuses.
    async fn destage_extents(&self, mut batch: Vec<DirtyExtent>) -> Result<Destaged, Error> {
        batch.retain(|extent| extent.location.is_some());
        if batch.is_empty() {
            return Ok(Destaged::default());
        }
        let _round = self.destage.round().await;
        // What the origin gets must be in the journal first: were it lost there, an older entry would come back.
        self.cache.commit().await?;
        let run_max = run_extents_max(self.extent_bytes() as usize);
        let runs = batch.chunk_by(|a, b| a.key.index().next() == b.key.index()).flat_map(|run| run.chunks(run_max));
        let writes: Vec<_> = runs.map(|run| self.destage_run(run)).collect();
        let (done, failed) = self.run_writes(writes).await;
        if let Some(error) = &failed {
            self.destage_failed(error);
        }
        if !done.is_empty() {
            self.flush_origin().await?;
            // First the journal, then RAM: what is clean in RAM may be evicted, or overwritten at the origin.
            self.clean(&done).await?;
            self.cache.room.notify(usize::MAX);
        }
        if failed.is_none() && self.cache.manager.lock().dirty_count_of(self.options.object) == 0 {
            self.destage_recovered();
        }
        Ok(Destaged { done: done.len(), failed })
    }

    /// Runs writes of the origin, as many at a time as its clients allow when a write begins. Returns the extents that
    /// were written, and the last error.
    pub(super) async fn run_writes(
        &self,
        writes: Vec<impl Future<Output = Result<Vec<DirtyExtent>, Error>>>,
    ) -> (Vec<DirtyExtent>, Option<Error>) {
        let (mut waiting, mut under_way) = (writes.into_iter(), FuturesUnordered::new());
        let (mut done, mut failed) = (Vec::new(), None);
        loop {
            let free = self.contention().writes_at_once().saturating_sub(under_way.len());
            under_way.extend(waiting.by_ref().take(free));
            match under_way.next().await {
                Some(Ok(extents)) => done.extend(extents),
                // The others go on: a write left under way could arrive over a later one.
                Some(Err(error)) => failed = Some(error),
                None => return (done, failed),
            }
        }
    }

    /// The clients of the origin and of the cache, for the number of concurrent writes.
    fn contention(&self) -> Contention {
        // An origin that knows contents by fingerprint writes them sequentially, but may have to look each one up.
        let disturbs_reads =
            self.origin_reading.load(Ordering::Relaxed) > 0 && self.origin.recipe_extent_bytes().is_none();
        let starves = || self.destage.starved.load(Ordering::SeqCst) > 0;
        let lacks_room = || starves() || self.cache.lacks_dirty_room() || self.lacks_room_soon();
        Contention { disturbs_reads, lacks_room: disturbs_reads && lacks_room() }
    }

    /// Writes neighbours to the origin, with one write if all can be read.
    async fn destage_run(&self, run: &[DirtyExtent]) -> Result<Vec<DirtyExtent>, Error> {
        let read = run.iter().map(|extent| self.dirty_content(extent));
        let contents: Vec<Option<Bytes>> = join_all(read).await;
        let mut done = Vec::new();
        let both: Vec<_> = run.iter().zip(contents).collect();
        for (extent, _) in both.iter().filter(|(_, content)| content.is_none()) {
            self.cache.manager.lock().unreadable(extent.key, extent.version);
        }
        for readable in both.chunk_by(|a, b| a.1.is_some() == b.1.is_some()) {
            let [(first, Some(bytes)), rest @ ..] = readable else { continue };
            let offset = first.key.index().offset(self.extent_bytes());
            let len = (self.size_bytes() - offset).min(readable.len() as u64 * self.extent_bytes()) as usize;
            let data = if rest.is_empty() {
                bytes.slice(..len)
            } else {
                let mut merged = BufMut::with_len(readable.len() * self.extent_bytes() as usize);
                for (part, (_, bytes)) in merged.chunks_mut(self.extent_bytes() as usize).zip(readable) {
                    part.copy_from_slice(bytes.as_deref().unwrap_or_default());
                }
                merged.truncate(len);
                merged.freeze()
            };
            let known: Recipe = match self.has_recipes {
                true => readable.iter().map(|(extent, _)| self.dirty_fingerprint(extent)).collect(),
                false => Recipe::new(),
            };
            self.write_known(offset, data, &known).await?;
            self.metrics.destage_writes.add(1);
            self.metrics.destaged_extents.add(readable.len() as u64);
            done.extend(readable.iter().map(|(extent, _)| **extent));
        }
        Ok(done)
    }

    fn dirty_fingerprint(&self, extent: &DirtyExtent) -> Option<Fingerprint> {
        self.flights.dirty_contents.get(extent.key.index(), extent.version)
    }

    pub(super) async fn dirty_content(&self, extent: &DirtyExtent) -> Option<Bytes> {
        let location = extent.location?;
        self.cache.fetch(&[(extent.key, location)], Urgency::Normal).await.pop().flatten()
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

    /// Makes extents clean that are durable in the origin.
    pub(super) async fn clean(&self, extents: &[DirtyExtent]) -> Result<(), Error> {
        let step = self.cache.ledger.step(VERSIONED_BYTES, EXTENTS_PER_LOCK) as usize;
        for some in extents.chunks(step) {
            let tell = |room: &Room<'_>| {
                let mut manager = self.cache.manager.lock();
                for DirtyExtent { key, version, .. } in some {
                    manager.begin_cleaning(*key, *version);
                    room.push(Record::Clean { key: *key, version: *version });
                }
            };
            self.cache.ledger.tell((some.len() * VERSIONED_BYTES) as u64, tell).await;
        }
        self.cache.commit().await?;
        let mut manager = self.cache.manager.lock();
        for DirtyExtent { key, version, .. } in extents {
            manager.cleaned(*key, *version);
            if self.has_recipes {
                self.flights.dirty_contents.forget(key.index(), *version);
            }
        }
        Ok(())
    }
}
