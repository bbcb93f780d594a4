//! NTFS, version 3.1 (Linux-NTFS project, NTFS Documentation). Each file has a record in the master file table (MFT),
//! with the locations of the file's data.

use crate::bytes::{u16_le, u32_le, u64_le};
use crate::ranges::Known;
use crate::{Found, View};
use std::ops::Range;

const MAGIC: &[u8] = b"NTFS    ";
const MAGIC_AT: usize = 3;
/// The maximum size of a record, in bytes.
const RECORD_MAX: u64 = 4096;
/// The last two bytes of each part of a record of this size are stored elsewhere ("fixups"), so that a torn write is
/// detected.
const STRIDE: usize = 512;
const RECORD: &[u8] = b"FILE";
const INDEX: &[u8] = b"INDX";
const IN_USE: u16 = 1;
const IS_DIRECTORY: u16 = 2;
const DATA: u32 = 0x80;
const INDEX_ALLOCATION: u32 = 0xA0;
const LAST: u32 = u32::MAX;
/// Numbers of records: the table itself, and the log. All below `OWN` are metadata of the file system.
const TABLE: u64 = 0;
const LOG: u64 = 2;
const OWN: u64 = 24;
/// The number of records that are read first.
const BEGIN_RECORDS: u64 = 16;

/// An NTFS file system.
#[derive(Debug)]
pub(crate) struct Ntfs {
    /// The offset of its first byte in the volume.
    start: u64,
    cluster_bytes: u64,
    clusters: u64,
    table: u64,
    mirror: u64,
    record_bytes: u64,
    serial: u64,
}

impl Ntfs {
    /// Reads the boot sector of a file system that begins at byte `start`; `None` if it is not valid.
    pub(crate) fn read(start: u64, boot: &[u8]) -> Option<Self> {
        if boot.get(MAGIC_AT..)?.get(..MAGIC.len())? != MAGIC {
            return None;
        }
        let sector_bytes = u64::from(u16_le(boot, 11)?);
        let cluster_bytes = cluster_bytes(*boot.get(13)?, sector_bytes)?;
        let sectors = u64_le(boot, 40)?;
        let ntfs = Self {
            start,
            cluster_bytes,
            clusters: sectors.checked_mul(sector_bytes)?.checked_div(cluster_bytes)?,
            table: u64_le(boot, 48)?,
            mirror: u64_le(boot, 56)?,
            record_bytes: record_bytes(*boot.get(64)?, cluster_bytes)?,
            serial: u64_le(boot, 72)?,
        };
        let is_sound = (512..=2 << 20).contains(&cluster_bytes)
            && cluster_bytes.is_power_of_two()
            && (512..=4096).contains(&sector_bytes)
            && (1024..=RECORD_MAX).contains(&ntfs.record_bytes)
            && ntfs.record_bytes.is_power_of_two()
            && ntfs.clusters.checked_mul(cluster_bytes)?.checked_add(start).is_some()
            && ntfs.table < ntfs.clusters
            && ntfs.mirror < ntfs.clusters;
        is_sound.then_some(ntfs)
    }

    /// Whether both are the same file system with the same size.
    pub(crate) const fn is_same(&self, other: &Self) -> bool {
        self.serial == other.serial && self.clusters == other.clusters
    }

    /// Records the ranges that follow from the boot sector.
    pub(crate) fn begin(&self, view: &mut View<'_>) {
        view.learn(self.first_records(), Known::Inodes { first: 0 });
        let clusters = (4 * self.record_bytes).div_ceil(self.cluster_bytes);
        if let Some(range) = self.bytes(self.mirror, clusters) {
            view.learn(range, Known::Is(Found::Metadata));
        }
    }

    /// The range of the table's first records, in bytes of the volume.
    pub(crate) fn first_records(&self) -> Range<u64> {
        let from = self.start + self.table * self.cluster_bytes;
        from..(from + BEGIN_RECORDS * self.record_bytes).min(self.bounds().end)
    }

