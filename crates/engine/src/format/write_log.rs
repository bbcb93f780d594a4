//! The write log: a label, then a ring of batches, on a separate device.
//!
//! Label, in the first 4096 bytes of the device:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROLOG` |
//! | 8 | 4 | format version |
//! | 12 | 4 | extent size in bytes |
//! | 16 | 16 | UUID of the log: random for each time that it is made |
//! | 32 | 16 | UUID of the cache |
//! | 48 | 8 | bytes of the ring, which begins at 4096 |
//! | 56 | 4 | start: how often the cache had been started when it last took the log into use |
//! | 60 | 4 | CRC-32C of the UUID of the log and the start; another value: the start is not known |
//! | 64 | 4028 | reserved, zero |
//! | 4092 | 4 | CRC-32C of the 4092 bytes before, with zeroes as the start and its CRC-32C |
//!
//! The start is written again each time the cache is started. A write that is cut off harms nothing else in the label.
//!
//! Batch header (64 bytes):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROWLB` |
//! | 8 | 4 | format version |
//! | 12 | 4 | bytes of the batch, header and padding included; a multiple of 512 |
//! | 16 | 16 | UUID of the log |
//! | 32 | 8 | sequence: one more than that of the batch before |
//! | 40 | 8 | tail: the first sequence that the journal still needed when this was written |
//! | 48 | 4 | start: how often the cache had been started |
//! | 52 | 4 | number of records |
//! | 56 | 4 | CRC-32C of all that follows the header: records, contents and padding |
//! | 60 | 4 | CRC-32C of the 60 bytes before |
//!
//! Record (24 bytes):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag: 1 content, 2 void |
//! | 1 | 3 | reserved, zero |
//! | 4 | 4 | bytes of content: the extent size; 0: all zeroes, or void |
//! | 8 | 8 | key of the first extent |
//! | 16 | 8 | number of extents: 1 for content |
//!
//! The records follow the header, their contents follow the records, in the same order and without gaps, then zeroes up
//! to the batch's end.

use super::{FORMAT_VERSION, FormatError, crc32c, other_version};
use bytes::Bytes;
use nitro_cache::settings::EXTENT_BYTES;
use nitro_log::{Reader, Writer};
use nitro_port::buf::{BufMut, is_zero};
use nitro_units::ExtentKey;

const LABEL_MAGIC: [u8; 8] = *b"NITROLOG";
const LABEL: &str = "write log label";
/// Bytes of the label; the ring begins behind it.
pub const LABEL_BYTES: usize = 4096;
const LABEL_CRC_AT: usize = LABEL_BYTES - 4;
/// Where the label has the start, and its checksum.
const LABEL_START: std::ops::Range<usize> = 56..64;
const MAGIC: [u8; 8] = *b"NITROWLB";
const HEADER: &str = "write log batch header";
const BODY: &str = "write log batch";
/// Bytes of a batch's header.
pub const HEADER_BYTES: usize = 64;
const CRC_AT: usize = HEADER_BYTES - 4;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;
/// Batches begin at multiples of this within the ring, and have multiples of it as their lengths.
pub const BATCH_UNIT_BYTES: usize = 512;
/// The longest batch.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// A ring's length is a multiple of this.
pub const RING_UNIT_BYTES: u64 = 4096;
/// The shortest ring.
pub const RING_BYTES_MIN: u64 = 1 << 20;
const CONTENT: u8 = 1;
const VOID: u8 = 2;

/// The description of a log device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Extent size of the cache in bytes.
    pub extent_bytes: u32,
    /// The identity of the log, new for each time that it is created.
    pub uuid: [u8; 16],
    /// The identity of its cache.
    pub cache_uuid: [u8; 16],
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// How often the cache had been started when it last took the log into use; `None`: not known.
    pub start: Option<u32>,
}

impl Label {
    fn start_crc(&self, start: u32) -> u32 {
        crc32c(&[self.uuid.as_slice(), &start.to_le_bytes()].concat())
    }

