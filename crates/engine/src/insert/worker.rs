//! The insertion worker: the paper's six steps (§3, "Cache insertion path").

use super::duplicate::Inserted;
use super::lanes::Lanes;
use super::open_weu::{Entering, OpenWeu, Parts};
use super::queue::{Content, Job};
use super::stored_as;
use crate::cache::Cache;
use crate::domain::{Named, Names};
use crate::fingerprints::{ContentPlace, FingerprintIndex, NoIndex};
use crate::format::journal::{EVICTED_BYTES, FORGET_BYTES, Record};
use crate::health::Access;
use crate::kept::Kept;
use crate::writeback::Room;
use bytes::Bytes;
use futures_util::future::{Either, FutureExt, LocalBoxFuture, join, ready, select};
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use nitro_cache::admission::{Admitted, Provenance, Shelf};
use nitro_cache::{Append, CacheManager, Location};
use nitro_port::buf::{BufMut, is_zero};
use nitro_port::codec::{Compressor, Encoding};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, DeviceError, Urgency};
use nitro_units::{ExtentKey, Fingerprint, WeuId};
use std::collections::VecDeque;
use std::pin::pin;

/// Maximum number of sealed WEUs of one worker that are being written at once, while the next one is filled.
const WRITES_MAX: usize = 2;
/// Maximum number of concurrent look-ups in an index on flash.
const LOOKUPS_MAX: usize = 64;
/// New look-ups are begun, several at once, when at most this number is in progress: this wakes the index thread less
/// often.
const LOOKUPS_MIN: usize = LOOKUPS_MAX / 2;
/// Jobs after which a worker lets other tasks of its thread run.
const JOBS_PER_TURN: usize = 32;

struct Worker<'a, F, C> {
    cache: &'a Cache<F, C>,
    compressor: Compressor,
    writes: FuturesUnordered<LocalBoxFuture<'a, ()>>,
    noted: Noted,
}

/// The contents last entered in an index on flash: look-ups of them may have begun before. The index in RAM may have no
/// room for them.
#[derive(Default)]
struct Noted(VecDeque<(Fingerprint, ContentPlace)>);

impl Noted {
    fn push(&mut self, fingerprint: Fingerprint, place: ContentPlace) {
        self.0.truncate(LOOKUPS_MAX - 1);
        self.0.push_front((fingerprint, place));
    }

    fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        self.0.iter().find(|(noted, _)| noted == fingerprint).map(|(_, place)| *place)
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Inserts queued extents, clean and dirty, and runs commits, until [`close`](Cache::close). It hashes and
    /// compresses, so a thread that serves no clients should poll it. One runs for each cache.
    pub async fn insertion_worker(&self) {
        self.insertion_worker_with(&NoIndex).await;
    }

    /// As [`insertion_worker`](Self::insertion_worker); clean contents that the manager's index in RAM does not know are
    /// looked for in `index` before they count as new.
    pub async fn insertion_worker_with(&self, index: &impl FingerprintIndex) {
        join(self.clean_insertion_worker(index), self.dirty_insertion_worker()).await;
    }

    /// The part of [`insertion_worker_with`](Self::insertion_worker_with) for clean extents. No client waits for it: it
    /// may have a thread of its own, of low priority.
    pub async fn clean_insertion_worker(&self, index: &impl FingerprintIndex) {
        self.insert_clean(index).await;
        self.clean_ended.set();
    }

    /// The part of [`insertion_worker`](Self::insertion_worker) for dirty extents and commits. It ends after
    /// [`clean_insertion_worker`](Self::clean_insertion_worker).
    pub async fn dirty_insertion_worker(&self) {
        let inserting = async {
            join(self.insert_dirty_extents(), self.clean_ended.wait()).await;
            // The last commit; where it fails, the committer has said so.
            let _ = self.commit().await;
            self.end_log().await;
            self.ledger.close();
        };
        join(inserting, self.committer()).await;
    }

