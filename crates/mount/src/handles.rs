//! What the kernel has open, by number.

use crate::file::CachedFile;
use crate::nodes::Node;
use parking_lot::{Mutex, RwLock};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Arc<File>,
    pub(crate) node: Arc<Node>,
    /// `None`: its data are not cached.
    pub(crate) cached: Option<Arc<CachedFile>>,
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) inode: u64,
    pub(crate) kind: rustix::fs::FileType,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    pub(crate) folder: OwnedFd,
    pub(crate) node: Arc<Node>,
    /// What was in it when it was last read from its beginning on.
    pub(crate) entries: Mutex<Arc<Vec<Entry>>>,
}

/// Open things by their numbers.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    all: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { next: AtomicU64::new(1), all: RwLock::default() }
    }
}

impl<T> Handles<T> {
    /// A number for what will be open.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn insert(&self, number: u64, open: T) {
        self.all.write().insert(number, Arc::new(open));
    }

    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<T>> {
        self.all.read().get(&number).cloned().ok_or_else(|| Errno::BADF.into())
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.all.write().remove(&number)
    }
}