    /// Writes the label into the first [`LABEL_BYTES`] of `block`.
    pub fn encode(&self, block: &mut [u8]) {
        block[..LABEL_BYTES].fill(0);
        Writer::new(block)
            .put(&LABEL_MAGIC)
            .u32(FORMAT_VERSION)
            .u32(self.extent_bytes)
            .put(&self.uuid)
            .put(&self.cache_uuid)
            .u64(self.ring_bytes);
        let crc = crc32c(&block[..LABEL_CRC_AT]);
        block[LABEL_CRC_AT..LABEL_BYTES].copy_from_slice(&crc.to_le_bytes());
        if let Some(start) = self.start {
            Writer::new(&mut block[LABEL_START]).u32(start).u32(self.start_crc(start));
        }
    }

    /// Reads a label.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong; [`FormatError::Magic`]: the device is not a write log.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let short = FormatError::Short { structure: LABEL, have: bytes.len(), need: LABEL_BYTES };
        let block = bytes.get(..LABEL_BYTES).ok_or(short)?;
        let mut reader = Reader::new(LABEL, block);
        if reader.array()? != LABEL_MAGIC {
            return Err(FormatError::Magic { structure: LABEL });
        }
        let version = reader.u32()?;
        if version != FORMAT_VERSION {
            return Err(other_version(version));
        }
        let mut checked = block[..LABEL_CRC_AT].to_vec();
        checked[LABEL_START].fill(0);
        if block[LABEL_CRC_AT..] != crc32c(&checked).to_le_bytes() {
            return Err(FormatError::Checksum { structure: LABEL });
        }
        let mut label = Self {
            extent_bytes: reader.u32()?,
            uuid: reader.array()?,
            cache_uuid: reader.array()?,
            ring_bytes: reader.u64()?,
            start: None,
        };
        let (start, crc) = (reader.u32()?, reader.u32()?);
        label.start = Some(start).filter(|start| label.start_crc(*start) == crc);
        EXTENT_BYTES.check(label.extent_bytes.into()).map_err(|e| reader.refuse("extent size", e.value))?;
        if label.ring_bytes < RING_BYTES_MIN || !label.ring_bytes.is_multiple_of(RING_UNIT_BYTES) {
            return Err(reader.refuse("bytes of the ring", label.ring_bytes));
        }
        Ok(label)
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An extent's whole content, acknowledged in write-back.
    Content {
        /// The extent.
        key: ExtentKey,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Earlier entries for these extents are void: the origin has the extents, and is about to be written to.
    Void {
        /// The first extent.
        first: ExtentKey,
        /// How many.
        count: u64,
    },
}

impl Entry {
    /// Bytes that it takes in a batch.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        RECORD_BYTES + self.content().len()
    }

    /// The bytes behind the records: none for zeroes.
    fn content(&self) -> &[u8] {
        match self {
            Self::Content { bytes, .. } if !is_zero(bytes) => bytes,
            _ => &[],
        }
    }
}

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the batch, header and padding included.
    pub batch_bytes: u32,
    /// The log's.
    pub uuid: [u8; 16],
    /// The number of the batch since the log was created.
    pub sequence: u64,
    /// The first sequence that the journal still needed.
    pub tail: u64,
    /// How often the cache had been started.
    pub start: u32,
    /// Number of its records.
    pub records: u32,
    /// CRC-32C of records, contents and padding.
    pub body_crc: u32,
}

