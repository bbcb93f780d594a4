//! The metadata section of a sealed container, behind its regions: it lists the container's chunks, and is read with
//! one read.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `NCMD` |
//! | 4 | 4 | chunks |
//! | 8 | 8 | sequence number of the container |
//! | 16 | 8 | checksum of the rest |
//! | 24 | 24 each | for each chunk: fingerprint (20), first sector of its region (2), sectors of its region (2) |
//! | … | | zeroes up to a block |

use super::{BLOCK_BYTES, checksum, u16_at, u32_at, u64_at};
use crate::place::Place;
use nitro_units::Fingerprint;

const MAGIC: [u8; 4] = *b"NCMD";
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 24;

/// A chunk of a container; its number is its position in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContainerChunk {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) sector: u16,
    pub(crate) sectors: u16,
}

impl ContainerChunk {
    pub(crate) fn place(&self, slot: u32, number: u16) -> Place {
        Place { slot, sector: self.sector, sectors: self.sectors, number }
    }
}

/// Bytes of the metadata section of a container with `chunks` chunks.
pub(crate) fn section_bytes(chunks: usize) -> usize {
    (HEADER_BYTES + chunks * ENTRY_BYTES).next_multiple_of(BLOCK_BYTES)
}

/// Writes the section. `at`: its offset on the device.
pub(crate) fn encode(out: &mut [u8], chunks: &[ContainerChunk], sequence: u64, seed: u64, at: u64) {
    out.fill(0);
    out[..4].copy_from_slice(&MAGIC);
    out[4..8].copy_from_slice(&(chunks.len() as u32).to_le_bytes());
    out[8..16].copy_from_slice(&sequence.to_le_bytes());
    for (chunk, field) in chunks.iter().zip(out[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
        field[..20].copy_from_slice(&chunk.fingerprint.0);
        field[20..22].copy_from_slice(&chunk.sector.to_le_bytes());
        field[22..].copy_from_slice(&chunk.sectors.to_le_bytes());
    }
    let sum = sum_of(out, chunks.len(), seed, at);
    out[16..24].copy_from_slice(&sum.to_le_bytes());
}

fn sum_of(section: &[u8], chunks: usize, seed: u64, at: u64) -> u64 {
    let table = checksum(&section[HEADER_BYTES..HEADER_BYTES + chunks * ENTRY_BYTES], seed, at);
    checksum(&section[..16], seed ^ table, at)
}

/// Writes magic and checksum into a section, if it is long enough for its contents; for tests and fuzzing.
pub(crate) fn reseal(section: &mut [u8], seed: u64, at: u64) {
    let count = u32_at(section, 4) as usize;
    if section.len() >= HEADER_BYTES && count <= (section.len() - HEADER_BYTES) / ENTRY_BYTES {
        section[..4].copy_from_slice(&MAGIC);
        let sum = sum_of(section, count, seed, at);
        section[16..24].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Decodes a section; `None` if it is damaged, or of another container in the slot.
pub(crate) fn decode(section: &[u8], sequence: u64, seed: u64, at: u64) -> Option<Vec<ContainerChunk>> {
    let count = u32_at(section, 4) as usize;
    let end = count.checked_mul(ENTRY_BYTES)?.checked_add(HEADER_BYTES)?;
    if section.len() < end || section[..4] != MAGIC || count > usize::from(u16::MAX) {
        return None;
    }
    if u64_at(section, 8) != sequence || u64_at(section, 16) != sum_of(section, count, seed, at) {
        return None;
    }
    let chunks = section[HEADER_BYTES..end].chunks_exact(ENTRY_BYTES).map(|field| {
        let mut fingerprint = [0; 20];
        fingerprint.copy_from_slice(&field[..20]);
        ContainerChunk { fingerprint: Fingerprint(fingerprint), sector: u16_at(field, 20), sectors: u16_at(field, 22) }
    });
    Some(chunks.collect())
}
