//! The possible beginnings of file systems: the beginning of the volume and of its partitions (primary partitions of an
//! MBR; GPT: UEFI 2.10, §5).

use crate::bytes::{u16_le, u32_le, u64_le};
use std::ops::Range;

/// The sizes of blocks in which tables count.
pub(crate) const BLOCK_SIZES: [u64; 2] = [512, 4096];
/// The offset of the MBR's table, and the length of its entries.
const MBR_TABLE: usize = 446;
const MBR_ENTRY: usize = 16;
const MBR_ENTRIES: usize = 4;
const MBR_MAGIC: u16 = 0xAA55;
/// The blocks of the GPT header, and usually of its entries.
const GPT_HEADER: u64 = 1;
const GPT_ENTRIES_AT: u64 = 2;
const GPT_ENTRY: usize = 128;
const GPT_MAGIC: &[u8] = b"EFI PART";
/// The maximum number of partitions.
const PARTITIONS_MAX: usize = 128;
/// The end of the last superblock from the beginning of a file system: that of btrfs.
const SUPERBLOCK_END: u64 = (64 << 10) + 4096;

/// A kind of partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// GUID partition table.
    Gpt,
    /// Master boot record, without a GPT.
    Mbr,
}

impl Table {
    /// Its usual name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        }
    }
}

/// The partition table at the beginning of a volume, of which these are at least the first 4104 bytes; for a GPT also the
/// bytes of the blocks in which it counts, which its place shows.
#[must_use]
pub fn table_in(bytes: &[u8]) -> Option<(Table, Option<u64>)> {
    if u16_le(bytes, 510) != Some(MBR_MAGIC) {
        return None;
    }
    if let Some(block) = BLOCK_SIZES.into_iter().find(|block| has_gpt_header(0, bytes, *block)) {
        return Some((Table::Gpt, Some(block)));
    }
    mbr_entries(bytes).next().map(|_| (Table::Mbr, None))
}

/// Whether a part of the volume has the header of a GPT that counts in blocks of this size.
fn has_gpt_header(offset: u64, bytes: &[u8], block: u64) -> bool {
    let at = (GPT_HEADER * block).checked_sub(offset).and_then(|at| usize::try_from(at).ok());
    at.and_then(|at| bytes.get(at..)).is_some_and(|header| header.starts_with(GPT_MAGIC))
}

/// The first blocks of the partitions of an MBR.
fn mbr_entries(bytes: &[u8]) -> impl Iterator<Item = u64> {
    (0..MBR_ENTRIES).filter_map(|number| {
        let at = MBR_TABLE + number * MBR_ENTRY;
        let (kind, first) = (bytes.get(at + 4).copied().unwrap_or(0), u32_le(bytes, at + 8).unwrap_or(0));
        (kind != 0 && first > 0).then_some(first.into())
    })
}

/// The partitions of a volume.
#[derive(Debug)]
pub(crate) struct Partitions {
    /// The first bytes of the partitions, in ascending order.
    starts: Vec<u64>,
    /// Bytes of the volume's logical blocks, in which an MBR counts.
    block_bytes: u64,
    /// There is an MBR, which may protect a GPT.
    has_mbr: bool,
    /// Bytes of the blocks in which the GPT counts.
    gpt_block_bytes: Option<u64>,
}

impl Default for Partitions {
    fn default() -> Self {
        Self { starts: Vec::new(), block_bytes: BLOCK_SIZES[0], has_mbr: false, gpt_block_bytes: None }
    }
}

impl Partitions {
    /// Sets the size of the volume's logical blocks in bytes.
    pub(crate) fn set_block_bytes(&mut self, block_bytes: u64) {
        self.block_bytes = block_bytes;
    }

    /// Reads partition tables in a part of the volume.
    pub(crate) fn look(&mut self, offset: u64, bytes: &[u8]) {
        let last = BLOCK_SIZES[BLOCK_SIZES.len() - 1];
        if offset > GPT_ENTRIES_AT * last + (PARTITIONS_MAX * GPT_ENTRY) as u64 {
            return;
        }
        if offset == 0 && u16_le(bytes, 510) == Some(MBR_MAGIC) {
            let block = self.block_bytes;
            self.has_mbr = true;
            mbr_entries(bytes).for_each(|first| self.add(first * block));
        }
        if self.has_mbr && self.gpt_block_bytes.is_none() {
            self.gpt_block_bytes = BLOCK_SIZES.into_iter().find(|block| has_gpt_header(offset, bytes, *block));
        }
        if let Some(block) = self.gpt_block_bytes {
            self.gpt(offset, bytes, block);
        }
    }

    fn gpt(&mut self, offset: u64, bytes: &[u8], block: u64) {
        let entries_at = GPT_ENTRIES_AT * block;
        let first = entries_at.max(offset.next_multiple_of(GPT_ENTRY as u64));
        let last = entries_at + (PARTITIONS_MAX * GPT_ENTRY) as u64;
        let mut at = first;
        while at < last {
            let Some(entry) = bytes.get((at - offset) as usize..(at - offset) as usize + GPT_ENTRY) else { break };
            let (used, start) = (entry[..16].iter().any(|byte| *byte != 0), u64_le(entry, 32).unwrap_or(0));
            if let Some(start) = start.checked_mul(block).filter(|start| used && *start > 0) {
                self.add(start);
            }
            at += GPT_ENTRY as u64;
        }
    }

    fn add(&mut self, start: u64) {
        if let Err(place) = self.starts.binary_search(&start)
            && self.starts.len() < PARTITIONS_MAX
        {
            self.starts.insert(place, start);
        }
    }

    /// The possible beginnings of file systems whose superblocks may overlap a range.
    pub(crate) fn starts_at(&self, range: Range<u64>) -> Vec<u64> {
        // A file system without partitions begins with the volume.
        let starts = std::iter::once(0).chain(self.starts.iter().copied());
        starts.filter(|start| *start < range.end && start.saturating_add(SUPERBLOCK_END) > range.start).collect()
    }

    /// The ranges of partition tables and superblocks.
    pub(crate) fn worth_reading(&self) -> Vec<Range<u64>> {
        let starts = std::iter::once(0).chain(self.starts.iter().copied());
        // At the beginning of the volume, this includes the whole GPT.
        starts.map(|start| start..start.saturating_add(SUPERBLOCK_END)).collect()
    }
}
