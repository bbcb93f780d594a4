//! Files: an existing directory tree, seen through a mount over FUSE. Names and attributes are passed on to the tree by
//! calls on descriptors; data go through a [`Disk`](nitro_frontend::Disk), which has a cache.
//!
//! The disk has one address space for all files ([`address`]): each *span* of a file that is read gets a *slot* of it.
//! A slot is never given to another file, nor to another state of the same file that this mount has not made itself: when a file was
//! changed behind the mount's back, it gets new slots, and what the cache holds of the old ones is not used any more. So
//! nothing depends on when the cache forgets. The [`Table`] remembers the slots of files over restarts,
//! each with the [`Version`] of the file for which it is right.
//!
//! [`Tree`] is the other side of the disk: it reads and writes the files behind addresses.
#![forbid(unsafe_code)]

pub mod address;
mod attributes;
mod file;
mod fs;
mod handles;
mod nodes;
mod permits;
mod session;
mod table;
mod tree;
mod version;

pub use file::CachedFile;
pub use fs::{Host, LocalTask};
pub use session::{Options, Session, check_mountpoint};
pub use table::{Table, TableError};
pub use tree::Tree;
pub use version::{FileKey, Seen, Version, look};
