//! The tree, and the files behind the addresses of the disk.

use crate::address::{Slot, parts};
use crate::file::{BySlot, CachedFile};
use crate::table::{FILE_BYTES, FILES_MAX, Table};
use crate::version::{FileKey, Seen, look};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open, syncfs};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Files that were written and not flushed, beyond which the whole file system is flushed instead.
const UNFLUSHED_MAX: usize = 256;

/// Files that were written since the last flush.
#[derive(Debug, Default)]
struct Unflushed {
    files: BTreeMap<Slot, Arc<File>>,
    /// There were more than are named.
    all: bool,
}

/// A directory tree, and its table. Its files' data are read and written by address, from any thread; these calls block.
#[derive(Debug)]
pub struct Tree {
    path: PathBuf,
    root: OwnedFd,
    seen: Seen,
    table: Arc<Table>,
    files: Mutex<HashMap<FileKey, Weak<CachedFile>>>,
    by_slot: Arc<BySlot>,
    unflushed: Mutex<Unflushed>,
}

impl Tree {
    /// Opens a directory.
    ///
    /// # Errors
    /// It is none, or may not be read.
    pub fn open(path: &Path, table: Table) -> io::Result<Self> {
        let root = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let seen = look(&root)?;
        Ok(Self {
            path: path.to_owned(),
            root,
            seen,
            table: Arc::new(table),
            files: Mutex::default(),
            by_slot: Arc::default(),
            unflushed: Mutex::default(),
        })
    }

    /// The path at which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory.
    #[must_use]
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Its table.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The maximum RAM of the table and of files that the kernel knows, in bytes.
    #[must_use]
    pub const fn ram_bytes() -> u64 {
        FILES_MAX as u64 * FILE_BYTES
    }

    /// A file whose data are cached. `None`: it is on another file system than the directory, one mounted below it.
    pub(crate) fn file(&self, seen: Seen) -> Option<Arc<CachedFile>> {
        if seen.device != self.seen.device {
            return None;
        }
        let mut files = self.files.lock();
        if let Some(file) = files.get(&seen.key).and_then(Weak::upgrade) {
            return Some(file);
        }
        let file = CachedFile::new(seen, Arc::clone(&self.table), Arc::clone(&self.by_slot));
        files.insert(seen.key, Arc::downgrade(&file));
        Some(file)
    }

    /// As [`file`](Self::file), only if something of it may be cached.
    pub(crate) fn known_file(&self, seen: Seen) -> Option<Arc<CachedFile>> {
        let is_open = self.files.lock().get(&seen.key).is_some_and(|file| file.strong_count() > 0);
        if is_open || self.table.has(seen.key) { self.file(seen) } else { None }
    }

    /// Notes the versions of all files in the table.
    pub(crate) fn note(&self) {
        let files: Vec<_> = {
            let mut files = self.files.lock();
            files.retain(|_, file| file.strong_count() > 0);
            files.values().filter_map(Weak::upgrade).collect()
        };
        files.iter().for_each(|file| file.note());
        drop(files);
        self.table.write();
    }

    fn at(&self, slot: u32) -> io::Result<Arc<CachedFile>> {
        let file = self.by_slot.read().get(&Slot(slot)).and_then(Weak::upgrade);
        file.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no open file has this address"))
    }

    /// Fills `into` with the bytes at an address; there are zeroes behind the end of a file.
    ///
    /// # Errors
    /// No file that is open for reading has the address, or it cannot be read.
    pub fn read_at(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        let mut rest = into;
        for part in parts(address, rest.len() as u64) {
            let (mut here, behind) = rest.split_at_mut(part.len as usize);
            rest = behind;
            let closed = || io::Error::new(io::ErrorKind::NotFound, "the file at this address is not open for reading");
            let file = self.at(part.number)?.reader().ok_or_else(closed)?;
            let span = self.span_of(part.number)?;
            let mut offset = span + part.within;
            while !here.is_empty() {
                match file.read_at(here, offset) {
                    Ok(0) => {
                        here.fill(0);
                        break;
                    }
                    Ok(len) => {
                        offset += len as u64;
                        here = &mut here[len..];
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Writes bytes at an address.
    ///
    /// # Errors
    /// No file that is open for writing has the address, or it cannot be written.
    pub fn write_at(&self, address: u64, mut data: &[u8]) -> io::Result<()> {
        for part in parts(address, data.len() as u64) {
            let (here, behind) = data.split_at(part.len as usize);
            data = behind;
            let closed = || io::Error::new(io::ErrorKind::NotFound, "the file at this address is not open for writing");
            let file = self.at(part.number)?.writer().ok_or_else(closed)?;
            self.note_write(Slot(part.number), &file);
            file.write_all_at(here, self.span_of(part.number)? + part.within)?;
        }
        Ok(())
    }

    /// The size of the file that has an address, as far as it is known.
    #[must_use]
    pub fn size_at(&self, address: u64) -> Option<u64> {
        let part = parts(address, 1).next()?;
        Some(self.at(part.number).ok()?.size())
    }

    /// The offset in its file of the span that a slot holds.
    fn span_of(&self, slot: u32) -> io::Result<u64> {
        let span = self.at(slot)?.span_of(Slot(slot));
        span.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the slot was given up"))
    }

    fn note_write(&self, slot: Slot, file: &Arc<File>) {
        let mut unflushed = self.unflushed.lock();
        if unflushed.files.len() >= UNFLUSHED_MAX {
            unflushed.files.clear();
            unflushed.all = true;
        }
        if !unflushed.all {
            unflushed.files.insert(slot, Arc::clone(file));
        }
    }

    /// Makes all that was written by address durable.
    ///
    /// # Errors
    /// Something of it may be lost.
    pub fn flush(&self) -> io::Result<()> {
        let Unflushed { files, all } = std::mem::take(&mut *self.unflushed.lock());
        if all {
            syncfs(&self.root)?;
        }
        files.values().try_for_each(|file| file.sync_data())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.note();
    }
}
