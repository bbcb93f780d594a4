//! ext4's journal (jbd2: fs/jbd2, "Journal Block Device 2" on-disk format): inodes are there some seconds after the data that they
//! describe, and long before they get to their place.

use crate::bytes::{joined, u16_be, u32_be};
use std::collections::HashMap;

const MAGIC: u32 = 0xC03B_3998;
const DESCRIPTOR: u32 = 1;
const SUPERBLOCKS: [u32; 2] = [3, 4];
/// Bytes of a block's header.
const HEADER_BYTES: usize = 12;
/// Features of a journal.
const HAS_64BIT: u32 = 0x2;
const HAS_CSUM_V2: u32 = 0x8;
const HAS_CSUM_V3: u32 = 0x10;
/// Flags of a tag.
const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const IS_LAST: u32 = 8;
const UUID_BYTES: usize = 16;
/// Copies that are waited for.
const COPIES_MAX: usize = 4096;

/// What is known of a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    features: u32,
    /// By the byte of the volume where a copy will be: the block that it is of.
    copies: HashMap<u64, u64>,
}

impl Default for Journal {
    fn default() -> Self {
        // What mke2fs gives a file system of 64 bits with checksums.
        Self { features: HAS_64BIT | HAS_CSUM_V3, copies: HashMap::new() }
    }
}

impl Journal {
    /// Looks at a block of the journal at byte `at`; gives the block of the file system that it is a copy of.
    pub(crate) fn look(&mut self, at: u64, block: &[u8]) -> Option<u64> {
        let copy_of = self.copies.remove(&at);
        if u32_be(block, 0) != Some(MAGIC) {
            return copy_of;
        }
        match u32_be(block, 4) {
            Some(DESCRIPTOR) => self.descriptor(at, block),
            Some(kind) if SUPERBLOCKS.contains(&kind) => self.features = u32_be(block, 0x28).unwrap_or(self.features),
            _ => {}
        }
        None
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

    /// A tag's block, flags and length.
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
