//! XFS, version 5 (XFS Algorithms & Data Structures, 3rd edition). Its blocks contain magic numbers and their own
//! addresses.

use crate::bytes::{u16_be, u32_be, u64_be};
use crate::mode;
use crate::ranges::{Form, Known, Stamp};
use crate::{Found, View};
use std::ops::Range;

const SECTOR_BYTES: u64 = 512;
const MAGIC: &[u8] = b"XFSB";
/// The bits of the version field that contain the version number.
const VERSION_BITS: u16 = 0xF;
const VERSION: u16 = 5;
/// Magic numbers of blocks with their address at byte 16: the trees of free space, inodes, reference counts and reverse
/// mappings.
const SHORT_TREES: [&[u8]; 6] = [b"AB3B", b"AB3C", b"IAB3", b"FIB3", b"R3FC", b"RMB3"];
/// The inode tree: its magic number, the length of its header, and the lengths of its records in leaves and in upper
/// nodes.
const INODE_TREE: &[u8] = b"IAB3";
const SHORT_HEADER: usize = 56;
const CHUNK_BYTES: usize = 16;
const CHUNK_KEY_BYTES: usize = 4;
const CHUNK_INODES: u64 = 64;
/// The number of inodes for each bit of a chunk's hole mask.
const HOLE_INODES: u64 = 4;
/// The sector of an allocation group with the header of its inodes, and the number of header sectors.
const INODES_SECTOR: u64 = 2;
const HEADER_SECTORS: u64 = 4;
/// The maximum number of groups whose headers are recorded from the beginning.
const GROUPS_MAX: u64 = 1 << 16;
const FILE_TREE: &[u8] = b"BMA3";
const FILE_TREE_ADDRESS: usize = 24;
const FILE_TREE_HEADER: usize = 72;
const DIRECTORIES: [&[u8]; 3] = [b"XDB3", b"XDD3", b"XDF3"];
const DIRECTORY_ADDRESS: usize = 8;
/// Blocks with a magic number of two bytes at byte 8 and their address at byte 16: indexes of directories and
/// attributes.
const INDEXES: [(u16, Found); 4] =
    [(0x3DF1, Found::Directory), (0x3DFF, Found::Directory), (0x3EBE, Found::Directory), (0x3BEE, Found::Metadata)];
const HEADERS: [&[u8]; 4] = [b"XFSB", b"XAGF", b"XAGI", b"XAFL"];
/// Remote attributes and symbolic links.
const REMOTE: [&[u8]; 2] = [b"XARM", b"XSLM"];
const INODE_MAGIC: u16 = 0x494E;
const INODE_HEADER: usize = 176;
/// The offsets at which inodes and nodes of trees have the log sequence number of their last change. Freed ones remain
/// unchanged.
const INODE_LOGGED: usize = 112;
const SHORT_TREE_LOGGED: usize = 24;
const FILE_TREE_LOGGED: usize = 32;
const INODE_VERSION: u8 = 3;
const FORMAT_EXTENTS: u8 = 2;
const FORMAT_TREE: u8 = 3;
const WIDE_COUNTS: u64 = 1 << 4;
const RECORD_BYTES: usize = 16;

/// An XFS file system.
#[derive(Debug)]
pub(crate) struct Xfs {
    /// The offset of its first byte in the volume.
    start: u64,
    block_bytes: u64,
    blocks: u64,
    group_blocks: u64,
    group_shift: u32,
    inode_bytes: usize,
    sector_bytes: u64,
    log: Option<(u64, u64)>,
    uuid: [u8; 16],
}

impl Xfs {
    /// Reads the superblock of a file system that begins at byte `start`; `None` if it is not valid.
    pub(crate) fn read(start: u64, superblock: &[u8]) -> Option<Self> {
        if !superblock.starts_with(MAGIC) || u16_be(superblock, 100)? & VERSION_BITS != VERSION {
            return None;
        }
        let (log_start, log_blocks) = (u64_be(superblock, 48)?, u32_be(superblock, 96)?);
        let xfs = Self {
            start,
            block_bytes: u32_be(superblock, 4)?.into(),
            blocks: u64_be(superblock, 8)?,
            group_blocks: u32_be(superblock, 84)?.into(),
            group_shift: u32::from(*superblock.get(124)?),
            inode_bytes: u16_be(superblock, 104)?.into(),
            sector_bytes: u16_be(superblock, 102)?.into(),
            log: (log_start > 0).then(|| (log_start, log_blocks.into())),
            uuid: superblock.get(32..48)?.try_into().ok()?,
        };
        let is_sound = (512..=65536).contains(&xfs.block_bytes)
            && xfs.block_bytes.is_power_of_two()
            && xfs.group_blocks > 0
            && xfs.group_shift < 32
            && xfs.group_blocks <= 1 << xfs.group_shift
            && (256..=2048).contains(&xfs.inode_bytes)
            && xfs.inode_bytes.is_power_of_two()
            && (SECTOR_BYTES..=32768).contains(&xfs.sector_bytes)
            && xfs.sector_bytes.is_power_of_two()
            && xfs.blocks.checked_mul(xfs.block_bytes).and_then(|bytes| bytes.checked_add(start)).is_some();
        is_sound.then_some(xfs)
    }

