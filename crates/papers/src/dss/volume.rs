//! The file system in operation: it turns operations on files into requests of its volume, through the client's page cache
//! and with ext4's ordered journal, and gives each request the class that its structures have.

use super::layout::{BLOCK_BYTES, Layout};
use super::trace::{Asked, Trace};
use nitro_cache::builtin;
use nitro_sim::policies::{Lru, Policy};
use nitro_trace::Op;
use nitro_units::ClassId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The largest request in blocks: 64 KiB, in which Windows' cache reads ahead and writes behind.
const REQUEST_BLOCKS: u64 = 16;
/// Operations between two commits of the journal, which are due every five seconds (assumed).
const COMMIT_EVERY: u32 = 64;
/// Commits after which changed metadata are written in place: 30 seconds after 5.
const WRITTEN_AFTER: u64 = 6;

/// A file or a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct File {
    pub(super) inode: u64,
    pub(super) bytes: u64,
    pub(super) runs: Vec<Range<u64>>,
}

impl File {
    fn blocks(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    fn class(&self) -> ClassId {
        builtin::of_file(self.bytes)
    }
}

/// A mounted volume.
pub(super) struct Volume {
    layout: Layout,
    /// The blocks in the client's RAM.
    pages: Lru,
    trace: Trace,
    /// Changed metadata: the class, and the commit since which each block is changed.
    changed: BTreeMap<u64, (ClassId, u64)>,
    /// The metadata blocks of the current transaction.
    transaction: BTreeSet<u64>,
    /// Written data that wait for the commit.
    data: BTreeMap<u64, ClassId>,
    commits: u64,
    operations: u32,
    journal_at: u64,
}

impl Volume {
    /// An empty file system for data of `bytes`, with a page cache of `page_bytes`.
    pub(super) fn new(bytes: u64, page_bytes: u64) -> Self {
        let layout = Layout::new(bytes);
        let trace = Trace { data_bytes: bytes, volume_bytes: layout.bytes(), ..Trace::default() };
        Self {
            journal_at: layout.journal.start,
            layout,
            pages: Lru::new((page_bytes / BLOCK_BYTES) as u32),
            trace,
            changed: BTreeMap::new(),
            transaction: BTreeSet::new(),
            data: BTreeMap::new(),
            commits: 0,
            operations: 0,
        }
    }

    /// Begins a phase; what is dirty is written first, in the last one.
    pub(super) fn begin_phase(&mut self, name: &str) {
        self.commit();
        self.trace.phases.push((name.to_owned(), self.trace.requests.len()));
    }

    /// The trace so far.
    pub(super) fn finish(mut self, name: String) -> Trace {
        self.commit();
        self.trace.name = name;
        self.trace
    }

    fn ask(&mut self, op: Op, blocks: Range<u64>, class: ClassId) {
        let (offset, len) = (blocks.start * BLOCK_BYTES, ((blocks.end - blocks.start) * BLOCK_BYTES) as u32);
        self.trace.requests.push(Asked { offset, len, op, class });
    }

    /// Reads blocks that are not in the page cache.
    fn read(&mut self, blocks: Range<u64>, class: ClassId) {
        let mut missing: Option<Range<u64>> = None;
        for block in blocks {
            if self.pages.access(block) {
                missing.take().into_iter().for_each(|run| self.ask(Op::Read, run, class));
                continue;
            }
            missing = match missing {
                Some(run) if run.end - run.start < REQUEST_BLOCKS => Some(run.start..block + 1),
                full => {
                    full.into_iter().for_each(|run| self.ask(Op::Read, run, class));
                    Some(block..block + 1)
                }
            };
        }
        missing.into_iter().for_each(|run| self.ask(Op::Read, run, class));
    }

    /// Changes a metadata block, which is read first.
    fn change(&mut self, block: u64, class: ClassId) {
        self.read(block..block + 1, class);
        self.transaction.insert(block);
        self.changed.entry(block).or_insert((class, self.commits));
    }

    fn change_metadata(&mut self, block: u64) {
        self.change(block, builtin::METADATA);
    }

    fn change_space(&mut self, runs: &[Range<u64>]) {
        for run in runs {
            self.change_metadata(Layout::block_bitmap(run.start));
        }
        self.change_metadata(Layout::head());
    }

