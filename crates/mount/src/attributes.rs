//! Attributes in the kernel's form.

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{FileType as Kind, Stat, major, minor};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kind of a file.
pub(crate) fn kind_of(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::RegularFile | Kind::Unknown => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let within = Duration::from_nanos(nanoseconds);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.and_then(|base| base.checked_add(within)).unwrap_or(UNIX_EPOCH)
}

/// The attributes of a file that the kernel knows by this number.
pub(crate) fn attributes(number: u64, stat: &Stat) -> FileAttr {
    let ctime = time(stat.st_ctime, stat.st_ctime_nsec);
    FileAttr {
        ino: INodeNo(number),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime,
        crtime: ctime,
        kind: kind_of(Kind::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device_number(stat.st_rdev),
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// The kernel's form of a device number in 32 bits (`new_encode_dev`).
fn device_number(device: u64) -> u32 {
    let (major, minor) = (major(device), minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The device number in the kernel's form, as mknod(2) has it.
pub(crate) fn device_of(number: u32) -> u64 {
    rustix::fs::makedev((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_device_numbers_come_back() {
        assert_eq!(time(-2, 500_000_000), UNIX_EPOCH - Duration::from_millis(1500));
        assert_eq!(time(2, 1), UNIX_EPOCH + Duration::new(2, 1));
        for (major, minor) in [(0, 0), (8, 1), (254, 300), (4095, 1_048_575)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(device_of(device_number(device)), device, "{major}:{minor}");
        }
    }
}
