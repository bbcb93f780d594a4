//! The identity of the file or device at a path, independent of its name.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Equal for two paths that lead to the same file or the same block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileId {
    File { device: u64, inode: u64 },
    Block { device: u64 },
}

impl FileId {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(match found.file_type().is_block_device() {
            true => Self::Block { device: found.rdev() },
            false => Self::File { device: found.dev(), inode: found.ino() },
        })
    }
}
