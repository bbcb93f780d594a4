//! Opening, locking and creating.

use super::probe::Probe;
use super::waiting::may_wait;
use super::{FileDevice, Medium, UnderWay};
use crate::error::{Error, ErrorKind};
use crate::identity::loop_file;
use crate::ioctl::is_read_only;
use crate::linger::patiently;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, Mode, OFlags, fallocate, fcntl_getfl, fcntl_setfl, flock, fstat, fsync,
    ftruncate, open, stat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::Resource;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How to open a [`FileDevice`].
#[derive(Debug, Clone)]
pub struct FileOptions {
    path: PathBuf,
    read_only: bool,
    direct: bool,
    exclusive: bool,
}

impl FileOptions {
    /// Opens `path` for reading and writing, bypassing the page cache, exclusively.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), read_only: false, direct: true, exclusive: true }
    }

    /// Opens a file or device once more that is open already, without a lock.
    #[must_use]
    pub fn of_open(fd: impl AsFd) -> Self {
        Self { exclusive: false, ..Self::new(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())) }
    }

    /// Refuses writes. Several readers may then open one file, but not while it is open for writing.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether to bypass the page cache where possible (default), or to use it.
    #[must_use]
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }

    /// Whether to lock (default): a file or block device against others that lock it (flock(2)), with the file behind a loop
    /// device; a block device that is to be written also against being mounted or otherwise claimed (`O_EXCL`, open(2)).
    #[must_use]
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Opens an existing file or block device.
    ///
    /// If direct I/O is refused, or a file's size is not a multiple of its block, the page cache is used, with a
    /// warning; a file then has a block size of one byte.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`]: another process has locked it; [`ErrorKind::NotADevice`]; or an error of the operating
    /// system.
    pub fn open(&self) -> Result<FileDevice, Error> {
        let fail = |e| Error::from_io(e, "open", self.path.display());
        // The kind is checked before opening, because opening a FIFO would block.
        let claim = match FileType::from_raw_mode(stat(&self.path).map_err(fail)?.st_mode) {
            FileType::RegularFile => OFlags::empty(),
            FileType::BlockDevice if self.exclusive && !self.read_only => OFlags::EXCL,
            FileType::BlockDevice => OFlags::empty(),
            _ => return Err(Error::new(ErrorKind::NotADevice, "open", self.path.display())),
        };
        let access = if self.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let flags = access | claim | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = retry_on_intr(|| open(&self.path, flags, Mode::empty())).map_err(fail)?;
        self.finish(fd, "open")
    }

    /// Creates a file of `size_bytes` with its storage assigned, so that writing to it cannot run out of space, and
    /// opens it. If the file system cannot allocate storage ahead, the file is sparse.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NoSpace`], or an error of the operating system. No file is left behind.
    pub fn create(&self, size_bytes: u64) -> Result<FileDevice, Error> {
        let fail = |e| Error::from_io(e, "create", self.path.display());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = retry_on_intr(|| open(&self.path, flags, Mode::RUSR | Mode::WUSR)).map_err(fail)?;
        let made = allocate(&fd, size_bytes)
            .and_then(|()| retry_on_intr(|| fsync(&fd)))
            .and_then(|()| sync_folder(&self.path))
            .map_err(fail)
            .and_then(|()| self.finish(fd, "create"));
        if made.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&self.path);
        }
        made
    }

    /// Makes a device of an open file.
    fn finish(&self, fd: OwnedFd, operation: &'static str) -> Result<FileDevice, Error> {
        let fail = |e| Error::from_io(e, operation, self.path.display());
        let Some(probe) = Probe::new(&fd).map_err(|e| Error::from_io(e, operation, self.path.display()))? else {
            return Err(Error::new(ErrorKind::NotADevice, operation, self.path.display()));
        };
        let limit = rustix::process::getrlimit(Resource::Fsize).current;
        if !self.read_only && probe.medium == Medium::File && limit.is_some_and(|limit| probe.size_bytes > limit) {
            return Err(Error::new(ErrorKind::TooLarge, operation, self.path.display()));
        }
        // `O_NONBLOCK` has no use on files, and some file systems would return EAGAIN.
        let plain = fcntl_getfl(&fd).map_err(fail)? - OFlags::NONBLOCK;
        fcntl_setfl(&fd, plain).map_err(fail)?;
        let mut backing = None;
        if self.exclusive {
            self.lock(&fd).map_err(fail)?;
            if probe.medium == Medium::Block {
                backing = self.lock_backing(&fd).map_err(fail)?;
            }
        }
        if probe.medium == Medium::Block && !self.read_only && is_read_only(&fd).unwrap_or(false) {
            return Err(fail(Errno::ROFS));
        }
        let direct = if self.direct { make_direct(&fd, plain, &probe).map_err(fail)? } else { None };
        if self.direct && direct.is_none() {
            tracing::warn!(path = %self.path.display(), "direct I/O is not possible here; using the page cache");
        }
        let block_bytes = direct.unwrap_or_else(|| probe.buffered_block_bytes(&fd));
        let may_wait = probe.medium == Medium::File
            && may_wait(&fd).map_err(|e| Error::from_io(e, operation, self.path.display()))?;
        let under_way = UnderWay::new(may_wait)
            .map_err(|e| Error { kind: ErrorKind::NoThread, ..Error::from_io(e, operation, self.path.display()) })?;
        Ok(FileDevice {
            geometry: probe.geometry(block_bytes),
            size_bytes: AtomicU64::new(probe.size_bytes),
            medium: probe.medium,
            fd: Arc::new(fd),
            _backing: backing,
            under_way: Box::new(under_way),
            direct: direct.is_some(),
            read_only: self.read_only,
            may_wait,
        })
    }

    /// Locks the file behind a loop device, as if it were used itself, and keeps it open.
    fn lock_backing(&self, fd: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
        let Some(path) = fstat(fd).ok().and_then(|stat| loop_file(stat.st_rdev)) else { return Ok(None) };
        // One that is gone, or that this user may not open, has no lock that others could see.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Ok(backing) = retry_on_intr(|| open(&path, flags, Mode::empty())) else { return Ok(None) };
        self.lock(&backing)?;
        Ok(Some(backing))
    }

    fn lock(&self, fd: &OwnedFd) -> Result<(), Errno> {
        let operation = if self.read_only {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        let locked = patiently(|| retry_on_intr(|| flock(fd, operation)), |e| *e == Errno::WOULDBLOCK);
        match locked {
            Err(Errno::WOULDBLOCK) => Err(Errno::BUSY),
            // Some network file systems do not support locks.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            result => result,
        }
    }
}

/// Switches `fd` to direct I/O and returns its block size; leaves it buffered and returns `None` if that is refused.
fn make_direct(fd: &OwnedFd, plain: OFlags, probe: &Probe) -> Result<Option<u32>, Errno> {
    if fcntl_setfl(fd, plain | OFlags::DIRECT).is_err() {
        return Ok(None);
    }
    let block_bytes = probe.direct_block_bytes(fd);
    if block_bytes.is_none() {
        fcntl_setfl(fd, plain)?;
    }
    Ok(block_bytes)
}

fn allocate(fd: &OwnedFd, size_bytes: u64) -> Result<(), Errno> {
    if size_bytes == 0 {
        return Ok(());
    }
    match retry_on_intr(|| fallocate(fd, FallocateFlags::empty(), 0, size_bytes)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => ftruncate(fd, size_bytes),
        result => result,
    }
}

/// Makes a new file's name durable.
fn sync_folder(path: &Path) -> Result<(), Errno> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fd = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    retry_on_intr(|| fsync(&fd))
}
