//! The blocks of a redo file: two copies of the header, then chunks, each a block that describes the data behind it.

use bytes::Bytes;
use nitro_log::{CHECKSUM_BYTES, FormatError, Reader, Writer, crc32c, is_sealed, seal};
use nitro_port::buf::BufMut;
use nitro_port::{PointPart, PointStamp};

/// The size of headers and of the descriptions of chunks, of which all offsets are multiples.
pub const BLOCK_BYTES: usize = 4096;
/// Where the first chunk is: behind the two copies of the header.
pub const HEAD_BYTES: u64 = 2 * BLOCK_BYTES as u64;
/// Most bytes of data in a chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Most parts of a point in a chunk.
pub const ENTRIES_MAX: usize = (BLOCK_BYTES - CHECKSUM_BYTES - CHUNK_FIELDS_BYTES) / ENTRY_BYTES;

const HEADER_MAGIC: [u8; 8] = *b"NitroRdo";
const CHUNK_MAGIC: [u8; 8] = *b"NitroRdC";
const VERSION: u32 = 1;
/// The next ones need no check for overflow.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;
const CHUNK_FIELDS_BYTES: usize = 36;
const ENTRY_BYTES: usize = 24;

const DATA: u32 = 0;
const ZEROES: u32 = 1;
const UNNEEDED: u32 = 2;

/// What a redo file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The point is in the file as a whole, and the origin may have a part of it. Otherwise, the origin has it.
    pub is_complete: bool,
    /// Rises with each header: of two copies, the higher one counts.
    pub sequence: u64,
    /// The point.
    pub stamp: PointStamp,
    /// Where the chunks end in the file.
    pub end: u64,
    /// The number of chunks.
    pub chunks: u64,
    /// The checksums of all chunks' descriptions, each with the ones before.
    pub chain: u32,
}

impl Header {
    /// Its block.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut block = BufMut::zeroed(BLOCK_BYTES);
        let mut fields = Writer::new(&mut block);
        fields.put(&HEADER_MAGIC).u32(VERSION).u32(self.is_complete.into());
        fields.u64(self.sequence).u64(self.stamp.number).u64(self.stamp.unix_ms);
        fields.u64(self.end).u64(self.chunks).u32(self.chain);
        seal(&mut block);
        block.freeze()
    }

    /// Reads its block.
    ///
    /// # Errors
    /// The block is not a header that this program knows.
    pub fn decode(block: &[u8]) -> Result<Self, FormatError> {
        const NAME: &str = "redo file";
        let mut fields = Reader::new(NAME, block);
        if fields.array()? != HEADER_MAGIC {
            return Err(FormatError::Magic { structure: NAME });
        }
        if !is_sealed(block) {
            return Err(FormatError::Checksum { structure: NAME });
        }
        let version = fields.u32()?;
        if version != VERSION {
            return Err(FormatError::Version { found: version, known: VERSION });
        }
        let state = fields.u32()?;
        if state > 1 {
            return Err(fields.refuse("state", state.into()));
        }
        let sequence = fields.u64()?;
        if sequence > SEQUENCE_MAX {
            return Err(fields.refuse("sequence", sequence));
        }
        let stamp = PointStamp { number: fields.u64()?, unix_ms: fields.u64()? };
        let (end, chunks, chain) = (fields.u64()?, fields.u64()?, fields.u32()?);
        Ok(Self { is_complete: state == 1, sequence, stamp, end, chunks, chain })
    }
}

/// The description of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The number of the point that it is a part of.
    pub number: u64,
    /// Its place among the chunks of the point.
    pub index: u64,
    /// Bytes of data behind the description, without padding.
    pub data_bytes: usize,
    data_crc: u32,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    offset: u64,
    len: u64,
    kind: u32,
}

impl Chunk {
    /// A chunk with some parts of a point, and its bytes in the file: at most [`ENTRIES_MAX`] parts with [`CHUNK_BYTES_MAX`] bytes of
    /// data.
    pub(crate) fn with(number: u64, index: u64, parts: &[PointPart]) -> Bytes {
        let data_bytes: usize = parts.iter().map(data_bytes).sum();
        let mut all = BufMut::zeroed(BLOCK_BYTES + data_bytes.next_multiple_of(BLOCK_BYTES));
        let (block, data) = all.split_at_mut(BLOCK_BYTES);
        let mut at = 0;
        for part in parts {
            if let PointPart::Data { bytes, .. } = part {
                data[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            }
        }
        let mut fields = Writer::new(block);
        fields.put(&CHUNK_MAGIC).u64(number).u64(index).u32(parts.len() as u32).u32(data_bytes as u32);
        fields.u32(crc32c(&data[..data_bytes]));
        for part in parts {
            let Entry { offset, len, kind } = entry(part);
            fields.u64(offset).u64(len).u32(kind).u32(0);
        }
        seal(block);
        all.freeze()
    }

    /// Reads a description.
    ///
    /// # Errors
    /// The block is none, or what it says cannot be.
    pub fn decode(block: &[u8]) -> Result<Self, FormatError> {
        const NAME: &str = "chunk of a redo file";
        let mut fields = Reader::new(NAME, block);
        if fields.array()? != CHUNK_MAGIC {
            return Err(FormatError::Magic { structure: NAME });
        }
        if !is_sealed(block) {
            return Err(FormatError::Checksum { structure: NAME });
        }
        let (number, index) = (fields.u64()?, fields.u64()?);
        let (count, data_bytes, data_crc) = (fields.u32()?, fields.u32()?, fields.u32()?);
        if count as usize > ENTRIES_MAX {
            return Err(fields.refuse("number of parts", count.into()));
        }
        if data_bytes as usize > CHUNK_BYTES_MAX {
            return Err(fields.refuse("bytes of data", data_bytes.into()));
        }
        let (mut entries, mut described) = (Vec::new(), 0_u64);
        for _ in 0..count {
            let (offset, len, kind) = (fields.u64()?, fields.u64()?, fields.u32()?);
            fields.u32()?;
            if offset.checked_add(len).is_none() {
                return Err(fields.refuse("length of a part", len));
            }
            match kind {
                DATA => described = described.saturating_add(len),
                ZEROES | UNNEEDED => {}
                _ => return Err(fields.refuse("kind of a part", kind.into())),
            }
            entries.push(Entry { offset, len, kind });
        }
        if described != u64::from(data_bytes) {
            return Err(fields.refuse("bytes of data", data_bytes.into()));
        }
        Ok(Self { number, index, data_bytes: data_bytes as usize, data_crc, entries })
    }

    /// The parts, with their data.
    ///
    /// # Errors
    /// It is not the chunk's data.
    pub fn parts(&self, mut data: Bytes) -> Result<Vec<PointPart>, FormatError> {
        if data.len() < self.data_bytes || crc32c(&data[..self.data_bytes]) != self.data_crc {
            return Err(FormatError::Checksum { structure: "data of a redo file" });
        }
        let part = |Entry { offset, len, kind }: &Entry| match *kind {
            DATA => PointPart::Data { offset: *offset, bytes: data.split_to(*len as usize) },
            ZEROES => PointPart::Zeroes { offset: *offset, len: *len },
            _ => PointPart::Unneeded { offset: *offset, len: *len },
        };
        Ok(self.entries.iter().map(part).collect())
    }

    /// Bytes that it takes in the file.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        (BLOCK_BYTES + self.data_bytes.next_multiple_of(BLOCK_BYTES)) as u64
    }
}

