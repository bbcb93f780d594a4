//! A load shaped as SPECsfs: a file server with many small files, whose clients mostly look at metadata, and whose disks
//! mostly write.
//!
//! The mix of operations is that of SPECsfs2008's NFS load (User's Guide, "NFS workload"), the sizes of files are those of
//! SPEC SFS 3.0 (User's Guide, Table 2), and 30 % of the files are accessed (Azor's talk, and SPEC SFS). Azor's evaluation
//! ran the CIFS load, whose mix has about as many reads and writes. The layout on disk, the popularity of files and the
//! delay of metadata's writes are assumptions.

use super::ZipfSampler;
use super::operations::{Operations, OperationsReader, Step};
use super::permutation::Permutation;
use crate::TraceError;
use crate::rng::{Rng, hash, unit};
use nitro_cache::builtin;
use nitro_units::ClassId;
use std::collections::VecDeque;

/// A block of the file system.
const BLOCK_BYTES: u64 = 4096;
/// Files of a directory (SPEC SFS 3.0: 30).
const FILES: u64 = 30;
/// Blocks of inodes for a directory: 30 inodes of 256 bytes (XFS).
const INODE_BLOCKS: u64 = 2;
/// Sizes of files in KiB, and their shares in percent (SPEC SFS 3.0 User's Guide, Table 2).
const SIZES: [(u64, u64); 10] =
    [(1, 33), (2, 21), (4, 13), (8, 10), (16, 8), (32, 5), (64, 4), (128, 3), (256, 2), (1024, 1)];
/// The largest request: clients read and write up to 128 KiB at once.
const REQUEST_BYTES_MAX: u64 = 128 << 10;
/// The exponent of the popularity of accessed files: an assumption.
const EXPONENT: f64 = 0.8;
/// The number of changes for each write of the journal, its bytes, and the area that it takes in turns: assumptions.
const JOURNAL_EVERY: u64 = 8;
const JOURNAL_WRITE_BYTES: u64 = 32 << 10;
const JOURNAL_BYTES: u64 = 4 << 20;
/// Changed metadata blocks that wait in RAM, for each accessed file: an assumption.
const DIRTY_SHARE: u64 = 50;

/// The load.
#[derive(Debug, Clone, PartialEq)]
pub struct FileServer {
    /// Bytes of the files: up to 2 TB in Azor's evaluation.
    pub file_set_bytes: u64,
    /// The share of files that are accessed: 0.3 in Azor's evaluation.
    pub accessed: f64,
    /// The number of operations of clients.
    pub operations: u64,
    /// The seed: another one results in another trace.
    pub seed: u64,
}

impl FileServer {
    /// Bytes of the volume, with room for files that are created.
    #[must_use]
    pub const fn volume_bytes(&self) -> u64 {
        self.file_set_bytes + self.file_set_bytes / 2 + JOURNAL_BYTES
    }

    /// The reader of the trace. The time of a request is the number of its operation in milliseconds.
    ///
    /// # Errors
    /// A parameter is out of bounds.
    pub fn reader(&self) -> Result<OperationsReader<Files>, TraceError> {
        let is_share = self.accessed > 0.0 && self.accessed <= 1.0;
        if !((1 << 24..=1 << 46).contains(&self.file_set_bytes) && is_share) {
            return Err(TraceError::setting("the file set has 16 MiB to 64 TiB, and a share of it is accessed"));
        }
        Ok(OperationsReader::new(Files::new(self)?, self.operations, self.seed))
    }
}

/// A file.
#[derive(Debug, Clone, Copy)]
struct File {
    /// The offset of its directory's block; blocks of inodes follow.
    directory: u64,
    inode: u64,
    data: u64,
    bytes: u64,
}

/// The files of [`FileServer`].
#[derive(Debug, Clone)]
pub struct Files {
    seed: u64,
    /// The offset of each directory.
    directories: Vec<u64>,
    /// The first byte that is free.
    end: u64,
    end_max: u64,
    popular: ZipfSampler,
    order: Permutation,
    /// The number of files in the last directory, and the offset of the next file's data.
    created: u64,
    next_data: u64,
    changes: u64,
    journal_at: u64,
    dirty: VecDeque<(u64, ClassId)>,
    dirty_max: usize,
}

/// The size of a file by its number, in bytes.
fn size(seed: u64, file: u64) -> u64 {
    let (mut left, at) = (0, (unit(hash(seed, file)) * 100.0) as u64);
    let found = SIZES.iter().find(|(_, percent)| {
        left += percent;
        at < left
    });
    found.map_or(1024, |(kib, _)| kib << 10)
}

const fn blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

impl Files {
    fn new(load: &FileServer) -> Result<Self, TraceError> {
        let (mut directories, mut end) = (Vec::new(), JOURNAL_BYTES);
        while end < load.file_set_bytes {
            let first = directories.len() as u64 * FILES;
            directories.push(end);
            end += (1 + INODE_BLOCKS) * BLOCK_BYTES;
            end += (first..first + FILES).map(|file| blocks(size(load.seed, file))).sum::<u64>();
        }
        let files = directories.len() as u64 * FILES;
        let accessed = ((files as f64 * load.accessed) as u64).max(1);
        Ok(Self {
            seed: load.seed,
            directories,
            end,
            end_max: load.volume_bytes(),
            popular: ZipfSampler::new(accessed, EXPONENT)?,
            order: Permutation::new(files, load.seed),
            created: FILES,
            next_data: end,
            changes: 0,
            journal_at: 0,
            dirty: VecDeque::new(),
            dirty_max: (accessed / DIRTY_SHARE).max(16) as usize,
        })
    }

