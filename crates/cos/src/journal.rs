//! The journal: two areas that are used alternately. Each begins with a checkpoint of the whole state of a store,
//! followed by batches of changes. A batch is applied if it is complete and continues the previous one; a start uses
//! the newest complete checkpoint.
//!
//! A batch is written when the one before is durable. Therefore one that cannot be read, while there are later ones, was
//! damaged, and the store is not opened. Only the last one may be torn; behind it, once it is durable, stands an empty batch
//! that says so, which the next one replaces.

use crate::Error;
use crate::format::batch::{self, BatchHead};
use crate::format::record::Record;
use crate::format::{BLOCK_BYTES, checksum};
use nitro_port::Device;

/// How much of the journal is searched at once.
const SCAN_BYTES: u64 = 1 << 20;

/// The write position of the journal.
#[derive(Debug)]
pub(crate) struct Journal {
    at: u64,
    area_bytes: u64,
    seed: u64,
    epoch: u64,
    number: u64,
    /// The used bytes of the current area.
    used: u64,
    /// The bytes of the checkpoint in the current area.
    checkpoint_bytes: u64,
    /// The checksum of the checkpoint; 0 if anything was appended to it.
    session: u64,
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

/// The checksum of a checkpoint's records, which identifies the state of the store.
fn session_of(records: &[u8], epoch: u64, seed: u64) -> u64 {
    checksum(records, seed, epoch).max(1)
}

/// As [`Journal::session`], for a journal that was read.
pub(crate) fn session_read(records: &[Record], epoch: u64, seed: u64) -> u64 {
    session_of(&encoded(records), epoch, seed)
}

impl Journal {
    /// A journal whose newest epoch is `epoch`; 0 if nothing was written. A checkpoint must be written first.
    pub(crate) fn new(at: u64, area_bytes: u64, seed: u64, epoch: u64) -> Self {
        Self { at, area_bytes, seed, epoch, number: 0, used: area_bytes, checkpoint_bytes: 0, session: 0 }
    }

    /// The number of the newest epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn area(&self, epoch: u64) -> u64 {
        self.at + epoch % 2 * self.area_bytes
    }

    /// Appends a batch, not yet durable. Returns false if there is no room; then nothing is written.
    pub(crate) async fn append(&mut self, device: &impl Device, records: &[Record]) -> Result<bool, Error> {
        let bytes = encoded(records);
        let len = batch::batch_bytes(bytes.len()) as u64;
        if self.used + len > self.area_bytes {
            return Ok(false);
        }
        self.session = 0;
        let out = batch::encode(&bytes, (self.epoch, self.number), self.seed);
        device.write(self.area(self.epoch) + self.used, out.freeze()).await?;
        self.used += len;
        self.number += 1;
        Ok(true)
    }

    /// Writes behind the last batch, which must be durable, an empty one that shows this. It need not be durable, and the
    /// next batch takes its place.
    pub(crate) async fn confirm(&self, device: &impl Device) -> Result<(), Error> {
        let out = batch::encode(&[], (self.epoch, self.number), self.seed);
        if self.used + out.len() as u64 <= self.area_bytes {
            device.write(self.area(self.epoch) + self.used, out.freeze()).await?;
        }
        Ok(())
    }

