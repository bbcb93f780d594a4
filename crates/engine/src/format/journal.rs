//! The journal: batches of records, each with a header of its own.
//!
//! Header (72 bytes), at the start of a batch:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROJNL` |
//! | 8 | 4 | format version |
//! | 12 | 4 | bytes of the batch, header and padding included; a multiple of 512 |
//! | 16 | 8 | epoch: the cache's, random for each formatting |
//! | 24 | 8 | sequence of the half: rises with each snapshot that is begun |
//! | 32 | 4 | start: how often the cache had been started; never falls within a half |
//! | 36 | 4 | number of the batch within the half, from 0 |
//! | 40 | 4 | how many batches of the half were known to be durable when this one was written |
//! | 44 | 1 | kind: 1 part of a snapshot, 2 end of a snapshot, 3 log |
//! | 45 | 3 | reserved, zero |
//! | 48 | 4 | bytes of the records |
//! | 52 | 4 | number of records |
//! | 56 | 4 | CRC-32C of all that follows the header: records and padding |
//! | 60 | 4 | CRC-32C field of the header of the batch before; 0 for the first |
//! | 64 | 4 | reserved, zero |
//! | 68 | 4 | CRC-32C of the 68 bytes before |
//!
//! The records follow one another without gaps, then zeroes up to the batch's end.
//!
//! When all batches are durable and none follows for a moment, an empty batch of the log (no records) is written behind the
//! last one, to say that it is durable. The next batch gets its number and takes its place.

mod record;

pub use record::{
    DEAD_BYTES_MAX, DIRTY_BASE_BYTES_MAX, DIRTY_DUP_BYTES, EVICTED_BYTES, FORGET_BYTES, LOG_BYTES, LogPosition,
    NEXT_VERSION_BYTES, REGION_BYTES, Record, SLOT_BYTES, VERSION_MAX, VERSIONED_BYTES, VOLUME_BYTES_MAX,
    VOLUME_IDENTITY_BYTES_MAX, VOLUME_NAME_BYTES_MAX,
};

use super::{FORMAT_VERSION, FormatError, crc32c, other_version};
use nitro_log::{Reader, Writer};

const MAGIC: [u8; 8] = *b"NITROJNL";
const HEADER: &str = "journal batch header";
const BODY: &str = "journal batch";
const CRC_AT: usize = HEADER_BYTES - 4;
/// Bytes of a batch's header.
pub const HEADER_BYTES: usize = 72;
/// Batches begin at multiples of this within their half, and have multiples of it as their lengths.
pub const BATCH_UNIT_BYTES: usize = 512;

/// The kind of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Part of the snapshot that a half begins with.
    SnapshotPart = 1,
    /// Its last part: the half is valid from here on.
    SnapshotEnd = 2,
    /// The log of changes since the snapshot.
    Log = 3,
}

impl Kind {
    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::SnapshotPart),
            2 => Some(Self::SnapshotEnd),
            3 => Some(Self::Log),
            _ => None,
        }
    }
}

/// The checksum of a header, which the next batch repeats: this is what chains batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaderCrc(pub u32);

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the batch, header and padding included.
    pub batch_bytes: u32,
    /// The cache's formatting.
    pub epoch: u64,
    /// The half's sequence.
    pub sequence: u64,
    /// How often the cache had been started.
    pub start: u32,
    /// Which batch of the half, from 0.
    pub number: u32,
    /// How many batches of the half were known to be durable when this one was written.
    pub durable: u32,
    /// What the batch is part of.
    pub kind: Kind,
    /// Bytes of its records.
    pub payload_bytes: u32,
    /// Number of its records.
    pub records: u32,
    /// CRC-32C of records and padding.
    pub body_crc: u32,
    /// The header before; zero for the first.
    pub previous: HeaderCrc,
}

impl Header {
    /// Writes the header into the first [`HEADER_BYTES`] of `bytes`; returns its checksum.
    pub fn encode(&self, bytes: &mut [u8]) -> HeaderCrc {
        Writer::new(bytes)
            .put(&MAGIC)
            .u32(FORMAT_VERSION)
            .u32(self.batch_bytes)
            .u64(self.epoch)
            .u64(self.sequence)
            .u32(self.start)
            .u32(self.number)
            .u32(self.durable)
            .u8(self.kind as u8)
            .put(&[0; 3])
            .u32(self.payload_bytes)
            .u32(self.records)
            .u32(self.body_crc)
            .u32(self.previous.0)
            .u32(0);
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        HeaderCrc(crc)
    }

