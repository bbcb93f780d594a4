//! Rounds of destage: dirty extents are written to the origin, the origin is flushed, and the extents are clean.
//!
//! With an origin that stores whole units, such as objects of a bucket, a round is of whole units, of which everything is written that is
//! dirty, and a round is written while the origin is flushed for the one before.

use super::Volume;
use super::flights::Writing;
use crate::error::Error;
use crate::format::journal::{Record, VERSIONED_BYTES};
use crate::volume::EXTENTS_PER_LOCK;
use crate::writeback::Room;
use bytes::Bytes;
use futures_util::future::{join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_cache::DirtyExtent;
use nitro_cache::destage::{Contention, ROUND_EXTENTS, Rounds};
use nitro_port::buf::{BufMut, held_bytes};
use nitro_port::{Clock, Device, Origin, Recipe, Urgency};
use nitro_units::{ExtentIndex, ExtentRange, Fingerprint};
use std::sync::atomic::Ordering;

/// The rounds of destage for an origin.
pub(super) fn rounds_for(extent_bytes: u64, unit_bytes: Option<u32>) -> Rounds {
    Rounds::new(extent_bytes as usize, unit_bytes.map(|bytes| bytes as usize))
}

/// The maximum RAM of one round of destage, in bytes: the contents, and the runs made from them.
pub(crate) fn round_bytes(extent_bytes: usize, unit_bytes: Option<u32>) -> u64 {
    let extents = rounds_for(extent_bytes as u64, unit_bytes).in_ram() as u64;
    extents * (held_bytes(extent_bytes) + extent_bytes as u64)
}

/// A round that is written: the origin has its extents, but may lose them.
#[derive(Default)]
pub(super) struct Written {
    /// Exclude other writes of them.
    _guards: Vec<Writing>,
    /// The extents that the origin has got.
    pub(super) done: Vec<DirtyExtent>,
    /// Extents that are in use by other requests.
    pub(super) skipped: usize,
    /// Why other extents are still dirty.
    pub(super) failed: Option<Error>,
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// The extents of a round that the policy chooses, in order of offset; none: it ends a pass over all of them.
    pub(super) fn next_round(&self, before: u32) -> Vec<DirtyExtent> {
        let mut chosen = Vec::new();
        loop {
            let some = self.cache.manager.lock().destage_next(self.options.object, before, ROUND_EXTENTS);
            let is_last = some.len() < ROUND_EXTENTS;
            chosen.extend(some);
            if is_last || chosen.len() >= self.rounds.extents {
                return self.whole_units(chosen);
            }
        }
    }

    /// The extents of a round from `from` on, in order of offset, that became dirty at second `before` or earlier; none: there are none.
    pub(super) fn round_from(&self, from: ExtentIndex, before: u32) -> Vec<DirtyExtent> {
        let chosen = self.cache.manager.lock().dirty_from(self.options.object, from, before, self.rounds.extents);
        self.whole_units(chosen)
    }

    /// All that is dirty in the first units to which chosen extents belong; the chosen ones, if the origin has no units.
    fn whole_units(&self, mut chosen: Vec<DirtyExtent>) -> Vec<DirtyExtent> {
        if self.rounds.overlap() {
            chosen.sort_unstable_by_key(|extent| extent.key.index());
        }
        let Some((units, each)) = self.rounds.units(chosen.iter().map(|extent| extent.key.index())) else {
            return chosen;
        };
        let mut round = Vec::with_capacity(chosen.len());
        for first in units {
            round.extend(self.dirty_of(ExtentRange::new(first, ExtentIndex(first.0 + each))));
        }
        round
    }

    /// Writes a round, and finishes the one before meanwhile. When this returns, nothing of either is under way any more.
    pub(super) async fn write_beside(
        &self,
        last: &mut Option<Written>,
        batch: Vec<DirtyExtent>,
    ) -> Result<Written, Error> {
        // The flush begins first: it need not cover what is written meanwhile.
        let (finished, written) = join(self.finish(last.take()), self.write_batch(batch)).await;
        finished?;
        written
    }

    /// Writes the extents of a round that are not in use, in order of offset.
    async fn write_batch(&self, batch: Vec<DirtyExtent>) -> Result<Written, Error> {
        let (mut guards, mut taken, mut skipped) = (Vec::new(), Vec::new(), 0);
        for run in batch.chunk_by(|a, b| a.key.index().next() == b.key.index()) {
            let ([first, .., last] | [first @ last]) = run else { continue };
            let whole = ExtentRange::new(first.key.index(), last.key.index().next());
            // Where a client is writing to the origin, it has seen to it itself.
            if let Some(guard) = self.flights.try_begin_destage(whole) {
                guards.push(guard);
                taken.extend(self.dirty_of(whole));
                continue;
            }
            for extent in run {
                let one = ExtentRange::one(extent.key.index());
                match self.flights.try_begin_destage(one) {
                    Some(guard) => {
                        guards.push(guard);
                        taken.extend(self.dirty_of(one));
                    }
                    None => skipped += 1,
                }
            }
        }
        let written = self.write_extents(taken).await?;
        Ok(Written { _guards: guards, skipped, ..written })
    }

    /// What is dirty of extents that nobody else destages now. What was dirty before may have been destaged meanwhile, and overwritten: an
    /// older version of it must not be written over a newer one.
    fn dirty_of(&self, extents: ExtentRange) -> Vec<DirtyExtent> {
        let (object, count) = (self.options.object, extents.count() as usize);
        let mut dirty = self.cache.manager.lock().dirty_from(object, extents.start, u32::MAX, count);
        dirty.retain(|extent| extent.key.index() < extents.end);
        dirty
    }

    /// Writes dirty extents, in order, to the origin. Lost content stays dirty, and so does content that the origin refuses. Nothing is
    /// excluded: that is the caller's part.
    pub(super) async fn write_extents(&self, mut batch: Vec<DirtyExtent>) -> Result<Written, Error> {
        batch.retain(|extent| extent.location.is_some());
        if batch.is_empty() {
            return Ok(Written::default());
        }
        let _round = self.destage.round().await;
        // What the origin gets must be in the journal first: were it lost there, an older entry would come back.
        self.cache.commit().await?;
        let are_together = |a: &DirtyExtent, b: &DirtyExtent| {
            a.key.index().next() == b.key.index() && self.rounds.are_together(b.key.index())
        };
        let runs = batch.chunk_by(are_together).flat_map(|run| run.chunks(self.rounds.run_extents));
        let writes: Vec<_> = runs.map(|run| self.destage_run(run)).collect();
        let (done, failed) = self.run_writes(writes).await;
        if let Some(error) = &failed {
            self.destage_failed(error);
        }
        Ok(Written { done, failed, ..Written::default() })
    }

    /// Makes the extents of a round clean, after they were made durable in the origin.
    pub(super) async fn finish(&self, written: Option<Written>) -> Result<(), Error> {
        let Some(written) = written else { return Ok(()) };
        if !written.done.is_empty() {
            self.flush_origin().await?;
            // First the journal, then RAM: what is clean in RAM may be evicted, or overwritten at the origin.
            self.clean(&written.done).await?;
            self.cache.room.notify(usize::MAX);
        }
        if written.failed.is_none() && self.cache.manager.lock().dirty_count_of(self.options.object) == 0 {
            self.destage_recovered();
        }
        Ok(())
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
            let at_once = self.contention().writes_at_once().min(self.rounds.writes_at_once);
            let free = at_once.saturating_sub(under_way.len());
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
            self.put_known(offset, data, &known).await?;
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
