//! Damage to an image, as a script of bytes says: nine bytes for each deed, a number and two operands.

use super::verdict::Trusted;
use nitro_engine::format::crc32c;
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use std::ops::Range;

/// Bytes of a deed.
pub const DEED_BYTES: usize = 9;
const SECTOR: usize = 512;
const HEAD_BYTES: usize = 512;
const BATCH_HEADER_BYTES: usize = 72;

/// An image, and what may be damaged of it.
pub struct Target {
    image: Vec<u8>,
    superblock: Superblock,
    /// Sectors that are not all zeroes.
    used: Vec<usize>,
}

impl Target {
    pub fn new(image: Vec<u8>) -> Self {
        let superblock = Superblock::decode(&image).unwrap();
        let sectors = image.chunks(SECTOR).enumerate();
        let used = sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0)).map(|(n, _)| n).collect();
        Self { image, superblock, used }
    }

    /// The image after all deeds of a script, and what is left to rely on.
    pub fn damaged(&self, script: &[u8]) -> (Vec<u8>, Trusted) {
        let mut image = self.image.clone();
        let mut trusted = Trusted::Journal;
        for deed in script.chunks_exact(DEED_BYTES) {
            let number = |at: usize| u32::from_le_bytes([deed[at], deed[at + 1], deed[at + 2], deed[at + 3]]) as usize;
            trusted = trusted.max(self.deed(&mut image, deed[0], number(1), number(5)));
        }
        (image, trusted)
    }

    fn deed(&self, image: &mut [u8], deed: u8, a: usize, b: usize) -> Trusted {
        let [first, second] = [a, b].map(|n| self.used[n % self.used.len()] * SECTOR);
        match deed % 8 {
            0 | 1 => {
                image[first + b / 8 % SECTOR] ^= 1 << (b % 8);
                self.trusted_after(first..first + SECTOR)
            }
            2 => {
                image[first..first + SECTOR].fill(0);
                self.trusted_after(first..first + SECTOR)
            }
            3 => {
                let copy = image[first..first + SECTOR].to_vec();
                image.copy_within(second..second + SECTOR, first);
                image[second..second + SECTOR].copy_from_slice(&copy);
                self.trusted_after(first..first + SECTOR).max(self.trusted_after(second..second + SECTOR))
            }
            4 => {
                let [_, half] = self.halves();
                let end = if first < half.start { half.start } else { half.end };
                let journal = self.is_journal(first);
                let range = if journal { first..end } else { first..(first + b % 16 * SECTOR).min(image.len()) };
                image[range.clone()].fill(0xA5);
                self.trusted_after(range)
            }
            5 => {
                // A part of a sector: most damage of this kind is within one structure.
                let at = first + b % SECTOR;
                let value = (b >> 9) as u16;
                let len = (SECTOR - b % SECTOR).min(2);
                image[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
                self.trusted_after(first..first + SECTOR)
            }
            _ => {
                self.mend(image);
                Trusted::Nothing
            }
        }
    }

    fn halves(&self) -> [Range<usize>; 2] {
        let (offset, len) = (self.superblock.journal.offset as usize, self.superblock.journal.len as usize);
        let half = len / 2 / 4096 * 4096;
        [offset..offset + half, offset + half..offset + 2 * half]
    }

    fn is_journal(&self, at: usize) -> bool {
        self.halves().iter().any(|half| half.contains(&at))
    }

    fn trusted_after(&self, range: Range<usize>) -> Trusted {
        let journal = range.step_by(SECTOR).any(|at| self.is_journal(at));
        if journal { Trusted::Checksums } else { Trusted::Journal }
    }

    /// Makes all checksums right for what is there.
    fn mend(&self, image: &mut [u8]) {
        for offset in superblock_offsets(image.len() as u64) {
            seal(&mut image[offset as usize..][..SUPERBLOCK_BYTES]);
        }
        for half in self.halves() {
            mend_half(&mut image[half]);
        }
        let weu_bytes = self.superblock.weu_bytes as usize;
        for weu in image[self.superblock.data_offset as usize..].chunks_mut(weu_bytes) {
            let number = |at: usize| u32::from_le_bytes([weu[at], weu[at + 1], weu[at + 2], weu[at + 3]]) as usize;
            let (entries, table) = (number(20), number(24));
            if &weu[..8] == b"NITROWEU"
                && let Some(bytes) = weu.get(table..table.saturating_add(entries.saturating_mul(48)))
            {
                let crc = crc32c(bytes);
                weu[28..32].copy_from_slice(&crc.to_le_bytes());
                seal(&mut weu[..HEAD_BYTES]);
            }
        }
    }
}

/// Puts the checksum of a structure into its last four bytes.
fn seal(structure: &mut [u8]) {
    let (bytes, crc) = structure.split_at_mut(structure.len() - 4);
    crc.copy_from_slice(&crc32c(bytes).to_le_bytes());
}

fn mend_half(half: &mut [u8]) {
    let mut at = 0;
    let mut previous = [0; 4];
    while let Some(batch) = half.get_mut(at..).filter(|rest| rest.starts_with(b"NITROJNL")) {
        let len = u32::from_le_bytes([batch[12], batch[13], batch[14], batch[15]]) as usize;
        let Some(batch) = batch.get_mut(..len).filter(|batch| batch.len() >= BATCH_HEADER_BYTES) else { break };
        let crc = crc32c(&batch[BATCH_HEADER_BYTES..]);
        batch[56..60].copy_from_slice(&crc.to_le_bytes());
        batch[60..64].copy_from_slice(&previous);
        seal(&mut batch[..BATCH_HEADER_BYTES]);
        previous.copy_from_slice(&batch[BATCH_HEADER_BYTES - 4..BATCH_HEADER_BYTES]);
        at += len.next_multiple_of(SECTOR).max(SECTOR);
    }
}