    fn file(&self, number: u64) -> File {
        let (directory, place) = (self.directories[(number / FILES) as usize], number % FILES);
        let first = number - place;
        let data = directory + (1 + INODE_BLOCKS) * BLOCK_BYTES;
        let before: u64 = (first..number).map(|file| blocks(size(self.seed, file))).sum();
        let inode = directory + BLOCK_BYTES * (1 + place * INODE_BLOCKS / FILES);
        File { directory, inode, data: data + before, bytes: size(self.seed, number) }
    }

    fn accessed(&self, rng: &mut Rng) -> File {
        self.file(self.order.of(self.popular.sample(rng) - 1))
    }

    /// Changes a block of metadata, which is written later; the journal is written once for several changes.
    fn change(&mut self, block: u64, class: ClassId, steps: &mut VecDeque<Step>) {
        self.changes += 1;
        if self.changes.is_multiple_of(JOURNAL_EVERY) {
            steps.push_back(Step::write(self.journal_at, JOURNAL_WRITE_BYTES, builtin::JOURNAL));
            self.journal_at = (self.journal_at + JOURNAL_WRITE_BYTES) % JOURNAL_BYTES;
        }
        if self.dirty.iter().rev().take(64).any(|(known, _)| *known == block) {
            return;
        }
        self.dirty.push_back((block, class));
        if self.dirty.len() > self.dirty_max
            && let Some((oldest, class)) = self.dirty.pop_front()
        {
            steps.push_back(Step::write(oldest, BLOCK_BYTES, class));
        }
    }

    /// A part of a file: all of it, or an aligned part of the largest size of a request.
    fn part(file: File, rng: &mut Rng) -> (u64, u64) {
        let len = blocks(file.bytes).min(REQUEST_BYTES_MAX);
        (file.data + rng.below(blocks(file.bytes) / len) * len, len)
    }

    /// Creates a file at the end of the used part of the volume; from its middle on again if that is full.
    fn create(&mut self, rng: &mut Rng, steps: &mut VecDeque<Step>) {
        let bytes = size(self.seed ^ 1, rng.next());
        if self.created == FILES {
            if self.next_data + (64 << 20).min(self.end_max / 8) > self.end_max {
                self.next_data = self.end;
            }
            self.directories.push(self.next_data);
            self.next_data += (1 + INODE_BLOCKS) * BLOCK_BYTES;
            self.created = 0;
        }
        let directory = self.directories.last().copied().unwrap_or(self.end);
        let inode = directory + BLOCK_BYTES * (1 + self.created * INODE_BLOCKS / FILES);
        self.created += 1;
        let class = builtin::of_file(bytes);
        for at in (0..blocks(bytes)).step_by(REQUEST_BYTES_MAX as usize) {
            let len = (blocks(bytes) - at).min(REQUEST_BYTES_MAX);
            steps.push_back(Step::write(self.next_data + at, len, class));
        }
        self.next_data += blocks(bytes);
        self.change(directory, builtin::DIRECTORY, steps);
        self.change(inode, builtin::METADATA, steps);
    }
}

impl Operations for Files {
    fn add(&mut self, _number: u64, rng: &mut Rng, steps: &mut VecDeque<Step>) {
        let file = self.accessed(rng);
        let directory = Step::read(file.directory, BLOCK_BYTES, builtin::DIRECTORY);
        let inode = Step::read(file.inode, BLOCK_BYTES, builtin::METADATA);
        // SPECsfs2008, NFS: 24 % look-ups and 4 % reads of directories and links; 26 % attributes, 11 % access checks and 1 %
        // of the file system; 18 % reads, 10 % writes, 4 % changes of attributes, 1 % creations and 1 % removals.
        match rng.below(100) {
            0..28 => steps.extend([directory, inode]),
            28..66 => steps.push_back(inode),
            66..84 => {
                let (at, len) = Self::part(file, rng);
                steps.extend([inode, Step::read(at, len, builtin::of_file(file.bytes))]);
            }
            84..94 => {
                let (at, len) = Self::part(file, rng);
                steps.extend([inode, Step::write(at, len, builtin::of_file(file.bytes))]);
                self.change(file.inode, builtin::METADATA, steps);
            }
            94..98 => {
                steps.push_back(inode);
                self.change(file.inode, builtin::METADATA, steps);
            }
            98 => self.create(rng, steps),
            _ => {
                steps.extend([directory, inode]);
                self.change(file.directory, builtin::DIRECTORY, steps);
                self.change(file.inode, builtin::METADATA, steps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Reader, Request};
    use std::collections::HashSet;

    #[test]
    fn a_share_of_the_files_is_accessed_and_metadata_has_its_class() {
        let load = FileServer { file_set_bytes: 64 << 20, accessed: 0.3, operations: 30_000, seed: 1 };
        let all: Vec<Request> = load.reader().unwrap().requests().map(Result::unwrap).collect();
        assert!(all.iter().all(|r| r.end() <= load.volume_bytes() && r.class.is_classified() && r.len > 0));
        let is_data = |r: &&Request| r.class.number() > builtin::DIRECTORY.number();
        let mut read = HashSet::new();
        for r in all.iter().filter(is_data).filter(|r| r.op == Op::Read) {
            read.extend(r.blocks(4096));
        }
        let share = read.len() as f64 * 4096.0 / load.file_set_bytes as f64;
        assert!((0.1..0.35).contains(&share), "{share}");
        let metadata = all.iter().filter(|r| !is_data(r)).count() as f64 / all.len() as f64;
        assert!((0.5..0.9).contains(&metadata), "the talk: 50 to 80 % of all accesses: {metadata}");
    }
}
