//! Checks of a folder in which caches, or origins, are to be files.

use super::{Finding, State};
use nitro_console::size::Size;
use rustix::fs::{Access, AtFlags, CWD, FallocateFlags, Mode, OFlags, accessat, fallocate, open, statfs, statvfs};
use rustix::io::Errno;
use std::path::Path;

/// Bytes that are allocated to try whether the file system can: the smallest write-evict unit.
const TRIED_BYTES: u64 = 512 << 10;

/// File systems by the number that statfs(2) returns, each with what an operator should know.
const FILE_SYSTEMS: [(u64, &str, &str); 13] = [
    (0xEF53, "ext2, ext3 or ext4", ""),
    (0x5846_5342, "XFS", ""),
    (0xF2F5_2010, "F2FS", ""),
    (0x9123_683E, "btrfs", "it copies what is overwritten: chattr +C on the folder before the files are made"),
    (0x2FC1_2FC1, "ZFS", "it copies what is overwritten: a block device is faster"),
    (0xCA45_1A4E, "bcachefs", "it copies what is overwritten: a block device is faster"),
    (0x794C_7630, "overlayfs", "a container's own layer is slow, and goes with the container: mount a volume"),
    (0x0102_1994, "tmpfs", "files in it are RAM, and are lost with the machine"),
    (0x8584_58F6, "ramfs", "files in it are RAM, and are lost with the machine"),
    (0x6969, "NFS", "a cache belongs on an SSD of this machine"),
    (0xFF53_4D42, "CIFS", "a cache belongs on an SSD of this machine"),
    (0xFE53_4D42, "SMB", "a cache belongs on an SSD of this machine"),
    (0x6573_5546, "FUSE", "a cache belongs on an SSD of this machine"),
];

/// Examines a folder. Nothing in it changes: what is tried is tried on a file without a name.
pub(super) fn look(path: &Path) -> Vec<Finding> {
    let subject = path.display().to_string();
    let finding = |check, state, found: String| Finding::new(&subject, check, state, found);
    let mut all = vec![match statvfs(path) {
        Ok(found) => finding("free space", State::Ok, Size(found.f_bavail * found.f_frsize).to_string()),
        Err(error) => finding("free space", State::Unknown, error.to_string()),
    }];
    all.push(match statfs(path).map(|found| found.f_type as u64 & 0xFFFF_FFFF) {
        Ok(kind) => match FILE_SYSTEMS.iter().find(|(number, ..)| *number == kind) {
            Some((_, name, "")) => finding("file system", State::Ok, (*name).to_owned()),
            Some((_, name, advice)) => finding("file system", State::Warn, (*name).to_owned()).or(advice),
            None => finding("file system", State::Unknown, format!("number {kind:#x}")),
        },
        Err(error) => finding("file system", State::Unknown, error.to_string()),
    });
    if let Err(error) = accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        let denied = finding("access", State::Fail, error.to_string());
        all.push(denied.or("run as a user who may create files there, or change the folder's permissions"));
        return all;
    }
    all.push(finding("access", State::Ok, "files can be created".to_owned()));
    let nameless =
        |flags| open(path, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | flags, Mode::RUSR | Mode::WUSR);
    all.push(match nameless(OFlags::DIRECT) {
        Ok(_) => finding("direct I/O", State::Ok, "possible".to_owned()),
        Err(Errno::INVAL) => finding("direct I/O", State::Warn, "not possible".to_owned())
            .or("data take RAM a second time, in the page cache: use another file system"),
        Err(error) => finding("direct I/O", State::Unknown, error.to_string()),
    });
    all.push(
        match nameless(OFlags::empty()).and_then(|file| fallocate(file, FallocateFlags::empty(), 0, TRIED_BYTES)) {
            Ok(()) => finding("allocation ahead", State::Ok, "possible".to_owned()),
            Err(Errno::OPNOTSUPP) => finding("allocation ahead", State::Warn, "not possible".to_owned())
                .or("files of caches are sparse: keep room free for them"),
            Err(error) => finding("allocation ahead", State::Unknown, error.to_string()),
        },
    );
    all
}
