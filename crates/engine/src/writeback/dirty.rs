//! Insertion of dirty extents: like that of clean ones, but into separate write-evict units, with records in the
//! journal, and never dropped.

use super::ROOM_WAIT;
use super::ledger::Room;
use crate::cache::Cache;
use crate::domain::{Named, Names};
use crate::format::journal::{DIRTY_BASE_BYTES_MAX, DIRTY_DUP_BYTES, FORGET_BYTES, Record};
use crate::insert::{Compared, Content, Entering, Job, OpenWeu, payload, stored_as};
use crate::journal::{DIRTY_BYTES, UNSEALED_BYTES};
use crate::write_log::WriteLog;
use bytes::Bytes;
use futures_util::future::select;
use nitro_cache::destage::{DirtyUse, Watermarks};
use nitro_cache::{Append, CacheManager, LostDevices};
use nitro_port::buf::is_zero;
use nitro_port::codec::{Compressor, Encoding};
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device};
use nitro_units::WeuId;
use std::pin::pin;

/// Jobs after which the worker lets others on its thread run.
const JOBS_PER_TURN: usize = 16;
/// Sealed WEUs that may wait for the committer. With the open one and one that is being given up, they are those that the
/// journal is made for.
const SEALED_MAX: usize = 3;
/// Dirty extents for which the journal's room is checked together.
const EXTENTS_PER_LOOK: u64 = 64;
/// Bytes of records of a dirty extent: its own, and that older entries are void; a duplicate may also displace another one.
const DIRTY_DUP_TELLS: u64 = (DIRTY_DUP_BYTES + 2 * FORGET_BYTES) as u64;
const DIRTY_BASE_TELLS: u64 = (DIRTY_BASE_BYTES_MAX + FORGET_BYTES) as u64;
/// Why the cache fails where destage can make no room.
const NOT_DESTAGEABLE: &str = "all the cache's room is taken by dirty extents that cannot be destaged";
/// How often to wait for room once the cache is closed, and nothing is destaged any more.
const WAITS_CLOSED_MAX: u32 = 100;

/// The WEU that dirty extents go to, and those that are full.
#[derive(Default)]
pub(crate) struct DirtyOpen {
    pub(super) open: Option<OpenWeu>,
    pub(super) sealed: Vec<OpenWeu>,
}

impl DirtyOpen {
    /// Entries that no header on the SSD has.
    fn unsealed_count(&self) -> u64 {
        self.open.iter().chain(&self.sealed).map(|open| open.entries().len() as u64).sum()
    }

    /// Takes out the units on lost devices.
    pub(crate) fn take_lost(&mut self, lost: LostDevices) -> Vec<WeuId> {
        let open = self.open.take_if(|open| lost.has(open.weu));
        let sealed = self.sealed.extract_if(.., |open| lost.has(open.weu));
        open.into_iter().chain(sealed).map(|open| open.weu).collect()
    }

    /// Closes the open WEU for further extents.
    fn seal(&mut self, manager: &mut CacheManager) {
        if let Some(open) = self.open.take() {
            manager.seal(open.weu);
            self.sealed.push(open);
        }
    }
}

/// What the one who inserts dirty extents has at hand.
struct Inserting {
    compressor: Compressor,
    /// Extents that may become dirty before the journal's room is looked at again.
    may_insert: u64,
}

