//! Folders that are opened once; files in them are then accessed relative to the open folder.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fsync, open, openat2};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Whether folders on a path may be symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Links are followed: the user gave the path.
    Followed,
    /// Links are refused: the path was resolved before, and a link means that it was changed since.
    Refused,
}

/// An open folder.
pub(super) struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Folder {
    /// The folder of a path, and the name in it.
    pub(super) fn around(path: &Path, links: Links) -> io::Result<(Self, &OsStr)> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "it names no file");
        let name = path.file_name().ok_or_else(no_name)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match links {
            Links::Followed => retry_on_intr(|| open(folder, flags, Mode::empty()))?,
            Links::Refused => {
                match retry_on_intr(|| openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)) {
                    // Before Linux 5.6, and where a sandbox does not know the call, only the last part of the path is checked.
                    Err(Errno::NOSYS | Errno::PERM) => {
                        retry_on_intr(|| open(folder, flags | OFlags::NOFOLLOW, Mode::empty()))?
                    }
                    opened => opened?,
                }
            }
        };
        Ok((Self(fd), name))
    }

    /// Makes the names in it durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(&self.0))?)
    }
}

/// Creates a folder that only its owner can enter, if it does not exist; fails if it belongs to another user, can be
/// entered by others, or is a link: in `/tmp`, another user may have created it.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    check_private(folder)
}

/// Checks that a folder belongs to this user and only this user can enter it.
///
/// # Errors
/// It does not, others can enter it, it is a link, or it cannot be examined.
pub fn check_private(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    match found.is_dir() && is_own(&found) && found.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(denied("it is not a folder of mode 0700 that belongs to this user")),
    }
}

/// Creates a folder and its parents, accessible only to this user, if it does not exist; fails if a user other than
/// root could change its contents. Root also uses the folder of a service's user, as `/var/lib/nitro` of the package is:
/// files are opened relative to the folder there, and [belong](super::write_durably) to that user.
pub fn own_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_own(folder)
}

/// Checks that a folder exists and that no user could change its contents whom [`own_folder`] does not accept.
///
/// # Errors
/// It does not exist, another user could change its contents, or it cannot be examined.
pub fn check_own(folder: &Path) -> io::Result<()> {
    let link = fs::symlink_metadata(folder)?;
    let found = fs::metadata(folder)?;
    // Not by a link, which that user may have made.
    let is_of_service = rustix::process::geteuid().is_root() && link.is_dir();
    let is_safe = |found: &Metadata| is_own(found) || found.uid() == 0 || is_of_service;
    match is_safe(&link) && is_safe(&found) && found.is_dir() && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(denied("others can write to it, or it belongs to another user")),
    }
}

fn is_own(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

fn denied(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
