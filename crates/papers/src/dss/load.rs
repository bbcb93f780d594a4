//! The phases of the paper's test suite (Figure 2): a file set is created, 60,000 transactions of a file server run on it,
//! its directories are searched, and an antivirus scanner reads all of it.

use super::sizes;
use super::trace::Trace;
use super::volume::{File, Volume};
use nitro_testkit::Rng;

/// The phases.
pub(super) const PHASES: [&str; 4] = ["create", "transactions", "directory search", "antivirus scan"];
/// Files of a directory, whose entries fit one block (assumed).
const DIRECTORY_FILES: u64 = 100;
/// Directories in each directory of the upper level (assumed).
const UPPER_DIRECTORIES: u64 = 60;
/// The transactions of the paper's file server phase.
const TRANSACTIONS_MAX: u64 = 60_000;
/// Files for each transaction in smaller sets, as in the paper: 60,000 on 1 TB.
const FILES_PER_TRANSACTION: u64 = 32;
/// PostMark appends up to this many bytes (assumed).
const APPEND_BYTES_MAX: u64 = 16 << 10;
/// The client's page cache in parts of the data (assumed; the paper's Figure 3 is not in its text): 16 GB for 1 TB.
const PAGES_PART: u64 = 64;

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scale {
    /// Bytes of the file set; the paper had about 1 TB.
    pub(super) data_bytes: u64,
}

impl Scale {
    pub(super) fn files(&self) -> u64 {
        self.data_bytes / sizes::mean_bytes()
    }

    pub(super) fn transactions(&self) -> u64 {
        (self.files() / FILES_PER_TRANSACTION).min(TRANSACTIONS_MAX)
    }

    pub(super) const fn page_bytes(&self) -> u64 {
        self.data_bytes / PAGES_PART
    }
}

/// The file system and its files.
struct Server {
    volume: Volume,
    random: Rng,
    root: File,
    upper: Vec<File>,
    directories: Vec<File>,
    /// The files, each with the number of its directory.
    files: Vec<(u64, File)>,
}

/// The trace of all phases.
pub(super) fn trace(scale: Scale, seed: u64) -> Trace {
    let mut random = Rng::new(seed);
    let sizes = sizes::shuffled(scale.files() as usize, &mut random);
    let mut volume = Volume::new(sizes.iter().sum(), scale.page_bytes());
    volume.begin_phase(PHASES[0]);
    let root = volume.make_directory(0);
    let (upper, directories, files) = (Vec::new(), Vec::new(), Vec::new());
    let mut server = Server { volume, random, root, upper, directories, files };
    server.populate(&sizes);
    server.volume.begin_phase(PHASES[1]);
    (0..scale.transactions()).for_each(|_| server.transaction());
    server.volume.begin_phase(PHASES[2]);
    server.walk(false);
    server.volume.begin_phase(PHASES[3]);
    server.walk(true);
    server.volume.finish(format!("generated, seed {seed}"))
}

impl Server {
    fn populate(&mut self, sizes: &[u64]) {
        let count = (sizes.len() as u64).div_ceil(DIRECTORY_FILES);
        for number in 0..count {
            if number.is_multiple_of(UPPER_DIRECTORIES) {
                self.upper.push(self.volume.make_directory(number));
            }
            self.directories.push(self.volume.make_directory(number));
        }
        for (number, bytes) in sizes.iter().enumerate() {
            self.create_in(number as u64 / DIRECTORY_FILES, *bytes);
        }
    }

    /// Reads the directories above one.
    fn descend(&mut self, directory: u64) {
        self.volume.read_directory(&self.root);
        self.volume.read_directory(&self.upper[(directory / UPPER_DIRECTORIES) as usize]);
    }

    /// Creates a file in any directory, as PostMark does.
    fn create(&mut self, bytes: u64) {
        let directory = self.random.below(self.directories.len() as u64);
        self.create_in(directory, bytes);
    }

    fn create_in(&mut self, directory: u64, bytes: u64) {
        self.descend(directory);
        let file = self.volume.create(&self.directories[directory as usize], directory, bytes);
        self.files.push((directory, file));
    }

    /// A transaction of PostMark (Katcher, TR3022) with its usual shares: a file is read or appended to, and another one is
    /// created or deleted. Files are chosen at random.
    fn transaction(&mut self) {
        let at = self.random.below(self.files.len() as u64) as usize;
        let directory = self.files[at].0;
        self.descend(directory);
        let parent = &self.directories[directory as usize];
        if self.random.one_in(2) {
            self.volume.read_file(parent, &self.files[at].1);
        } else {
            let bytes = 1 + self.random.below(APPEND_BYTES_MAX);
            self.volume.append(parent, directory, &mut self.files[at].1, bytes);
        }
        if self.random.one_in(2) {
            let bytes = sizes::draw(&mut self.random);
            self.create(bytes);
        } else if self.files.len() > 1 {
            let at = self.random.below(self.files.len() as u64) as usize;
            let (directory, file) = self.files.swap_remove(at);
            self.descend(directory);
            self.volume.delete(&self.directories[directory as usize], &file);
        }
    }

    /// Visits all files, directory by directory: their inodes alone, or their data, too. The order within a directory is
    /// that of hashed names.
    fn walk(&mut self, reads_data: bool) {
        let mut order: Vec<(u64, u64, usize)> = Vec::with_capacity(self.files.len());
        for (at, (directory, file)) in self.files.iter().enumerate() {
            order.push((*directory, Rng::new(file.inode).next(), at));
        }
        order.sort_unstable();
        for (directory, _, at) in order {
            self.descend(directory);
            let parent = &self.directories[directory as usize];
            if reads_data {
                self.volume.read_file(parent, &self.files[at].1);
            } else {
                self.volume.read_directory(parent);
                self.volume.read_inode(self.files[at].1.inode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_cache::builtin;
    use nitro_trace::Op;

    #[test]
    fn the_load_has_the_papers_phases_and_is_the_same_for_a_seed() {
        let scale = Scale { data_bytes: 1000 * sizes::mean_bytes() };
        let made = trace(scale, 3);
        assert_eq!(made, trace(scale, 3));
        assert_ne!(made.requests, trace(scale, 4).requests);
        let bytes = |phase: usize, op: Op| -> u64 {
            made.of_phase(phase).iter().filter(|asked| asked.op == op).map(|asked| u64::from(asked.len)).sum()
        };
        assert!(made.data_bytes.abs_diff(scale.data_bytes) < scale.data_bytes / 10, "{}", made.data_bytes);
        // Creation writes all data, the search reads metadata only, the scan reads nearly all.
        assert!(bytes(0, Op::Write) > made.data_bytes);
        let is_metadata = |class| class == builtin::METADATA || class == builtin::DIRECTORY;
        assert!(made.of_phase(2).iter().filter(|asked| asked.op == Op::Read).all(|asked| is_metadata(asked.class)));
        assert!(bytes(3, Op::Read) > made.data_bytes * 7 / 10 && bytes(3, Op::Write) < 1 << 20);
        assert!(bytes(1, Op::Read) > 0 && bytes(1, Op::Write) > 0);
    }
}