    /// Reads a header and its checksum from the start of `bytes`.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<(Self, HeaderCrc), FormatError> {
        let short = FormatError::Short { structure: HEADER, have: bytes.len(), need: HEADER_BYTES };
        let bytes = bytes.get(..HEADER_BYTES).ok_or(short)?;
        let mut reader = Reader::new(HEADER, bytes);
        if reader.array()? != MAGIC {
            return Err(FormatError::Magic { structure: HEADER });
        }
        let version = reader.u32()?;
        if version != FORMAT_VERSION {
            return Err(other_version(version));
        }
        let crc = crc32c(&bytes[..CRC_AT]);
        if bytes[CRC_AT..] != crc.to_le_bytes() {
            return Err(FormatError::Checksum { structure: HEADER });
        }
        let batch_bytes = reader.u32()?;
        let (epoch, sequence) = (reader.u64()?, reader.u64()?);
        let (start, number, durable) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let kind = reader.u8()?;
        let kind = Kind::from_number(kind).ok_or(reader.refuse("kind", kind.into()))?;
        let _reserved: [u8; 3] = reader.array()?;
        let (payload_bytes, records, body_crc) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let previous = HeaderCrc(reader.u32()?);
        if !(batch_bytes as usize).is_multiple_of(BATCH_UNIT_BYTES) {
            return Err(reader.refuse("length of the batch", batch_bytes.into()));
        }
        if HEADER_BYTES as u64 + u64::from(payload_bytes) > u64::from(batch_bytes) {
            return Err(reader.refuse("length of the records", payload_bytes.into()));
        }
        let header = Self {
            batch_bytes,
            epoch,
            sequence,
            start,
            number,
            durable,
            kind,
            payload_bytes,
            records,
            body_crc,
            previous,
        };
        Ok((header, HeaderCrc(crc)))
    }

    /// Checks a whole batch, which begins with this header; returns the bytes of its records. Each of them can be
    /// decoded.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong.
    pub fn payload<'a>(&self, batch: &'a [u8]) -> Result<&'a [u8], FormatError> {
        let need = self.batch_bytes as usize;
        let batch = batch.get(..need).ok_or(FormatError::Short { structure: BODY, have: batch.len(), need })?;
        let body = &batch[HEADER_BYTES..];
        if crc32c(body) != self.body_crc {
            return Err(FormatError::Checksum { structure: BODY });
        }
        let payload = &body[..self.payload_bytes as usize];
        let (mut rest, mut count) = (payload, 0);
        while !rest.is_empty() {
            let (_, bytes) = Record::decode(rest)?;
            (rest, count) = (&rest[bytes..], count + 1);
        }
        if count != self.records {
            let (field, value) = ("number of records", self.records.into());
            return Err(FormatError::Field { structure: BODY, field, value });
        }
        Ok(payload)
    }
}

/// Writes the body of a batch (records, then zeroes) behind the header's place in `batch`; returns its checksum.
///
/// # Panics
/// If the records do not fit; see [`Record::encode`] too.
pub fn encode_body(records: &[Record], batch: &mut [u8]) -> u32 {
    let mut rest = &mut batch[HEADER_BYTES..];
    for record in records {
        let (bytes, behind) = rest.split_at_mut(record.encoded_bytes());
        record.encode(bytes);
        rest = behind;
    }
    rest.fill(0);
    crc32c(&batch[HEADER_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ExtentKey, ObjectId};

    fn example() -> (Header, Vec<Record>, Vec<u8>) {
        let key = |index| ExtentKey::new(ObjectId(3), ExtentIndex(index));
        let records: Vec<_> = (0..9).map(|n| Record::Clean { key: key(n), version: n << 50 }).collect();
        let mut batch = vec![0xAA; 512];
        let payload_bytes = records.iter().map(Record::encoded_bytes).sum::<usize>() as u32;
        let header = Header {
            batch_bytes: 512,
            epoch: 0x0123_4567_89AB_CDEF,
            sequence: 4,
            start: 2,
            number: 7,
            durable: 5,
            kind: Kind::Log,
            payload_bytes,
            records: 9,
            body_crc: encode_body(&records, &mut batch),
            previous: HeaderCrc(99),
        };
        header.encode(&mut batch);
        (header, records, batch)
    }

    fn decode(batch: &[u8]) -> Result<(Header, Vec<Record>), FormatError> {
        let (header, _) = Header::decode(batch)?;
        let mut rest = header.payload(batch)?;
        let mut records = Vec::new();
        while !rest.is_empty() {
            let (record, bytes) = Record::decode(rest)?;
            records.push(record);
            rest = &rest[bytes..];
        }
        Ok((header, records))
    }

    #[test]
    fn a_batch_comes_back_and_any_flipped_bit_is_noticed() {
        let (header, records, mut batch) = example();
        assert_eq!(decode(&batch), Ok((header, records)));
        assert_eq!(batch[HEADER_BYTES + header.payload_bytes as usize..], [0; 512 - HEADER_BYTES - 9 * 16]);
        for bit in 0..batch.len() * 8 {
            batch[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&batch).is_err(), "bit {bit}");
            batch[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..512 {
            assert!(decode(&batch[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn lengths_and_counts_that_do_not_agree_are_refused() {
        let (header, _, batch) = example();
        for wrong in [
            Header { batch_bytes: 500, ..header },
            Header { payload_bytes: 441, ..header },
            Header { payload_bytes: u32::MAX, ..header },
            Header { payload_bytes: header.payload_bytes - 1, ..header },
            Header { payload_bytes: header.payload_bytes + 1, ..header },
            Header { records: 8, ..header },
            Header { records: 10, ..header },
            Header { batch_bytes: 1024, ..header },
        ] {
            let mut batch = batch.clone();
            wrong.encode(&mut batch);
            assert!(decode(&batch).is_err(), "{wrong:?}");
        }
        let mut batch = batch;
        batch[8] = 9;
        assert_eq!(Header::decode(&batch), Err(other_version(9)));
    }
}
