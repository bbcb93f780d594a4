//! The layout of the modelled file system: ext4's block groups with bitmaps and inode tables at the front of each sixteen
//! of them (`flex_bg`), directories and data in the group of the parent directory, and a journal in the middle.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a block.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Blocks of a group: 128 MiB, what one bitmap covers.
const GROUP_BLOCKS: u64 = 8 * BLOCK_BYTES;
/// Groups whose metadata are together.
const FLEX_GROUPS: u64 = 16;
/// Inodes of a group: one for each 16 KiB, as `mke2fs` makes them.
const GROUP_INODES: u64 = GROUP_BLOCKS * BLOCK_BYTES / (16 << 10);
/// Inodes in a block: of 1 KiB, the size of NTFS's file records.
const BLOCK_INODES: u64 = BLOCK_BYTES / 1024;
const TABLE_BLOCKS: u64 = GROUP_INODES / BLOCK_INODES;
/// The superblock and the table of groups, at the beginning of the volume.
const HEAD_BLOCKS: u64 = 4;
/// The space of the volume over its data.
const SPARE: f64 = 1.3;
/// The journal: `mke2fs` takes 128 MiB from 32 GiB on, less in smaller volumes.
const JOURNAL_BLOCKS_MAX: u64 = 32 << 10;
const JOURNAL_BLOCKS_MIN: u64 = 1 << 10;

/// The places of metadata, and the free space.
#[derive(Debug)]
pub(super) struct Layout {
    groups: u64,
    pub(super) journal: Range<u64>,
    /// Free runs of blocks, by their first block.
    free: BTreeMap<u64, u64>,
    /// Free inodes of each group: those that were never used begin at the first number; those that were freed follow.
    next_inode: Vec<u64>,
    freed_inodes: Vec<Vec<u64>>,
}

impl Layout {
    /// A volume for data of `bytes`.
    pub(super) fn new(bytes: u64) -> Self {
        let groups = (bytes as f64 * SPARE / (GROUP_BLOCKS * BLOCK_BYTES) as f64).ceil().max(2.0) as u64;
        let journal_blocks = (groups * GROUP_BLOCKS / 256).clamp(JOURNAL_BLOCKS_MIN, JOURNAL_BLOCKS_MAX);
        let mut layout = Self {
            groups,
            journal: 0..0,
            free: BTreeMap::new(),
            next_inode: vec![0; groups as usize],
            freed_inodes: vec![Vec::new(); groups as usize],
        };
        for first in (0..groups).step_by(FLEX_GROUPS as usize) {
            let end = (first + FLEX_GROUPS).min(groups);
            let data = Self::metadata_begin(first) + (end - first) * (2 + TABLE_BLOCKS);
            layout.free.insert(data, end * GROUP_BLOCKS - data);
        }
        let middle = groups / 2 * GROUP_BLOCKS;
        let journal = layout.take_run(middle, journal_blocks).unwrap_or(middle..middle);
        layout.journal = journal;
        layout
    }

    /// Bytes of the volume.
    pub(super) const fn bytes(&self) -> u64 {
        self.groups * GROUP_BLOCKS * BLOCK_BYTES
    }

    /// The group for the directory with this number: directories are spread over all groups.
    pub(super) const fn group_of_directory(&self, number: u64) -> u64 {
        number % self.groups
    }

    const fn metadata_begin(group: u64) -> u64 {
        group / FLEX_GROUPS * FLEX_GROUPS * GROUP_BLOCKS + HEAD_BLOCKS
    }

    const fn groups_with(&self, group: u64) -> u64 {
        let first = group / FLEX_GROUPS * FLEX_GROUPS;
        let left = self.groups - first;
        if left < FLEX_GROUPS { left } else { FLEX_GROUPS }
    }

    /// The block of the superblock and the table of groups.
    pub(super) const fn head() -> u64 {
        1
    }

    /// The bitmap of the group that a data block is in.
    pub(super) const fn block_bitmap(block: u64) -> u64 {
        let group = block / GROUP_BLOCKS;
        Self::metadata_begin(group) + group % FLEX_GROUPS
    }

    /// The bitmap of an inode's group.
    pub(super) const fn inode_bitmap(&self, inode: u64) -> u64 {
        let group = inode / GROUP_INODES;
        Self::metadata_begin(group) + self.groups_with(group) + group % FLEX_GROUPS
    }

    /// The block of the inode table with an inode.
    pub(super) const fn inode_block(&self, inode: u64) -> u64 {
        let group = inode / GROUP_INODES;
        let tables = Self::metadata_begin(group) + 2 * self.groups_with(group);
        tables + group % FLEX_GROUPS * TABLE_BLOCKS + inode % GROUP_INODES / BLOCK_INODES
    }

