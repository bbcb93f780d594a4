//! Reading directories. A directory is read whole at its beginning, and positions are places in what was read, so that
//! they stay valid while names come and go.

use super::{Files, TTL};
use crate::attributes::kind_of;
use crate::handles::{Entry, OpenFolder};
use crate::nodes::{Node, ROOT};
use fuser::{Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use nitro_frontend::Disk;
use rustix::fs::{Dir, Mode, OFlags, fstat, fsync, open};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

impl<D: Disk + Send + Sync + 'static> Files<D> {
    pub(super) fn open_folder(&self, node: &Arc<Node>) -> io::Result<u64> {
        let folder = open(node.path(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let handle = self.folders.number();
        self.folders.insert(handle, OpenFolder { folder, node: Arc::clone(node), entries: Default::default() });
        Ok(handle)
    }

    pub(super) fn close_folder(&self, handle: u64) {
        self.folders.remove(handle);
    }

    pub(super) fn sync_folder(&self, handle: u64) -> io::Result<()> {
        Ok(fsync(&self.folders.get(handle)?.folder)?)
    }

    /// What is in a directory; read again if it is read from its beginning.
    fn entries(open: &OpenFolder, offset: u64) -> io::Result<Arc<Vec<Entry>>> {
        let mut entries = open.entries.lock();
        if offset == 0 {
            let mut found = Vec::new();
            let mut folder = Dir::read_from(&open.folder)?;
            folder.rewind();
            while let Some(entry) = folder.read() {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
                found.push(Entry { name, inode: entry.ino(), kind: entry.file_type() });
            }
            *entries = Arc::new(found);
        }
        Ok(Arc::clone(&entries))
    }

    /// The number that is shown for an entry.
    fn number_of(&self, folder: &Node, entry: &Entry) -> u64 {
        match entry.name.as_bytes() {
            b"." => folder.number,
            b".." if folder.number == ROOT => ROOT,
            _ => self.nodes.number_of(entry.inode),
        }
    }

    pub(super) fn read_folder(&self, handle: u64, offset: u64, reply: &mut ReplyDirectory) -> io::Result<()> {
        let open = self.folders.get(handle)?;
        let entries = Self::entries(&open, offset)?;
        for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
            let inode = INodeNo(self.number_of(&open.node, entry));
            if reply.add(inode, at as u64 + 1, kind_of(entry.kind), &entry.name) {
                break;
            }
        }
        Ok(())
    }

    /// With attributes, which the kernel would ask for next.
    pub(super) fn read_folder_plus(&self, handle: u64, offset: u64, reply: &mut ReplyDirectoryPlus) -> io::Result<()> {
        let open = self.folders.get(handle)?;
        let entries = Self::entries(&open, offset)?;
        for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
            let is_itself = matches!(entry.name.as_bytes(), b"." | b"..");
            let (number, attributes) = if is_itself {
                // The kernel does not note these numbers.
                let number = self.number_of(&open.node, entry);
                (number, crate::attributes::attributes(number, &fstat(&open.folder)?))
            } else {
                match self.look_up(&open.node, &entry.name) {
                    Ok((node, attributes)) => (node.number, attributes),
                    // It has gone meanwhile.
                    Err(_) => continue,
                }
            };
            if reply.add(INodeNo(number), at as u64 + 1, &entry.name, &TTL, &attributes, Generation(0)) {
                if !is_itself {
                    self.nodes.forget(number, 1);
                }
                break;
            }
        }
        Ok(())
    }
}