    fn bytes(&self, first: u64, count: u64) -> Option<Range<u64>> {
        let end = first.checked_add(count).filter(|end| *end <= self.clusters && count > 0)?;
        Some(self.start + first * self.cluster_bytes..self.start + end * self.cluster_bytes)
    }

    /// The file system's range of the volume, in bytes.
    pub(crate) const fn bounds(&self) -> Range<u64> {
        self.start..self.start + self.clusters * self.cluster_bytes
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.cluster_bytes.max(self.record_bytes)
    }

    /// Reads a block, or a part of one; returns its classification.
    pub(crate) fn look(&self, at: u64, block: &[u8], view: &mut View<'_>) -> Option<Found> {
        let known = view.ranges.find(at);
        if let Some((from, Known::Inodes { first })) = known {
            let records = (at - from) / self.record_bytes;
            for (number, record) in
                (first.saturating_add(records)..).zip(block.chunks_exact(self.record_bytes as usize))
            {
                self.read_record(number, record, view);
            }
            return Some(Found::Metadata);
        }
        // An index block whose file record was not read yet is recognized by its content.
        let is_index = || block.starts_with(INDEX) && Self::is_whole(block);
        known.map(|(_, known)| known.found()).or_else(|| is_index().then_some(Found::Directory)).or_else(|| {
            // The boot sector.
            (at == self.start).then_some(Found::Metadata)
        })
    }

    /// Whether the last two bytes of every stride have the value in the header.
    fn is_whole(block: &[u8]) -> bool {
        let marked = || {
            let (at, count) = (usize::from(u16_le(block, 4)?), usize::from(u16_le(block, 6)?));
            let mark = u16_le(block, at)?;
            let strides = block.len().min(count.checked_sub(1)? * STRIDE) / STRIDE;
            Some(strides > 0 && (1..=strides).all(|stride| u16_le(block, stride * STRIDE - 2) == Some(mark)))
        };
        marked().unwrap_or(false)
    }

    /// Reads a file record, if `record` is the one with this number.
    fn read_record(&self, number: u64, record: &[u8], view: &mut View<'_>) -> Option<()> {
        if !record.starts_with(RECORD)
            || !Self::is_whole(record)
            || u64::from(u32_le(record, 44)?) != number & 0xFFFF_FFFF
        {
            return None;
        }
        let flags = u16_le(record, 22)?;
        if flags & IN_USE == 0 {
            return None;
        }
        *view.inodes += 1;
        let mut whole = record.to_vec();
        let fixes = usize::from(u16_le(record, 4)?);
        for stride in 1..=whole.len() / STRIDE {
            let fixed = record.get(fixes + 2 * stride..)?.get(..2)?;
            whole[stride * STRIDE - 2..][..2].copy_from_slice(fixed);
        }
        let is_directory = flags & IS_DIRECTORY != 0;
        let mut at = usize::from(u16_le(&whole, 20)?);
        while let (Some(kind), Some(len)) = (u32_le(&whole, at), u32_le(&whole, at + 4)) {
            let attribute = at.checked_add(len as usize).and_then(|end| whole.get(at..end));
            let Some(attribute) = attribute.filter(|attribute| kind != LAST && !attribute.is_empty()) else { break };
            self.read_attribute(number, kind, is_directory, attribute, view);
            at += attribute.len();
        }
        None
    }

    /// Records a part of the table that begins with its cluster `vcn`.
    fn learn_table(&self, vcn: u64, range: Range<u64>, view: &mut View<'_>) {
        let from = vcn.saturating_mul(self.cluster_bytes);
        let first = from.div_ceil(self.record_bytes);
        // If clusters are smaller than records, a part may begin with the end of a record.
        let begins = range.start.saturating_add(first.saturating_mul(self.record_bytes).saturating_sub(from));
        view.learn(range.start..begins.min(range.end), Known::Is(Found::Metadata));
        view.learn(begins..range.end, Known::Inodes { first });
    }