impl Header {
    /// Writes the header into the first [`HEADER_BYTES`] of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        Writer::new(bytes)
            .put(&MAGIC)
            .u32(FORMAT_VERSION)
            .u32(self.batch_bytes)
            .put(&self.uuid)
            .u64(self.sequence)
            .u64(self.tail)
            .u32(self.start)
            .u32(self.records)
            .u32(self.body_crc);
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header from the start of `bytes`.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
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
        if bytes[CRC_AT..] != crc32c(&bytes[..CRC_AT]).to_le_bytes() {
            return Err(FormatError::Checksum { structure: HEADER });
        }
        let header = Self {
            batch_bytes: reader.u32()?,
            uuid: reader.array()?,
            sequence: reader.u64()?,
            tail: reader.u64()?,
            start: reader.u32()?,
            records: reader.u32()?,
            body_crc: reader.u32()?,
        };
        let bytes = header.batch_bytes as usize;
        if !bytes.is_multiple_of(BATCH_UNIT_BYTES) || bytes > BATCH_BYTES_MAX {
            return Err(reader.refuse("length of the batch", header.batch_bytes.into()));
        }
        if HEADER_BYTES as u64 + u64::from(header.records) * RECORD_BYTES as u64 > u64::from(header.batch_bytes) {
            return Err(reader.refuse("number of records", header.records.into()));
        }
        if header.tail > header.sequence {
            return Err(reader.refuse("tail", header.tail));
        }
        Ok(header)
    }

    /// Checks a whole batch, which begins with this header; returns its entries for extents of `extent_bytes`.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong.
    pub fn entries(&self, batch: &Bytes, extent_bytes: u32) -> Result<Vec<Entry>, FormatError> {
        let need = self.batch_bytes as usize;
        let have = batch.len();
        let batch = if have < need { Err(FormatError::Short { structure: BODY, have, need }) } else { Ok(batch) }?;
        let body = batch.slice(HEADER_BYTES..need);
        if crc32c(&body) != self.body_crc {
            return Err(FormatError::Checksum { structure: BODY });
        }
        let (mut entries, mut at) = (Vec::new(), self.records as usize * RECORD_BYTES);
        for record in body[..at].chunks_exact(RECORD_BYTES) {
            let mut reader = Reader::new(BODY, record);
            let (tag, _reserved): (u8, [u8; 3]) = (reader.u8()?, reader.array()?);
            let (len, key, count) = (reader.u32()?, ExtentKey::from_raw(reader.u64()?), reader.u64()?);
            entries.push(match (tag, len) {
                (CONTENT, _) if count != 1 => return Err(reader.refuse("number of extents", count)),
                (CONTENT, 0) => Entry::Content { key, bytes: BufMut::zeroed(extent_bytes as usize).freeze() },
                (CONTENT, len) if len == extent_bytes && len as usize <= body.len() - at => {
                    at += len as usize;
                    Entry::Content { key, bytes: body.slice(at - len as usize..at) }
                }
                (VOID, 0) => Entry::Void { first: key, count },
                (CONTENT | VOID, len) => return Err(reader.refuse("bytes of content", len.into())),
                (tag, _) => return Err(reader.refuse("tag", tag.into())),
            });
        }
        Ok(entries)
    }
}

/// Bytes of a batch of `entries_bytes` of entries, on a device with blocks of `block_bytes`.
#[must_use]
pub fn batch_bytes(entries_bytes: usize, block_bytes: u32) -> usize {
    (HEADER_BYTES + entries_bytes).next_multiple_of((block_bytes as usize).max(BATCH_UNIT_BYTES))
}