/// Bytes of data of a part.
pub(crate) fn data_bytes(part: &PointPart) -> usize {
    if let PointPart::Data { bytes, .. } = part { bytes.len() } else { 0 }
}

fn entry(part: &PointPart) -> Entry {
    match part {
        PointPart::Data { offset, bytes } => Entry { offset: *offset, len: bytes.len() as u64, kind: DATA },
        PointPart::Zeroes { offset, len } => Entry { offset: *offset, len: *len, kind: ZEROES },
        PointPart::Unneeded { offset, len } => Entry { offset: *offset, len: *len, kind: UNNEEDED },
    }
}

/// The chain with one more chunk, of which this is the description.
pub(crate) fn chained(chain: u32, block: &[u8]) -> u32 {
    let own = block.last_chunk::<CHECKSUM_BYTES>().copied().unwrap_or_default();
    let [before, own] = [chain.to_le_bytes(), own];
    crc32c(&[before, own].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some() -> Vec<PointPart> {
        let bytes = Bytes::from((0..9000).map(|n| n as u8).collect::<Vec<_>>());
        vec![
            PointPart::Unneeded { offset: 4096, len: 1 << 40 },
            PointPart::Data { offset: 512, bytes: bytes.slice(..512) },
            PointPart::Zeroes { offset: 8192, len: 512 },
            PointPart::Data { offset: 4096, bytes },
        ]
    }

    #[test]
    fn a_header_and_a_chunk_come_back_and_no_flipped_bit_passes() {
        let stamp = PointStamp { number: 7, unix_ms: 1_800_000_000_000 };
        let header = Header { is_complete: true, sequence: 9, stamp, end: 1 << 33, chunks: 3, chain: 77 };
        let block = header.encode();
        assert_eq!(Header::decode(&block), Ok(header));
        let all = Chunk::with(7, 2, &some());
        let (described, data) = (all.slice(..BLOCK_BYTES), all.slice(BLOCK_BYTES..));
        let chunk = Chunk::decode(&described).unwrap();
        assert_eq!((chunk.number, chunk.index, chunk.file_bytes()), (7, 2, all.len() as u64));
        assert_eq!(chunk.parts(data.clone()).unwrap(), some());
        for at in (0..BLOCK_BYTES).step_by(7).chain(0..64) {
            let flipped = |bytes: &Bytes| {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 0x20;
                bytes
            };
            assert!(Header::decode(&flipped(&block)).is_err() && Chunk::decode(&flipped(&described)).is_err(), "{at}");
            assert!(chunk.parts(flipped(&data).into()).is_err(), "{at}");
        }
        assert!(Header::decode(&block[..100]).is_err() && Chunk::decode(&[]).is_err());
        assert!(chunk.parts(data.slice(..100)).is_err());
        let full: Vec<_> = (0..ENTRIES_MAX as u64).map(|n| PointPart::Zeroes { offset: n, len: 1 }).collect();
        assert_eq!(Chunk::decode(&Chunk::with(1, 0, &full)[..BLOCK_BYTES]).unwrap().parts(Bytes::new()).unwrap(), full);
    }

    proptest! {
        /// Whatever the fields say, no length is believed, and nothing panics.
        #[test]
        fn any_sealed_block_is_read_or_refused(
            fields in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()], 0..200),
            is_chunk in any::<bool>(),
        ) {
            let mut block = vec![0; BLOCK_BYTES];
            block[..8].copy_from_slice(if is_chunk { &CHUNK_MAGIC } else { &HEADER_MAGIC });
            block[8..8 + fields.len()].copy_from_slice(&fields);
            seal(&mut block);
            let _ = Header::decode(&block);
            if let Ok(chunk) = Chunk::decode(&block) {
                let _ = chunk.parts(Bytes::from(vec![0; chunk.data_bytes]));
            }
        }
    }
}
