//! The insertion worker: the paper's six steps (§3, "Cache insertion path").

use super::duplicate::Inserted;
use super::know::{Known, Looking, Next, Prepared};
use super::lanes::Lanes;
use super::open_weu::{Entering, OpenWeu, Parts};
use super::queue::Job;
use super::stored_as;
use super::tags::ByTag;
use crate::cache::Cache;
use crate::domain::Names;
use crate::fingerprints::{ContentPlace, FingerprintIndex, NoIndex};
use crate::format::journal::{EVICTED_BYTES, FORGET_BYTES, Record};
use crate::health::Access;
use crate::kept::Kept;
use crate::writeback::Room;
use bytes::Bytes;
use event_listener::{Event, listener};
use futures_util::future::{Either, LocalBoxFuture, join, select};
use futures_util::lock::MutexGuard;
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_cache::admission::{Admitted, Provenance, Shelf};
use nitro_cache::{Append, CacheManager, Location};
use nitro_port::codec::{Compressor, Encoding};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, DeviceError};
use nitro_units::WeuId;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of sealed WEUs of a cache that are being written at once, while the next one is filled.
const WRITES_MAX: usize = 2;
/// Jobs after which a worker lets other tasks of its thread run.
const JOBS_PER_TURN: usize = 32;

/// One of the workers of a cache.
pub(super) struct Worker<'a, F, C> {
    pub(super) cache: &'a Cache<F, C>,
    pub(super) compressor: Compressor,
    /// The writes that it began.
    writes: FuturesUnordered<LocalBoxFuture<'a, ()>>,
    /// Jobs since other tasks of its thread had their turn.
    jobs: usize,
}

/// The writes of sealed WEUs that are in progress, by all workers of a cache.
#[derive(Default)]
pub(crate) struct Writes {
    count: AtomicUsize,
    ended: Event,
}

/// One of the writes.
struct Write<'a>(&'a Writes);

impl Writes {
    fn begin(&self) -> Write<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        Write(self)
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify(usize::MAX);
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Inserts queued extents, clean and dirty, and runs commits, until [`close`](Cache::close). It hashes and
    /// compresses, so a thread that serves no clients should poll it. One runs for each cache; others may run the part
    /// for clean extents, [`clean_insertion_worker`](Self::clean_insertion_worker), beside it.
    pub async fn insertion_worker(&self) {
        self.insertion_worker_with(&NoIndex).await;
    }

    /// As [`insertion_worker`](Self::insertion_worker); clean contents that the manager's index in RAM does not know are
    /// looked for in `index` before they count as new.
    pub async fn insertion_worker_with(&self, index: &impl FingerprintIndex) {
        join(Box::pin(self.clean_insertion_worker(index)), self.dirty_insertion_worker()).await;
    }

    /// The part of [`insertion_worker_with`](Self::insertion_worker_with) for clean extents. No client waits for it: it
    /// may have threads of its own, of low priority. Any number of them may run for a cache, each on its thread: they
    /// hash and compress at the same time, and extents enter the cache in the order of their arrival. Each has to be
    /// given the same index.
    pub async fn clean_insertion_worker(&self, index: &impl FingerprintIndex) {
        let is_last = match self.is_lean() && self.settings.manager.dedup {
            true => Box::pin(self.insert_clean(&ByTag::new(self))).await,
            false => Box::pin(self.insert_clean(index)).await,
        };
        if is_last {
            self.clean_ended.set();
        }
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

    /// Returns whether this was the last worker of the cache.
    async fn insert_clean<I: FingerprintIndex>(&self, index: &I) -> bool {
        if I::IS_THERE {
            self.moved.keep();
        }
        let member = self.queue.enter();
        let compressor = Compressor::new(self.live.compression());
        let mut worker = Worker { cache: self, compressor, writes: FuturesUnordered::new(), jobs: 0 };
        let mut looking = Looking::new(self, index);
        while let Some((number, prepared)) = looking.next(&mut worker).await {
            let Some(mut appending) = self.order.offer(number, prepared) else {
                worker.take_turns().await;
                continue;
            };
            while let Some(prepared) = appending.next() {
                worker.finish(prepared, index).await;
                worker.take_turns().await;
            }
        }
        while worker.writes.next().await.is_some() {}
        let is_last = member.leave();
        if is_last {
            worker.seal_rest().await;
        }
        is_last
    }
}

impl<'a, F: Device, C: Clock> Worker<'a, F, C> {
    /// The next job, with its number in the order of insertion; writes of WEUs are completed meanwhile.
    pub(super) async fn next_job(&mut self) -> Option<(u64, Job)> {
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
        // Another worker may hold the lanes for long.
        if !self.cache.gives_up_any() {
            return;
        }
        let mut lanes = self.lanes().await;
        for shelf in Shelf::clean() {
            if lanes.get(shelf).is_some_and(|open| self.cache.is_given_up(open.weu)) {
                self.seal(&mut lanes, shelf).await;
            }
        }
    }