    fn read_attribute(
        &self,
        number: u64,
        kind: u32,
        is_directory: bool,
        attribute: &[u8],
        view: &mut View<'_>,
    ) -> Option<()> {
        if *attribute.get(8)? == 0 {
            return None;
        }
        let (lowest, highest) = (u64_le(attribute, 16)?, u64_le(attribute, 24)?);
        let is_unnamed = *attribute.get(9)? == 0;
        let found = match kind {
            DATA if number == LOG => Found::Journal,
            // A continuation of a file's data has no size of the file: the file ends here or later.
            DATA if number >= OWN && lowest > 0 => {
                Found::File(highest.saturating_add(1).saturating_mul(self.cluster_bytes))
            }
            DATA if number >= OWN => Found::File(u64_le(attribute, 48)?),
            INDEX_ALLOCATION if is_directory => Found::Directory,
            _ => Found::Metadata,
        };
        let is_table = number == TABLE && kind == DATA && is_unnamed;
        let mut pairs = attribute.get(usize::from(u16_le(attribute, 32)?)..)?;
        let (mut vcn, mut cluster) = (lowest, 0u64);
        while let Some((count, step, rest)) = run(pairs) {
            pairs = rest;
            if let Some(step) = step {
                cluster = cluster.wrapping_add_signed(step);
                let range = self.bytes(cluster, count)?;
                if is_table {
                    self.learn_table(vcn, range, view);
                } else {
                    view.learn(range, Known::Is(found));
                }
            }
            vcn = vcn.checked_add(count)?;
        }
        None
    }
}

/// The size of a cluster in bytes: up to 128, `number` is a number of sectors; above, the negated exponent of a power of
/// two, which is the number of sectors.
fn cluster_bytes(number: u8, sector_bytes: u64) -> Option<u64> {
    match number {
        0 => None,
        1..=128 => sector_bytes.checked_mul(number.into()),
        _ => 1u64.checked_shl(number.wrapping_neg().into())?.checked_mul(sector_bytes),
    }
}

/// The size of a record in bytes: up to 127, `number` is a number of clusters; above, the negated exponent of a power of
/// two, which is the number of bytes.
fn record_bytes(number: u8, cluster_bytes: u64) -> Option<u64> {
    match number {
        0 => None,
        1..=127 => cluster_bytes.checked_mul(number.into()),
        _ => 1u64.checked_shl(number.wrapping_neg().into()),
    }
}

/// The first run of a list: the number of clusters, the distance of its first cluster from that of the previous run
/// (`None`: a hole), and the rest of the list.
fn run(pairs: &[u8]) -> Option<(u64, Option<i64>, &[u8])> {
    let (header, rest) = pairs.split_first()?;
    let (count_bytes, step_bytes) = (usize::from(header & 0xF), usize::from(header >> 4));
    if *header == 0 || count_bytes > 8 || step_bytes > 8 {
        return None;
    }
    let (count, rest) = rest.split_at_checked(count_bytes)?;
    let (step, rest) = rest.split_at_checked(step_bytes)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let unused = 64 - 8 * step_bytes as u32;
    let step = (!step.is_empty()).then(|| (number(step) << unused).cast_signed() >> unused);
    Some((number(count), step, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_clusters_are_powers_of_two_of_sectors_and_small_records_of_bytes() {
        assert_eq!(cluster_bytes(8, 512), Some(4096));
        assert_eq!(cluster_bytes(128, 512), Some(64 << 10));
        // 256 - 244 = 12: 2^12 sectors.
        assert_eq!(cluster_bytes(244, 512), Some(2 << 20));
        assert_eq!(cluster_bytes(248, 512), Some(128 << 10));
        assert_eq!(cluster_bytes(251, 4096), Some(128 << 10));
        assert_eq!((cluster_bytes(0, 512), cluster_bytes(129, 512)), (None, None));
        assert_eq!(record_bytes(1, 1024), Some(1024));
        assert_eq!(record_bytes(246, 4096), Some(1024));
        assert_eq!((record_bytes(0, 512), record_bytes(128, 512)), (None, None));
    }
}
