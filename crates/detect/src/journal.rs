//! The journal of ext4 (jbd2: fs/jbd2, "Journal Block Device 2" on-disk format). Inodes are written to the journal some
//! seconds after the data that they describe, and long before they are written to their final location.

use crate::bytes::{joined, u16_be, u32_be};
use std::collections::HashMap;

const MAGIC: u32 = 0xC03B_3998;
const DESCRIPTOR: u32 = 1;
const SUPERBLOCKS: [u32; 2] = [3, 4];
/// Bytes of a block header.
const HEADER_BYTES: usize = 12;
/// Feature flags of a journal.
const HAS_64BIT: u32 = 0x2;
const HAS_CSUM_V2: u32 = 0x8;
const HAS_CSUM_V3: u32 = 0x10;
/// Flags of a descriptor's tag.
const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const IS_LAST: u32 = 8;
const UUID_BYTES: usize = 16;
/// The maximum number of copies that are expected; beyond it, all are dropped.
const COPIES_MAX: usize = 4096;

/// The state of a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    features: u32,
    /// The newest transaction seen so far, or the oldest one that the superblock requires. Older transactions in the
    /// journal are left from its last round, and the blocks at their final locations are newer than these copies.
    newest: Option<u32>,
    /// The expected copies: the offset of a copy in the volume, and the block that it is a copy of.
    copies: HashMap<u64, u64>,
}

impl Default for Journal {
    fn default() -> Self {
        // The features that mke2fs chooses with `64bit` and `metadata_csum`.
        Self { features: HAS_64BIT | HAS_CSUM_V3, newest: None, copies: HashMap::new() }
    }
}

impl Journal {
    /// Reads the journal block at byte `at`; returns the block of the file system that it is a copy of.
    pub(crate) fn look(&mut self, at: u64, block: &[u8]) -> Option<u64> {
        let copy_of = self.copies.remove(&at);
        if u32_be(block, 0) != Some(MAGIC) {
            return copy_of;
        }
        match u32_be(block, 4) {
            Some(DESCRIPTOR) if self.is_news(u32_be(block, 8)?) => self.descriptor(at, block),
            Some(kind) if SUPERBLOCKS.contains(&kind) => {
                self.features = u32_be(block, 0x28).unwrap_or(self.features);
                let (oldest, first) = (u32_be(block, 0x18)?, u32_be(block, 0x1C)?);
                // An empty journal may restart with lower numbers.
                if first == 0 {
                    self.newest = Some(oldest);
                } else {
                    self.is_news(oldest);
                }
            }
            _ => {}
        }
        None
    }

    /// Whether a transaction is not older than the newest one, which it then replaces. Numbers wrap.
    fn is_news(&mut self, number: u32) -> bool {
        let is_news = self.newest.is_none_or(|newest| number.wrapping_sub(newest).cast_signed() >= 0);
        if is_news {
            self.newest = Some(number);
        }
        is_news
    }

    fn descriptor(&mut self, at: u64, block: &[u8]) {
        let (mut tag, mut copy) = (HEADER_BYTES, at);
        loop {
            let Some((number, flags, bytes)) = self.tag(block, tag) else { return };
            copy = copy.saturating_add(block.len() as u64);
            if self.copies.len() < COPIES_MAX && flags & ESCAPED == 0 {
                self.copies.insert(copy, number);
            } else if self.copies.len() >= COPIES_MAX {
                self.copies.clear();
            }
            if flags & IS_LAST != 0 {
                return;
            }
            tag += bytes + if flags & SAME_UUID == 0 { UUID_BYTES } else { 0 };
        }
    }

    /// A tag's block, flags and length in bytes.
    fn tag(&self, block: &[u8], at: usize) -> Option<(u64, u32, usize)> {
        let low = u32_be(block, at)?;
        if self.features & HAS_CSUM_V3 != 0 {
            let high = if self.features & HAS_64BIT != 0 { u32_be(block, at + 8)? } else { 0 };
            return Some((joined(low, high), u32_be(block, at + 4)?, 16));
        }
        let flags = u32::from(u16_be(block, at + 6)?);
        let checksum = if self.features & HAS_CSUM_V2 != 0 { 2 } else { 0 };
        match self.features & HAS_64BIT != 0 {
            true => Some((joined(low, u32_be(block, at + 8)?), flags, 12 + checksum)),
            false => Some((low.into(), flags, 8 + checksum)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 1024;

    fn block(kind: u32, number: u32, words: &[(usize, u32)]) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        for (at, word) in [(0, MAGIC), (4, kind), (8, number)].iter().chain(words) {
            block[*at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        block
    }

    /// Whether a transaction's copy counts as newer than the block at the final location.
    fn takes(journal: &mut Journal, transaction: u32) -> bool {
        let descriptor = block(DESCRIPTOR, transaction, &[(HEADER_BYTES, 77), (HEADER_BYTES + 4, IS_LAST)]);
        assert_eq!(journal.look(0, &descriptor), None);
        let copy_of = journal.look(BLOCK as u64, &[0; BLOCK]);
        assert!(copy_of.is_none_or(|copy_of| copy_of == 77));
        copy_of.is_some()
    }

    #[test]
    fn copies_of_older_transactions_are_left_over() {
        let superblock = |oldest: u32, first: u32| block(4, 0, &[(0x18, oldest), (0x1C, first), (0x28, HAS_CSUM_V3)]);
        let mut journal = Journal::default();
        assert!(takes(&mut journal, 8) && takes(&mut journal, 9) && takes(&mut journal, 9) && !takes(&mut journal, 8));
        journal.look(0, &superblock(20, 5));
        assert!(!takes(&mut journal, 19) && takes(&mut journal, 20) && takes(&mut journal, 25));
        // The superblock has an older number; only an empty journal may restart with it.
        journal.look(0, &superblock(21, 5));
        assert!(!takes(&mut journal, 24) && takes(&mut journal, 26));
        journal.look(0, &superblock(1, 0));
        assert!(takes(&mut journal, 2));
        journal.look(0, &superblock(u32::MAX, 0));
        assert!(!takes(&mut journal, u32::MAX - 1) && takes(&mut journal, u32::MAX) && takes(&mut journal, 3));
        assert!(!takes(&mut journal, u32::MAX));
    }
}
