//! Controls of devices and files that have no safe wrapper elsewhere.

use rustix::fd::AsFd;
use rustix::ioctl::{Getter, Setter, Updater, ioctl, opcode};
use std::ffi::{c_int, c_long};

/// `BLKDISCARD` of `linux/fs.h`: `_IO(0x12, 119)`, taking a pointer to an offset and a length in bytes.
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

/// Discards a range of a block device.
#[expect(unsafe_code, reason = "no safe wrapper exists")]
pub(crate) fn discard(fd: impl AsFd, offset: u64, len: u64) -> rustix::io::Result<()> {
    // SAFETY: BLKDISCARD reads exactly two u64 through its pointer and writes nothing to memory; on a file that is not
    // a block device it fails with ENOTTY.
    unsafe { ioctl(fd, Setter::<BLKDISCARD, [u64; 2]>::new([offset, len])) }
}

/// `BLKROGET` of `linux/fs.h`: `_IO(0x12, 94)`, writing an int.
const BLKROGET: rustix::ioctl::Opcode = opcode::none(0x12, 94);
/// `FS_IOC_GETVERSION` of `linux/fs.h`: `_IOR('v', 1, long)`; file systems write an int.
const FS_IOC_GETVERSION: rustix::ioctl::Opcode = opcode::read::<c_long>(b'v', 1);
/// `FS_IOC_GETFSUUID` of `linux/fs.h` (Linux 6.9): `_IOR(0x15, 0, struct fsuuid2)`.
const FS_IOC_GETFSUUID: rustix::ioctl::Opcode = opcode::read::<FsUuid>(0x15, 0);

/// `struct fsuuid2` of `linux/fs.h`.
#[repr(C)]
struct FsUuid {
    len: u8,
    uuid: [u8; 16],
}

/// Whether the kernel refuses writes to a block device.
#[expect(unsafe_code, reason = "no safe wrapper exists")]
pub(crate) fn is_read_only(fd: impl AsFd) -> rustix::io::Result<bool> {
    // SAFETY: BLKROGET writes exactly one int through its pointer; on a file that is not a block device it fails with ENOTTY.
    unsafe { ioctl(fd, Getter::<BLKROGET, c_int>::new()) }.map(|value| value != 0)
}

/// The generation of a file's inode.
#[expect(unsafe_code, reason = "no safe wrapper exists")]
pub(crate) fn generation(fd: impl AsFd) -> rustix::io::Result<u32> {
    let mut value = [0u8; size_of::<c_long>()];
    // SAFETY: FS_IOC_GETVERSION writes an int (most file systems) or a long through its pointer; `value` has room for a long.
    unsafe { ioctl(fd, Updater::<FS_IOC_GETVERSION, _>::new(&mut value)) }?;
    Ok(value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)))
}

/// The UUID of the file system that a file is on; `None`: it has none.
#[expect(unsafe_code, reason = "no safe wrapper exists")]
pub(crate) fn filesystem_uuid(fd: impl AsFd) -> rustix::io::Result<Option<[u8; 16]>> {
    // SAFETY: FS_IOC_GETFSUUID writes exactly one `struct fsuuid2` through its pointer.
    let found: FsUuid = unsafe { ioctl(fd, Getter::<FS_IOC_GETFSUUID, _>::new()) }?;
    Ok((found.len == 16 && found.uuid != [0; 16]).then_some(found.uuid))
}
