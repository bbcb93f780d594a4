//! The committer: writes dirty data and journal records, then flushes once for both. At most one commit is in progress;
//! requests that arrive meanwhile share the next one.

use super::snapshot::Snapshotting;
use crate::cache::Cache;
use crate::format::journal::{LogPosition, Record};
use crate::insert::{OpenWeu, Parts};
use crate::journal::{AppendError, Journal, SNAPSHOT_PART_BYTES};
use crate::write_log::WriteLog;
use futures_util::future::{Either, join, join_all, select};
use nitro_cache::{Forgotten, Superseded};
use nitro_port::{Clock, Device, DeviceError};
use nitro_units::WeuId;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// When less than this percentage of the journal's log is free, a snapshot is begun.
const ROOM_PERCENT: u64 = 40;
/// How long nobody asks for a commit until the journal gets a block that says that the last batch is durable. Before that,
/// the next batch says so.
const CONFIRM_AFTER: Duration = Duration::from_millis(2);

/// The journal, between commits.
#[derive(Default)]
pub(crate) struct Commits {
    journal: Mutex<Option<Journal>>,
    is_there: AtomicBool,
}

impl Commits {
    /// Gives the committer its journal.
    pub(crate) fn begin(&self, journal: Journal) {
        *self.journal.lock() = Some(journal);
        self.is_there.store(true, Ordering::SeqCst);
    }

    /// Whether there is a journal.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::SeqCst)
    }
}

/// What one commit makes durable.
pub(super) struct Round {
    /// No longer than [`Budget::round_bytes`](crate::journal::Budget::round_bytes).
    pub(super) records: Vec<Record>,
    /// WEUs with entries that became void as they were read at the restart.
    untold: Vec<WeuId>,
    pub(super) superseded: Superseded,
    /// The part of the open WEU that is not on the SSD yet.
    pub(super) unsaved: Option<(WeuId, Parts)>,
    pub(super) sealed: Vec<OpenWeu>,
    /// The position from which on the write log is then needed.
    pub(super) log: Option<LogPosition>,
}

impl Round {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.untold.is_empty() && self.unsaved.is_none() && self.sealed.is_empty()
    }

    /// Whether only the journal is written: no data, no records that refer to data, and nothing that is released once
    /// it is durable.
    fn is_journal_only(&self) -> bool {
        let refers = |record: &Record| matches!(record, Record::DirtyBase { .. } | Record::DirtyDup { .. });
        let data = self.unsaved.is_some() || !self.sealed.is_empty() || self.records.iter().any(refers);
        !data && self.superseded.is_empty() && self.log.is_none()
    }
}

