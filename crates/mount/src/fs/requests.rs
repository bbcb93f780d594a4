//! The kernel's requests, each passed on to what does it.

use super::settings::Change;
use super::{Files, TTL, names, number};
use crate::nodes::Node;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use nitro_frontend::Disk;
use rustix::fs::AtFlags;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Longest request for data.
pub(crate) const REQUEST_BYTES: u32 = 1 << 20;
/// Requests in the background, such as reading ahead, that the kernel sends at a time.
const BACKGROUND_MAX: u16 = 64;

/// What the kernel may do, as far as it can. It clears the bits that run files with their owners' rights itself if it does not know
/// that this side does (Linux before 5.11).
const WANTED: [InitFlags; 7] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_POSIX_ACL,
];

/// The file system for the kernel.
pub(crate) struct Requests<D>(pub(crate) Arc<Files<D>>);

impl<D: Disk + Send + Sync + 'static> Requests<D> {
    /// Answers with an entry, or that the name is not one.
    fn entry(reply: ReplyEntry, found: io::Result<(Arc<Node>, FileAttr)>) {
        match found {
            Ok((_, attributes)) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(number(&error)),
        }
    }

    /// With a parent and a name in it.
    fn named<T>(
        &self,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&Files<D>, &Node) -> io::Result<T>,
    ) -> io::Result<T> {
        if !names::is_plain(name) {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let parent = self.0.node(parent)?;
        make(&self.0, &parent)
    }
}

fn empty(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(number(&error)),
    }
}

fn attributes(reply: ReplyAttr, found: io::Result<FileAttr>) {
    match found {
        Ok(found) => reply.attr(&TTL, &found),
        Err(error) => reply.error(number(&error)),
    }
}

fn value(reply: ReplyXattr, size: u32, found: io::Result<Vec<u8>>) {
    match found {
        Ok(found) if size == 0 => reply.size(found.len() as u32),
        Ok(found) if found.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(number(&error)),
    }
}

fn by(request: &Request) -> (u32, u32) {
    (request.uid(), request.gid())
}

impl<D: Disk + Send + Sync + 'static> Filesystem for Requests<D> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in WANTED {
            if config.add_capabilities(wanted).is_err() {
                tracing::debug!(?wanted, "the kernel's FUSE does not have this");
            }
        }
        let refused = |least: u32| io::Error::other(format!("the kernel's limit is {least}"));
        config.set_max_write(REQUEST_BYTES).map_err(refused)?;
        config.set_max_background(BACKGROUND_MAX).map_err(|least| refused(least.into()))?;
        // As much as the kernel offers, which is less than the limit of one request.
        let _ = config.set_max_readahead(REQUEST_BYTES);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        Self::entry(reply, self.named(parent, name, |files, parent| files.look_up(parent, name)));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.0.nodes.forget(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.0.node(ino).and_then(|node| Files::<D>::attributes(&node)));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, atime, mtime };
        let set = |node: Arc<Node>| self.0.set(&node, fh.map(|fh| fh.0), change, request.uid() == 0);
        attributes(reply, self.0.node(ino).and_then(set));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.0.node(ino).and_then(|node| Files::<D>::link_target(&node)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, rdev: u32, reply: ReplyEntry) {
        let made = self.named(parent, name, |files, parent| files.make_node(parent, name, (mode, rdev), by(request)));
        Self::entry(reply, made);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        Self::entry(
            reply,
            self.named(parent, name, |files, parent| files.make_folder(parent, name, mode, by(request))),
        );
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.named(parent, name, |files, parent| files.make_symlink(parent, name, target, by(request)));
        Self::entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.named(parent, name, |files, parent| files.remove(parent, name, AtFlags::empty())));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.named(parent, name, |files, parent| files.remove(parent, name, AtFlags::REMOVEDIR)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.named(parent, name, |files, parent| {
            self.named(newparent, newname, |_, new| files.rename((parent, name), (new, newname), flags.bits()))
        });
        empty(reply, renamed);
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let linked = self.named(newparent, newname, |files, parent| {
            let node = files.node(ino)?;
            files.link(&node, parent, newname)
        });
        Self::entry(reply, linked);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.0.node(ino).and_then(|node| self.0.open_file(&node, flags.0)) {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.named(parent, name, |files, parent| files.create_file(parent, name, (mode, flags), by(request))) {
            Ok((_, attributes, handle, flags)) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(handle), flags);
            }
            Err(error) => reply.error(number(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.0.read(fh.0, offset, size, reply);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let clears = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.0.write(fh.0, offset, data, clears) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Nothing is kept back until a file is closed: the kernel need not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.close(fh.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.0.sync(fh.0, datasync));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.node(ino).and_then(|node| self.0.open_folder(&node)) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.0.read_folder(fh.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdirplus(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        match self.0.read_folder_plus(fh.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.close_folder(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.0.sync_folder(fh.0));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.0.room() {
            Ok(room) => reply.statfs(
                room.f_blocks,
                room.f_bfree,
                room.f_bavail,
                room.f_files,
                room.f_ffree,
                room.f_bsize as u32,
                room.f_namemax as u32,
                room.f_frsize as u32,
            ),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        empty(reply, self.0.node(ino).and_then(|node| self.0.set_extended(&node, name, value, flags)));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        value(reply, size, self.0.node(ino).and_then(|node| Files::<D>::extended(&node, name)));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        value(reply, size, self.0.node(ino).and_then(|node| Files::<D>::all_extended(&node)));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.0.node(ino).and_then(|node| self.0.remove_extended(&node, name)));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.0.allocate(fh.0, offset, length, mode));
    }

    fn lseek(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        match self.0.seek(fh.0, offset, whence) {
            Ok(found) => reply.offset(found),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        _: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        match self.0.copy((fh_in.0, offset_in), (fh_out.0, offset_out), len) {
            Ok(copied) => reply.written(copied),
            Err(error) => reply.error(number(&error)),
        }
    }
}
