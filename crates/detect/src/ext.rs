//! ext2, ext3 and ext4 (kernel documentation, "ext4 Data Structures and Algorithms").

use crate::bytes::{joined, u16_le, u32_le, u64_le};
use crate::journal::Journal;
use crate::mode;
use crate::ranges::{Form, Known};
use crate::{Found, View};
use std::ops::Range;

/// The offset of the superblock in the file system.
pub(crate) const SUPERBLOCK_AT: u64 = 1024;
const MAGIC: u16 = 0xEF53;
const BLOCK_BYTES_MIN: u32 = 1 << 10;
const BLOCK_SHIFT_MAX: u32 = 6;
/// Feature flags that change the layout.
const META_BG: u32 = 0x10;
const HAS_64BIT: u32 = 0x80;
const SPARSE_SUPER: u32 = 1;
/// The first inode of ordinary files, if the superblock does not name it. Of the lower inodes, only the root directory
/// and the journal are read.
const FIRST_INODE: u64 = 11;
const ROOT_INODE: u64 = 2;
/// Inode flags.
const USES_EXTENTS: u32 = 0x8_0000;
const INLINE_DATA: u32 = 0x1000_0000;
/// The offset and length of an inode's block map.
const MAP_AT: usize = 0x28;
const MAP_BYTES: usize = 60;
/// The number of direct entries, which refer to data blocks. Later entries refer to indirect blocks.
const DIRECT: usize = 12;
const EXTENT_MAGIC: u16 = 0xF30A;
const EXTENT_BYTES: usize = 12;
/// Greater lengths mark unwritten extents.
const EXTENT_LEN_MAX: u16 = 1 << 15;
/// The tail of a directory block, with its checksum.
const TAIL_BYTES: usize = 12;
const TAIL_KIND: u8 = 0xDE;
/// The maximum number of groups: enough for 64 TiB with blocks of 4 KiB. Larger file systems are not recognized.
const GROUPS_MAX: u64 = 1 << 19;

/// An ext2, ext3 or ext4 file system.
#[derive(Debug)]
pub(crate) struct Ext {
    /// The offset of its first byte in the volume.
    start: u64,
    block_bytes: u64,
    blocks: u64,
    first_block: u64,
    blocks_per_group: u64,
    inodes_per_group: u32,
    inode_bytes: u32,
    descriptor_bytes: u32,
    groups: u64,
    has_meta_groups: bool,
    /// Whether only some groups have copies of the superblock and the descriptors.
    has_few_copies: bool,
    /// The number of blocks after the descriptors that are reserved for more descriptors.
    reserved_blocks: u64,
    first_inode: u64,
    journal_inode: u64,
    uuid: [u8; 16],
    journal: Journal,
}

