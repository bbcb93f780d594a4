//! Allocation and release of storage. These calls block and run on threads of the device.

use super::Medium;
use crate::ioctl;
use nitro_port::{Allocation, DeviceError, ErrorKind, Operation};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fsync, ftruncate, seek};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

/// The maximum number of runs in an allocation map; the rest is reported as allocated, which is always safe.
const RUNS_MAX: usize = 4096;

const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
const ZERO: FallocateFlags = FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE);

pub(super) fn discard(fd: &OwnedFd, medium: Medium, offset: u64, len: u64) -> Result<(), Errno> {
    if len == 0 {
        return Ok(());
    }
    retry_on_intr(|| match medium {
        Medium::File => fallocate(fd, PUNCH, offset, len),
        Medium::Block => ioctl::discard(fd, offset, len),
    })
}

/// A block device has its storage already; there is no call for thinly provisioned ones.
pub(super) fn reserve(fd: &OwnedFd, medium: Medium, offset: u64, len: u64) -> Result<(), Errno> {
    if len == 0 || medium == Medium::Block {
        return Ok(());
    }
    retry_on_intr(|| fallocate(fd, FallocateFlags::KEEP_SIZE, offset, len))
}

/// Makes a file `size_bytes` long, durably, if it is shorter. Returns the size that the file or device has now.
pub(super) fn extend(fd: &OwnedFd, medium: Medium, size_bytes: u64) -> Result<u64, Errno> {
    let has = seek(fd, SeekFrom::End(0))?;
    if medium == Medium::Block || has >= size_bytes {
        return Ok(has);
    }
    // The kernel would send a signal, too.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| size_bytes > limit) {
        return Err(Errno::FBIG);
    }
    retry_on_intr(|| ftruncate(fd, size_bytes))?;
    retry_on_intr(|| fsync(fd))?;
    Ok(size_bytes)
}

pub(super) fn write_zeroes(fd: &OwnedFd, offset: u64, len: u64, may_unmap: bool) -> Result<(), Errno> {
    if len == 0 {
        return Ok(());
    }
    let flags = if may_unmap { PUNCH } else { ZERO };
    retry_on_intr(|| fallocate(fd, flags, offset, len))
}

/// The error of a failed [`discard`] or [`write_zeroes`]: operations that a file system or a device does not know are
/// "unsupported".
pub(super) fn device_error(errno: Errno, operation: Operation, offset: u64, len: u64) -> DeviceError {
    let unknown = matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::NODEV);
    let error = DeviceError::from_io(errno.into(), operation, offset, len);
    if unknown { DeviceError { kind: ErrorKind::Unsupported, ..error } } else { error }
}

/// The data and the holes of a range, by `SEEK_DATA` and `SEEK_HOLE` (lseek(2)).
pub(super) fn allocation(fd: &OwnedFd, offset: u64, len: u64) -> Vec<Allocation> {
    let end = offset + len;
    let mut runs = Vec::new();
    let mut at = offset;
    while at < end {
        // The last run covers the rest of the range.
        let (until, hole) = if runs.len() + 1 < RUNS_MAX { run_at(fd, at, end) } else { (end, false) };
        runs.push(Allocation { len: until - at, hole });
        at = until;
    }
    runs
}

/// The end of the run that begins at `at`, at most `end`, and whether the run is a hole.
fn run_at(fd: &OwnedFd, at: u64, end: u64) -> (u64, bool) {
    match seek(fd, SeekFrom::Data(at)) {
        // No data from here to the end of the file.
        Err(Errno::NXIO) => (end, true),
        Ok(data) if data > at => (data.min(end), true),
        // The search for a hole begins within data, so it ends after `at` unless the file changes meanwhile.
        Ok(_) => match seek(fd, SeekFrom::Hole(at)) {
            Ok(hole) if hole > at => (hole.min(end), false),
            _ => (end, false),
        },
        // The file system does not report data and holes.
        Err(_) => (end, false),
    }
}