/// The committer at work.
pub(super) struct Committer<'a, F, C> {
    pub(super) cache: &'a Cache<F, C>,
    pub(super) journal: Journal,
    pub(super) snapshot: Option<Snapshotting>,
    /// Something was written to the journal since the last flush.
    pub(super) unflushed: bool,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Makes all journal records and all inserted dirty data durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned): the cache device failed, now or earlier.
    pub(crate) async fn commit(&self) -> Result<(), crate::Error> {
        if self.is_journaling() { self.ledger.commit().await } else { Ok(()) }
    }

    /// Writes all journal records, so that they survive the end of the program.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub(crate) async fn write_journal(&self) -> Result<(), crate::Error> {
        if self.is_journaling() { self.ledger.write().await } else { Ok(()) }
    }

    /// Commits whenever asked to, until the cache is closed.
    pub(crate) async fn committer(&self) {
        let Some(journal) = self.commits.journal.lock().take() else { return };
        let mut committer = Committer { cache: self, journal, snapshot: None, unflushed: false };
        loop {
            let wanted = self.ledger.wanted.listen();
            if let Some(asked) = self.ledger.asked() {
                match committer.commit(asked.durable).await {
                    Ok(()) => {
                        self.retire_lost().await;
                        self.ledger.finish(asked);
                    }
                    Err(error) => self.fail(&error),
                }
            } else if !self.dirty_open.lock().sealed.is_empty() {
                if let Err(error) = committer.write_sealed().await {
                    self.fail(&error);
                }
            } else if committer.snapshot.is_some() {
                if let Err(error) = committer.snapshot_step().await {
                    self.fail(&error);
                }
            } else if self.ledger.is_closed() {
                if let Err(error) = committer.confirm(true).await {
                    self.fail(&error);
                }
                break;
            } else if committer.journal.is_unconfirmed() {
                if let Either::Right(_) = select(wanted, pin!(self.clock.sleep(CONFIRM_AFTER))).await
                    && let Err(error) = committer.confirm(false).await
                {
                    self.fail(&error);
                }
            } else {
                wanted.await;
            }
            while self.ledger.failed().is_none() && committer.lags_behind() {
                if let Err(error) = committer.snapshot_step().await {
                    self.fail(&error);
                }
            }
            if self.ledger.failed().is_some() {
                break;
            }
            committer.consider_snapshot();
        }
        self.ledger.end();
    }

    /// The data and records to make durable now.
    pub(super) fn round(&self) -> Round {
        let mut dirty = self.dirty_open.lock();
        // Before the records are taken: what is in the cache by now has its record among them, or among earlier ones.
        let log = self.log.as_ref().and_then(WriteLog::news);
        let mut manager = self.manager.lock();
        let forgotten = manager.take_forgotten();
        let untold = manager.take_untold();
        let superseded = manager.superseded();
        // Under both locks: every entry that was made has its record here, and every record its bytes below.
        let mut records = self.ledger.take();
        records.extend(self.volumes.take_changed());
        records.extend(forgotten.into_iter().map(forget));
        records.extend(log.map(Record::Log));
        debug_assert!(total_bytes(&records) <= self.budget.round_bytes, "{} bytes in a round", total_bytes(&records));
        // Before parts are taken of it: a sealed WEU counts as stored once its own writes have returned.
        if dirty.open.as_ref().is_some_and(|open| self.is_given_up(open.weu))
            && let Some(open) = dirty.open.take()
        {
            manager.seal(open.weu);
            dirty.sealed.push(open);
        }
        let unsaved = dirty.open.as_mut().and_then(|open| {
            let parts = open.take_unsaved(self.block_bytes());
            manager.align_open(open.weu, self.block_bytes());
            (!parts.is_empty()).then_some((open.weu, parts))
        });
        let sealed = std::mem::take(&mut dirty.sealed);
        Round { records, untold, superseded, unsaved, sealed, log }
    }

    /// Notes that the records of a round are durable.
    pub(super) fn round_done(&self, superseded: Superseded, log: Option<LogPosition>) {
        self.manager.lock().release(superseded);
        if let (Some(position), Some(log)) = (log, &self.log) {
            log.release(position);
        }
    }
}

fn forget(Forgotten { first, count, version }: Forgotten) -> Record {
    Record::Forget { first, count: count.into(), version }
}

/// Bytes that records take in a batch.
pub(super) fn total_bytes(records: &[Record]) -> u64 {
    records.iter().map(|record| record.encoded_bytes() as u64).sum()
}

/// Divides records, in their order, into batches of up to `bytes_max` bytes, or of a single record.
fn split(records: Vec<Record>, bytes_max: u64) -> impl Iterator<Item = Vec<Record>> {
    let mut rest = records.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut batch = vec![rest.next()?];
        let mut bytes = total_bytes(&batch);
        while let Some(next) = rest.next_if(|next| bytes + next.encoded_bytes() as u64 <= bytes_max) {
            bytes += next.encoded_bytes() as u64;
            batch.push(next);
        }
        Some(batch)
    })
}

