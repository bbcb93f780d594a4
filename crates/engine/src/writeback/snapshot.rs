//! Snapshots of the journal's state: they are taken step by step, between commits, while the state changes. Records
//! that are committed meanwhile are written again behind the snapshot; records may be repeated without harm, since
//! versions and generations order them.

use super::committer::{Committer, total_bytes, write_data};
use crate::cache::Cache;
use crate::format::journal::Record;
use crate::journal::{AppendError, SNAPSHOT_PART_BYTES};
use crate::write_log::WriteLog;
use nitro_cache::CacheManager;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentIndex, Generation, ObjectId, WeuId};
use std::time::Duration;

/// Entries looked up under one holding of the manager's lock.
const ENTRIES_PER_LOCK: u16 = 64;
/// How often to check whether a restart has ended.
const RESTORE_WAIT: Duration = Duration::from_millis(10);

/// A snapshot that is being taken.
pub(super) struct Snapshotting {
    at: At,
    part: Vec<Record>,
    part_bytes: u64,
    /// Parts written.
    parts: u32,
    told_bytes: u64,
    /// Records committed since it was begun.
    carry: Vec<Record>,
    carry_bytes: u64,
}

/// What is written next.
enum At {
    Slot(u32),
    Dirty { objects: Vec<ObjectId>, from: ExtentIndex },
    Done,
}

impl Snapshotting {
    fn push(&mut self, record: Record) {
        self.part_bytes += record.encoded_bytes() as u64;
        self.told_bytes += record.encoded_bytes() as u64;
        self.part.push(record);
    }

    /// Bytes of records so far.
    pub(super) const fn told_bytes(&self) -> u64 {
        self.told_bytes
    }

    /// Bytes of records that it carries so far.
    pub(super) const fn carried_bytes(&self) -> u64 {
        self.carry_bytes
    }

    /// Whether it carries at most `bytes_max` bytes including these records.
    pub(super) fn may_carry(&self, records: &[Record], bytes_max: u64) -> bool {
        let bytes: u64 = records.iter().filter(|record| is_carried(record)).map(|r| r.encoded_bytes() as u64).sum();
        self.carry_bytes + bytes <= bytes_max
    }

    /// Tells records once more, behind the snapshot.
    pub(super) fn carry(&mut self, records: Vec<Record>) {
        let before = self.carry.len();
        self.carry.extend(records.into_iter().filter(is_carried));
        self.carry_bytes += total_bytes(&self.carry[before..]);
    }
}

/// Whether a record has to be carried. Snapshots begin when all WEUs have been read, and contain everything that became
/// void by then.
fn is_carried(record: &Record) -> bool {
    !matches!(record, Record::Slot { .. })
}

impl<F: Device, C: Clock> Committer<'_, F, C> {
    pub(super) fn begin_snapshot(&mut self) {
        self.journal.begin_snapshot();
        let mut snapshot = Snapshotting {
            at: At::Slot(0),
            part: Vec::new(),
            part_bytes: 0,
            parts: 0,
            told_bytes: 0,
            carry: Vec::new(),
            carry_bytes: 0,
        };
        let version = {
            let mut manager = self.cache.manager.lock();
            manager.hold_records(true);
            manager.version()
        };
        snapshot.push(Record::NextVersion { version: version + 1 });
        for record in self.cache.volumes.records() {
            snapshot.push(record);
        }
        for (object, region) in self.cache.regions.open() {
            snapshot.push(Record::RegionOpened { object, region });
        }
        if let Some(position) = self.cache.log.as_ref().and_then(WriteLog::journaled) {
            snapshot.push(Record::Log(position));
        }
        self.cache.tell_unsealed(&mut snapshot);
        self.snapshot = Some(snapshot);
    }

    /// Writes the next part of the snapshot; after the last one, its half is active.
    pub(super) async fn snapshot_step(&mut self) -> Result<(), AppendError> {
        // What the snapshot says of the state must be durable before the snapshot counts.
        if self.gather() {
            self.commit(true).await?;
            return self.finish(Vec::new()).await;
        }
        self.write_part().await
    }

    /// Completes a snapshot at once, and writes `records`, for which the log or the snapshot had no room, behind it.
    pub(super) async fn snapshot_now(&mut self, records: Vec<Record>) -> Result<(), AppendError> {
        // Entries that are still being read are not known to be void or not.
        while self.cache.is_restoring() {
            self.cache.clock.sleep(RESTORE_WAIT).await;
        }
        if self.snapshot.is_none() {
            self.begin_snapshot();
        }
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.carry(records);
        }
        while !self.gather() {
            self.write_part().await?;
        }
        // What changed while this was gathered has not been committed yet, and may be in the snapshot: the data of its
        // records is written here, the records with the snapshot's end.
        let round = self.cache.round();
        write_data(self.cache, round.unsaved, round.sealed).await?;
        self.finish(round.records).await?;
        self.cache.round_done(round.superseded, round.log);
        Ok(())
    }

    async fn write_part(&mut self) -> Result<(), AppendError> {
        let Some(snapshot) = &mut self.snapshot else { return Ok(()) };
        let part = std::mem::take(&mut snapshot.part);
        (snapshot.part_bytes, snapshot.parts) = (0, snapshot.parts + 1);
        let bytes = self.journal.snapshot_part(&self.cache.flash, &part).await?;
        self.cache.metrics.ssd_written_journal_bytes.add(bytes.0);
        Ok(())
    }

    async fn finish(&mut self, more: Vec<Record>) -> Result<(), AppendError> {
        let Some(snapshot) = &self.snapshot else { return Ok(()) };
        if !snapshot.part.is_empty() {
            self.write_part().await?;
        }
        let Some(mut snapshot) = self.snapshot.take() else { return Ok(()) };
        snapshot.carry(more);
        let budget = &self.cache.budget;
        debug_assert!(snapshot.carry_bytes <= budget.carry_bytes(), "{} bytes are carried", snapshot.carry_bytes);
        debug_assert!(snapshot.told_bytes <= budget.snapshot_bytes(), "{} bytes are told", snapshot.told_bytes);
        let bytes = self.journal.finish_snapshot(&self.cache.flash, &snapshot.carry).await?;
        self.cache.metrics.ssd_written_journal_bytes.add(bytes.0);
        self.cache.metrics.journal_snapshots.add(1);
        self.cache.manager.lock().hold_records(false);
        self.cache.doubts.note_flushed(self.journal.witness());
        debug_assert!(self.journal.room() >= 2 * self.cache.budget.round_bytes, "{} bytes of log", self.journal.room());
        Ok(())
    }

    /// Collects records up to the size of a part; returns `true` if these were the last ones.
    fn gather(&mut self) -> bool {
        let first_bytes = self.journal.first_part_bytes();
        let Some(snapshot) = &mut self.snapshot else { return true };
        let part_bytes = if snapshot.parts == 0 { first_bytes } else { SNAPSHOT_PART_BYTES };
        while snapshot.part_bytes < part_bytes {
            snapshot.at = match std::mem::replace(&mut snapshot.at, At::Done) {
                At::Slot(weu) if weu < self.cache.weu_count() => {
                    let record = self.cache.slot_record(WeuId(weu));
                    snapshot.push(record);
                    At::Slot(weu + 1)
                }
                At::Slot(_) => At::Dirty { objects: self.cache.manager.lock().dirty_objects(), from: ExtentIndex(0) },
                At::Dirty { mut objects, from } => {
                    let Some(object) = objects.last().copied() else { return true };
                    let count = usize::from(ENTRIES_PER_LOCK);
                    let batch = self.cache.manager.lock().dirty_from(object, from, u32::MAX, count);
                    let next = batch.last().map(|last| ExtentIndex(last.key.index().0 + 1));
                    for extent in batch.into_iter().filter(|extent| !extent.cleaning) {
                        snapshot.push(dirty_record(&extent));
                    }
                    if next.is_none() {
                        objects.pop();
                    }
                    At::Dirty { objects, from: next.unwrap_or(ExtentIndex(0)) }
                }
                At::Done => return true,
            };
        }
        false
    }
}

