//! The kind of a file in the mode of its inode (inode(7)).

/// The bits of the kind.
pub(crate) const KIND: u16 = 0xF000;
/// A directory.
pub(crate) const DIRECTORY: u16 = 0x4000;
/// A regular file.
pub(crate) const REGULAR: u16 = 0x8000;
