//! Insertion of dirty extents: as that of clean ones, but into write-evict units of their own, told to the journal, and
//! never dropped.

use crate::buf::is_zero;
use crate::cache::Cache;
use crate::codec::{Compressor, Encoding};
use crate::format::journal::Record;
use crate::insert::{Content, Job, OpenWeu, payload, stored_as};
use crate::port::{Clock, Device};
use crate::yielding::yield_now;
use bytes::Bytes;
use futures_util::future::select;
use nitro_cache::{Append, Fingerprint};
use std::pin::pin;
use std::time::Duration;

/// Jobs after which the worker lets others on its thread run.
const JOBS_PER_TURN: usize = 16;
/// Sealed WEUs that may wait for the committer.
const SEALED_MAX: usize = 3;
/// How long to wait for room before looking again.
const ROOM_WAIT: Duration = Duration::from_millis(100);
/// How often to wait for room once the cache is closed, and nothing is destaged any more.
const WAITS_CLOSED_MAX: u32 = 100;

/// The WEU that dirty extents go to, and those that are full.
#[derive(Default)]
pub(crate) struct DirtyOpen {
    pub(super) open: Option<OpenWeu>,
    pub(super) sealed: Vec<OpenWeu>,
}

/// What became of an extent.
enum Put {
    Done,
    /// The open WEU is full, or there is none.
    NoRoom,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Inserts dirty extents until the cache is closed and none is left.
    pub(crate) async fn dirty_worker(&self) {
        let mut compressor = Compressor::new(self.settings.compression);
        let mut jobs = 0;
        while let Some(job) = self.dirty_queue.take().await {
            self.insert_newest(&mut compressor, &job).await;
            self.shares.release(job.key.object(), 1);
            self.dirty_queue.done();
            jobs += 1;
            if jobs % JOBS_PER_TURN == 0 {
                self.room.notify(usize::MAX);
                yield_now().await;
            }
        }
    }

    /// Inserts what is newest of a job's extent: what has taken the place of the job's content has a job of its own, but
    /// whoever waits for this one must find the extent durable with the next commit, as it was or newer.
    async fn insert_newest(&self, compressor: &mut Compressor, job: &Job) {
        let index = job.key.index().0;
        while let Some((kept, token)) = job.flights.newest_dirty(index) {
            let (content, flights) = (Content::Whole(kept, None), job.flights.clone());
            let newest = Job { key: job.key, content, token, flights, _room: None };
            // Where it has no place any more, RAM goes on to have it.
            if !self.insert_dirty(compressor, &newest).await {
                return;
            }
            if !newest.token.is_void() {
                newest.token.set_inserted();
                job.flights.settle(index, &newest.token);
                break;
            }
        }
        job.token.set_inserted();
    }

    /// `false`: there is no place for it.
    async fn insert_dirty(&self, compressor: &mut Compressor, job: &Job) -> bool {
        let Content::Whole(extent, known) = &job.content else { return true };
        if job.token.is_void() {
            return true;
        }
        let zero = is_zero(extent.bytes());
        let fingerprint = self.fingerprint(extent.bytes(), zero, *known);
        if fingerprint.is_some_and(|fingerprint| self.put_duplicate(job, &fingerprint)) {
            return true;
        }
        let (encoding, payload) = payload(compressor, extent, zero);
        while let Put::NoRoom = self.put(job, fingerprint, encoding, &payload) {
            if !self.open_dirty().await {
                return false;
            }
        }
        true
    }

    /// Refers to content that is cached already; but once destage is wanted not such that keeps yet another unit from being evicted:
    /// a few extents scattered over many would soon leave none. They are stored again, together.
    fn put_duplicate(&self, job: &Job, fingerprint: &Fingerprint) -> bool {
        let mut manager = self.manager.lock();
        if job.token.is_void() {
            return true;
        }
        let pins_max = self.weu_count() * u32::from(self.settings.dirty_start_percent) / 100;
        let Some((location, version)) = manager.insert_dirty_duplicate(job.key, fingerprint, self.seconds(), pins_max)
        else {
            return false;
        };
        let (key, weu) = (job.key, location.weu);
        let record = Record::DirtyDup { key, version, weu, generation: location.generation, entry: location.entry };
        // While the manager is locked: whoever sees the entry sees the record.
        self.ledger.push(record);
        job.flights.dirty_contents.note(key.index().0, version, *fingerprint);
        true
    }