    /// The open WEUs. The writes of this worker are completed meanwhile: whoever holds the WEUs may wait for one of them.
    async fn lanes(&mut self) -> MutexGuard<'a, Lanes> {
        let cache = self.cache;
        let mut lanes = pin!(cache.lanes.lock());
        while !self.writes.is_empty() {
            if let Either::Left((lanes, _)) = select(lanes.as_mut(), self.writes.next()).await {
                return lanes;
            }
        }
        lanes.await
    }

    /// Lets other tasks of the thread run from time to time.
    async fn take_turns(&mut self) {
        self.jobs += 1;
        if self.jobs.is_multiple_of(JOBS_PER_TURN) {
            yield_now().await;
        }
    }

    /// Inserts the next extent in the order of insertion, if there is still something to insert.
    async fn finish<I: FingerprintIndex>(&mut self, prepared: Prepared, index: &I) {
        let (cache, Prepared { mut job, next }) = (self.cache, prepared);
        self.compressor.use_codec(cache.live.compression());
        let is_staged = matches!(next, Next::Staged);
        if let Next::Insert(known) = next
            && cache.device_health.is_caching()
        {
            job.from = known.from;
            self.insert(&job, known, index).await;
        }
        for (fingerprint, place) in cache.moved.take() {
            index.note(&fingerprint, place).await;
        }
        if !is_staged {
            job.flights.settle(job.key.index(), &job.token);
        }
        cache.queue.done();
    }

    async fn insert<I: FingerprintIndex>(&mut self, job: &Job, known: Known, index: &I) {
        let cache = self.cache;
        let Known { extent, zero, named, from, mut place, was_in_ram, stored } = known;
        let mut entered = named.map(|named| named.within);
        if let Some(named) = &named {
            // Since it was looked for, jobs before this one may have brought it, or driven it out of RAM.
            place = place.or_else(|| cache.order.noted.lock().find(&named.within));
            if was_in_ram && place.is_none() && cache.manager.lock().lookup_fingerprint(&named.within).is_none() {
                place = index.find_alone(&named.within).await;
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
        let (encoding, payload) = stored.unwrap_or_else(|| payload(&mut self.compressor, &extent, zero));
        let names = Names { indexed: entered, plain: named.map(|named| named.plain) };
        if let Some(location) = self.append(job, admitted, names, encoding, payload).await
            && let Some(entered) = entered.filter(|_| I::IS_THERE && !zero)
        {
            let place = ContentPlace::new(location.weu, location.entry, location.generation, cache.start);
            cache.order.noted.lock().push(entered, place, cache.queue.at_work_max());
            index.note(&entered, place).await;
        }
    }

    /// Writes the records of duplicates, if so many wait that the next full unit should not be waited for.
    async fn record_many(&mut self) {
        let cache = self.cache;
        if cache.manager.lock().wants_record_unit() {
            cache.write_record_unit(&mut *self.lanes().await).await;
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
        let mut lanes = self.lanes().await;
        while let Some(open) = self.opened(&mut lanes, admitted.shelf()).await {
            // The bytes first: once the manager knows the extent, a reader may ask for it.
            cache.resident.push(open.weu, encoding, payload.clone(), names.indexed);
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
            if !self.written().await {
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

    /// Closes a shelf's open WEU and starts its write to the SSD. Whoever gives up waiting for it leaves the WEU where it is.
    async fn seal(&mut self, lanes: &mut Lanes, shelf: Shelf) {
        while self.cache.writes.count() >= WRITES_MAX {
            self.written().await;
        }
        let Some(mut open) = lanes.take(shelf) else { return };
        let (cache, begun) = (self.cache, self.cache.writes.begin());
        let room = cache.manager.lock().seal(open.weu);
        cache.record_duplicates(&mut open, room);
        // It begins when the worker waits for something next, as in the simulator.
        self.writes.push(Box::pin(async move {
            let _begun = begun;
            write(cache, open).await;
        }));
    }

    /// Waits until a write of a WEU has ended, of this worker or of another one; `false`: none is in progress.
    async fn written(&mut self) -> bool {
        listener!(self.cache.writes.ended => ended);
        if self.cache.writes.count() == 0 {
            return false;
        }
        // That of another worker may end while this one has none.
        let own = async {
            if self.writes.next().await.is_none() {
                std::future::pending::<()>().await;
            }
        };
        select(pin!(own), ended).await;
        true
    }

    /// What is not full is written, too, and all duplicates are recorded: they are there again after a restart.
    async fn seal_rest(&mut self) {
        let cache = self.cache;
        cache.recall_duplicates().await;
        let mut lanes = self.lanes().await;
        for shelf in Shelf::clean() {
            let is_filled = lanes.get(shelf).is_some_and(|open| !open.entries().is_empty());
            if is_filled && self.cache.device_health.is_caching() {
                self.seal(&mut lanes, shelf).await;
            }
        }
        while cache.device_health.is_caching() && cache.manager.lock().is_record_unit_worth_it() {
            let before = cache.manager.lock().unrecorded_count();
            if !cache.write_record_unit(&mut lanes).await || cache.manager.lock().unrecorded_count() >= before {
                break;
            }
        }
        drop(lanes);
        while self.writes.next().await.is_some() {}
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
