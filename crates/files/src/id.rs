//! The file or device at a path, independent of its name, as long as the machine runs.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Equal for two paths that lead to the same file or the same block device at the same time. What is to be recognised later needs
/// an identity that outlives the boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    is_block: bool,
    device: u64,
    /// Of a block device 0: several nodes may lead to it.
    inode: u64,
}

impl FileId {
    /// Of what is at a path now.
    ///
    /// # Errors
    /// There is nothing, or it cannot be looked at.
    pub fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|found| Self::new(&found))
    }

    /// Of an open file or device.
    ///
    /// # Errors
    /// The system's.
    pub fn of_open(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self::new(&found))
    }

    fn new(found: &Metadata) -> Self {
        let is_block = found.file_type().is_block_device();
        let (device, inode) = if is_block { (found.rdev(), 0) } else { (found.dev(), found.ino()) };
        Self { is_block, device, inode }
    }
}