    fn put(&self, job: &Job, fingerprint: Option<Fingerprint>, encoding: Encoding, payload: &Bytes) -> Put {
        let mut dirty = self.dirty_open.lock();
        let Some(open) = dirty.open.as_mut() else { return Put::NoRoom };
        self.resident.push(open.weu, encoding, payload.clone());
        let mut manager = self.manager.lock();
        if job.token.is_void() {
            drop(manager);
            self.resident.pop(open.weu);
            return Put::Done;
        }
        let stored = stored_as(encoding, payload);
        let appended = manager.append_dirty(open.weu, job.key, fingerprint.as_ref(), stored, self.seconds());
        let version = manager.version();
        let Append::At(location) = appended else {
            manager.seal(open.weu);
            drop(manager);
            self.resident.pop(open.weu);
            let full = dirty.open.take();
            dirty.sealed.extend(full);
            return Put::NoRoom;
        };
        if let Some(fingerprint) = fingerprint {
            job.flights.dirty_contents.note(job.key.index().0, version, fingerprint);
        }
        drop(manager);
        let entry = open.put(&self.place(&location), job.key, fingerprint, stored, (encoding, payload), version);
        self.ledger.push(Record::DirtyBase {
            key: job.key,
            version,
            weu: location.weu,
            generation: location.generation,
            start: self.start,
            entry: location.entry,
            offset: entry.offset,
            stored_bytes: entry.stored_bytes,
            crc: entry.checksum,
            raw_blocks: entry.raw,
            fingerprint,
        });
        Put::Done
    }

    /// Opens another WEU for dirty extents, however long it takes to get a slot. `false`: there will be none. What was admitted
    /// finds one without destage, unless the cache has become smaller, or its settings have.
    async fn open_dirty(&self) -> bool {
        self.ledger.wanted.notify(usize::MAX);
        let mut waits_closed = 0;
        loop {
            let room = self.room.listen();
            if self.ledger.failed().is_some() {
                return false;
            }
            let wait_for_commit = self.dirty_open.lock().sealed.len() >= SEALED_MAX;
            if !wait_for_commit {
                self.make_room().await;
                let opened = self.manager.lock().open_dirty_weu(self.block_bytes());
                if let Some((weu, generation)) = opened {
                    self.set_start(weu, self.start);
                    self.resident.open(weu, generation);
                    let open = OpenWeu::new(weu, generation, self.settings.manager.weu_bytes, true);
                    self.dirty_open.lock().open = Some(open);
                    return true;
                }
            }
            if !wait_for_commit && self.is_full_of_dirty() && !self.manager.lock().has_destageable() {
                self.fail(&"all its room is taken by dirty extents that cannot be destaged");
                return false;
            }
            if self.dirty_queue.is_closed() {
                waits_closed += 1;
                if waits_closed > WAITS_CLOSED_MAX {
                    self.fail(&"it is closed, and has no room for all dirty extents");
                    return false;
                }
            }
            self.metrics.dirty_stalls.add(1);
            self.destage_wanted.notify(usize::MAX);
            select(room, pin!(self.clock.sleep(ROOM_WAIT))).await;
        }
    }

    /// Whether dirty extents have all the room that they may take.
    fn is_full_of_dirty(&self) -> bool {
        let manager = self.manager.lock();
        let percent = u64::from(self.settings.dirty_max_percent);
        let weus = u64::from(manager.pinned_count()) * 100 >= u64::from(self.weu_count()) * percent;
        weus || manager.dirty_count() * 100 >= self.extents_raw() * percent
    }

    /// Whether destage should run, whatever the age of what is dirty.
    pub(crate) fn wants_destage(&self) -> bool {
        if self.is_shrinking() {
            return true;
        }
        let manager = self.manager.lock();
        self.is_beyond_start(manager.pinned_count(), manager.dirty_count())
    }

    /// Whether so many WEUs, or dirty extents, are more than what destage leaves alone.
    pub(super) fn is_beyond_start(&self, pinned: u32, dirty: u64) -> bool {
        let percent = u64::from(self.settings.dirty_start_percent);
        let weus = u64::from(pinned) * 100 > u64::from(self.weu_count()) * percent;
        weus || dirty * 100 > self.extents_raw() * percent
    }

    /// Extents that the cache holds if none shrinks.
    pub(super) fn extents_raw(&self) -> u64 {
        u64::from(self.weu_count()) * u64::from(self.superblock.weu_bytes / self.superblock.extent_bytes)
    }

    /// The clock in whole seconds.
    pub(crate) fn seconds(&self) -> u32 {
        self.clock.now().as_secs() as u32
    }
}