fn dirty_record(extent: &nitro_cache::DirtyExtent) -> Record {
    let (key, version) = (extent.key, extent.version);
    match extent.location {
        Some(l) => Record::DirtyDup { key, version, weu: l.weu, generation: l.generation, entry: l.entry },
        None => Record::Lost { key, version },
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// The live filling of a slot, its void entries and its void records of duplicates.
    pub(super) fn slot_record(&self, weu: WeuId) -> Record {
        let (evicted, live) = self.manager.lock().filling(weu);
        let count = ENTRIES_PER_LOCK;
        let entries = self.void_bits(weu, live, |manager, from| manager.void_entries(weu, from as u16, count));
        let mut records = self.void_bits(weu, live, |manager, from| manager.void_records(weu, from, count.into()));
        let mut dead = trimmed(entries);
        if records.contains(&true) {
            // They are behind the bits of all entries that a unit may have.
            dead.resize(self.duplicates_bit() as usize / 8, 0);
            let behind = self.duplicates_bit() % 8;
            (0..behind).for_each(|_| records.insert(0, false));
            dead.extend(trimmed(records));
        }
        Record::Slot { weu, evicted, generation: live.unwrap_or(evicted), dead }
    }

    /// The number of the bit of a unit's first record of a duplicate, behind those of its entries.
    pub(crate) fn duplicates_bit(&self) -> u32 {
        self.settings.manager.weu_entries_max()
    }

    /// What `next` tells of a filling from a number on, as long as the slot has the filling.
    fn void_bits(
        &self,
        weu: WeuId,
        live: Option<Generation>,
        next: impl Fn(&CacheManager, u32) -> Option<Vec<bool>>,
    ) -> Vec<bool> {
        let mut bits = Vec::new();
        loop {
            let manager = self.manager.lock();
            let Some(more) = next(&manager, bits.len() as u32).filter(|_| manager.filling(weu).1 == live) else {
                break;
            };
            bits.extend(more);
        }
        bits
    }

    /// The entries of WEUs that have no header on the SSD yet.
    fn tell_unsealed(&self, snapshot: &mut Snapshotting) {
        let dirty = self.dirty_open.lock();
        for open in dirty.open.iter().chain(&dirty.sealed) {
            for (number, entry) in open.entries().iter().enumerate() {
                let (key, version) = (entry.key, entry.version);
                snapshot.push(Record::DirtyBase {
                    key,
                    version,
                    weu: open.weu,
                    generation: open.generation,
                    start: self.start,
                    entry: number as u16,
                    offset: entry.offset,
                    stored_bytes: entry.stored_bytes,
                    crc: entry.checksum,
                    raw_blocks: entry.raw,
                    class: entry.class,
                    fingerprint: entry.fingerprint,
                });
                if !self.manager.lock().is_dirty_at(key, version) {
                    snapshot.push(Record::Clean { key, version });
                }
            }
        }
    }
}

/// Bits as bytes, from the lowest bit of the first byte on, up to the last one that is set.
fn trimmed(bits: Vec<bool>) -> Vec<u8> {
    let eight = |eight: &[bool]| eight.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    let mut bytes: Vec<u8> = bits.chunks(8).map(eight).collect();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}