impl<F: Device, C: Clock> Committer<'_, F, C> {
    /// Writes the present round. Unless `durable` is set, it is flushed only if something depends on that.
    pub(super) async fn commit(&mut self, durable: bool) -> Result<(), AppendError> {
        let cache = self.cache;
        let round = cache.round();
        if round.is_empty() {
            if durable && self.unflushed {
                self.flush().await?;
            }
            return Ok(());
        }
        let durable = durable || !round.is_journal_only();
        // First what became void: nothing that depends on it is durable before.
        let mut records: Vec<Record> = round.untold.into_iter().map(|weu| cache.slot_record(weu)).collect();
        records.extend(round.records);
        let mut batches = split(records, self.batch_bytes());
        let data = write_data(cache, round.unsaved, round.sealed);
        let (written, refused) = join(data, self.append(batches.next().unwrap_or_default())).await;
        written?;
        let mut refused = refused?;
        // A restart checks the data of the last batch alone, so that of all others must be durable. For the same reason no batch
        // whose records refer to data is left without a flush.
        while refused.is_none()
            && let Some(batch) = batches.next()
        {
            self.flush().await?;
            refused = self.append(batch).await?;
        }
        let durable = durable || refused.is_some();
        if let Some(mut records) = refused {
            records.extend(batches.flatten());
            self.snapshot_now(records).await?;
        }
        if durable {
            self.flush().await?;
        }
        cache.metrics.commits.add(1);
        cache.round_done(round.superseded, round.log);
        cache.room.notify(usize::MAX);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), AppendError> {
        let position = self.journal.position();
        self.cache.flash.flush().await?;
        self.journal.flushed(position);
        self.unflushed = false;
        self.cache.doubts.note_flushed(self.journal.witness());
        Ok(())
    }

    /// Has the journal say of its last batch that it is durable, if it does not yet.
    async fn confirm(&mut self, flush: bool) -> Result<(), AppendError> {
        if self.journal.is_unconfirmed() {
            let bytes = self.journal.confirm(&self.cache.flash).await?;
            self.cache.metrics.ssd_written_journal_bytes.add(bytes.0);
            if flush {
                self.cache.flash.flush().await?;
            }
        }
        Ok(())
    }

    /// Bytes of records in a batch of the log.
    fn batch_bytes(&self) -> u64 {
        self.cache.budget.round_bytes.min(SNAPSHOT_PART_BYTES)
    }

    async fn write_sealed(&mut self) -> Result<(), AppendError> {
        let sealed = std::mem::take(&mut self.cache.dirty_open.lock().sealed);
        write_data(self.cache, None, sealed).await?;
        self.cache.room.notify(usize::MAX);
        Ok(())
    }

    /// Appends to the log. Returns records for which the log, or the snapshot that is being written, has no room.
    async fn append(&mut self, records: Vec<Record>) -> Result<Option<Vec<Record>>, AppendError> {
        if records.is_empty() {
            return Ok(None);
        }
        if self.snapshot.as_ref().is_some_and(|snapshot| !snapshot.may_carry(&records, self.cache.budget.logged_bytes))
        {
            return Ok(Some(records));
        }
        self.unflushed = true;
        match self.journal.append(&self.cache.flash, &records).await {
            Ok(bytes) => {
                self.cache.metrics.ssd_written_journal_bytes.add(bytes.0);
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.carry(records);
                }
                Ok(None)
            }
            Err(AppendError::Full) => Ok(Some(records)),
            Err(error) => Err(error),
        }
    }

    /// Whether the snapshot would not be complete before its carry is full.
    fn lags_behind(&self) -> bool {
        let (logged_bytes, half_bytes) = (self.cache.budget.logged_bytes, self.journal.half_bytes());
        self.snapshot.as_ref().is_some_and(|snapshot| {
            u128::from(snapshot.told_bytes()) * u128::from(logged_bytes)
                < u128::from(snapshot.carried_bytes()) * u128::from(half_bytes)
        })
    }

    fn consider_snapshot(&mut self) {
        let low = self.journal.room() * 100 < self.journal.log_bytes() * ROOM_PERCENT;
        // Until all is read again, it is not known what is void.
        if low && self.snapshot.is_none() && !self.cache.is_restoring() {
            self.begin_snapshot();
        }
    }
}

/// Writes dirty data: parts of the open WEU, and the missing parts of full WEUs, with their headers. If one of several
/// devices fails, what goes there is lost, which [`Cache::retire_lost`] notes before the commit ends.
pub(super) async fn write_data<F: Device, C: Clock>(
    cache: &Cache<F, C>,
    unsaved: Option<(WeuId, Parts)>,
    sealed: Vec<OpenWeu>,
) -> Result<(), DeviceError> {
    let unsaved = async {
        let Some((weu, parts)) = unsaved else { return Ok(()) };
        match cache.write_parts(weu, parts).await {
            // The unit stays open until it is retired.
            Err(error) if cache.flash.give_up_device_of(weu, &error) => Ok(()),
            written => written,
        }
    };
    let writes = sealed.into_iter().map(async |open: OpenWeu| {
        let weu = open.weu;
        let (parts, written) = open.seal_rest(cache.identity(), cache.block_bytes());
        match cache.write_parts(weu, parts).await {
            Err(error) if cache.flash.give_up_device_of(weu, &error) => {
                cache.lose_unwritten(weu);
                return Ok(());
            }
            written => written?,
        }
        cache.metrics.ssd_written_payload_bytes.add(written.payload_bytes);
        cache.metrics.ssd_written_header_bytes.add(written.header_bytes);
        cache.metrics.ssd_written_padding_bytes.add(written.padding_bytes);
        cache.manager.lock().stored(weu);
        cache.resident.close(weu);
        Ok(())
    });
    let (unsaved, sealed) = join(unsaved, join_all(writes)).await;
    unsaved?;
    sealed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_divided_in_their_order() {
        let records: Vec<_> = (0..10).map(|version| Record::NextVersion { version }).collect();
        for (bytes_max, expected) in [(8, vec![1; 10]), (1, vec![1; 10]), (31, vec![3, 3, 3, 1]), (80, vec![10])] {
            let batches: Vec<_> = split(records.clone(), bytes_max).collect();
            assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{bytes_max} bytes");
            assert_eq!(batches.concat(), records);
        }
        assert_eq!(split(Vec::new(), 100).count(), 0);
    }
}