/// The result for an extent.
enum Put {
    Done,
    /// The open WEU is full, or there is none.
    NoRoom,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Inserts dirty extents until the cache is closed and none is left.
    pub(crate) async fn insert_dirty_extents(&self) {
        let mut inserting = Inserting { compressor: Compressor::new(self.live.compression()), may_insert: 0 };
        let mut jobs = 0;
        while let Some((_, job)) = self.dirty_queue.take().await {
            inserting.compressor.use_codec(self.live.compression());
            self.insert_newest(&mut inserting, &job).await;
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
    async fn insert_newest(&self, inserting: &mut Inserting, job: &Job) {
        let index = job.key.index();
        while let Some((kept, token)) = job.flights.newest_dirty(index) {
            let from = self.classified(job.key, job.from, kept.bytes());
            let (content, flights) = (Content::Whole(kept, None), job.flights.clone());
            let newest = Job { key: job.key, content, from, token, flights, room: None };
            // Where it has no place any more, RAM goes on to have it.
            if !self.insert_dirty(inserting, &newest).await {
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

    /// Returns `false` if there is no room for it.
    async fn insert_dirty(&self, inserting: &mut Inserting, job: &Job) -> bool {
        let Content::Whole(extent, known) = &job.content else { return true };
        if job.token.is_void() {
            return true;
        }
        let zero = is_zero(extent.bytes());
        let named = self.name(job.key, extent.bytes(), zero, *known);
        if !self.is_room_in_journal(inserting).await {
            return false;
        }
        self.learn(named.as_ref().filter(|_| !zero).map(|named| named.within)).await;
        let compared = match &named {
            Some(named) if self.settings.verify_duplicates => {
                Some(self.compare_known(job.key, named, extent.bytes()).await)
            }
            _ => None,
        };
        if let Some(named) = &named
            && self.ledger.tell(DIRTY_DUP_TELLS, |room| self.put_duplicate(job, named, compared, room)).await
        {
            return true;
        }
        // Of contents of one fingerprint the first keeps its place in the index.
        let indexed = named.filter(|_| compared != Some(Compared::Different)).map(|named| named.within);
        let names = Names { indexed, plain: named.map(|named| named.plain) };
        let (encoding, payload) = payload(&mut inserting.compressor, extent, zero);
        let put = |room: &Room<'_>| self.put(job, names, encoding, &payload, room);
        while let Put::NoRoom = self.ledger.tell(DIRTY_BASE_TELLS, put).await {
            if !self.open_dirty().await {
                return false;
            }
        }
        true
    }

    /// Waits until the journal's next snapshot has room for one more dirty extent: until WEUs without header are
    /// written, or until destage. `false`: there will be no room.
    async fn is_room_in_journal(&self, inserting: &mut Inserting) -> bool {
        let mut waits_closed = 0;
        while inserting.may_insert == 0 {
            let room = self.room.listen();
            if self.ledger.failed().is_some() {
                return false;
            }
            let unsealed = {
                let mut dirty = self.dirty_open.lock();
                let mut manager = self.manager.lock();
                let unsealed = dirty.unsealed_count();
                let bytes = manager.dirty_count() * DIRTY_BYTES + unsealed * UNSEALED_BYTES;
                let left = self.budget.dirty_bytes(self.weu_count()).saturating_sub(bytes);
                inserting.may_insert = (left / (DIRTY_BYTES + UNSEALED_BYTES)).min(EXTENTS_PER_LOOK);
                if inserting.may_insert == 0 {
                    dirty.seal(&mut manager);
                }
                unsealed
            };
            if inserting.may_insert > 0 {
                break;
            }
            if unsealed == 0 && !self.manager.lock().has_destageable() {
                self.fail(&NOT_DESTAGEABLE);
                return false;
            }
            if !self.may_wait(&mut waits_closed) {
                return false;
            }
            self.ledger.wanted.notify(usize::MAX);
            select(room, pin!(self.clock.sleep(ROOM_WAIT))).await;
        }
        inserting.may_insert -= 1;
        true
    }

    /// Inserts the extent as a reference to cached content. Once destage is wanted, it does not refer to content that
    /// would pin a further unit: a few extents scattered over many units would soon pin all of them. Such extents are
    /// stored again, together. If bytes were `compared`, it refers only to content that was found equal.
    fn put_duplicate(&self, job: &Job, named: &Named, compared: Option<Compared>, room: &Room<'_>) -> bool {
        self.pinning(|manager, pins_max| {
            if job.token.is_void() {
                return true;
            }
            if let Some(compared) = compared {
                let Compared::Same(location) = compared else { return false };
                // By another thread or an eviction the index may have come to name other bytes.
                if !manager.lookup_fingerprint(&named.within).is_some_and(|found| found.is_same(&location)) {
                    return false;
                }
            }
            let (key, seconds) = (job.key, self.seconds());
            let inserted =
                room.noting(manager, |manager| manager.insert_dirty_duplicate(key, &named.within, seconds, pins_max));
            let Some((location, version)) = inserted else { return false };
            let weu = location.weu;
            let record = Record::DirtyDup { key, version, weu, generation: location.generation, entry: location.entry };
            // While the manager is locked: whoever sees the entry sees the record.
            room.push(record);
            job.flights.dirty_contents.note(key.index(), version, named.plain);
            true
        })
    }

    /// Stores the extent.
    fn put(&self, job: &Job, names: Names, encoding: Encoding, payload: &Bytes, room: &Room<'_>) -> Put {
        let mut dirty = self.dirty_open.lock();
        let Some(open) = dirty.open.as_mut() else { return Put::NoRoom };
        self.resident.push(open.weu, encoding, payload.clone(), names.indexed);
        let mut manager = self.manager.lock();
        if job.token.is_void() {
            drop(manager);
            self.resident.pop(open.weu);
            return Put::Done;
        }
        let (weu, stored, seconds) = (open.weu, stored_as(encoding, payload), self.seconds());
        let appended = room.noting(&mut manager, |manager| {
            manager.append_dirty(weu, job.key, names.indexed.as_ref(), stored, seconds)
        });
        let version = manager.version();
        let Append::At(location) = appended else {
            dirty.seal(&mut manager);
            drop(manager);
            self.resident.pop(weu);
            return Put::NoRoom;
        };
        manager.classify(&location, job.from.class);
        if let Some(fingerprint) = names.plain {
            job.flights.dirty_contents.note(job.key.index(), version, fingerprint);
        }
        drop(manager);
        let (key, class) = (job.key, job.from.class);
        let entering = Entering { key, fingerprint: names.plain, class, version };
        let entry = open.put(&self.place(&location), entering, stored, encoding, payload);
        room.push(Record::DirtyBase {
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
            class,
            fingerprint: names.plain,
        });
        Put::Done
    }

    /// Opens another WEU for dirty extents, and waits for a slot without a time limit. `false`: there will be none.
    /// Admitted extents find a slot without destage, unless the cache or its settings have become smaller.
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
                self.make_room(&mut *self.lanes.lock().await).await;
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
                self.fail(&NOT_DESTAGEABLE);
                return false;
            }
            if !self.may_wait(&mut waits_closed) {
                return false;
            }
            select(room, pin!(self.clock.sleep(ROOM_WAIT))).await;
        }
    }

    /// The part that is taken of the journal's room for dirty extents, or of the write log's ring, whichever is more.
    pub(crate) fn journal_used(&self) -> f64 {
        let unsealed = self.dirty_open.lock().unsealed_count();
        let bytes = self.manager.lock().dirty_count() * DIRTY_BYTES + unsealed * UNSEALED_BYTES;
        let in_journal = bytes as f64 / self.budget.dirty_bytes(self.weu_count()).max(1) as f64;
        in_journal.max(self.log.as_ref().map_or(0.0, WriteLog::used))
    }

    /// The part that is taken of the RAM for dirty extents that wait for insertion.
    pub(crate) fn dirty_ram_used(&self) -> f64 {
        self.dirty_queue.bytes() as f64 / self.settings.dirty_queue_bytes.max(1) as f64
    }

    /// Requests destage. `false`: the cache is closed, and the time limit has passed.
    fn may_wait(&self, waits_closed: &mut u32) -> bool {
        if self.dirty_queue.is_closed() {
            *waits_closed += 1;
            if *waits_closed > WAITS_CLOSED_MAX {
                self.fail(&"the cache is closed, and has no room for all dirty extents");
                return false;
            }
        }
        self.metrics.write_waits();
        self.destage_wanted.notify(usize::MAX);
        true
    }

    /// When destage runs.
    pub(crate) fn watermarks(&self) -> Watermarks {
        let age = self.live.dirty_age().as_secs();
        Watermarks {
            start_percent: self.live.dirty_start_percent(),
            max_percent: self.live.dirty_max_percent(),
            age_seconds: u32::try_from(age).unwrap_or(u32::MAX),
        }
    }

    fn dirty_use(&self, pinned: u32, dirty: u64) -> DirtyUse {
        DirtyUse { pinned, weus: self.weus_for_dirty(), dirty, extents: self.extents_raw() }
    }

    /// Units of which dirty extents may take a share. Each further lane of clean extents keeps one open that cannot be had by
    /// eviction.
    pub(super) fn weus_for_dirty(&self) -> u32 {
        let usable = self.usable_weu_count();
        (usable + 1).saturating_sub(self.settings.manager.open_max(usable))
    }

    /// Whether dirty extents have all the room that they may take.
    fn is_full_of_dirty(&self) -> bool {
        let manager = self.manager.lock();
        self.watermarks().is_full(self.dirty_use(manager.pinned_count(), manager.dirty_count()))
    }

    /// Whether destage should run, independent of the age of dirty data.
    pub(crate) fn wants_destage(&self) -> bool {
        if self.is_shrinking() {
            return true;
        }
        let manager = self.manager.lock();
        self.is_beyond_start(manager.pinned_count(), manager.dirty_count())
    }

    /// Whether these numbers of pinned WEUs and dirty extents are above the start of destage.
    pub(super) fn is_beyond_start(&self, pinned: u32, dirty: u64) -> bool {
        // As `is_room_in_journal` finds it once there is no WEU without header.
        let journal = (dirty + 1) * DIRTY_BYTES + UNSEALED_BYTES > self.budget.dirty_bytes(self.weu_count());
        journal || self.watermarks().is_beyond_start(self.dirty_use(pinned, dirty))
    }

    /// Extents that the cache holds without compression; fewer if its journal has no room for so many dirty ones.
    pub(super) fn extents_raw(&self) -> u64 {
        let raw =
            u64::from(self.usable_weu_count()) * u64::from(self.superblock.weu_bytes / self.superblock.extent_bytes);
        raw.min(self.budget.dirty_bytes(self.weu_count()) / DIRTY_BYTES)
    }

    /// The clock in whole seconds.
    pub(crate) fn seconds(&self) -> u32 {
        self.clock.now().as_secs() as u32
    }
}
