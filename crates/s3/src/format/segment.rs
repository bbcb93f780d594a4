//! Segments of the manifest: where the chunks of a part of the volume are.

use super::header::Header;
use super::name::Id;
use super::{close, open};
use nitro_log::{FormatError, Reader};

const MAGIC: &[u8; 8] = b"NITROS3S";
const NAME: &str = "segment";

/// Chunks of a segment: 64 GiB of chunks of 4 MiB, in an object of 256 KiB.
pub const SEGMENT_CHUNKS: u64 = 1 << 14;

/// A segment: the objects of its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The volume.
    pub uuid: [u8; 16],
    /// Its number.
    pub index: u64,
    /// The objects of its chunks, in order.
    pub chunks: Box<[Id]>,
}

impl Segment {
    /// The most bytes of an encoded segment.
    pub const BYTES_MAX: u64 = 16 + 16 + 8 + SEGMENT_CHUNKS * 16;

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(24 + self.chunks.len() * 16);
        content.extend_from_slice(&self.uuid);
        content.extend_from_slice(&self.index.to_le_bytes());
        for id in &self.chunks {
            content.extend_from_slice(&id.generation.to_le_bytes());
            content.extend_from_slice(&id.nonce.to_le_bytes());
        }
        close(MAGIC, &content)
    }

    /// Reads the stored form of the segment of this number of a volume.
    ///
    /// # Errors
    /// It is damaged, of another version, or another one.
    pub fn decode(bytes: &[u8], header: &Header, index: u64) -> Result<Self, FormatError> {
        let content = open(NAME, MAGIC, bytes)?;
        let mut fields = Reader::new(NAME, content);
        let uuid = fields.array()?;
        let found = fields.u64()?;
        if found != index || index >= header.segments() {
            return Err(fields.refuse("number", found));
        }
        let count = header.segment_chunks(index) as usize;
        let stored = content.len().saturating_sub(24) / 16;
        // It has fewer chunks if the volume has grown since.
        if !(1..=count).contains(&stored) || content.len() != 24 + stored * 16 {
            return Err(fields.refuse("length", content.len() as u64));
        }
        let mut chunks = Vec::with_capacity(count);
        for _ in 0..stored {
            chunks.push(Id { generation: fields.u64()?, nonce: fields.u64()? });
        }
        chunks.resize(count, Id::HOLE);
        Ok(Self { uuid, index, chunks: chunks.into() })
    }
}