    async fn insert_clean<I: FingerprintIndex>(&self, index: &I) {
        if I::IS_THERE {
            self.moved.keep();
        }
        let compressor = Compressor::new(self.live.compression());
        let mut worker = Worker { cache: self, compressor, writes: FuturesUnordered::new(), noted: Noted::default() };
        let mut looking = Looking { cache: self, index, jobs: FuturesOrdered::new(), is_last: false };
        let mut jobs = 0;
        while let Some((mut job, known)) = looking.next(&mut worker).await {
            worker.compressor.use_codec(self.live.compression());
            if let Some(known) = known.filter(|_| self.device_health.is_caching()) {
                job.from = known.from;
                worker.insert(&job, known, index).await;
            }
            for (fingerprint, place) in self.moved.take() {
                index.note(&fingerprint, place).await;
            }
            job.flights.settle(job.key.index(), &job.token);
            self.queue.done();
            jobs += 1;
            if jobs % JOBS_PER_TURN == 0 {
                yield_now().await;
            }
        }
        // What is not full is written too, and all duplicates are recorded: they are there again after a restart.
        self.recall_duplicates().await;
        let mut lanes = self.lanes.lock().await;
        for shelf in Shelf::clean() {
            let is_filled = lanes.get(shelf).is_some_and(|open| !open.entries().is_empty());
            if is_filled && self.device_health.is_caching() {
                worker.seal(&mut lanes, shelf).await;
            }
        }
        while self.device_health.is_caching() && self.manager.lock().is_record_unit_worth_it() {
            let before = self.manager.lock().unrecorded_count();
            if !self.write_record_unit(&mut lanes).await || self.manager.lock().unrecorded_count() >= before {
                break;
            }
        }
        drop(lanes);
        while worker.writes.next().await.is_some() {}
    }

    /// Determines what has to be known about a job's content before its insertion; `None`: there is nothing to insert
    /// any more.
    async fn know<I: FingerprintIndex>(&self, job: &Job, index: &I) -> Option<Known> {
        if !self.device_health.is_caching() {
            return None;
        }
        let (extent, fingerprint) = self.content(job).await?;
        let zero = is_zero(extent.bytes());
        let named = self.name(job.key, extent.bytes(), zero, fingerprint);
        let used = Provenance { used: job.token.is_used(), ..job.from };
        let from = self.classified(job.key, used, extent.bytes());
        let mut known = Known { extent, zero, named, from, place: None, was_in_ram: false };
        if let Some(named) = named.as_ref().filter(|_| I::IS_THERE && !zero) {
            known.was_in_ram = self.manager.lock().lookup_fingerprint(&named.within).is_some();
            if !known.was_in_ram {
                known.place = index.find(&named.within).await;
            }
        }
        Some(known)
    }

    /// The fingerprint by which an extent is deduplicated, if deduplication is on.
    pub(crate) fn name(&self, key: ExtentKey, extent: &[u8], zero: bool, known: Option<Fingerprint>) -> Option<Named> {
        let plain = self.settings.manager.dedup.then(|| match (zero, known) {
            (true, _) => self.zero_fingerprint,
            (false, Some(known)) => known,
            (false, None) => self.hash().of(extent),
        })?;
        Some(Named { plain, within: self.domain(key.object()).within(&plain) })
    }

    /// The extent's bytes, and their fingerprint if known; `None`: there is nothing to insert any more.
    async fn content(&self, job: &Job) -> Option<(Kept, Option<Fingerprint>)> {
        if job.token.is_void() {
            self.metrics.fills_voided.add(1);
            return None;
        }
        match &job.content {
            Content::Whole(extent, fingerprint) => Some((extent.clone(), *fingerprint)),
            Content::Merge { base, at, patch } => {
                let old = self.fetch(&[(job.key, *base)], Urgency::Normal).await.pop().flatten()?;
                let mut merged = BufMut::copy_of(&old);
                merged[*at..*at + patch.len()].copy_from_slice(patch);
                Some((Kept::own(merged.freeze()), None))
            }
        }
    }
}

/// What is known about a content.
struct Known {
    extent: Kept,
    zero: bool,
    named: Option<Named>,
    /// Its provenance, with its class.
    from: Provenance,
    /// Its place according to the index on flash.
    place: Option<ContentPlace>,
    /// The index on flash was not searched, because the index in RAM has the content.
    was_in_ram: bool,
}

/// Jobs whose contents are being looked up in an index on flash, in their order.
struct Looking<'a, F, C, I> {
    cache: &'a Cache<F, C>,
    index: &'a I,
    jobs: FuturesOrdered<LocalBoxFuture<'a, (Job, Option<Known>)>>,
    /// No further job will follow.
    is_last: bool,
}

