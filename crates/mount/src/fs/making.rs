//! Making files, for the users who ask.

use super::Files;
use super::data::{NOT_PASSED, wanted};
use crate::nodes::Node;
use fuser::{FileAttr, FopenFlags};
use nitro_frontend::Disk;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, chmod, chownat, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::Arc;

impl<D: Disk + Send + Sync + 'static> Files<D> {
    /// Makes a file and opens it.
    pub(super) fn create_file(
        &self,
        parent: &Node,
        name: &OsStr,
        (mode, flags): (u32, i32),
        by: (u32, u32),
    ) -> io::Result<(Arc<Node>, FileAttr, u64, FopenFlags)> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let (_, writes) = wanted(flags);
        let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let plain = (flags - NOT_PASSED - OFlags::RWMODE) | access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let exclusive = plain | OFlags::CREATE | OFlags::EXCL;
        let (file, is_new) = match openat(&parent.fd, name, exclusive, Mode::from_raw_mode(mode & 0o7777)) {
            Ok(file) => (file, true),
            // Another program has made it since the kernel looked for it.
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {
                (openat(&parent.fd, name, plain, Mode::empty())?, false)
            }
            Err(error) => return Err(error.into()),
        };
        if is_new {
            self.own(&file, parent, mode, by)?;
        }
        let (node, _) = self.look_up(parent, name)?;
        let opened = self.open_created(&node, File::from(file), writes, !is_new && flags.contains(OFlags::TRUNC));
        let (handle, kept) = opened.inspect_err(|_| self.nodes.forget(node.number, 1))?;
        let attributes = Self::attributes(&node)?;
        Ok((node, attributes, handle, kept))
    }

    fn open_created(
        &self,
        node: &Arc<Node>,
        file: File,
        writes: bool,
        truncates: bool,
    ) -> io::Result<(u64, FopenFlags)> {
        let stat = fstat(&file)?;
        if !node.is(&stat) || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Errno::STALE.into());
        }
        let (handle, kept) = self.register(node, file, (true, writes))?;
        if truncates {
            self.truncate(node, Some(handle), 0, false)?;
        }
        Ok((handle, kept))
    }

    /// Gives what was made under a name its owner and mode. Another program may have put something else there: what is not like new is
    /// left alone.
    pub(super) fn own_named(
        &self,
        parent: &Node,
        name: &OsStr,
        (kind, mode): (FileType, u32),
        by: (u32, u32),
    ) -> io::Result<()> {
        let made = openat(&parent.fd, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&made)?;
        let is_alone = kind == FileType::Directory || stat.st_nlink == 1;
        let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
        if FileType::from_raw_mode(stat.st_mode) != kind || !is_alone || !is_own {
            return Err(Errno::STALE.into());
        }
        self.own(&made, parent, mode, by)
    }

    /// Gives a new file its owner and mode.
    fn own(&self, made: &OwnedFd, parent: &Node, mode: u32, (uid, gid): (u32, u32)) -> io::Result<()> {
        let stat = fstat(made)?;
        if self.is_root && (uid, gid) != (stat.st_uid, stat.st_gid) {
            let gives_group = fstat(&parent.fd)?.st_mode & Mode::SGID.as_raw_mode() != 0;
            let group = (!gives_group).then(|| Gid::from_raw(gid));
            chownat(made, "", Some(Uid::from_raw(uid)), group, AtFlags::EMPTY_PATH)?;
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Ok(());
        }
        let now = fstat(made)?.st_mode & 0o7777;
        // What the server's umask and the change of the owner took; a directory may have got the group's bit.
        let taken = mode & 0o7777 & (self.umask | 0o6000) & !now;
        if taken != 0 {
            chmod(format!("/proc/self/fd/{}", made.as_raw_fd()), Mode::from_raw_mode(now | taken))?;
        }
        Ok(())
    }
}
