//! The file or device at a path, independent of its name, as long as the machine runs.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Equal for two paths that lead to the same file or the same block device at the same time. What is to be recognised later needs
/// a [`StorageId`](nitro_port::StorageId).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileId {
    File { device: u64, inode: u64 },
    Block { device: u64 },
}

impl FileId {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|found| Self::new(&found))
    }

    pub(crate) fn of_open(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self::new(&found))
    }

    fn new(found: &Metadata) -> Self {
        match found.file_type().is_block_device() {
            true => Self::Block { device: found.rdev() },
            false => Self::File { device: found.dev(), inode: found.ino() },
        }
    }
}
