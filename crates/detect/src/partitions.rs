//! The possible beginnings of file systems: the beginning of the volume and of its partitions (primary partitions of an
//! MBR; GPT: UEFI 2.10, §5).

use crate::bytes::{u16_le, u32_le, u64_le};
use std::ops::Range;

const SECTOR_BYTES: u64 = 512;
/// The offset of the MBR's table, and the length of its entries.
const MBR_TABLE: usize = 446;
const MBR_ENTRY: usize = 16;
const MBR_ENTRIES: usize = 4;
const MBR_MAGIC: u16 = 0xAA55;
/// The offset of the GPT header, and the usual offset of its entries.
const GPT_HEADER: u64 = SECTOR_BYTES;
const GPT_ENTRIES_AT: u64 = 2 * SECTOR_BYTES;
const GPT_ENTRY: usize = 128;
const GPT_MAGIC: &[u8] = b"EFI PART";
/// The maximum number of partitions.
const PARTITIONS_MAX: usize = 128;
/// The end of the last superblock from the beginning of a file system: that of btrfs.
const SUPERBLOCK_END: u64 = (64 << 10) + 4096;

/// The partitions of a volume.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// The first bytes of the partitions, in ascending order.
    starts: Vec<u64>,
    is_gpt: bool,
}

impl Partitions {
    /// Reads partition tables in a part of the volume.
    pub(crate) fn look(&mut self, offset: u64, bytes: &[u8]) {
        if offset > GPT_ENTRIES_AT + (PARTITIONS_MAX * GPT_ENTRY) as u64 {
            return;
        }
        if offset == 0 && u16_le(bytes, 510) == Some(MBR_MAGIC) {
            self.mbr(bytes);
            self.is_gpt |= bytes.get(GPT_HEADER as usize..).is_some_and(|header| header.starts_with(GPT_MAGIC));
        }
        if self.is_gpt {
            self.gpt(offset, bytes);
        }
    }

    fn mbr(&mut self, bytes: &[u8]) {
        for number in 0..MBR_ENTRIES {
            let at = MBR_TABLE + number * MBR_ENTRY;
            let (kind, first) = (bytes.get(at + 4).copied().unwrap_or(0), u32_le(bytes, at + 8).unwrap_or(0));
            if kind != 0 && first > 0 {
                self.add(u64::from(first) * SECTOR_BYTES);
            }
        }
    }

    fn gpt(&mut self, offset: u64, bytes: &[u8]) {
        let first = GPT_ENTRIES_AT.max(offset.next_multiple_of(GPT_ENTRY as u64));
        let last = GPT_ENTRIES_AT + (PARTITIONS_MAX * GPT_ENTRY) as u64;
        let mut at = first;
        while at < last {
            let Some(entry) = bytes.get((at - offset) as usize..(at - offset) as usize + GPT_ENTRY) else { break };
            let (used, start) = (entry[..16].iter().any(|byte| *byte != 0), u64_le(entry, 32).unwrap_or(0));
            if let Some(start) = start.checked_mul(SECTOR_BYTES).filter(|start| used && *start > 0) {
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