impl Ext {
    /// Reads the superblock of a file system that begins at byte `start`; `None` if it is not valid.
    pub(crate) fn read(start: u64, superblock: &[u8]) -> Option<Self> {
        // A copy of the superblock has the number of its group at byte 90.
        if u16_le(superblock, 56)? != MAGIC || u16_le(superblock, 90)? != 0 {
            return None;
        }
        let shift = u32_le(superblock, 24).filter(|shift| *shift <= BLOCK_SHIFT_MAX)?;
        let incompatible = u32_le(superblock, 96)?;
        let has_64bit = incompatible & HAS_64BIT != 0;
        let high = if has_64bit { u32_le(superblock, 0x150)? } else { 0 };
        let is_old = u32_le(superblock, 76)? == 0;
        let inode_bytes = if is_old { 128 } else { u16_le(superblock, 88)?.into() };
        let descriptor_bytes = if has_64bit { u16_le(superblock, 254)?.into() } else { 32 };
        let ext = Self {
            start,
            block_bytes: (BLOCK_BYTES_MIN << shift).into(),
            blocks: joined(u32_le(superblock, 4)?, high),
            first_block: u32_le(superblock, 20)?.into(),
            blocks_per_group: u32_le(superblock, 32)?.into(),
            inodes_per_group: u32_le(superblock, 40)?,
            inode_bytes,
            descriptor_bytes,
            groups: 0,
            has_meta_groups: incompatible & META_BG != 0,
            has_few_copies: u32_le(superblock, 100)? & SPARSE_SUPER != 0,
            reserved_blocks: u16_le(superblock, 0xCE)?.into(),
            first_inode: if is_old { FIRST_INODE } else { u32_le(superblock, 84)?.into() },
            journal_inode: u32_le(superblock, 224)?.into(),
            uuid: superblock.get(104..120)?.try_into().ok()?,
            journal: Journal::default(),
        };
        let is_sound = ext.first_block <= 1
            && ext.blocks > ext.first_block
            && ext.blocks_per_group > 0
            && ext.inodes_per_group > 0
            && (128..=4096).contains(&ext.inode_bytes)
            && ext.inode_bytes.is_power_of_two()
            && (32..=1024).contains(&ext.descriptor_bytes)
            && ext.descriptor_bytes.is_power_of_two();
        let groups = (ext.blocks.saturating_sub(ext.first_block)).div_ceil(ext.blocks_per_group.max(1));
        let fits = ext.blocks.checked_mul(ext.block_bytes).and_then(|bytes| bytes.checked_add(start)).is_some();
        (is_sound && fits && groups <= GROUPS_MAX).then_some(Self { groups, ..ext })
    }

