//! Data of files.

use super::{Files, LocalTask, disk_error, number};
use crate::file::{CachedFile, Runs};
use crate::handles::OpenFile;
use crate::nodes::Node;
use bytes::Bytes;
use fuser::{FopenFlags, ReplyData};
use futures_util::FutureExt;
use nitro_frontend::{Disk, Pieces};
use nitro_port::buf::BufMut;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, Stat, chmod, copy_file_range, fallocate, fstat, open, seek, statat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Longest range of which the cache forgets extent by extent. Of longer ones, the slots are given up.
const FORGET_MAX: u64 = 256 << 20;
/// Longest copy of one request.
const COPY_MAX: u64 = 128 << 20;
/// What a descriptor of the server's does not have: positions and durability are the kernel's matter.
pub(super) const NOT_PASSED: OFlags = OFlags::APPEND
    .union(OFlags::DIRECT)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::TRUNC)
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW);

/// What a file is opened for: (reading, writing).
pub(super) fn wanted(flags: OFlags) -> (bool, bool) {
    match flags & OFlags::RWMODE {
        OFlags::WRONLY => (false, true),
        OFlags::RDWR => (true, true),
        _ => (true, false),
    }
}

impl<D: Disk + Send + Sync + 'static> Files<D> {
    /// Opens a file; returns its handle, and how the kernel is to treat its pages.
    pub(super) fn open_file(&self, node: &Arc<Node>, flags: i32) -> io::Result<(u64, FopenFlags)> {
        self.check_place(node)?;
        let flags = OFlags::from_bits_retain(flags as u32);
        let plain = (flags - NOT_PASSED) | OFlags::CLOEXEC | OFlags::NOCTTY;
        let (mut reads, writes) = wanted(flags);
        let path = node.path();
        let mut opened = None;
        if writes && !reads {
            // The rest of an extent of which a part is written is read.
            opened = open(&path, (plain - OFlags::RWMODE) | OFlags::RDWR, Mode::empty()).ok();
            reads = opened.is_some();
        }
        let file = match opened {
            Some(file) => file,
            None => open(&path, plain, Mode::empty())?,
        };
        self.register(node, File::from(file), (reads, writes))
    }

    /// Refuses an inode whose name leads to another one by now: the kernel then asks again for the name.
    fn check_place(&self, node: &Node) -> io::Result<()> {
        if node.number == crate::nodes::ROOT {
            return Ok(());
        }
        let place = node.place();
        let parent = self.nodes.get(place.parent)?;
        match statat(&parent.fd, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if node.is(&stat) => Ok(()),
            // Without a name, who has it open may open it once more, by its descriptor.
            Ok(_) | Err(Errno::NOENT) if node.is_open() && fstat(&node.fd)?.st_nlink == 0 => Ok(()),
            Ok(_) | Err(Errno::NOENT) => Err(Errno::STALE.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes an open file.
    pub(super) fn register(
        &self,
        node: &Arc<Node>,
        file: File,
        (reads, writes): (bool, bool),
    ) -> io::Result<(u64, FopenFlags)> {
        let stat = fstat(&file)?;
        let (file, handle) = (Arc::new(file), self.open.number());
        let mut flags = FopenFlags::empty();
        let cached = self.cached(node, &stat, false)?.cloned();
        if let Some(cached) = &cached {
            if cached.open(&file)? {
                flags |= FopenFlags::FOPEN_KEEP_CACHE;
            } else {
                self.forget_attributes(node);
            }
            cached.add(handle, &file, (reads, writes));
        }
        self.open.insert(handle, OpenFile { file, node: Arc::clone(node), cached });
        Ok((handle, flags))
    }

    /// Closes a file.
    pub(super) fn close(&self, handle: u64) {
        let Some(cached) = self.open.remove(handle).and_then(|open| open.cached.clone()) else { return };
        cached.remove(handle);
        cached.note();
    }

    /// Reads, and answers.
    pub(super) fn read(&self, handle: u64, offset: u64, len: u32, reply: ReplyData) {
        let open = match self.open.get(handle) {
            Ok(open) => open,
            Err(error) => return reply.error(number(&error)),
        };
        let runs = match self.runs_to_read(&open, offset, len.into()) {
            Ok(Some(runs)) => runs,
            Ok(None) => return read_itself(&open.file, offset, len, reply),
            Err(error) => return reply.error(number(&error)),
        };
        if runs.is_empty() {
            return reply.data(&[]);
        }
        if let [run] = runs[..]
            && let Some(Ok(pieces)) = self.disk.try_read(self.from, run.address, run.len as u32)
        {
            return answer(reply, &pieces);
        }
        let permit = self.reads.take();
        let (disk, from) = (Arc::clone(&self.disk), self.from);
        let task: LocalTask = Box::new(move || {
            async move {
                let mut pieces = Pieces::new();
                for run in runs {
                    match disk.read(from, run.address, run.len as u32).await {
                        Ok(more) => pieces.extend(more),
                        Err(error) => return reply.error(number(&disk_error(error))),
                    }
                }
                answer(reply, &pieces);
                // The file stays open for the disk until now.
                drop((open, permit));
            }
            .boxed_local()
        });
        // If the threads have ended, the reply is dropped, which answers with an error.
        let _ = (self.host)(task);
    }

    /// Where to read; `None`: from the file itself. Behind the end of the file there is nothing.
    fn runs_to_read(&self, open: &OpenFile, offset: u64, len: u64) -> io::Result<Option<Runs>> {
        let Some(cached) = &open.cached else { return Ok(None) };
        if offset.saturating_add(len) > cached.size() {
            // Another program may have made it longer, as who follows a log hopes.
            cached.refresh(&open.file)?;
        }
        let end = offset.saturating_add(len).min(cached.size());
        match end.checked_sub(offset) {
            None | Some(0) => Ok(Some(Runs::new())),
            Some(len) => cached.runs_to_read(offset, len),
        }
    }

    /// Writes. `clears`: the bits that run a file with the rights of its owner go.
    pub(super) fn write(&self, handle: u64, offset: u64, data: &[u8], clears: bool) -> io::Result<()> {
        let open = self.open.get(handle)?;
        let write = || {
            if clears {
                self.clear_set_id(&open.node)?;
            }
            match &open.cached {
                Some(cached) => self.write_cached(cached, &open.file, offset, data),
                None => open.file.write_all_at(data, offset),
            }
        };
        match &open.cached {
            Some(cached) => cached.change(&open.file, write),
            None => write(),
        }
    }

    /// What has slots is written through the disk; the rest to the file itself, since nothing of it is cached.
    fn write_cached(&self, cached: &CachedFile, file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
        let len = data.len() as u64;
        let runs = cached.runs(offset, len);
        if runs.is_empty() {
            return file.write_all_at(data, offset);
        }
        let is_whole = runs.iter().map(|run| run.len).sum::<u64>() == len;
        if !is_whole || cached.reader().is_none() || cached.writer().is_none() {
            file.write_all_at(data, offset)?;
            return self.forget(cached, offset, len);
        }
        let mut copied = BufMut::zeroed(data.len());
        copied.copy_from_slice(data);
        let mut rest: Bytes = copied.freeze();
        for run in runs {
            let part = rest.split_to(run.len as usize);
            self.ask(move |disk, from| async move { disk.write(from, run.address, part, false).await }.boxed_local())?;
        }
        Ok(())
    }

    /// Makes the cache forget a range of a file that was changed. To be called during the change, after it.
    fn forget(&self, cached: &CachedFile, offset: u64, len: u64) -> io::Result<()> {
        let runs = cached.runs(offset, len);
        if runs.iter().map(|run| run.len).sum::<u64>() > FORGET_MAX {
            cached.forget(offset, len);
            return Ok(());
        }
        for run in runs {
            let trim = move |disk: Arc<D>, from| {
                async move { disk.trim(from, run.address, run.len as u32, false).await }.boxed_local()
            };
            if self.ask(trim).is_err() {
                // What the cache may still have of it is not used.
                cached.forget(offset, len);
                break;
            }
        }
        Ok(())
    }

    /// Cuts a file off, or lengthens it. `clears`: see [`write`](Self::write).
    pub(super) fn truncate(&self, node: &Node, handle: Option<u64>, size: u64, clears: bool) -> io::Result<()> {
        let by_handle = handle.and_then(|handle| self.open.get(handle).ok()).map(|open| Arc::clone(&open.file));
        let file = match by_handle {
            Some(file) => file,
            None => Arc::new(File::from(open(node.path(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)),
        };
        let stat = fstat(&file)?;
        let cut = || {
            if clears {
                self.clear_set_id(node)?;
            }
            file.set_len(size)
        };
        let Some(cached) = self.cached(node, &stat, true)? else { return cut() };
        cached.change(&file, || {
            let before = cached.size();
            cut()?;
            cached.forget_from(size);
            self.forget(cached, size, before.saturating_sub(size))
        })
    }

    /// Clears the bits by which a file runs with the rights of its owner and group.
    fn clear_set_id(&self, node: &Node) -> io::Result<()> {
        const EXECUTED_BY_GROUP: u32 = 0o010;
        let Stat { st_mode, .. } = fstat(&node.fd)?;
        let mut mode = Mode::from_raw_mode(st_mode & 0o7777) - Mode::SUID;
        if st_mode & EXECUTED_BY_GROUP != 0 {
            mode -= Mode::SGID;
        }
        if mode.as_raw_mode() != st_mode & 0o7777 {
            chmod(node.path(), mode)?;
            self.forget_attributes(node);
        }
        Ok(())
    }

    /// fallocate(2).
    pub(super) fn allocate(&self, handle: u64, offset: u64, len: u64, mode: i32) -> io::Result<()> {
        let open = self.open.get(handle)?;
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let allocate = || -> io::Result<()> { Ok(fallocate(&open.file, mode, offset, len)?) };
        let Some(cached) = &open.cached else { return allocate() };
        cached.change(&open.file, || {
            allocate()?;
            if mode.intersects(FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE) {
                cached.forget(offset, u64::MAX);
                Ok(())
            } else if mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
                self.forget(cached, offset, len)
            } else {
                Ok(())
            }
        })
    }

    /// copy_file_range(2); returns the number of bytes.
    pub(super) fn copy(&self, from: (u64, u64), to: (u64, u64), len: u64) -> io::Result<u32> {
        let (source, target) = (self.open.get(from.0)?, self.open.get(to.0)?);
        let copy = || -> io::Result<usize> {
            let (mut at, mut into) = (from.1, to.1);
            let len = len.min(COPY_MAX) as usize;
            Ok(copy_file_range(&source.file, Some(&mut at), &target.file, Some(&mut into), len)?)
        };
        let copied = match &target.cached {
            None => copy()?,
            Some(cached) => cached.change(&target.file, || {
                let copied = copy()?;
                self.forget(cached, to.1, copied as u64)?;
                Ok(copied)
            })?,
        };
        u32::try_from(copied).map_err(|_| Errno::OVERFLOW.into())
    }

    /// Makes a file durable.
    pub(super) fn sync(&self, handle: u64, only_data: bool) -> io::Result<()> {
        let open = self.open.get(handle)?;
        if only_data { open.file.sync_data() } else { open.file.sync_all() }
    }

    /// lseek(2) for holes and data.
    pub(super) fn seek(&self, handle: u64, offset: i64, whence: i32) -> io::Result<i64> {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let open = self.open.get(handle)?;
        let offset = u64::try_from(offset).map_err(|_| io::Error::from(Errno::INVAL))?;
        let to = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL.into()),
        };
        let found = seek(&open.file, to)?;
        i64::try_from(found).map_err(|_| Errno::OVERFLOW.into())
    }

    /// The attributes of a file's system, for statfs(2).
    pub(super) fn room(&self) -> io::Result<rustix::fs::StatVfs> {
        Ok(rustix::fs::fstatvfs(self.tree.root())?)
    }

    /// Whether the tree has the name at all, for renames.
    pub(super) fn stat_of(&self, parent: &Node, name: &OsStr) -> io::Result<Stat> {
        Ok(statat(&parent.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Reads a file whose data are not cached.
fn read_itself(file: &File, offset: u64, len: u32, reply: ReplyData) {
    let mut data = vec![0; len as usize];
    let mut filled = 0;
    while filled < data.len() {
        match file.read_at(&mut data[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return reply.error(number(&error)),
        }
    }
    reply.data(&data[..filled]);
}

fn answer(reply: ReplyData, pieces: &Pieces) {
    match &pieces[..] {
        [piece] => reply.data(piece),
        many => reply.data(&many.concat()),
    }
}
