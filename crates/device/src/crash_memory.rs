//! Memory that survives the process: a shared mapping of a file.

use crate::error::{Error, ErrorKind};
use crate::linger::patiently;
use rustix::fd::{AsRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, Mode, OFlags, Timestamps, UTIME_NOW, fallocate, flock, fstat, ftruncate,
    futimens, open, unlink,
};
use rustix::io::{Errno, retry_on_intr};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// How often a file is opened again that another process removed before it was locked.
const REMOVED_MAX: usize = 16;

/// Maps `words` words of the file at `path` until the process ends; the file is created if it does not exist. Stored
/// values are there when the file is mapped again, also after the process was killed; if the file is in RAM (tmpfs),
/// until the machine restarts. A file of another size is replaced by one with zeroes. The file is locked (flock(2)) until
/// the process ends, and its modification time is that of the call.
///
/// # Errors
/// The error of the operating system; [`ErrorKind::InUse`]: another process, or this one, has mapped it;
/// [`ErrorKind::NotADevice`]: the path is a link, or not a regular file that is accessible only to this user.
pub fn map_words(path: &Path, words: usize) -> Result<&'static [AtomicU64], Error> {
    let fail = |e: Errno| Error::from_io(e, "map", path.display());
    let len = words * size_of::<AtomicU64>();
    let file = patiently(|| claim(path), |e| e.kind == ErrorKind::InUse)?;
    if fstat(&file).map_err(fail)?.st_size != len as i64 {
        ftruncate(&file, 0).map_err(fail)?;
    }
    touch(&file).map_err(fail)?;
    // If a page could not be allocated on access, the process would be killed.
    retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, len as u64)).map_err(fail)?;
    let mapped = map(&file, words).map_err(fail)?;
    // Open, and thus locked, until the process ends.
    let _ = file.into_raw_fd();
    Ok(mapped)
}

/// Opens the file, which is created if it does not exist, and locks it.
fn claim(path: &Path) -> Result<OwnedFd, Error> {
    let fail = |e: Errno| Error::from_io(e, "map", path.display());
    for _ in 0..REMOVED_MAX {
        let file = open_own(path, OFlags::CREATE).map_err(fail)?;
        let Some(file) = file else { return Err(Error::new(ErrorKind::NotADevice, "map", path.display())) };
        match lock(&file) {
            Err(Errno::WOULDBLOCK) => return Err(Error::new(ErrorKind::InUse, "map", path.display())),
            locked => locked.map_err(fail)?,
        }
        // Another process may have removed it before it was locked.
        if fstat(&file).map_err(fail)?.st_nlink == 1 {
            return Ok(file);
        }
    }
    Err(fail(Errno::STALE))
}

/// Removes the file at `path` if no process has mapped it. Returns whether it was removed.
///
/// # Errors
/// The error of the operating system.
pub fn remove_unmapped(path: &Path) -> Result<bool, Error> {
    let fail = |e: Errno| Error::from_io(e, "remove", path.display());
    let Some(file) = open_own(path, OFlags::empty()).map_err(fail)? else { return Ok(false) };
    match lock(&file) {
        Err(Errno::WOULDBLOCK) => return Ok(false),
        locked => locked.map_err(fail)?,
    }
    // While it is locked, no process maps it.
    unlink(path).map_err(fail)?;
    Ok(true)
}

/// Opens a regular file that is accessible only to this user. `None`: it is something else.
fn open_own(path: &Path, create: OFlags) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | create;
    let file = match retry_on_intr(|| open(path, flags, Mode::RUSR | Mode::WUSR)) {
        Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Ok(None),
        opened => opened?,
    };
    let found = fstat(&file)?;
    let is_own = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_uid == rustix::process::geteuid().as_raw()
        && found.st_mode & 0o077 == 0
        && found.st_nlink <= 1;
    Ok(is_own.then_some(file))
}

fn lock(file: &OwnedFd) -> Result<(), Errno> {
    match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
        // Some network file systems do not support locks.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        locked => locked,
    }
}

/// Sets the file's times to now.
fn touch(file: &OwnedFd) -> Result<(), Errno> {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(file, &Timestamps { last_access: now, last_modification: now })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_mapped_file_is_not_mapped_twice_and_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (mapped, other) = (folder.path().join("mapped"), folder.path().join("other"));
        map_words(&mapped, 512).unwrap()[7].store(7, Ordering::Relaxed);
        assert_eq!(map_words(&mapped, 512).unwrap_err().kind, ErrorKind::InUse);
        assert!(!remove_unmapped(&mapped).unwrap() && mapped.exists());
        fs::copy(&mapped, &other).unwrap();
        assert!(remove_unmapped(&other).unwrap() && !other.exists());
        assert!(remove_unmapped(&other).is_err());
    }

    #[test]
    fn a_link_is_neither_mapped_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "x").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_eq!(map_words(&link, 1).unwrap_err().kind, ErrorKind::NotADevice);
        assert!(!remove_unmapped(&link).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"x");
    }
}
