//! A region: chunks that were compressed together. It describes itself, so that one read fetches and verifies a chunk.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `NCRG` |
//! | 4 | 1 | encoding of the payload: 0 raw, 1 LZ4, 2 Zstandard |
//! | 5 | 1 | kind of the chunks: 0 data, 1 recipes |
//! | 6 | 2 | chunks |
//! | 8 | 2 | number of the first chunk within its container |
//! | 10 | 2 | sectors of the region |
//! | 12 | 4 | bytes of the payload before compression |
//! | 16 | 8 | sequence number of the container |
//! | 24 | 4 | bytes of the payload |
//! | 28 | 4 | reserved, zero |
//! | 32 | 8 | checksum of the payload |
//! | 40 | 8 | checksum of the 40 bytes before and of the chunks' table |
//! | 48 | 24 each | the chunks' table: fingerprint (20), bytes (4) |
//! | … | | payload, then zeroes up to a sector |

use super::{SECTOR_BYTES, checksum, u16_at, u32_at, u64_at};
use crate::place::Place;
use bytes::Bytes;
use nitro_port::codec::{self, Encoding};
use nitro_units::Fingerprint;

const MAGIC: [u8; 4] = *b"NCRG";
pub(crate) const HEADER_BYTES: usize = 48;
pub(crate) const CHUNK_BYTES: usize = 24;
/// The maximum number of chunks of a region.
pub(crate) const CHUNKS_MAX: usize = 1024;

/// The maximum number of bytes of a region before compression.
const RAW_BYTES_MAX: usize = Place::REGION_SECTORS_MAX as usize * SECTOR_BYTES;

/// The kind of chunks: data of clients, or recipe blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum ChunkKind {
    Data = 0,
    Recipe = 1,
}

impl ChunkKind {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Data),
            1 => Some(Self::Recipe),
            _ => None,
        }
    }
}

/// A chunk of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionChunk {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) bytes: u32,
}

/// A region that can be appended to any container.
pub(crate) struct Prepared {
    pub(crate) kind: ChunkKind,
    pub(crate) chunks: Vec<RegionChunk>,
    pub(crate) encoding: Encoding,
    pub(crate) payload: Bytes,
    pub(crate) raw_bytes: u32,
}

impl Prepared {
    pub(crate) fn sectors(&self) -> u16 {
        (HEADER_BYTES + self.chunks.len() * CHUNK_BYTES + self.payload.len()).div_ceil(SECTOR_BYTES) as u16
    }

    /// Writes the region. `at`: its offset on the device.
    pub(crate) fn encode(&self, out: &mut [u8], first: u16, sequence: u64, seed: u64, at: u64) {
        let table = HEADER_BYTES + self.chunks.len() * CHUNK_BYTES;
        let end = table + self.payload.len();
        out[..4].copy_from_slice(&MAGIC);
        out[4] = self.encoding as u8;
        out[5] = self.kind as u8;
        out[6..8].copy_from_slice(&(self.chunks.len() as u16).to_le_bytes());
        out[8..10].copy_from_slice(&first.to_le_bytes());
        out[10..12].copy_from_slice(&self.sectors().to_le_bytes());
        out[12..16].copy_from_slice(&self.raw_bytes.to_le_bytes());
        out[16..24].copy_from_slice(&sequence.to_le_bytes());
        out[24..28].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out[28..32].fill(0);
        out[32..40].copy_from_slice(&checksum(&self.payload, seed, at).to_le_bytes());
        for (chunk, field) in self.chunks.iter().zip(out[HEADER_BYTES..table].chunks_exact_mut(CHUNK_BYTES)) {
            field[..20].copy_from_slice(&chunk.fingerprint.0);
            field[20..].copy_from_slice(&chunk.bytes.to_le_bytes());
        }
        out[table..end].copy_from_slice(&self.payload);
        out[end..].fill(0);
        let sum = header_sum(out, table, seed, at);
        out[40..48].copy_from_slice(&sum.to_le_bytes());
    }
}

