//! Memory that survives the process: a shared mapping of a file.

use crate::error::Error;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, fallocate, fstat, ftruncate, open};
use rustix::io::{Errno, retry_on_intr};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Maps `words` words of the file at `path` until the process ends; the file is created if it does not exist. Stored
/// values are there when the file is mapped again, also after the process was killed; if the file is in RAM (tmpfs),
/// until the machine restarts. A file of another size is replaced by one with zeroes.
///
/// The error of the operating system; [`ErrorKind::NotADevice`](crate::ErrorKind::NotADevice) if the path is a link, or
/// not a regular file that is accessible only to this user.
pub fn map_words(path: &Path, words: usize) -> Result<&'static [AtomicU64], Error> {
    let fail = |e: Errno| Error::from_io(e, "map", path.display());
    let len = words * size_of::<AtomicU64>();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = retry_on_intr(|| open(path, flags, Mode::RUSR | Mode::WUSR)).map_err(fail)?;
    let found = fstat(&file).map_err(fail)?;
    let own = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_uid == rustix::process::geteuid().as_raw()
        && found.st_mode & 0o077 == 0
        && found.st_nlink == 1;
    if !own {
        return Err(Error::new(crate::ErrorKind::NotADevice, "map", path.display()));
    }
    if found.st_size != len as i64 {
        ftruncate(&file, 0).map_err(fail)?;
    }
    // If a page could not be allocated on access, the process would be killed.
    retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, len as u64)).map_err(fail)?;
    map(&file, words).map_err(fail)
}

#[expect(unsafe_code, reason = "the mapping has no safe wrapper")]
fn map(file: &OwnedFd, words: usize) -> Result<&'static [AtomicU64], Errno> {
    let (len, access) = (words * size_of::<AtomicU64>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice; it replaces nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOMEM));
    }
    // SAFETY: the mapping has `len` bytes, begins at a page, is never unmapped, and any bits are a valid word. Other
    // processes that map the file change it while it is borrowed, which atomics allow.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), words) })
}
