//! Where an export goes: the part of it that has a path, which is opened and renamed with the rights of the user who gives
//! the command.

use super::Sink;
use nitro_console::error::Error;
use nitro_files as files;
use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, File, TryLockError};
use std::io::{self, stdout};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The target of an export. A file is written as `TARGET.part`, and renamed when it is complete.
#[derive(Debug)]
pub struct Target<'a> {
    path: &'a Path,
    force: bool,
    /// The unfinished file and its name; `None`: a device, or standard output.
    part: Option<(File, PathBuf)>,
}

fn is_stdout(target: &Path) -> bool {
    target == Path::new("-")
}

impl<'a> Target<'a> {
    /// Opens a file that does not exist yet, a block device, or with `-` standard output. With `force`, the target may exist
    /// and is overwritten.
    ///
    /// # Errors
    /// The target exists and may not be overwritten, it is neither a regular file nor a block device, or it cannot be
    /// opened.
    pub fn open(path: &'a Path, force: bool) -> Result<(Self, Sink), Error> {
        if is_stdout(path) {
            let out = output().map_err(|e| Error::new("standard output", e))?;
            return Ok((Self { path, force, part: None }, Sink::Output(out)));
        }
        let kind = fs::metadata(path).ok().map(|m| m.file_type());
        let is_device = kind.is_some_and(|kind| kind.is_block_device());
        // A file takes the target's place: /dev/null must not become one.
        if kind.is_some_and(|kind| !kind.is_file() && !is_device) {
            return Err(Error::new(path.display(), "it is neither a regular file nor a block device")
                .or("name a file, or - for standard output"));
        }
        if kind.is_some() && !force {
            let what = if is_device { "all data on the device would be lost" } else { "it exists already" };
            return Err(Error::new(path.display(), what).or("add --force to confirm"));
        }
        let fail = |path: &Path, e: io::Error| Error::new(path.display(), e).or("remove it, or name another file");
        if is_device {
            let device = files::open_target(path).map_err(|e| fail(path, e))?;
            return Ok((Self { path, force, part: None }, Sink::File(device)));
        }
        let part = PathBuf::from(format!("{}.part", path.display()));
        let file = open_part(&part).map_err(|e| fail(&part, e))?;
        lock(&file, &part)?;
        let kept = file.try_clone().map_err(|e| Error::new(part.display(), e))?;
        Ok((Self { path, force, part: Some((kept, part)) }, Sink::File(file)))
    }

    /// What errors call it.
    #[must_use]
    pub fn shown(&self) -> PathBuf {
        if is_stdout(self.path) { "standard output".into() } else { self.path.to_owned() }
    }

    /// Gives a file that is complete its name.
    ///
    /// # Errors
    /// It was replaced meanwhile, or the target has appeared and may not be overwritten.
    pub fn finish(self) -> Result<(), Error> {
        let Some((file, part)) = self.part else { return Ok(()) };
        check_same(&file, &part)?;
        place(&part, self.path, self.force)
    }
}

/// Standard output, not by way of the buffer, which looks for ends of lines. A pipe is opened again, so that writes to it do not
/// wait, and other programs with the same pipe are not concerned.
fn output() -> io::Result<File> {
    let out = File::from(stdout().as_fd().try_clone_to_owned()?);
    if !out.metadata()?.file_type().is_fifo() {
        return Ok(out);
    }
    let path = format!("/proc/self/fd/{}", out.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // It fails without /proc, and if nobody has the pipe open for reading.
    Ok(rustix::fs::open(path, flags, Mode::empty()).map_or(out, File::from))
}

/// Keeps other exports away from an unfinished file.
fn lock(file: &File, part: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => check_same(file, part),
        Err(TryLockError::WouldBlock) => {
            Err(Error::new(part.display(), "another export is writing to it").or("wait for it, or name another file"))
        }
        // On a file system without locks.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Checks that `part` is still the name of `file`: not if another export has finished it, or it was replaced.
fn check_same(file: &File, part: &Path) -> Result<(), Error> {
    let of = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    if of(file.metadata()) == of(fs::symlink_metadata(part)) {
        return Ok(());
    }
    Err(Error::new(part.display(), "it was renamed or replaced meanwhile").or("export to another name"))
}

/// Gives an export its name. A target that has appeared meanwhile is replaced only by `force`.
fn place(part: &Path, target: &Path, force: bool) -> Result<(), Error> {
    let flags = if force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match rustix::fs::renameat_with(CWD, part, CWD, target, flags) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Error::new(target.display(), "it was created meanwhile")
            .or(format_args!("add --force to replace it; {} has the object", part.display()))),
        // A file system that cannot rename in this way.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(part, target).map_err(|e| Error::new(target.display(), e)),
        Err(e) => Err(Error::new(target.display(), io::Error::from(e))),
    }
}

/// The unfinished file of an export: that of an interrupted export, which is overwritten, or a new one.
fn open_part(part: &Path) -> io::Result<File> {
    match files::create_new(part) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => files::open_own(part),
        created => created,
    }
}
