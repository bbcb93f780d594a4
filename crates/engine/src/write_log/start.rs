//! Start of a cache with or without a write log.

use super::read::{Row, read_label, read_row};
use super::ring::WriteLog;
use crate::cache::Cache;
use crate::error::Error;
use crate::format::journal::{LogPosition, Record};
use crate::format::write_log::{BATCH_BYTES_MAX, Entry, LABEL_BYTES, Label, RING_BYTES_MIN, RING_UNIT_BYTES};
use crate::insert::{Content, Job};
use crate::kept::{Kept, OVERHEAD_BYTES};
use bytes::Bytes;
use nitro_cache::SettingError;
use nitro_cache::admission::Provenance;
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device};
use nitro_units::{ExtentIndex, ExtentKey};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A device for a write log.
#[derive(Debug, Clone)]
pub struct LogDevice<D> {
    /// The device: the faster its flushes, the better.
    pub device: D,
    /// Bytes of it to use, if not all.
    pub size_bytes: Option<u64>,
    /// A random identity for a new log.
    pub uuid: [u8; 16],
}

/// What to do if the log that a cache was used with is missing or damaged, or one of several devices with dirty data is
/// missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingLog {
    /// Refuse to start: the log, or the device, may hold writes that are nowhere else.
    #[default]
    Refuse,
    /// Start without those writes. This also applies if the given device belongs to another cache.
    Discard,
}

/// How a cache starts.
pub(crate) enum Verdict {
    Without {
        /// The journal has to remove its record of the log.
        forget: bool,
    },
    Make,
    Resume(Label, LogPosition, Row),
}