impl<'a, F: Device, C: Clock, I: FingerprintIndex> Looking<'a, F, C, I> {
    /// The next job, with what is known about its content.
    async fn next(&mut self, worker: &mut Worker<'a, F, C>) -> Option<(Job, Option<Known>)> {
        if !I::IS_THERE {
            let job = worker.next_job().await?;
            let known = self.cache.know(&job, self.index).await;
            return Some((job, known));
        }
        let wanted = if self.jobs.len() <= LOOKUPS_MIN { LOOKUPS_MAX } else { 0 };
        while !self.is_last && self.jobs.len() < wanted {
            let job = match self.jobs.is_empty() {
                true => worker.next_job().await,
                false => match worker.next_job().now_or_never() {
                    Some(job) => job,
                    None => break,
                },
            };
            let Some(job) = job else {
                self.is_last = true;
                break;
            };
            let (cache, index) = (self.cache, self.index);
            let mut looking: LocalBoxFuture<'a, _> = Box::pin(async move {
                let known = cache.know(&job, index).await;
                (job, known)
            });
            // What is not to be read is known at once, and holds nothing up.
            match looking.as_mut().now_or_never() {
                Some(known) => self.jobs.push_back(Box::pin(ready(known))),
                None => self.jobs.push_back(looking),
            }
        }
        self.jobs.next().await
    }
}

impl<F: Device, C: Clock> Worker<'_, F, C> {
    /// The next job; writes of WEUs are completed meanwhile.
    async fn next_job(&mut self) -> Option<Job> {
        loop {
            let mut sealing = self.cache.seal_wanted.listen();
            self.seal_given_up().await;
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

    /// Closes open WEUs in slots that a resize removes.
    async fn seal_given_up(&mut self) {
        let mut lanes = self.cache.lanes.lock().await;
        for shelf in Shelf::clean() {
            if lanes.get(shelf).is_some_and(|open| self.cache.is_given_up(open.weu)) {
                self.seal(&mut lanes, shelf).await;
            }
        }
    }

    async fn insert<I: FingerprintIndex>(&mut self, job: &Job, known: Known, index: &I) {
        let cache = self.cache;
        let Known { extent, zero, named, from, mut place, was_in_ram } = known;
        let mut entered = named.map(|named| named.within);
        if let Some(named) = &named {
            // Since it was looked for, jobs before this one may have brought it, or driven it out of RAM.
            place = place.or_else(|| self.noted.find(&named.within));
            if was_in_ram && place.is_none() && cache.manager.lock().lookup_fingerprint(&named.within).is_none() {
                place = index.find(&named.within).await;
            }
            // Only the start that a slot was filled in tells apart fillings that bear one generation.
            place = place.filter(|p| cache.start_of(p.weu) == Some(p.start));
            let verified = match cache.settings.verify_duplicates {
                true => Some(cache.compare_anywhere(job.key, named, extent.bytes(), place).await),
                false => None,
            };
            let insert =
                |manager: &mut CacheManager| cache.insert_duplicate(manager, job, &named.within, place, verified);
            // The extent may have been recorded with other content, and so may one that it displaces.
            match cache.telling(2 * FORGET_BYTES, insert).await {
                Inserted::Yes => return self.record_many().await,
                Inserted::No => {}
                // The content that came first keeps its place in the indexes.
                Inserted::Collides => entered = None,
            }
        }
        let from = Provenance { used: job.token.is_used(), ..from };
        let Some(admitted) = cache.manager.lock().admit(job.key, from) else { return };
        let (encoding, payload) = payload(&mut self.compressor, &extent, zero);
        let names = Names { indexed: entered, plain: named.map(|named| named.plain) };
        if let Some(location) = self.append(job, admitted, names, encoding, payload).await
            && let Some(entered) = entered.filter(|_| I::IS_THERE && !zero)
        {
            let place = ContentPlace::new(location.weu, location.entry, location.generation, cache.start);
            self.noted.push(entered, place);
            index.note(&entered, place).await;
        }
    }

    /// Writes the records of duplicates, if so many wait that the next full unit should not be waited for.
    async fn record_many(&self) {
        if self.cache.manager.lock().wants_record_unit() {
            self.cache.write_record_unit(&mut *self.cache.lanes.lock().await).await;
        }
    }

    /// Steps 3 to 6. Returns the location of the content, if it was inserted.
    async fn append(
        &mut self,
        job: &Job,
        admitted: Admitted,
        names: Names,
        encoding: Encoding,
        payload: Bytes,
    ) -> Option<Location> {
        let cache = self.cache;
        let stored = stored_as(encoding, &payload);
        let mut lanes = cache.lanes.lock().await;
        while let Some(open) = self.opened(&mut lanes, admitted.shelf()).await {
            // The bytes first: once the manager knows the extent, a reader may ask for it.
            cache.resident.push(open.weu, encoding, payload.clone());
            let (appended, version) = cache
                .telling(FORGET_BYTES, |manager| {
                    let void = job.token.is_void() || manager.is_dirty(job.key);
                    let appended = (!void).then(|| manager.append(open.weu, job.key, names.indexed.as_ref(), stored));
                    if let Some(Append::At(location)) = &appended {
                        manager.classify(location, job.from.class);
                        manager.heat(location, admitted);
                    }
                    (appended, manager.version())
                })
                .await;
            if let Some(Append::At(location)) = appended {
                let entering = Entering { key: job.key, fingerprint: names.plain, class: job.from.class, version };
                open.put(&cache.place(&location), entering, stored, encoding, &payload);
                return Some(location);
            }
            cache.resident.pop(open.weu);
            if appended.is_none() {
                cache.metrics.fills_voided.add(1);
                return None;
            }
            self.seal(&mut lanes, admitted.shelf()).await;
        }
        None
    }

    /// The open WEU of a shelf; if there is none, one is opened, with evictions if necessary. `None`: no slot is
    /// available.
    async fn opened<'l>(&mut self, lanes: &'l mut Lanes, shelf: Shelf) -> Option<&'l mut OpenWeu> {
        while lanes.get(shelf).is_none() {
            self.cache.make_room(lanes).await;
            // What was copied forward may have opened one.
            if lanes.get(shelf).is_some() || self.cache.open_shelf(lanes, shelf) {
                break;
            }
            if self.writes.next().await.is_none() {
                // Others come free once dirty extents are destaged, or the rest of the cache has been read.
                let waiting = self.cache.manager.lock().is_waiting_for_slots();
                if !waiting {
                    self.cache.device_health.give_up(&"no write-evict unit is left that can be written");
                }
                self.cache.metrics.fills_dropped.add(1);
                return None;
            }
        }
        lanes.get(shelf)
    }

    /// Closes a shelf's open WEU and starts its write to the SSD.
    async fn seal(&mut self, lanes: &mut Lanes, shelf: Shelf) {
        let Some(mut open) = lanes.take(shelf) else { return };
        while self.writes.len() >= WRITES_MAX {
            self.writes.next().await;
        }
        let room = self.cache.manager.lock().seal(open.weu);
        self.cache.record_duplicates(&mut open, room);
        self.writes.push(Box::pin(write(self.cache, open)));
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Writes parts of a WEU, one after the other.
    pub(crate) async fn write_parts(&self, weu: WeuId, parts: Parts) -> Result<(), DeviceError> {
        for (at, bytes) in parts {
            self.flash.write(self.slot_offset(weu) + u64::from(at), bytes).await?;
        }
        Ok(())
    }
}