    /// Takes an inode, of this group if it has one.
    pub(super) fn take_inode(&mut self, group: u64) -> u64 {
        for step in 0..self.groups {
            let group = (group + step) % self.groups;
            if let Some(inode) = self.freed_inodes[group as usize].pop() {
                return inode;
            }
            let next = &mut self.next_inode[group as usize];
            if *next < GROUP_INODES {
                *next += 1;
                return group * GROUP_INODES + *next - 1;
            }
        }
        0
    }

    pub(super) fn free_inode(&mut self, inode: u64) {
        self.freed_inodes[(inode / GROUP_INODES) as usize].push(inode);
    }

    /// Takes blocks for data, near a group: in one run if there is one, else in several. Empty if the volume is full.
    pub(super) fn take(&mut self, group: u64, blocks: u64) -> Vec<Range<u64>> {
        let goal = group * GROUP_BLOCKS;
        if let Some(run) = self.take_run(goal, blocks).or_else(|| self.take_run(0, blocks)) {
            return vec![run];
        }
        let (mut runs, mut left) = (Vec::new(), blocks);
        while left > 0 {
            let Some((&begin, &len)) = self.free.range(goal..).next().or_else(|| self.free.iter().next()) else {
                break;
            };
            let taken = len.min(left);
            self.cut(begin, len, begin..begin + taken);
            runs.push(begin..begin + taken);
            left -= taken;
        }
        runs
    }

    /// The first run of `blocks` free blocks that ends behind `goal`.
    fn take_run(&mut self, goal: u64, blocks: u64) -> Option<Range<u64>> {
        let before = self.free.range(..goal).next_back().map(|(begin, len)| (*begin, *len));
        let around = before.filter(|(begin, len)| begin + len >= goal + blocks).map(|(begin, len)| (begin, len, goal));
        let after =
            || self.free.range(goal..).find(|(_, len)| **len >= blocks).map(|(begin, len)| (*begin, *len, *begin));
        let (begin, len, at) = around.or_else(after)?;
        self.cut(begin, len, at..at + blocks);
        Some(at..at + blocks)
    }

    /// Takes a part of a free run.
    fn cut(&mut self, begin: u64, len: u64, taken: Range<u64>) {
        self.free.remove(&begin);
        if taken.start > begin {
            self.free.insert(begin, taken.start - begin);
        }
        if taken.end < begin + len {
            self.free.insert(taken.end, begin + len - taken.end);
        }
    }

    /// Frees blocks of data.
    pub(super) fn give_back(&mut self, run: Range<u64>) {
        let (mut begin, mut end) = (run.start, run.end);
        if let Some((&before, &len)) = self.free.range(..begin).next_back()
            && before + len == begin
        {
            self.free.remove(&before);
            begin = before;
        }
        if let Some(len) = self.free.remove(&end) {
            end += len;
        }
        self.free.insert(begin, end - begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_testkit::Rng;
    use std::collections::HashSet;

    #[test]
    fn nothing_is_in_two_places() {
        let mut layout = Layout::new(3 << 30);
        let mut random = Rng::new(7);
        let mut used: HashSet<u64> = layout.journal.clone().collect();
        used.insert(Layout::head());
        for group in 0..layout.groups {
            let inode = group * GROUP_INODES;
            assert!(used.insert(Layout::block_bitmap(group * GROUP_BLOCKS)) && used.insert(layout.inode_bitmap(inode)));
            for block in 0..TABLE_BLOCKS {
                assert!(used.insert(layout.inode_block(inode + block * BLOCK_INODES)), "group {group}");
            }
        }
        let mut files: Vec<Vec<Range<u64>>> = Vec::new();
        for _ in 0..3000 {
            if random.one_in(3) && !files.is_empty() {
                for run in files.swap_remove(random.below(files.len() as u64) as usize) {
                    assert!(run.clone().all(|block| used.remove(&block)));
                    layout.give_back(run);
                }
            } else {
                let blocks = 1 + random.below(600);
                let runs = layout.take(random.below(layout.groups), blocks);
                let taken: u64 = runs.iter().map(|run| run.end - run.start).sum();
                let is_full = layout.free.is_empty();
                assert!(taken == blocks || is_full, "{taken} of {blocks}");
                assert!(runs.iter().all(|run| run.clone().all(|block| used.insert(block))));
                files.push(runs);
            }
        }
        assert!(used.iter().all(|block| *block < layout.bytes() / BLOCK_BYTES));
        let inode = layout.take_inode(5);
        layout.free_inode(inode);
        assert_eq!(layout.take_inode(5), inode);
    }
}