    /// Whether both are the same file system with the same size.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.uuid, self.blocks, self.block_bytes) == (other.uuid, other.blocks, other.block_bytes)
    }

    /// The range of the group descriptors, in bytes of the volume.
    pub(crate) fn descriptors(&self) -> Range<u64> {
        let first = self.at(self.first_block + 1);
        first..first.saturating_add(self.groups * u64::from(self.descriptor_bytes))
    }

    /// The offset of a block in the volume.
    const fn at(&self, block: u64) -> u64 {
        self.start.saturating_add(block.saturating_mul(self.block_bytes))
    }

    /// The range of some blocks in bytes of the volume; `None` if they are not all within the file system.
    fn bytes(&self, first: u64, count: u64) -> Option<Range<u64>> {
        let end = first.checked_add(count).filter(|end| *end <= self.blocks && count > 0)?;
        Some(self.at(first)..self.at(end))
    }

    /// Records the ranges that follow from the superblock.
    pub(crate) fn begin(&self, view: &mut View<'_>) {
        view.learn(self.start..self.at(self.first_block + 1), Known::Is(Found::Metadata));
        let descriptors = self.descriptors();
        let whole = descriptors.start..descriptors.end.next_multiple_of(self.block_bytes);
        // With META_BG, the descriptors are spread over the disk, and only those of the first groups are here.
        let known = if self.has_meta_groups { Known::Is(Found::Metadata) } else { Known::Descriptors { first: 0 } };
        view.learn(whole, known);
        let descriptors =
            if self.has_meta_groups { 0 } else { (descriptors.end - descriptors.start).div_ceil(self.block_bytes) };
        for group in (0..self.groups).filter(|group| self.has_copies(*group)) {
            let first = self.first_block + group * self.blocks_per_group;
            let (first, count) = match group {
                0 => (first + 1 + descriptors, self.reserved_blocks),
                _ => (first, 1 + descriptors + self.reserved_blocks),
            };
            if let Some(range) = self.bytes(first, count) {
                view.learn(range, Known::Is(Found::Metadata));
            }
        }
    }

    /// Whether a group begins with copies of the superblock and the descriptors: all do, or only 0, 1 and the powers of
    /// 3, 5 and 7.
    fn has_copies(&self, group: u64) -> bool {
        let is_power = |base: u64| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        };
        !self.has_few_copies || group <= 1 || [3, 5, 7].into_iter().any(is_power)
    }

    /// The file system's range of the volume, in bytes.
    pub(crate) fn bounds(&self) -> Range<u64> {
        self.start..self.at(self.blocks)
    }

    pub(crate) const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Reads a block, or a part of one; returns its classification.
    pub(crate) fn look(&mut self, at: u64, block: &[u8], view: &mut View<'_>) -> Option<Found> {
        let Some((start, known)) = view.ranges.find(at) else { return Self::by_itself(block) };
        match known {
            Known::Is(Found::Journal) => {
                if let Some(copy_of) = self.journal.look(at, block)
                    && let Some(range) = self.bytes(copy_of, 1)
                {
                    self.read_known(range.start, block, view);
                }
            }
            Known::Is(_) => {}
            Known::Node { .. } | Known::Inodes { .. } | Known::Descriptors { .. } => {
                self.read_table(at, block, (start, known), view);
            }
        }
        Some(known.found())
    }

    /// Reads the content, current or journalled, of the block at `at`, if it describes other blocks.
    fn read_known(&self, at: u64, block: &[u8], view: &mut View<'_>) {
        if let Some((start, known)) = view.ranges.find(at) {
            self.read_table(at, block, (start, known), view);
        }
    }

    fn read_table(&self, at: u64, block: &[u8], (start, known): (u64, Known), view: &mut View<'_>) {
        match known {
            Known::Is(_) => {}
            Known::Descriptors { first } => {
                let number = (at - start) / u64::from(self.descriptor_bytes);
                for (place, descriptor) in block.chunks_exact(self.descriptor_bytes as usize).enumerate() {
                    self.read_descriptor(u64::from(first) + number + place as u64, descriptor, view);
                }
            }
            Known::Inodes { first } => {
                let number = (at - start) / u64::from(self.inode_bytes);
                for (place, inode) in block.chunks_exact(self.inode_bytes as usize).enumerate() {
                    self.read_inode(first + number + place as u64, inode, view);
                }
            }
            Known::Node { of, form: Form::Extents } => {
                self.read_extents(block, of, view);
            }
            Known::Node { of, form: Form::Blocks { level } } => self.read_blocks(block, of, level, view),
        }
    }

    fn read_descriptor(&self, group: u64, descriptor: &[u8], view: &mut View<'_>) {
        if group >= self.groups {
            return;
        }
        let number = |low: usize, high: usize| -> Option<u64> {
            let above = if self.descriptor_bytes >= 64 { u32_le(descriptor, high)? } else { 0 };
            Some(joined(u32_le(descriptor, low)?, above))
        };
        for bitmap in [number(0, 0x20), number(4, 0x24)].into_iter().flatten() {
            if let Some(range) = self.bytes(bitmap, 1).filter(|_| bitmap > 0) {
                view.learn(range, Known::Is(Found::Metadata));
            }
        }
        let table_blocks = (u64::from(self.inodes_per_group) * u64::from(self.inode_bytes)).div_ceil(self.block_bytes);
        let table = number(8, 0x28).filter(|table| *table > 0).and_then(|table| self.bytes(table, table_blocks));
        if let Some(range) = table {
            view.learn(range, Known::Inodes { first: group * u64::from(self.inodes_per_group) + 1 });
        }
    }

    fn read_inode(&self, number: u64, inode: &[u8], view: &mut View<'_>) -> Option<()> {
        let (mode, links, deleted) = (u16_le(inode, 0)?, u16_le(inode, 0x1A)?, u32_le(inode, 0x14)?);
        let is_journal = number == self.journal_inode && number > 0;
        if !is_journal && (links == 0 || deleted != 0) {
            return None;
        }
        let size = joined(u32_le(inode, 4)?, u32_le(inode, 0x6C)?);
        let of = match mode & mode::KIND {
            _ if is_journal => Found::Journal,
            mode::DIRECTORY => Found::Directory,
            mode::REGULAR => Found::File(size),
            _ => return None,
        };
        if number < self.first_inode && number != ROOT_INODE && !is_journal {
            return None;
        }
        *view.inodes += 1;
        let (flags, map) = (u32_le(inode, 0x20)?, inode.get(MAP_AT..MAP_AT + MAP_BYTES)?);
        if flags & INLINE_DATA != 0 {
            return None;
        }
        if flags & USES_EXTENTS != 0 {
            self.read_extents(map, of, view);
            return None;
        }
        self.read_blocks(&map[..DIRECT * 4], of, 1, view);
        for (level, place) in (1_u8..).zip(DIRECT..MAP_BYTES / 4) {
            let block = u32_le(map, place * 4)?;
            if let Some(range) = self.bytes(block.into(), 1).filter(|_| block > 0) {
                view.learn(range, Known::Node { of, form: Form::Blocks { level } });
            }
        }
        None
    }

    /// Reads a node of an extent tree, with the extents of a file of kind `of`.
    fn read_extents(&self, node: &[u8], of: Found, view: &mut View<'_>) -> Option<()> {
        if u16_le(node, 0)? != EXTENT_MAGIC {
            return None;
        }
        let (entries, depth) = (u16_le(node, 2)?, u16_le(node, 6)?);
        for entry in node.get(EXTENT_BYTES..)?.chunks_exact(EXTENT_BYTES).take(entries.into()) {
            if depth == 0 {
                let len = u16_le(entry, 4)?;
                let len = if len > EXTENT_LEN_MAX { len - EXTENT_LEN_MAX } else { len };
                let first = joined(u32_le(entry, 8)?, u16_le(entry, 6)?.into());
                if let Some(range) = self.bytes(first, len.into()) {
                    view.learn(range, Known::Is(of));
                }
            } else {
                let child = joined(u32_le(entry, 4)?, u16_le(entry, 8)?.into());
                if let Some(range) = self.bytes(child, 1) {
                    view.learn(range, Known::Node { of, form: Form::Extents });
                }
            }
        }
        None
    }

    /// Reads an array of block numbers: those of data at level 0 or 1, those of indirect blocks above.
    fn read_blocks(&self, numbers: &[u8], of: Found, level: u8, view: &mut View<'_>) {
        let known = match level {
            0 | 1 => Known::Is(of),
            level => Known::Node { of, form: Form::Blocks { level: level - 1 } },
        };
        let mut run: Option<Range<u64>> = None;
        let numbers = numbers.chunks_exact(4).filter_map(|number| u32_le(number, 0)).map(u64::from);
        for number in numbers.filter(|number| *number > 0).chain([u64::MAX]) {
            match &mut run {
                // Indirect blocks are not joined to runs: each is read from its own beginning.
                Some(run) if run.end == number && level <= 1 => run.end += 1,
                _ => {
                    let before = run.replace(number..number.saturating_add(1));
                    if let Some(range) = before.and_then(|run| self.bytes(run.start, run.end - run.start)) {
                        view.learn(range, known);
                    }
                }
            }
        }
    }

    /// Classifies a block by its content alone: a directory block, or a node of an extent tree.
    fn by_itself(block: &[u8]) -> Option<Found> {
        let tail = block.len().checked_sub(TAIL_BYTES).and_then(|at| block.get(at..))?;
        let is_tail = u32_le(tail, 0) == Some(0)
            && u16_le(tail, 4) == Some(TAIL_BYTES as u16)
            && u16_le(tail, 6) == Some(u16::from_le_bytes([0, TAIL_KIND]));
        // A directory begins with the entries for itself and its parent.
        let begins =
            u16_le(block, 4) == Some(12) && block.get(6) == Some(&1) && u16_le(block, 8) == Some(u16::from(b'.'));
        if is_tail || begins && block.get(18) == Some(&2) && block.get(20..22) == Some(b"..") {
            return Some(Found::Directory);
        }
        let is_node = u16_le(block, 0) == Some(EXTENT_MAGIC)
            && u16_le(block, 4).is_some_and(|max| usize::from(max) == (block.len() - EXTENT_BYTES) / EXTENT_BYTES)
            && u16_le(block, 2).is_some_and(|entries| entries > 0)
            && u64_le(block, 0).is_some();
        is_node.then_some(Found::Metadata)
    }
}
