//! A device control that has no safe wrapper elsewhere.

use rustix::fd::AsFd;
use rustix::ioctl::{Setter, ioctl, opcode};

/// `BLKDISCARD` of `linux/fs.h`: `_IO(0x12, 119)`, taking a pointer to an offset and a length in bytes.
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

/// Discards a range of a block device.
#[expect(unsafe_code, reason = "no safe wrapper exists")]
pub(crate) fn discard(fd: impl AsFd, offset: u64, len: u64) -> rustix::io::Result<()> {
    // SAFETY: BLKDISCARD reads exactly two u64 through its pointer and writes nothing to memory; on a file that is not
    // a block device it fails with ENOTTY.
    unsafe { ioctl(fd, Setter::<BLKDISCARD, [u64; 2]>::new([offset, len])) }
}
