//! The insertion worker: the paper's six steps (§3, "Cache insertion path").

use super::open_weu::OpenWeu;
use super::queue::{Content, Job};
use crate::buf::{BufMut, is_zero};
use crate::cache::Cache;
use crate::codec::{Compressor, Encoding};
use crate::port::{Clock, Device};
use crate::yielding::yield_now;
use bytes::Bytes;
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_cache::weu::layout::SECTOR_BYTES;
use nitro_cache::{Append, Fingerprint};
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
    /// Inserts what is queued until [`close`](Cache::close). Hashes and compresses, and so is best polled by a thread
    /// that serves no clients. Several may run.
    pub async fn insertion_worker(&self) {
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
        while worker.writes.next().await.is_some() {}
    }
}

impl<F: Device, C: Clock> Worker<'_, F, C> {
    /// The next job; WEUs on their way are seen to their end meanwhile.
    async fn next_job(&mut self) -> Option<Job> {
        let mut take = pin!(self.cache.queue.take());
        while !self.writes.is_empty() {
            match select(take.as_mut(), self.writes.next()).await {
                Either::Left((job, _)) => return job,
                Either::Right(_) => {}
            }
        }
        take.await
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
            if job.token.is_void() {
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
        while let Some(open) = self.opened().await {
            // The bytes first: once the manager knows the extent, a reader may ask for it.
            cache.resident.push(open.weu, encoding, payload.clone());
            let appended = {
                let mut manager = cache.manager.lock();
                let append = || manager.append(open.weu, job.key, fingerprint.as_ref(), payload.len() as u32);
                (!job.token.is_void()).then(append)
            };
            if let Some(Append::At(location)) = appended {
                let extent_bytes = cache.settings.manager.extent_bytes;
                open.put(&cache.place(&location), job.key, fingerprint, (encoding, &payload), extent_bytes);
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
            self.make_room().await;
            let opened = self.cache.manager.lock().open_weu();
            match opened {
                Some((weu, generation)) => {
                    self.cache.resident.open(weu, generation);
                    self.open = Some(OpenWeu::new(weu, generation, self.cache.settings.manager.weu_bytes));
                }
                None if self.writes.next().await.is_some() => {}
                None => {
                    self.cache.watch.give_up(&"no write-evict unit is left that can be written");
                    return None;
                }
            }
        }
        self.open.as_mut()
    }

    /// Evicts ahead of need, and cleans up after it in bounded steps.
    async fn make_room(&self) {
        let cache = self.cache;
        loop {
            let evicted = {
                let mut manager = cache.manager.lock();
                if manager.wants_eviction() { manager.evict() } else { None }
            };
            let Some(evicted) = evicted else { break };
            if cache.settings.discard_evicted {
                let weu_bytes = u64::from(cache.settings.manager.weu_bytes);
                // A device that cannot discard only loses a hint.
                let _ = cache.flash.discard(cache.slot_offset(evicted.weu), weu_bytes).await;
            }
        }
        while cache.manager.lock().clean_step() {}
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

async fn write<F: Device, C: Clock>(cache: &Cache<F, C>, open: OpenWeu) {
    let weu = open.weu;
    let block_bytes = cache.flash.geometry().block_bytes.max(SECTOR_BYTES);
    let (bytes, written) = open.seal(cache.superblock.epoch, block_bytes);
    match cache.flash.write(cache.slot_offset(weu), bytes).await {
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
            cache.watch.write_failed(&error);
        }
    }
    cache.resident.close(weu);
}
