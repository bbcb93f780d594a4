//! Writes to the log: a caller that finds no write in progress writes all waiting entries.

use super::LogStatus;
use super::ring::{Draft, Logged, Task, Turn, WriteLog};
use crate::cache::Cache;
use crate::error::Error;
use crate::format::journal::{LogPosition, Record};
use crate::format::write_log::Entry;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentKey, ObjectId};
use std::time::Duration;

/// How soon to check again when the ring is full.
const ROOM_WAIT: Duration = Duration::from_millis(5);

/// The current writer. If it is dropped before its end, another caller may write; it is then unknown whether the batch
/// in progress was written.
struct Lead<'a, D: Device> {
    log: &'a WriteLog<D>,
    writing: bool,
}

impl<D: Device> Drop for Lead<'_, D> {
    fn drop(&mut self) {
        if self.writing {
            self.log.fail(&"a write to it was given up");
        }
        self.log.leave();
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Whether acknowledged writes in write-back are durable in a write log.
    pub(crate) fn is_logged(&self) -> bool {
        self.log.as_ref().is_some_and(WriteLog::is_active)
    }

    /// Whether what goes to the origin in write-back must be durable when it is acknowledged, as what goes to the log is.
    pub(crate) fn promises_durable_writes(&self) -> bool {
        self.log.as_ref().is_some_and(WriteLog::is_promised)
    }

    /// The state of the write log, if there is one.
    pub fn log_status(&self) -> Option<LogStatus> {
        self.log.as_ref().map(WriteLog::status)
    }

    /// Whether a restart may restore contents of an object from the write log.
    pub(crate) fn log_holds(&self, object: ObjectId) -> bool {
        self.log.as_ref().is_some_and(|log| log.holds(object))
    }

    /// Returns `true` when all `entries` are durable in the log, or `false` if there is no log in use. The contents
    /// must have been queued for insertion before.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the cache device has failed.
    pub(crate) async fn append_to_log(&self, entries: impl Iterator<Item = Logged>) -> Result<bool, Error> {
        let Some(log) = &self.log else { return Ok(false) };
        let Some(number) = log.queue(entries) else { return Ok(false) };
        loop {
            let changed = log.changed.listen();
            match log.turn(number) {
                Turn::Durable => return Ok(true),
                Turn::Over => return Ok(false),
                // Boxed: it is large, and one request of many leads.
                Turn::Lead => Box::pin(self.lead_log(log)).await?,
                Turn::Wait => match self.ledger.failed() {
                    Some(reason) => return Err(Error::Poisoned { reason }),
                    None => changed.await,
                },
            }
        }
    }

    /// Makes entries of the log for some extents void, before their origin is written to.
    ///
    /// # Errors
    /// As [`append_to_log`](Self::append_to_log).
    pub(crate) async fn void_in_log(&self, first: ExtentKey, count: u64) -> Result<(), Error> {
        if self.log_holds(first.object()) {
            let entry = Entry::Void { first, count };
            self.append_to_log(std::iter::once(Logged { entry, token: None })).await?;
        }
        Ok(())
    }

    /// Waits until the log does not need the entries any more that it holds for an object.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the cache device has failed.
    pub(crate) async fn released_by_log(&self, object: ObjectId) -> Result<(), Error> {
        while self.log_holds(object) {
            self.dirty_queue.caught_up().await;
            self.commit().await?;
            if self.log_holds(object) {
                self.clock.sleep(ROOM_WAIT).await;
            }
        }
        Ok(())
    }

    /// Ends the use of the log in order: the journal has everything, and a record that the log is not needed.
    pub(crate) async fn end_log(&self) {
        let Some(log) = &self.log else { return };
        loop {
            let changed = log.changed.listen();
            if log.lead() {
                break;
            }
            if self.ledger.failed().is_some() {
                return;
            }
            changed.await;
        }
        let _lead = Lead { log, writing: false };
        // Where it fails, the log stays in use, and the next start reads it.
        let _ = self.fall_back(log).await;
    }

    /// Writes a batch: it is durable when this returns, unless the log has failed.
    async fn write_to_log(&self, log: &WriteLog<F>, lead: &mut Lead<'_, F>, draft: Draft) {
        lead.writing = true;
        let written = log.write(&draft).await;
        lead.writing = false;
        if let Err(error) = written {
            log.fail(&format_args!("log device: {error}"));
            return;
        }
        self.doubts.note_logged(draft.sequence + 1);
        if log.written(draft) {
            self.ledger.ask();
        }
    }

    /// Performs one step that is required before the waiting entries can be written.
    async fn lead_log(&self, log: &WriteLog<F>) -> Result<(), Error> {
        let mut lead = Lead { log, writing: false };
        match log.task() {
            Task::Nothing => {}
            Task::Announce(position) => {
                self.ledger.push(Record::Log(position)).await;
                self.commit().await?;
                log.announced();
            }
            Task::Write(draft) => {
                self.write_to_log(log, &mut lead, draft).await;
            }
            Task::Full => {
                let used_bytes = log.status().used_bytes;
                self.dirty_queue.caught_up().await;
                self.commit().await?;
                if log.status().used_bytes == used_bytes {
                    self.clock.sleep(ROOM_WAIT).await;
                }
            }
            Task::FallBack => {
                if let Some(reason) = self.fall_back(log).await? {
                    tracing::error!(
                        "the write log failed ({reason}): all that it held is in the cache; from now on, writes in \
                         write-back are durable with the next flush"
                    );
                }
            }
        }
        Ok(())
    }

    /// Has everything in the cache, and the journal know that the log is not in use any more.
    async fn fall_back(&self, log: &WriteLog<F>) -> Result<Option<std::sync::Arc<str>>, Error> {
        // Whatever the log holds was queued for insertion before it was logged.
        self.dirty_queue.caught_up().await;
        log.end();
        self.ledger.push(Record::Log(LogPosition::default())).await;
        self.commit().await?;
        Ok(log.ended())
    }
}
