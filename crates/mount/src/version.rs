//! What a file is recognised by, and how a change behind the mount's back is noticed.

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, StatxFlags, StatxTimestamp, statx};
use std::io;

/// Which file of the tree's file system: its inode, and the time of birth, which tells it from a later file with the same number.
/// A file system without times of birth has 0; there, the [`Version`] alone tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// The inode's number.
    pub inode: u64,
    /// Nanoseconds since 1970.
    pub born_ns: i64,
}

/// The state of a file by what changes with its content. Two states within one tick of the file system's clock may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Size in bytes.
    pub size: u64,
    /// The time of the last change of the content, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The time of the last change of content or attributes, which programs cannot set.
    pub ctime_ns: i64,
}

/// A file as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Which file.
    pub key: FileKey,
    /// Its state.
    pub version: Version,
    /// The device number of its file system.
    pub device: (u32, u32),
}

/// Looks at an open file.
///
/// # Errors
/// Those of statx(2).
pub fn look(file: impl AsFd) -> io::Result<Seen> {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
    let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    Ok(Seen {
        key: FileKey { inode: found.stx_ino, born_ns: if has_birth { ns(&found.stx_btime) } else { 0 } },
        version: Version { size: found.stx_size, mtime_ns: ns(&found.stx_mtime), ctime_ns: ns(&found.stx_ctime) },
        device: (found.stx_dev_major, found.stx_dev_minor),
    })
}

/// Only compared, so that a time that is too large for the number may wrap.
fn ns(time: &StatxTimestamp) -> i64 {
    time.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.into())
}
