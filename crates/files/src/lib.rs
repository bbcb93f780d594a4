//! Files in folders that other users may write to. Another user may have created a symbolic link, a FIFO or a folder
//! with an expected name: links are not followed, an open never blocks, only regular files are read or written, and new
//! files are accessible only to their owner.
//!
//! A path is resolved once: all operations are relative to the opened folder, so that replacing a part of the path
//! meanwhile has no effect.
#![forbid(unsafe_code)]

mod folder;
mod id;
mod secret;

pub use folder::{Links, check_own, check_private, own_folder, private_folder};
pub use id::FileId;
pub use secret::read_secret;

use folder::Folder;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Flags of every open: not inherited, no link at the end of the path, no wait for the other end of a FIFO, no
/// controlling terminal.
const CAREFUL: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Mode of files with data of volumes, and of files that only the server reads.
const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);
/// Mode of files that `nitro` writes for its user, as with `File::create`.
const FOR_ALL: Mode = Mode::from_raw_mode(0o666);
/// Names to try for a draft before giving up.
const DRAFT_NAMES: usize = 16;

/// The error for something that is not a regular file.
fn irregular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Keeps an open file only if it is a regular one.
fn regular(fd: rustix::fd::OwnedFd) -> io::Result<File> {
    match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
        FileType::RegularFile => Ok(fd.into()),
        _ => Err(irregular()),
    }
}

fn open_in(folder: &Folder, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
    let opened = retry_on_intr(|| openat(folder, name, flags | CAREFUL, mode));
    regular(opened.map_err(|e| match e {
        Errno::LOOP => io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link"),
        // A FIFO that is opened for writing and that nobody reads, or a socket.
        Errno::NXIO => irregular(),
        e => e.into(),
    })?)
}

/// Opens a regular file for reading. `path` must not be a symbolic link.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::around(path, Links::Followed)?;
    open_in(&folder, name, OFlags::RDONLY, Mode::empty())
}

/// Opens a regular file for reading and writing. The file must belong to this user and have no other name: with a hard
/// link, another user could redirect the writes to any file of this user.
pub fn open_own(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::around(path, Links::Followed)?;
    let file = open_in(&folder, name, OFlags::RDWR, Mode::empty())?;
    let found = file.metadata()?;
    let why = match (found.uid() == rustix::process::geteuid().as_raw(), found.nlink()) {
        (false, _) => "it belongs to another user",
        (true, 2..) => "it has another name too (a hard link)",
        (true, _) => return Ok(file),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Creates a file that is accessible only to its owner (mode 0600).
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if anything has that name, even a dangling link.
pub fn create_new(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::around(path, Links::Followed)?;
    open_in(&folder, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, OWNER_ONLY)
}

/// Creates a file with the permissions of the umask, and replaces anything with that name: a link is removed, but not
/// its target.
pub fn create_anew(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::around(path, Links::Followed)?;
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(e.into()),
    }
    open_in(&folder, name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, FOR_ALL)
}

/// Opens the target of a write, a regular file or a block device; a missing file is created and is accessible only to
/// its owner. A symbolic link is followed if this user or root created it.
pub fn open_target(path: &Path) -> io::Result<File> {
    match create_new(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let found = std::fs::symlink_metadata(path)?;
    let owners = [0, rustix::process::geteuid().as_raw()];
    if found.is_symlink() && !owners.contains(&found.uid()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a symbolic link of another user"));
    }
    open_resolved(&std::fs::canonicalize(path)?, OFlags::RDWR)
}

/// Opens an existing regular file or block device for reading, and follows links.
pub fn open_device_to_read(path: &Path) -> io::Result<File> {
    open_resolved(&std::fs::canonicalize(path)?, OFlags::RDONLY)
}

fn open_resolved(real: &Path, access: OFlags) -> io::Result<File> {
    let (folder, name) = Folder::around(real, Links::Refused)?;
    let opened = retry_on_intr(|| openat(&folder, name, access | CAREFUL, Mode::empty()));
    let neither = || io::Error::new(io::ErrorKind::InvalidInput, "it is neither a regular file nor a block device");
    let fd = opened.map_err(|e| if e == Errno::NXIO { neither() } else { e.into() })?;
    match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
        FileType::RegularFile | FileType::BlockDevice => Ok(fd.into()),
        _ => Err(neither()),
    }
}

/// The text of a file of at most `bytes_max`; `None`: it does not exist.
///
/// # Errors
/// It cannot be read, is not a regular file, is too long, or is not a text.
pub fn read_text(path: &Path, links: Links, bytes_max: u64) -> io::Result<Option<String>> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not a text");
    read(path, links, bytes_max)?.map(|bytes| String::from_utf8(bytes).map_err(no_text)).transpose()
}