/// Encodes a whole batch. Length, number of records and checksum in `header` are ignored.
#[must_use]
pub fn encode(header: Header, entries: &[Entry], block_bytes: u32) -> Bytes {
    let len = batch_bytes(entries.iter().map(Entry::encoded_bytes).sum(), block_bytes);
    let mut batch = BufMut::with_len(len);
    let mut at = HEADER_BYTES + entries.len() * RECORD_BYTES;
    for (record, entry) in batch[HEADER_BYTES..at].chunks_exact_mut(RECORD_BYTES).zip(entries) {
        let (tag, key, count) = match entry {
            Entry::Content { key, .. } => (CONTENT, key, 1),
            Entry::Void { first, count } => (VOID, first, *count),
        };
        let len = entry.content().len() as u32;
        Writer::new(record).u8(tag).put(&[0; 3]).u32(len).u64(key.raw()).u64(count);
    }
    for content in entries.iter().map(Entry::content) {
        batch[at..at + content.len()].copy_from_slice(content);
        at += content.len();
    }
    batch[at..].fill(0);
    let body_crc = crc32c(&batch[HEADER_BYTES..]);
    Header { batch_bytes: len as u32, records: entries.len() as u32, body_crc, ..header }.encode(&mut batch);
    batch.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ObjectId};

    const LABELLED: Label =
        Label { extent_bytes: 4096, uuid: [1; 16], cache_uuid: [2; 16], ring_bytes: RING_BYTES_MIN, start: Some(7) };
    const HEADED: Header =
        Header { batch_bytes: 0, uuid: [1; 16], sequence: 9, tail: 4, start: 3, records: 0, body_crc: 0 };

    fn entries() -> Vec<Entry> {
        let key = |index| ExtentKey::new(ObjectId(3), ExtentIndex(index));
        let content = |n| Entry::Content { key: key(n), bytes: Bytes::from(vec![n as u8; 4096]) };
        vec![content(1), content(0), Entry::Void { first: key(5), count: 7 }, content(2)]
    }

    #[test]
    fn a_label_comes_back_and_any_flipped_bit_is_noticed() {
        let mut block = vec![0xAA; LABEL_BYTES];
        LABELLED.encode(&mut block);
        assert_eq!(Label::decode(&block), Ok(LABELLED));
        for byte in 0..LABEL_BYTES {
            block[byte] ^= 1;
            match Label::decode(&block) {
                Ok(label) => assert!(LABEL_START.contains(&byte) && label == Label { start: None, ..LABELLED }),
                Err(_) => assert!(!LABEL_START.contains(&byte), "byte {byte}"),
            }
            block[byte] ^= 1;
        }
        for wrong in [
            Label { extent_bytes: 5000, ..LABELLED },
            Label { ring_bytes: 0, ..LABELLED },
            Label { ring_bytes: RING_BYTES_MIN + 512, ..LABELLED },
        ] {
            wrong.encode(&mut block);
            assert!(Label::decode(&block).is_err(), "{wrong:?}");
        }
        assert_eq!(Label::decode(&[0; 4096]), Err(FormatError::Magic { structure: LABEL }));
    }

    #[test]
    fn a_batch_comes_back_and_any_flipped_bit_is_noticed() {
        let decode = |bytes: &[u8]| Header::decode(bytes)?.entries(&Bytes::copy_from_slice(bytes), 4096);
        let batch = encode(HEADED, &entries(), 512);
        // A header, four records, and two contents, since zeroes take no room.
        assert_eq!(batch.len(), (64 + 4 * 24 + 2 * 4096_usize).next_multiple_of(512));
        assert_eq!(encode(HEADED, &entries(), 4096).len(), 3 * 4096);
        assert_eq!(decode(&batch), Ok(entries()));
        let mut bytes = batch.to_vec();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(Header::decode(&bytes).unwrap().entries(&batch, 8192).is_err(), "extents of another size");
    }

    #[test]
    fn lengths_and_counts_that_do_not_agree_are_refused() {
        let batch = encode(HEADED, &entries(), 512);
        let header = Header::decode(&batch).unwrap();
        for wrong in [
            Header { batch_bytes: header.batch_bytes - 1, ..header },
            Header { batch_bytes: header.batch_bytes + 512, ..header },
            Header { batch_bytes: u32::MAX / 512 * 512, ..header },
            Header { records: u32::MAX, ..header },
            Header { records: header.records + 1, ..header },
            Header { tail: header.sequence + 1, ..header },
        ] {
            let mut bytes = batch.to_vec();
            wrong.encode(&mut bytes);
            let decoded = Header::decode(&bytes).and_then(|h| h.entries(&Bytes::from(bytes), 4096));
            assert!(decoded.is_err(), "{wrong:?}");
        }
    }
}