    /// Writes blocks of data with the next commit (delayed allocation).
    fn write(&mut self, blocks: Range<u64>, class: ClassId) {
        for block in blocks {
            self.pages.access(block);
            self.data.insert(block, class);
        }
    }

    /// Ends an operation; every 64th is followed by a commit.
    fn operated(&mut self) {
        self.operations += 1;
        if self.operations.is_multiple_of(COMMIT_EVERY) {
            self.commit();
        }
    }

    /// Writes data, then the transaction to the journal, then old changes in place.
    fn commit(&mut self) {
        let data = std::mem::take(&mut self.data);
        self.write_out(data.into_iter());
        let count = std::mem::take(&mut self.transaction).len() as u64;
        if count > 0 {
            // With a descriptor and a commit block; behind the end, it continues at the beginning.
            let mut left = count + 2;
            while left > 0 {
                let len = left.min(REQUEST_BLOCKS).min(self.layout.journal.end - self.journal_at);
                self.ask(Op::Write, self.journal_at..self.journal_at + len, builtin::JOURNAL);
                self.journal_at += len;
                if self.journal_at == self.layout.journal.end {
                    self.journal_at = self.layout.journal.start;
                }
                left -= len;
            }
            self.trace.requests.push(Asked { offset: 0, len: 0, op: Op::Flush, class: builtin::JOURNAL });
        }
        self.commits += 1;
        let (commits, mut old) = (self.commits, Vec::new());
        self.changed.retain(|block, (class, since)| {
            let is_old = *since + WRITTEN_AFTER <= commits;
            if is_old {
                old.push((*block, *class));
            }
            !is_old
        });
        self.write_out(old.into_iter());
    }

    /// Writes blocks in order; neighbours of one class in one request.
    fn write_out(&mut self, blocks: impl Iterator<Item = (u64, ClassId)>) {
        let mut run: Option<(Range<u64>, ClassId)> = None;
        for (block, class) in blocks {
            run = match run {
                Some((run, of)) if run.end == block && of == class && run.end - run.start < REQUEST_BLOCKS => {
                    Some((run.start..block + 1, class))
                }
                done => {
                    done.into_iter().for_each(|(run, class)| self.ask(Op::Write, run, class));
                    Some((block..block + 1, class))
                }
            };
        }
        run.into_iter().for_each(|(run, class)| self.ask(Op::Write, run, class));
    }

    /// Makes a directory of one block.
    pub(super) fn make_directory(&mut self, number: u64) -> File {
        let group = self.layout.group_of_directory(number);
        let inode = self.layout.take_inode(group);
        let runs = self.layout.take(group, 1);
        self.change_metadata(self.layout.inode_bitmap(inode));
        self.change_metadata(self.layout.inode_block(inode));
        self.change_space(&runs);
        let directory = File { inode, bytes: BLOCK_BYTES, runs };
        for block in directory.runs.iter().flat_map(Clone::clone) {
            self.pages.access(block);
            self.change(block, builtin::DIRECTORY);
        }
        directory
    }

    /// Looks a name up in a directory, or lists it.
    pub(super) fn read_directory(&mut self, directory: &File) {
        self.read_inode(directory.inode);
        for run in &directory.runs {
            self.read(run.clone(), builtin::DIRECTORY);
        }
    }

    /// Reads an inode.
    pub(super) fn read_inode(&mut self, inode: u64) {
        let block = self.layout.inode_block(inode);
        self.read(block..block + 1, builtin::METADATA);
    }

    /// Creates a file in a directory and writes it.
    pub(super) fn create(&mut self, directory: &File, number: u64, bytes: u64) -> File {
        self.read_directory(directory);
        let group = self.layout.group_of_directory(number);
        let inode = self.layout.take_inode(group);
        self.change_directory(directory);
        self.change_metadata(self.layout.inode_bitmap(inode));
        let mut file = File { inode, ..File::default() };
        self.extend(&mut file, group, bytes);
        self.operated();
        file
    }

    fn change_directory(&mut self, directory: &File) {
        for run in &directory.runs {
            self.change(run.start, builtin::DIRECTORY);
        }
    }