fn header_sum(region: &[u8], table: usize, seed: u64, at: u64) -> u64 {
    let of_table = checksum(&region[HEADER_BYTES..table], seed, at);
    checksum(&region[..40], seed ^ of_table, at)
}

/// Writes magic and checksums into a region, if it is long enough for its contents; for tests and fuzzing.
pub(crate) fn reseal(region: &mut [u8], seed: u64, at: u64) {
    if region.len() < HEADER_BYTES {
        return;
    }
    region[..4].copy_from_slice(&MAGIC);
    let table = HEADER_BYTES + usize::from(u16_at(region, 6)) * CHUNK_BYTES;
    let end = table + u32_at(region, 24) as usize;
    if let Some(payload) = region.get(table..end) {
        let sum = checksum(payload, seed, at);
        region[32..40].copy_from_slice(&sum.to_le_bytes());
    }
    if region.len() >= table {
        let sum = header_sum(region, table, seed, at);
        region[40..48].copy_from_slice(&sum.to_le_bytes());
    }
}

/// A region without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegionHead {
    pub(crate) kind: ChunkKind,
    pub(crate) encoding: Encoding,
    pub(crate) first: u16,
    pub(crate) sectors: u16,
    pub(crate) raw_bytes: u32,
    pub(crate) sequence: u64,
    pub(crate) chunks: Vec<RegionChunk>,
    stored_bytes: usize,
    payload_sum: u64,
}

impl RegionHead {
    /// Decodes bytes from offset `at` of the device; `None` if no region begins there, or if it is damaged.
    pub(crate) fn decode(bytes: &[u8], seed: u64, at: u64) -> Option<Self> {
        if bytes.len() < HEADER_BYTES || bytes[..4] != MAGIC {
            return None;
        }
        let count = usize::from(u16_at(bytes, 6));
        let table = HEADER_BYTES + count * CHUNK_BYTES;
        if count > CHUNKS_MAX || bytes.len() < table || u64_at(bytes, 40) != header_sum(bytes, table, seed, at) {
            return None;
        }
        let chunks: Vec<_> = bytes[HEADER_BYTES..table]
            .chunks_exact(CHUNK_BYTES)
            .map(|field| {
                let mut fingerprint = [0; 20];
                fingerprint.copy_from_slice(&field[..20]);
                RegionChunk { fingerprint: Fingerprint(fingerprint), bytes: u32_at(field, 20) }
            })
            .collect();
        let head = Self {
            kind: ChunkKind::from_number(bytes[5])?,
            encoding: Encoding::from_number(bytes[4])?,
            first: u16_at(bytes, 8),
            sectors: u16_at(bytes, 10),
            raw_bytes: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            chunks,
            stored_bytes: u32_at(bytes, 24) as usize,
            payload_sum: u64_at(bytes, 32),
        };
        let sum: u64 = head.chunks.iter().map(|c| u64::from(c.bytes)).sum();
        let fits = table + head.stored_bytes <= usize::from(head.sectors) * SECTOR_BYTES;
        // Content that does not compress must fit, too, so no region has more bytes than this.
        let right = sum == u64::from(head.raw_bytes) && head.raw_bytes as usize <= RAW_BYTES_MAX;
        (right && fits && head.sectors <= Place::REGION_SECTORS_MAX).then_some(head)
    }

    /// The concatenated chunks, from the bytes of the region; `None` if they are damaged.
    pub(crate) fn payload(&self, region: &Bytes, seed: u64, at: u64) -> Option<Bytes> {
        let table = HEADER_BYTES + self.chunks.len() * CHUNK_BYTES;
        let end = table + self.stored_bytes;
        if region.len() < end {
            return None;
        }
        let payload = region.slice(table..end);
        if checksum(&payload, seed, at) != self.payload_sum {
            return None;
        }
        codec::decode(self.encoding, payload, self.raw_bytes as usize)
    }
}