/// An extent in its stored form, in its own memory, because it stays in RAM until its WEU is full.
pub(crate) fn payload(compressor: &mut Compressor, extent: &Kept, zero: bool) -> (Encoding, Bytes) {
    if zero {
        return (Encoding::Raw, Bytes::new());
    }
    match compressor.compress(extent.bytes()) {
        (Encoding::Raw, _) => (Encoding::Raw, extent.detached()),
        packed => packed,
    }
}

pub(super) async fn write<F: Device, C: Clock>(cache: &Cache<F, C>, open: OpenWeu) {
    let (weu, generation) = (open.weu, open.generation);
    let (parts, written) = open.seal(cache.identity(), cache.block_bytes());
    let begun = cache.clock.now();
    match cache.write_parts(weu, parts).await {
        Ok(()) => {
            cache.discards.wrote(cache.clock.now().saturating_sub(begun));
            cache.succeeded(Access::Write, weu);
            cache.metrics.ssd_written_payload_bytes.add(written.payload_bytes);
            cache.metrics.ssd_written_header_bytes.add(written.header_bytes);
            cache.metrics.ssd_written_padding_bytes.add(written.padding_bytes);
            cache.manager.lock().stored(weu);
        }
        Err(error) => {
            cache.metrics.ssd_write_errors.add(1);
            // It may have got there all the same.
            let retire = |room: &Room<'_>| {
                let mut manager = cache.manager.lock();
                manager.begin_retiring(weu);
                room.push(Record::Evicted { weu, generation });
            };
            cache.ledger.tell(EVICTED_BYTES as u64, retire).await;
            cache.empty(weu);
            cache.failed(Access::Write, weu, &error);
        }
    }
    cache.resident.close(weu);
}