/// The content of a file of at most `bytes_max`; `None`: it does not exist.
///
/// # Errors
/// It cannot be read, is not a regular file, or is too long.
pub fn read(path: &Path, links: Links, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let opened =
        Folder::around(path, links).and_then(|(folder, name)| open_in(&folder, name, OFlags::RDONLY, Mode::empty()));
    let file = match opened {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    Ok(Some(bytes))
}

/// Replaces a file atomically and durably by one with this content, which is accessible only to its owner.
pub fn write_durably(path: &Path, links: Links, content: &[u8]) -> io::Result<()> {
    let (folder, name) = Folder::around(path, links)?;
    let (draft, mut file) = draft(&folder, name)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| Ok(renameat(&folder, &draft, &folder, name)?));
    if placed.is_err() {
        // The first error is the one to report.
        let _ = unlinkat(&folder, &draft, AtFlags::empty());
    }
    placed.and_then(|()| folder.sync())
}

/// Replaces the content of an existing file atomically and durably. Owner and permissions are kept; a symbolic link
/// stays a link.
pub fn rewrite_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let real = std::fs::canonicalize(path)?;
    let (folder, name) = Folder::around(&real, Links::Refused)?;
    let found = open_in(&folder, name, OFlags::RDONLY, Mode::empty())?.metadata()?;
    let (draft, mut file) = draft(&folder, name)?;
    let written = file.write_all(content).and_then(|()| {
        std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
        file.set_permissions(Permissions::from_mode(found.mode() & 0o7777))?;
        file.sync_all()
    });
    let placed = written.and_then(|()| Ok(renameat(&folder, &draft, &folder, name)?));
    if placed.is_err() {
        // The first error is the one to report.
        let _ = unlinkat(&folder, &draft, AtFlags::empty());
    }
    placed.and_then(|()| folder.sync())
}

/// What root writes in a folder of another user is that user's: a service must be able to read it.
fn give_to_owner(folder: &Folder, file: &File) -> io::Result<()> {
    let of = fstat(folder)?;
    if rustix::process::geteuid().is_root() && of.st_uid != 0 {
        std::os::unix::fs::fchown(file, Some(of.st_uid), Some(of.st_gid))?;
    }
    Ok(())
}

/// A new file under an unpredictable name.
fn draft(folder: &Folder, name: &OsStr) -> io::Result<(OsString, File)> {
    let mut failed = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..DRAFT_NAMES {
        let random = RandomState::new().hash_one(attempt);
        let draft = OsString::from_iter([".".as_ref(), name, format!(".{random:016x}").as_ref()]);
        match open_in(folder, &draft, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, OWNER_ONLY) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => failed = e,
            created => {
                let file = created?;
                give_to_owner(folder, &file)?;
                return Ok((draft, file));
            }
        }
    }
    Err(failed)
}

/// Makes a file and its name durable, which may have been created just before a crash.
pub fn make_durable(path: &Path, links: Links) -> io::Result<()> {
    let (folder, name) = Folder::around(path, links)?;
    open_in(&folder, name, OFlags::RDONLY, Mode::empty())?.sync_all()?;
    folder.sync()
}

/// Removes a file durably, if it exists. A link is removed, not its target.
pub fn remove_durably(path: &Path, links: Links) -> io::Result<()> {
    let (folder, name) = match Folder::around(path, links) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    match unlinkat(&folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Ok(()) => folder.sync(),
        Err(e) => Err(e.into()),
    }
}

/// Makes a file accessible only to its owner.
pub fn close_to_others(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(OWNER_ONLY.as_raw_mode()))
}

#[cfg(test)]
mod tests;
