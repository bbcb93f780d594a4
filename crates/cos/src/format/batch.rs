//! A batch of the journal: its records are applied together or not at all.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `NCJB` |
//! | 4 | 4 | reserved, zero |
//! | 8 | 8 | epoch: the checkpoint that the batch continues |
//! | 16 | 8 | number within the epoch; 0 is the checkpoint itself |
//! | 24 | 8 | bytes of the records |
//! | 32 | 8 | checksum of the records |
//! | 40 | 8 | checksum of the 40 bytes before |
//! | 48 | | records, then zeroes up to a block |

use super::record::Record;
use super::{BLOCK_BYTES, checksum, u64_at};
use nitro_log::FormatError;
use nitro_port::buf::BufMut;

const MAGIC: [u8; 4] = *b"NCJB";
pub(crate) const HEADER_BYTES: usize = 48;

/// Bytes of a batch with `records_bytes` bytes of records.
pub(crate) fn batch_bytes(records_bytes: usize) -> usize {
    (HEADER_BYTES + records_bytes).next_multiple_of(BLOCK_BYTES)
}

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchHead {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) records_bytes: u64,
    sum: u64,
}

impl BatchHead {
    /// Decodes the first block of a batch; `None` if it is not valid.
    pub(crate) fn decode(block: &[u8], seed: u64) -> Option<Self> {
        if block.len() < HEADER_BYTES || block[..4] != MAGIC || u64_at(block, 40) != checksum(&block[..40], seed, 0) {
            return None;
        }
        Some(Self {
            epoch: u64_at(block, 8),
            number: u64_at(block, 16),
            records_bytes: u64_at(block, 24),
            sum: u64_at(block, 32),
        })
    }

    /// The records of a batch; `None` if the batch is not complete.
    pub(crate) fn records(&self, batch: &[u8], seed: u64) -> Option<Result<Vec<Record>, FormatError>> {
        let end = usize::try_from(self.records_bytes).ok()?.checked_add(HEADER_BYTES)?;
        let mut rest = batch.get(HEADER_BYTES..end)?;
        if checksum(rest, seed ^ self.epoch, self.number) != self.sum {
            return None;
        }
        let mut records = Vec::new();
        while !rest.is_empty() {
            match Record::decode(&mut rest) {
                Ok(record) => records.push(record),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(records))
    }
}

/// Encodes a batch with encoded records.
pub(crate) fn encode(records: &[u8], (epoch, number): (u64, u64), seed: u64) -> BufMut {
    let mut out = BufMut::zeroed(batch_bytes(records.len()));
    out[..4].copy_from_slice(&MAGIC);
    let sum = checksum(records, seed ^ epoch, number);
    for (field, at) in [epoch, number, records.len() as u64, sum].iter().zip((8..).step_by(8)) {
        out[at..at + 8].copy_from_slice(&field.to_le_bytes());
    }
    let head = checksum(&out[..40], seed, 0);
    out[40..48].copy_from_slice(&head.to_le_bytes());
    out[HEADER_BYTES..HEADER_BYTES + records.len()].copy_from_slice(records);
    out
}