    /// Adds bytes at the end of a file: the last block, if it has room, and new ones.
    fn extend(&mut self, file: &mut File, group: u64, bytes: u64) {
        let before = file.blocks();
        let last = file.runs.last().map(|run| run.end - 1).filter(|_| !file.bytes.is_multiple_of(BLOCK_BYTES));
        file.bytes += bytes;
        let runs = self.layout.take(group, file.bytes.div_ceil(BLOCK_BYTES).saturating_sub(before));
        self.change_metadata(self.layout.inode_block(file.inode));
        self.change_space(&runs);
        let class = file.class();
        if let Some(last) = last {
            self.read(last..last + 1, class);
            self.write(last..last + 1, class);
        }
        runs.iter().for_each(|run| self.write(run.clone(), class));
        file.runs.extend(runs);
    }

    /// Reads a whole file.
    pub(super) fn read_file(&mut self, directory: &File, file: &File) {
        self.read_directory(directory);
        self.read_inode(file.inode);
        for run in &file.runs {
            self.read(run.clone(), file.class());
        }
        self.operated();
    }

    /// Appends to a file.
    pub(super) fn append(&mut self, directory: &File, number: u64, file: &mut File, bytes: u64) {
        self.read_directory(directory);
        self.read_inode(file.inode);
        let group = self.layout.group_of_directory(number);
        self.extend(file, group, bytes);
        self.operated();
    }

    /// Deletes a file. Its blocks that were not written yet never are.
    pub(super) fn delete(&mut self, directory: &File, file: &File) {
        self.read_directory(directory);
        self.change_directory(directory);
        self.change_metadata(self.layout.inode_block(file.inode));
        self.change_metadata(self.layout.inode_bitmap(file.inode));
        self.change_space(&file.runs);
        for run in &file.runs {
            for block in run.clone() {
                self.data.remove(&block);
            }
            self.layout.give_back(run.clone());
        }
        self.layout.free_inode(file.inode);
        self.operated();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(trace: &Trace) -> Vec<(Op, u64, &'static str)> {
        let one =
            |asked: &Asked| (asked.op, u64::from(asked.len) / BLOCK_BYTES, builtin::name(asked.class).unwrap_or(""));
        trace.requests.iter().map(one).collect()
    }

    #[test]
    fn operations_become_requests_with_the_classes_of_the_structures() {
        let mut volume = Volume::new(1 << 30, 64 << 20);
        volume.begin_phase("create");
        let directory = volume.make_directory(1);
        let file = volume.create(&directory, 1, (100 << 10) + 1);
        volume.begin_phase("read");
        let written = asked(&volume.trace);
        // 26 blocks of data before the journal; metadata are read when first used, and not yet written in place.
        let class = builtin::name(builtin::of_file(100 << 10)).unwrap_or("");
        assert!(written.contains(&(Op::Write, 16, class)), "{written:?}");
        assert!(written.contains(&(Op::Write, 10, class)));
        let at = |wanted: Op, class: &str| written.iter().position(|(op, _, of)| (*op, *of) == (wanted, class));
        assert!(at(Op::Write, class) < at(Op::Write, "journal") && at(Op::Write, "journal") < at(Op::Flush, "journal"));
        assert!(at(Op::Read, "metadata").is_some() && at(Op::Write, "metadata").is_none());
        // Everything is in the page cache.
        let before = volume.trace.requests.len();
        volume.read_file(&directory, &file);
        assert_eq!(volume.trace.requests.len(), before);
        // A deleted file that was not written never is.
        let short = volume.create(&directory, 1, 5 << 20);
        volume.delete(&directory, &short);
        for _ in 0..WRITTEN_AFTER {
            volume.commit();
        }
        let trace = volume.finish("a".into());
        let later = asked(&trace)[before..].to_vec();
        assert!(
            !later.iter().any(|(op, blocks, of)| *op == Op::Write && *blocks == 16 && of.starts_with("file")),
            "{later:?}"
        );
        assert!(later.iter().any(|(op, _, of)| (*op, *of) == (Op::Write, "directory")));
        assert!(trace.requests.iter().all(|asked| asked.offset + u64::from(asked.len) <= trace.volume_bytes));
    }
}