impl<D: Device> LogDevice<D> {
    /// Bytes of the ring that fit on it.
    fn ring_bytes(&self) -> Result<u64, Error> {
        let have = self.device.geometry().size_bytes;
        let value = self.size_bytes.unwrap_or(have);
        let ring_bytes = value.saturating_sub(LABEL_BYTES as u64) / RING_UNIT_BYTES * RING_UNIT_BYTES;
        let least = RING_BYTES_MIN + LABEL_BYTES as u64;
        let refuse = |reason: &str, nearest| {
            Err(Error::Setting(SettingError { name: "write_log_size", value, reason: reason.to_owned(), nearest }))
        };
        match ring_bytes {
            ..RING_BYTES_MIN => refuse("is too little for a write log", least),
            _ if value > have => refuse("is more than the log device has", have),
            _ => Ok(ring_bytes),
        }
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Decides whether and how the cache may be started with the log device that is `given`, if any, of whose log in use
    /// the batches before `durable_end` are known to have been durable. Changes nothing.
    pub(crate) async fn judge_log(
        &self,
        in_use: Option<LogPosition>,
        given: Option<&LogDevice<F>>,
        missing: MissingLog,
        durable_end: u64,
    ) -> Result<Verdict, Error> {
        let discard = missing == MissingLog::Discard;
        let label = match given {
            Some(log) => match read_label(&log.device).await {
                Err(Error::LogFormat(_)) if discard || in_use.is_none() => None,
                label => label?,
            },
            None => None,
        };
        let found = label.zip(in_use).filter(|(label, position)| label.uuid == position.uuid);
        let verdict = match (found, in_use, given) {
            (Some((label, position)), _, Some(log)) => {
                let row = read_row(&log.device, &label, position).await?;
                let is_damaged = row.damaged || row.next_sequence < durable_end;
                let fault = if label.extent_bytes != self.superblock.extent_bytes || is_damaged {
                    Some(Error::LogDamaged)
                } else {
                    older_copy(&label, &row, self.start)
                };
                match fault {
                    None => return Ok(Verdict::Resume(label, position, row)),
                    Some(_) if discard => Verdict::Make,
                    Some(error) => return Err(error),
                }
            }
            (_, Some(_), given) if discard => given.map_or(Verdict::Without { forget: true }, |_| Verdict::Make),
            (_, Some(position), given) => {
                return Err(Error::LogMissing { uuid: position.uuid, another: given.is_some() });
            }
            (_, None, None) => Verdict::Without { forget: false },
            (_, None, Some(_)) => match label.filter(|label| label.cache_uuid != self.superblock.uuid) {
                Some(label) if !discard => return Err(Error::LogForeign { cache_uuid: label.cache_uuid }),
                _ => Verdict::Make,
            },
        };
        if let (Verdict::Make, Some(log)) = (&verdict, given) {
            log.ring_bytes()?;
        }
        Ok(verdict)
    }

    /// Notes in the log that the cache is started with it: before the cache's own number of starts is durable, so that it never
    /// has a higher one than its log.
    pub(crate) async fn stamp_log(&self, verdict: &Verdict, given: Option<&LogDevice<F>>) -> Result<(), Error> {
        match (verdict, given) {
            (Verdict::Resume(label, ..), Some(log)) => {
                write_label(&log.device, &Label { start: Some(self.start), ..*label }).await
            }
            _ => Ok(()),
        }
    }

    /// Takes a log into use. Its contents wait for insertion when this returns; returns their number.
    pub(crate) async fn install_log(&mut self, verdict: Verdict, given: Option<LogDevice<F>>) -> Result<u64, Error> {
        match (verdict, given) {
            (Verdict::Resume(label, position, row), Some(log)) => {
                // What was read may have been in the device's cache only, if but the process had crashed.
                log.device.flush().await.map_err(Error::Log)?;
                self.doubts.note_logged(row.next_sequence);
                let tokens = self.replay_log(newest(&row));
                let count = tokens.len() as u64;
                let token = |entry: &Entry| match entry {
                    Entry::Content { key, .. } => tokens.get(key).cloned(),
                    Entry::Void { .. } => None,
                };
                self.log = Some(WriteLog::resumed(log.device, label, self.start, position, row, token));
                return Ok(count);
            }
            (Verdict::Make, Some(log)) => {
                // Its sequences begin anew.
                self.doubts.note_logged(0);
                let (extent_bytes, cache_uuid) = (self.superblock.extent_bytes, self.superblock.uuid);
                let (ring_bytes, start) = (log.ring_bytes()?, Some(self.start));
                let label = Label { extent_bytes, uuid: log.uuid, cache_uuid, ring_bytes, start };
                write_label(&log.device, &label).await?;
                self.log = Some(WriteLog::new(log.device, label, self.start));
            }
            (Verdict::Without { forget: true }, _) => self.ledger.push(Record::Log(LogPosition::default())).await,
            _ => {}
        }
        Ok(0)
    }

    /// Queues the log's contents for insertion.
    fn replay_log(&mut self, newest: BTreeMap<ExtentKey, Bytes>) -> HashMap<ExtentKey, Arc<crate::volume::Token>> {
        let mut tokens = HashMap::new();
        for (key, bytes) in newest {
            let flights = self.replayed.entry(key.object()).or_default().clone();
            // A part of what one read of the log brought. All of it is in RAM for now, which is counted as what a restart needs.
            let kept = Kept::part(bytes, 2 * BATCH_BYTES_MAX as u64, &self.zero_extent);
            let token = flights.restore(key.index(), kept.clone());
            tokens.insert(key, token.clone());
            let room = Some(self.dirty_queue.admit_over(kept.bytes().len() as u64 + OVERHEAD_BYTES));
            self.shares.admit_over(key.object(), 1);
            // Nobody has closed the queue yet.
            let _ = self.dirty_queue.push(Job {
                key,
                content: Content::Whole(kept, None),
                from: Provenance::default(),
                token,
                flights,
                room,
            });
        }
        tokens
    }
}

/// Whether a log, or the cache that is being started for the `start`th time, is an older copy of itself. A log gets the number of
/// a start before the cache does, and batches with it later.
fn older_copy(label: &Label, row: &Row, start: u32) -> Option<Error> {
    match label.start? {
        stamped if stamped.saturating_add(1) < start => Some(Error::LogOutdated { starts: start - stamped - 1 }),
        stamped if stamped.max(row.start.saturating_add(1)) > start => {
            Some(Error::OlderThanLog { starts: stamped.saturating_sub(start).max(1) })
        }
        _ => None,
    }
}

/// Writes the label of a log durably.
async fn write_label<D: Device>(device: &D, label: &Label) -> Result<(), Error> {
    let mut block = BufMut::zeroed(LABEL_BYTES);
    label.encode(&mut block);
    device.write(0, block.freeze()).await.map_err(Error::Log)?;
    device.flush().await.map_err(Error::Log)
}

/// The newest content of each extent in the batches.
pub(crate) fn newest(row: &Row) -> BTreeMap<ExtentKey, Bytes> {
    let mut newest = BTreeMap::new();
    for entry in row.batches.iter().flat_map(|batch| &batch.entries) {
        match entry {
            Entry::Content { key, bytes } => drop(newest.insert(*key, bytes.clone())),
            Entry::Void { first, count } => {
                let end = first.index().0.saturating_add(*count).min(ExtentIndex::MAX.0);
                let void = newest.range(*first..ExtentKey::new(first.object(), ExtentIndex(end)));
                let void: Vec<_> = void.map(|(key, _)| *key).collect();
                void.iter().for_each(|key| drop(newest.remove(key)));
            }
        }
    }
    newest
}
