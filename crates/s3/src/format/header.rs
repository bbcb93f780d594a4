//! The object that makes a prefix a volume. It is written once, and never changed.

use super::{SEGMENT_CHUNKS, close, open};
use nitro_log::{FormatError, Reader};

const MAGIC: &[u8; 8] = b"NITROS3V";
const NAME: &str = "volume";

/// What a volume is. Only its size may change: it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is recognised by, random.
    pub uuid: [u8; 16],
    /// Its size in bytes, a multiple of [`Header::BLOCK_BYTES`].
    pub size_bytes: u64,
    /// Bytes of a chunk, which is one object: a power of two from 64 KiB to 4 MiB. The last chunk may be shorter.
    pub chunk_bytes: u32,
}

impl Header {
    /// Sizes and offsets are multiples of this.
    pub const BLOCK_BYTES: u64 = 512;
    /// The most bytes of an encoded header.
    pub const BYTES: u64 = 44;
    /// The most chunks of a volume: 64 TiB of 4 MiB.
    pub const CHUNKS_MAX: u64 = 1 << 24;

    /// The most segments of the manifest.
    pub const SEGMENTS_MAX: u64 = Self::CHUNKS_MAX / SEGMENT_CHUNKS;

    /// Why such a volume cannot be; `None`: it can.
    #[must_use]
    pub fn refused(&self) -> Option<(&'static str, u64)> {
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(Self::BLOCK_BYTES) {
            return Some(("size in bytes", self.size_bytes));
        }
        if !self.chunk_bytes.is_power_of_two() || !(64 << 10..=4 << 20).contains(&self.chunk_bytes) {
            return Some(("size of objects in bytes", self.chunk_bytes.into()));
        }
        (self.chunks() > Self::CHUNKS_MAX).then_some(("number of objects", self.chunks()))
    }

    /// The number of chunks.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.size_bytes.div_ceil(self.chunk_bytes.into())
    }

    /// The number of segments of the manifest.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.chunks().div_ceil(SEGMENT_CHUNKS)
    }

    /// The bytes of a chunk.
    #[must_use]
    pub fn chunk_len(&self, chunk: u64) -> u32 {
        let begin = chunk * u64::from(self.chunk_bytes);
        (self.size_bytes - begin).min(self.chunk_bytes.into()) as u32
    }

    /// The number of chunks in a segment.
    #[must_use]
    pub fn segment_chunks(&self, segment: u64) -> u64 {
        (self.chunks() - segment * SEGMENT_CHUNKS).min(SEGMENT_CHUNKS)
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut content = self.uuid.to_vec();
        content.extend_from_slice(&self.size_bytes.to_le_bytes());
        content.extend_from_slice(&self.chunk_bytes.to_le_bytes());
        close(MAGIC, &content)
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// It is damaged, of another version, or of a volume that cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let content = open(NAME, MAGIC, bytes)?;
        let mut fields = Reader::new(NAME, content);
        if bytes.len() as u64 != Self::BYTES {
            return Err(fields.refuse("length", content.len() as u64));
        }
        let header = Self { uuid: fields.array()?, size_bytes: fields.u64()?, chunk_bytes: fields.u32()? };
        match header.refused() {
            Some((field, value)) => Err(fields.refuse(field, value)),
            None => Ok(header),
        }
    }
}