    /// The identity of the store's state, if the journal holds a checkpoint alone; else 0.
    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    /// Whether so much was appended since the checkpoint that another one is due.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.used - self.checkpoint_bytes.min(self.used) > (self.area_bytes - self.checkpoint_bytes) / 2
    }

    /// Begins the other area with a checkpoint, not yet durable. Returns its size in bytes. The caller ensures that
    /// this is at most half an area, see [`ledger`](crate::ledger).
    ///
    /// # Errors
    /// A write fails. Then only another checkpoint may follow: records appended to the current area would be lost if
    /// the failed checkpoint turns out to be complete.
    pub(crate) async fn checkpoint(&mut self, device: &impl Device, records: &[Record]) -> Result<u64, Error> {
        let bytes = encoded(records);
        let len = batch::batch_bytes(bytes.len()) as u64;
        if len > self.area_bytes {
            let what = format!("the journal: {} records do not fit into {} bytes", records.len(), self.area_bytes);
            return Err(Error::Damaged { what });
        }
        (self.used, self.session) = (self.area_bytes, 0);
        let out = batch::encode(&bytes, (self.epoch + 1, 0), self.seed);
        device.write(self.area(self.epoch + 1), out.freeze()).await?;
        self.epoch += 1;
        self.number = 1;
        self.session = session_of(&bytes, self.epoch, self.seed);
        (self.used, self.checkpoint_bytes) = (len, len);
        Ok(len)
    }

    /// Reads the records of a journal, oldest first, and its newest epoch.
    ///
    /// # Errors
    /// [`Error::Damaged`]: a batch that had been durable cannot be read.
    pub(crate) async fn read(
        device: &impl Device,
        at: u64,
        area_bytes: u64,
        seed: u64,
    ) -> Result<(u64, Vec<Record>), Error> {
        let damaged = |epoch, number| {
            let what = format!("the journal: batch {number} of epoch {epoch} was durable, and cannot be read");
            Err(Error::Damaged { what })
        };
        let (mut heads, mut headless) = (Vec::new(), None);
        for area in 0..2 {
            let block = device.read(at + area * area_bytes, BLOCK_BYTES).await?;
            let head = BatchHead::decode(&block, seed).filter(|h| h.number == 0 && h.epoch % 2 == area);
            headless = headless.or(head.is_none().then_some(at + area * area_bytes));
            heads.extend(head);
        }
        heads.sort_by_key(|head| std::cmp::Reverse(head.epoch));
        for head in heads {
            let area = at + head.epoch % 2 * area_bytes;
            if let Some((mut records, mut used)) =
                read_batch(device, area, 0, area_bytes, (head.epoch, 0), seed).await?
            {
                let mut number = 1;
                while let Some((more, len)) =
                    read_batch(device, area, used, area_bytes, (head.epoch, number), seed).await?
                {
                    records.extend(more);
                    used += len;
                    number += 1;
                }
                if has_batch(device, (area, used), area_bytes, seed, |h| {
                    (h.epoch, h.number > number) == (head.epoch, true)
                })
                .await?
                {
                    return damaged(head.epoch, number);
                }
                if let Some(other) = headless
                    && has_batch(device, (other, 0), area_bytes, seed, |h| h.epoch > head.epoch).await?
                {
                    return damaged(head.epoch + 1, 0);
                }
                return Ok((head.epoch, records));
            }
            if has_batch(device, (area, 0), area_bytes, seed, |h| (h.epoch, h.number > 0) == (head.epoch, true)).await?
            {
                return damaged(head.epoch, 0);
            }
        }
        Err(Error::Damaged { what: "neither of the journal's checkpoints is complete".to_owned() })
    }
}

/// Whether there is the head of such a batch in an area, from an offset on.
async fn has_batch(
    device: &impl Device,
    (area, from): (u64, u64),
    area_bytes: u64,
    seed: u64,
    is_such: impl Fn(&BatchHead) -> bool,
) -> Result<bool, Error> {
    let mut at = from;
    while at < area_bytes {
        let len = (area_bytes - at).min(SCAN_BYTES);
        let bytes = device.read(area + at, len as usize).await?;
        let mut heads = bytes.chunks(BLOCK_BYTES).filter_map(|block| BatchHead::decode(block, seed));
        if heads.any(|head| is_such(&head)) {
            return Ok(true);
        }
        at += len;
    }
    Ok(false)
}

/// Reads the batch with this epoch and number, and its length; `None` if it is not there or not complete.
async fn read_batch(
    device: &impl Device,
    area: u64,
    used: u64,
    area_bytes: u64,
    (epoch, number): (u64, u64),
    seed: u64,
) -> Result<Option<(Vec<Record>, u64)>, Error> {
    if used + BLOCK_BYTES as u64 > area_bytes {
        return Ok(None);
    }
    let block = device.read(area + used, BLOCK_BYTES).await?;
    let Some(head) = BatchHead::decode(&block, seed) else { return Ok(None) };
    if (head.epoch, head.number) != (epoch, number) || head.records_bytes > area_bytes {
        return Ok(None);
    }
    let len = batch::batch_bytes(head.records_bytes as usize) as u64;
    if used + len > area_bytes {
        return Ok(None);
    }
    let bytes = device.read(area + used, len as usize).await?;
    match head.records(&bytes, seed) {
        Some(records) => Ok(Some((records?, len))),
        None => Ok(None),
    }
}