    /// Whether both are the same file system with the same size.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.uuid, self.blocks) == (other.uuid, other.blocks)
    }

    /// Records the ranges that follow from the superblock.
    pub(crate) fn begin(&self, view: &mut View<'_>) {
        if let Some(range) = self.log.and_then(|(first, count)| self.bytes(first, count)) {
            view.learn(range, Known::Is(Found::Journal));
        }
        let headers = (HEADER_SECTORS * self.sector_bytes).div_ceil(self.block_bytes);
        for group in 0..self.blocks.div_ceil(self.group_blocks).min(GROUPS_MAX) {
            if let Some(range) = self.bytes(group << self.group_shift, headers) {
                view.learn(range, Known::Is(Found::Metadata));
            }
        }
    }

    /// The range of some blocks in bytes of the volume. `first` contains the number of the group in its upper bits.
    fn bytes(&self, first: u64, count: u64) -> Option<Range<u64>> {
        let (group, block) = (first >> self.group_shift, first & ((1 << self.group_shift) - 1));
        let linear = group.checked_mul(self.group_blocks)?.checked_add(block)?;
        let end = linear.checked_add(count).filter(|end| *end <= self.blocks && count > 0)?;
        Some(self.start + linear * self.block_bytes..self.start + end * self.block_bytes)
    }

    /// The file system's range of the volume, in bytes.
    pub(crate) const fn bounds(&self) -> Range<u64> {
        self.start..self.start + self.blocks * self.block_bytes
    }

    pub(crate) const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Reads a block, or a part of one; returns its classification.
    pub(crate) fn look(&self, at: u64, block: &[u8], view: &mut View<'_>) -> Option<Found> {
        let known = view.ranges.find(at).map(|(_, known)| known);
        if let Some(Known::Is(Found::Journal)) = known {
            return Some(Found::Journal);
        }
        if u16_be(block, 0) == Some(INODE_MAGIC) && block.get(4) == Some(&INODE_VERSION) && self.bears(block, at) {
            for inode in block.chunks_exact(self.inode_bytes) {
                self.read_inode(inode, view);
            }
            return Some(Found::Metadata);
        }
        let found = self.by_itself(at, block);
        if found == Some(Found::Metadata) {
            self.read_group(at, block, view);
        }
        if found.is_some() && block.starts_with(FILE_TREE) {
            if let Some(Known::Node { of, .. }) = known {
                self.read_tree(block, of, view);
            }
            return found;
        }
        found.or(known.map(Known::found))
    }

    /// Whether an inode's number is that of an inode at byte `at`.
    fn bears(&self, inode: &[u8], at: u64) -> bool {
        let Some(number) = u64_be(inode, 152) else { return false };
        let per_block = (self.block_bytes / self.inode_bytes as u64).max(1);
        let shift = per_block.ilog2();
        self.bytes(number >> shift, 1).is_some_and(|range| range.contains(&at))
            && inode.get(160..176).is_some_and(|uuid| self.is_own(uuid))
    }

    /// A file system whose identity was changed keeps the old one in its blocks, so every identity but zero is
    /// accepted.
    fn is_own(&self, uuid: &[u8]) -> bool {
        uuid == self.uuid || uuid.iter().any(|byte| *byte != 0)
    }

    /// Classifies a block by its magic number and address alone.
    fn by_itself(&self, at: u64, block: &[u8]) -> Option<Found> {
        let magic = block.get(..4)?;
        let address = (at - self.start) / SECTOR_BYTES;
        let is_at = |place: usize| u64_be(block, place) == Some(address);
        if HEADERS.contains(&magic) {
            let group_bytes = self.group_blocks * self.block_bytes;
            return ((at - self.start) % group_bytes < 4 * SECTOR_BYTES.max(self.block_bytes))
                .then_some(Found::Metadata);
        }
        if SHORT_TREES.contains(&magic) {
            return is_at(16).then_some(Found::Metadata);
        }
        if magic == FILE_TREE {
            return is_at(FILE_TREE_ADDRESS).then_some(Found::Metadata);
        }
        if DIRECTORIES.contains(&magic) {
            return is_at(DIRECTORY_ADDRESS).then_some(Found::Directory);
        }
        if REMOTE.contains(&magic) {
            return Some(Found::Metadata);
        }
        let index = u16_be(block, 8)?;
        let (_, found) = INDEXES.iter().find(|(magic, _)| *magic == index)?;
        is_at(16).then_some(*found)
    }

    /// Reads the locations of a group's inodes, if the block has them: the group's header, or a block of its inode
    /// tree.
    fn read_group(&self, at: u64, block: &[u8], view: &mut View<'_>) -> Option<()> {
        let group_bytes = self.group_blocks * self.block_bytes;
        let (group, within) = ((at - self.start) / group_bytes, (at - self.start) % group_bytes);
        let own = |block: u64| group.checked_shl(self.group_shift).map(|group| group | block);
        let whole = |block: u64| own(block).and_then(|block| self.bytes(block, 1));
        if block.starts_with(INODE_TREE) {
            let (level, count) = (u16_be(block, 4)?, usize::from(u16_be(block, 6)?));
            view.stamp = Stamp(u64_be(block, SHORT_TREE_LOGGED)?);
            let records = block.get(SHORT_HEADER..)?;
            if level == 0 {
                for chunk in records.chunks_exact(CHUNK_BYTES).take(count) {
                    self.read_chunk(group, chunk, view);
                }
            } else {
                let children = records.get(records.len() / (CHUNK_KEY_BYTES + 4) * CHUNK_KEY_BYTES..)?;
                let children = children.chunks_exact(4).take(count).filter_map(|child| whole(u32_be(child, 0)?.into()));
                children.for_each(|child| view.learn(child, Known::Is(Found::Metadata)));
            }
            return None;
        }
        let header = (INODES_SECTOR * self.sector_bytes).checked_sub(within)?;
        let header = block.get(usize::try_from(header).ok()?..).filter(|header| header.starts_with(b"XAGI"))?;
        view.learn(whole(u32_be(header, 20)?.into())?, Known::Is(Found::Metadata));
        None
    }

    /// Reads the location of a chunk of inodes; parts of a sparse chunk may be used otherwise.
    fn read_chunk(&self, group: u64, chunk: &[u8], view: &mut View<'_>) -> Option<()> {
        let (first, holes) = (u64::from(u32_be(chunk, 0)?), u16_be(chunk, 4)?);
        let per_block = (self.block_bytes / self.inode_bytes as u64).max(1);
        let begins = group.checked_shl(self.group_shift)? | (first / per_block);
        if holes == 0 {
            view.learn(self.bytes(begins, CHUNK_INODES.div_ceil(per_block))?, Known::Is(Found::Metadata));
            return None;
        }
        for number in (0..CHUNK_INODES).step_by(per_block as usize) {
            if holes >> (number / HOLE_INODES) & 1 == 0 {
                view.learn(self.bytes(begins + number / per_block, 1)?, Known::Is(Found::Metadata));
            }
        }
        None
    }

    fn read_inode(&self, inode: &[u8], view: &mut View<'_>) -> Option<()> {
        let (magic, mode, format) = (u16_be(inode, 0)?, u16_be(inode, 2)?, *inode.get(5)?);
        if magic != INODE_MAGIC {
            return None;
        }
        let of = match mode & mode::KIND {
            mode::DIRECTORY => Found::Directory,
            mode::REGULAR => Found::File(u64_be(inode, 56)?),
            _ => return None,
        };
        *view.inodes += 1;
        view.stamp = Stamp(u64_be(inode, INODE_LOGGED)?);
        let has_wide = u64_be(inode, 120)? & WIDE_COUNTS != 0;
        let extents = if has_wide { u64_be(inode, 24)? } else { u32_be(inode, 76)?.into() };
        let end = match usize::from(*inode.get(82)?) * 8 {
            0 => self.inode_bytes,
            fork => INODE_HEADER + fork,
        };
        let fork = inode.get(INODE_HEADER..end.min(self.inode_bytes))?;
        match format {
            FORMAT_EXTENTS => {
                let count = usize::try_from(extents).unwrap_or(usize::MAX);
                self.read_records(fork, count, of, view);
            }
            FORMAT_TREE => {
                let (count, max) = (u16_be(fork, 2)?, (fork.len() - 4) / RECORD_BYTES);
                self.read_children(fork, 4 + max * 8, count.into(), of, view);
            }
            _ => {}
        }
        None
    }

    /// Reads a block of a file's extent tree.
    fn read_tree(&self, block: &[u8], of: Found, view: &mut View<'_>) -> Option<()> {
        let (level, count) = (u16_be(block, 4)?, u16_be(block, 6)?);
        view.stamp = Stamp(u64_be(block, FILE_TREE_LOGGED)?);
        if level == 0 {
            self.read_records(block.get(FILE_TREE_HEADER..)?, count.into(), of, view);
            return None;
        }
        let max = block.len().checked_sub(FILE_TREE_HEADER)? / RECORD_BYTES;
        self.read_children(block, FILE_TREE_HEADER + max * 8, count.into(), of, view);
        None
    }

    fn read_children(&self, block: &[u8], at: usize, count: usize, of: Found, view: &mut View<'_>) {
        for child in block.get(at..).unwrap_or_default().chunks_exact(8).take(count) {
            if let Some(range) = u64_be(child, 0).and_then(|child| self.bytes(child, 1)) {
                view.learn(range, Known::Node { of, form: Form::Extents });
            }
        }
    }

    fn read_records(&self, records: &[u8], count: usize, of: Found, view: &mut View<'_>) {
        for record in records.chunks_exact(RECORD_BYTES).take(count) {
            let (Some(high), Some(low)) = (u64_be(record, 0), u64_be(record, 8)) else { return };
            let (first, len) = ((high & 0x1FF) << 43 | low >> 21, low & 0x1F_FFFF);
            if let Some(range) = self.bytes(first, len) {
                view.learn(range, Known::Is(of));
            }
        }
    }
}
