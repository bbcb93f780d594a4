//! The insertion worker: the paper's six steps (§3, "Cache insertion path").

use super::open_weu::{OpenWeu, Parts};
use super::queue::{Content, Job};
use super::stored_as;
use crate::buf::{BufMut, is_zero};
use crate::cache::Cache;
use crate::codec::{Compressor, Encoding};
use crate::format::journal::Record;
use crate::port::{Clock, Device, DeviceError};
use crate::yielding::yield_now;
use bytes::Bytes;
use futures_util::future::{Either, LocalBoxFuture, join, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_cache::weu::layout::SECTOR_BYTES;
use nitro_cache::{Append, Evicted, Fingerprint, WeuId};
use std::pin::pin;

/// Sealed WEUs of one worker that may be on their way to the SSD at once, while the next is being filled.
const WRITES_MAX: usize = 2;
/// Jobs after which a worker lets others on its thread run.
const JOBS_PER_TURN: usize = 32;

struct Worker<'a, F, C> {
    cache: &'a Cache<F, C>,
    compressor: Compressor,
    open: Option<OpenWeu>,
    writes: FuturesUnordered<LocalBoxFuture<'a, ()>>,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Inserts what is queued, clean and dirty, and makes durable what is to be, until [`close`](Cache::close). Hashes
    /// and compresses, and so is best polled by a thread that serves no clients. One runs for each cache.
    pub async fn insertion_worker(&self) {
        let inserting = async {
            join(self.clean_worker(), self.dirty_worker()).await;
            // The last commit; where it fails, the committer has said so.
            let _ = self.commit().await;
            self.end_log().await;
            self.ledger.close();
        };
        join(inserting, self.committer()).await;
    }

    async fn clean_worker(&self) {
        let compressor = Compressor::new(self.settings.compression);
        let mut worker = Worker { cache: self, compressor, open: None, writes: FuturesUnordered::new() };
        let mut jobs = 0;
        while let Some(job) = worker.next_job().await {
            if self.watch.is_caching() {
                worker.insert(&job).await;
            }
            job.flights.settle(job.key.index().0, &job.token);
            self.queue.done();
            jobs += 1;
            if jobs % JOBS_PER_TURN == 0 {
                yield_now().await;
            }
        }
        // What is not full is written too: it is there again after a restart.
        if worker.open.as_ref().is_some_and(|open| !open.entries().is_empty()) && self.watch.is_caching() {
            worker.seal().await;
        }
        while worker.writes.next().await.is_some() {}
    }
}

