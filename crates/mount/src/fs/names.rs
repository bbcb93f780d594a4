//! Names: making, removing, renaming, linking.

use super::Files;
use crate::nodes::{Node, Place};
use fuser::FileAttr;
use nitro_frontend::Disk;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, linkat, mkdirat, mknodat, readlinkat, renameat_with, symlinkat, unlinkat,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

impl<D: Disk + Send + Sync + 'static> Files<D> {
    /// A special or plain file.
    pub(super) fn make_node(
        &self,
        parent: &Node,
        name: &OsStr,
        (mode, device): (u32, u32),
        by: (u32, u32),
    ) -> io::Result<(Arc<Node>, FileAttr)> {
        let device = crate::attributes::device_of(device);
        let mut kind = FileType::from_raw_mode(mode);
        if mode & 0o170_000 == 0 {
            kind = FileType::RegularFile;
        }
        mknodat(&parent.fd, name, kind, Mode::from_raw_mode(mode & 0o7777), device)?;
        self.own_named(parent, name, (kind, mode), by)?;
        self.look_up(parent, name)
    }

    pub(super) fn make_folder(
        &self,
        parent: &Node,
        name: &OsStr,
        mode: u32,
        by: (u32, u32),
    ) -> io::Result<(Arc<Node>, FileAttr)> {
        mkdirat(&parent.fd, name, Mode::from_raw_mode(mode & 0o7777))?;
        self.own_named(parent, name, (FileType::Directory, mode), by)?;
        self.look_up(parent, name)
    }

    pub(super) fn make_symlink(
        &self,
        parent: &Node,
        name: &OsStr,
        target: &Path,
        by: (u32, u32),
    ) -> io::Result<(Arc<Node>, FileAttr)> {
        symlinkat(target, &parent.fd, name)?;
        self.own_named(parent, name, (FileType::Symlink, 0), by)?;
        self.look_up(parent, name)
    }

    pub(super) fn link_target(node: &Node) -> io::Result<Vec<u8>> {
        Ok(readlinkat(&node.fd, "", Vec::new())?.into_bytes())
    }

    /// Another name of a file.
    pub(super) fn link(&self, node: &Node, parent: &Node, name: &OsStr) -> io::Result<(Arc<Node>, FileAttr)> {
        self.change_attributes(node, || Ok(linkat(CWD, node.path(), &parent.fd, name, AtFlags::SYMLINK_FOLLOW)?))?;
        self.look_up(parent, name)
    }

    /// Removes a name. The file may have others, and then it changes with this one.
    pub(super) fn remove(&self, parent: &Node, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        let remove = || Ok(unlinkat(&parent.fd, name, flags)?);
        let stat = self.stat_of(parent, name)?;
        let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        match is_plain && stat.st_nlink > 1 {
            true => self.with_named(parent, name, remove),
            false => remove(),
        }
    }

    /// Changes what changes the attributes of the file with a name.
    fn with_named(&self, parent: &Node, name: &OsStr, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        // As if the kernel had asked for it.
        let (node, _) = self.look_up(parent, name)?;
        let changed = self.change_attributes(&node, change);
        self.nodes.forget(node.number, 1);
        changed
    }

    pub(super) fn rename(
        &self,
        (parent, name): (&Node, &OsStr),
        (new_parent, new_name): (&Node, &OsStr),
        flags: u32,
    ) -> io::Result<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        let stat = self.stat_of(parent, name)?;
        let replaced = self.stat_of(new_parent, new_name).ok();
        let rename = || Ok(renameat_with(&parent.fd, name, &new_parent.fd, new_name, flags)?);
        // The kernel of the tree's file system notes the time of a rename as a change of the file.
        match FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            true => self.with_named(parent, name, rename)?,
            false => rename()?,
        }
        let place = |parent: &Node, name: &OsStr| Place { parent: parent.number, name: name.to_owned() };
        self.nodes.moved(&stat, place(new_parent, new_name));
        if let Some(replaced) = replaced.filter(|_| flags.contains(RenameFlags::EXCHANGE)) {
            self.nodes.moved(&replaced, place(parent, name));
        }
        Ok(())
    }
}

/// Whether a name is one that the kernel may ask for.
pub(super) fn is_plain(name: &OsStr) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&b'/')
}
