//! The committer: writes what is dirty and what the journal is to be told, then flushes once for both. At most one
//! commit is under way; those who ask meanwhile share the next.

use super::snapshot::Snapshotting;
use crate::cache::Cache;
use crate::format::journal::{LogPosition, Record};
use crate::insert::{OpenWeu, Parts};
use crate::journal::{AppendError, Journal};
use crate::port::{Clock, Device, DeviceError};
use crate::write_log::WriteLog;
use futures_util::future::{join, join_all};
use nitro_cache::{Superseded, WeuId};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// With less than this share of its bytes left, in percent, the journal's log asks for a snapshot.
const ROOM_PERCENT: u64 = 40;

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
    pub(super) records: Vec<Record>,
    pub(super) superseded: Superseded,
    /// What is not on the SSD yet of the open WEU.
    pub(super) unsaved: Option<(WeuId, Parts)>,
    pub(super) sealed: Vec<OpenWeu>,
    /// From where on the write log is needed then.
    pub(super) log: Option<LogPosition>,
}

impl Round {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.unsaved.is_none() && self.sealed.is_empty()
    }
}

/// The committer at work.
pub(super) struct Committer<'a, F, C> {
    pub(super) cache: &'a Cache<F, C>,
    pub(super) journal: Journal,
    pub(super) snapshot: Option<Snapshotting>,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Makes durable whatever the journal has been told, and all dirty data that was inserted.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned): the cache device failed, now or earlier.
    pub(crate) async fn commit(&self) -> Result<(), crate::Error> {
        if self.is_journaling() { self.ledger.commit().await } else { Ok(()) }
    }

    /// Commits whenever asked to, until the cache is closed.
    pub(crate) async fn committer(&self) {
        let Some(journal) = self.commits.journal.lock().take() else { return };
        let mut committer = Committer { cache: self, journal, snapshot: None };
        loop {
            let wanted = self.ledger.wanted.listen();
            if let Some(ticket) = self.ledger.asked() {
                match committer.commit().await {
                    Ok(()) => self.ledger.finish(ticket),
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
                break;
            } else {
                wanted.await;
            }
            if self.ledger.failed().is_some() {
                break;
            }
            committer.consider_snapshot();
        }
        self.ledger.end();
    }

    /// What is to be made durable now.
    pub(super) fn round(&self) -> Round {
        let mut dirty = self.dirty_open.lock();
        // Before the records are taken: what is in the cache by now has its record among them, or among earlier ones.
        let log = self.log.as_ref().and_then(WriteLog::news);
        let mut manager = self.manager.lock();
        let forgotten = manager.take_forgotten();
        let superseded = manager.superseded();
        // Under both locks: every entry that was made has its record here, and every record its bytes below.
        let mut records = self.ledger.take();
        records.extend(forgotten.into_iter().map(|(key, version)| Record::Forget { first: key, count: 1, version }));
        records.extend(log.map(Record::Log));
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
        Round { records, superseded, unsaved, sealed, log }
    }

    /// What a round has told the journal is durable.
    pub(super) fn round_done(&self, superseded: Superseded, log: Option<LogPosition>) {
        self.manager.lock().release(superseded);
        if let (Some(position), Some(log)) = (log, &self.log) {
            log.release(position);
        }
    }
}

impl<F: Device, C: Clock> Committer<'_, F, C> {
    pub(super) async fn commit(&mut self) -> Result<(), AppendError> {
        let cache = self.cache;
        let round = cache.round();
        if round.is_empty() {
            return Ok(());
        }
        let data = write_data(cache, round.unsaved, round.sealed);
        let (written, refused) = join(data, self.append(round.records)).await;
        written?;
        if let Some(records) = refused? {
            self.snapshot_now(records).await?;
        }
        let position = self.journal.position();
        cache.flash.flush().await?;
        self.journal.flushed(position);
        cache.metrics.commits.add(1);
        cache.round_done(round.superseded, round.log);
        cache.room.notify(usize::MAX);
        Ok(())
    }

    async fn write_sealed(&mut self) -> Result<(), AppendError> {
        let sealed = std::mem::take(&mut self.cache.dirty_open.lock().sealed);
        write_data(self.cache, None, sealed).await?;
        self.cache.room.notify(usize::MAX);
        Ok(())
    }

    /// Appends to the log. Gives records back that it has no room for.
    async fn append(&mut self, records: Vec<Record>) -> Result<Option<Vec<Record>>, AppendError> {
        if records.is_empty() {
            return Ok(None);
        }
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.carry.extend(records.iter().cloned());
        }
        match self.journal.append(&self.cache.flash, &records).await {
            Ok(bytes) => {
                self.cache.metrics.ssd_written_journal_bytes.add(bytes.0);
                Ok(None)
            }
            Err(AppendError::Full) => Ok(Some(records)),
            Err(error) => Err(error),
        }
    }

    fn consider_snapshot(&mut self) {
        let low = self.journal.room() * 100 < self.journal.log_bytes() * ROOM_PERCENT;
        // Until all is read again, it is not known what is void.
        if low && self.snapshot.is_none() && !self.cache.is_restoring() {
            self.begin_snapshot();
        }
    }
}

/// Writes dirty data: parts of the open WEU, and what is not on the SSD yet of WEUs that are full, with their headers.
pub(super) async fn write_data<F: Device, C: Clock>(
    cache: &Cache<F, C>,
    unsaved: Option<(WeuId, Parts)>,
    sealed: Vec<OpenWeu>,
) -> Result<(), DeviceError> {
    let unsaved = async {
        match unsaved {
            Some((weu, parts)) => cache.write_parts(weu, parts).await,
            None => Ok(()),
        }
    };
    let writes = sealed.into_iter().map(async |open: OpenWeu| {
        let weu = open.weu;
        let (parts, written) = open.seal_rest((cache.superblock.epoch, cache.start), cache.block_bytes());
        cache.write_parts(weu, parts).await?;
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