impl<F: Device, C: Clock> Worker<'_, F, C> {
    /// The next job; WEUs on their way are seen to their end meanwhile.
    async fn next_job(&mut self) -> Option<Job> {
        loop {
            let mut sealing = self.cache.seal_wanted.listen();
            if self.open.as_ref().is_some_and(|open| self.cache.is_given_up(open.weu)) {
                self.seal().await;
            }
            let mut take = pin!(self.cache.queue.take());
            while !self.writes.is_empty() {
                match select(take.as_mut(), select(self.writes.next(), &mut sealing)).await {
                    Either::Left((job, _)) => return job,
                    Either::Right((Either::Right(_), _)) => break,
                    Either::Right(_) => {}
                }
            }
            if self.writes.is_empty()
                && let Either::Left((job, _)) = select(take, sealing).await
            {
                return job;
            }
        }
    }

    async fn insert(&mut self, job: &Job) {
        let cache = self.cache;
        let Some(extent) = self.content(job).await else { return };
        let zero = is_zero(&extent);
        let fingerprint = cache.settings.manager.dedup.then(|| match zero {
            true => cache.zero_fingerprint,
            false => cache.hash().of(&extent),
        });
        if let Some(fingerprint) = &fingerprint {
            let mut manager = cache.manager.lock();
            if job.token.is_void() || manager.is_dirty(job.key) {
                return cache.metrics.fills_voided.add(1);
            }
            if manager.insert_duplicate(job.key, fingerprint).is_some() {
                return;
            }
        }
        let (encoding, payload) = match zero {
            true => (Encoding::Raw, Bytes::new()),
            false => self.compressor.compress(&extent),
        };
        self.append(job, fingerprint, encoding, payload).await;
    }

    /// The extent's bytes; `None` when there is nothing to insert any more.
    async fn content(&self, job: &Job) -> Option<Bytes> {
        if job.token.is_void() {
            self.cache.metrics.fills_voided.add(1);
            return None;
        }
        match &job.content {
            Content::Whole(extent) => Some(extent.clone()),
            Content::Merge { base, at, patch } => {
                let old = self.cache.fetch(&[(job.key, *base)]).await.pop().flatten()?;
                let mut merged = BufMut::copy_of(&old);
                merged[*at..*at + patch.len()].copy_from_slice(patch);
                Some(merged.freeze())
            }
        }
    }

    /// Steps 3 to 6.
    async fn append(&mut self, job: &Job, fingerprint: Option<Fingerprint>, encoding: Encoding, payload: Bytes) {
        let cache = self.cache;
        let stored = stored_as(encoding, &payload);
        while let Some(open) = self.opened().await {
            // The bytes first: once the manager knows the extent, a reader may ask for it.
            cache.resident.push(open.weu, encoding, payload.clone());
            let (appended, version) = {
                let mut manager = cache.manager.lock();
                let void = job.token.is_void() || manager.is_dirty(job.key);
                let appended = (!void).then(|| manager.append(open.weu, job.key, fingerprint.as_ref(), stored));
                (appended, manager.version())
            };
            if let Some(Append::At(location)) = appended {
                open.put(&cache.place(&location), job.key, fingerprint, stored, (encoding, &payload), version);
                return;
            }
            cache.resident.pop(open.weu);
            if appended.is_none() {
                return cache.metrics.fills_voided.add(1);
            }
            self.seal().await;
        }
    }

    /// The open WEU; another one is opened, evicting as need be, if there is none. `None`: no slot can be had.
    async fn opened(&mut self) -> Option<&mut OpenWeu> {
        while self.open.is_none() {
            self.cache.make_room().await;
            let opened = self.cache.manager.lock().open_weu();
            match opened {
                Some((weu, generation)) => {
                    self.cache.set_start(weu, self.cache.start);
                    self.cache.resident.open(weu, generation);
                    self.open = Some(OpenWeu::new(weu, generation, self.cache.settings.manager.weu_bytes, false));
                }
                None if self.writes.next().await.is_some() => {}
                None => {
                    // Others come free once dirty extents are destaged, or the rest of the cache has been read.
                    let waiting = self.cache.manager.lock().is_waiting_for_slots();
                    if !waiting {
                        self.cache.watch.give_up(&"no write-evict unit is left that can be written");
                    }
                    self.cache.metrics.fills_dropped.add(1);
                    return None;
                }
            }
        }
        self.open.as_mut()
    }

    /// Closes the open WEU and sends it on its way to the SSD.
    async fn seal(&mut self) {
        let Some(open) = self.open.take() else { return };
        while self.writes.len() >= WRITES_MAX {
            self.writes.next().await;
        }
        self.cache.manager.lock().seal(open.weu);
        self.writes.push(Box::pin(write(self.cache, open)));
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Evicts ahead of need, and cleans up after it in bounded steps.
    pub(crate) async fn make_room(&self) {
        loop {
            let discard = self.settings.discard_evicted;
            let evicted = {
                let mut manager = self.manager.lock();
                match manager.wants_eviction() {
                    true if discard => manager.evict_to_discard(),
                    true => manager.evict(),
                    false => None,
                }
            };
            let Some(Evicted { weu, generation }) = evicted else { break };
            self.ledger.push(Record::Evicted { weu, generation });
            if discard {
                let weu_bytes = u64::from(self.settings.manager.weu_bytes);
                // A device that cannot discard only loses a hint.
                let _ = self.flash.discard(self.slot_offset(weu), weu_bytes).await;
                self.manager.lock().discarded(weu);
                self.room.notify(usize::MAX);
            }
        }
        while self.manager.lock().clean_step() {}
    }

    /// Writes parts of a WEU, one after the other.
    pub(crate) async fn write_parts(&self, weu: WeuId, parts: Parts) -> Result<(), DeviceError> {
        for (at, bytes) in parts {
            self.flash.write(self.slot_offset(weu) + u64::from(at), bytes).await?;
        }
        Ok(())
    }
}

async fn write<F: Device, C: Clock>(cache: &Cache<F, C>, open: OpenWeu) {
    let (weu, generation) = (open.weu, open.generation);
    let block_bytes = cache.flash.geometry().block_bytes.max(SECTOR_BYTES);
    let (parts, written) = open.seal((cache.superblock.epoch, cache.start), block_bytes);
    match cache.write_parts(weu, parts).await {
        Ok(()) => {
            cache.watch.write_ok();
            cache.metrics.ssd_written_payload_bytes.add(written.payload_bytes);
            cache.metrics.ssd_written_header_bytes.add(written.header_bytes);
            cache.metrics.ssd_written_padding_bytes.add(written.padding_bytes);
            cache.manager.lock().stored(weu);
        }
        Err(error) => {
            cache.metrics.ssd_write_errors.add(1);
            cache.manager.lock().retire(weu);
            // It may have got there all the same.
            cache.ledger.push(Record::Evicted { weu, generation });
            cache.watch.write_failed(&error);
        }
    }
    cache.resident.close(weu);
}
