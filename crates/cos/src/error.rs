//! Errors of a store.

use crate::Kind;
use nitro_log::FormatError;
use nitro_port::{DeviceError, ErrorKind};
use nitro_units::Fingerprint;
use std::fmt;

/// A failed operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The device beneath failed.
    #[error("the store's device failed")]
    Device(#[from] DeviceError),
    /// The fingerprint index failed.
    #[error("the store's fingerprint index failed")]
    Index(#[source] std::sync::Arc<nitro_index::Error>),
    /// The device holds no store.
    #[error("no store: {0}")]
    NotAStore(String),
    /// The store is of a format that this program does not know.
    #[error("the store's format is version {0}; this program knows version {known}", known = crate::format::VERSION)]
    Version(u32),
    /// A setting that cannot be used.
    #[error("{what} cannot be {given}: {why}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What was given.
        given: u64,
        /// The reason, and what would do.
        why: String,
    },
    /// No room is left for new content.
    #[error(
        "the store is full: {used} of {containers} containers hold content; delete what is not needed and run gc, or make it larger"
    )]
    Full {
        /// Containers in use.
        used: u32,
        /// Containers of the store.
        containers: u32,
    },
    /// The filesystem beneath has no room for another container.
    #[error("the filesystem that holds the store is full; make room there, or delete what is not needed and run gc")]
    NoRoom(#[source] DeviceError),
    /// The quota leaves no room for new content.
    #[error(
        "the store's quota of {quota_bytes} bytes leaves no room, {used_bytes} are in use; delete what is not needed and run gc, or \
         raise the quota"
    )]
    Quota {
        /// Bytes of containers in use.
        used_bytes: u64,
        /// See [`Store::set_quota`](crate::Store::set_quota).
        quota_bytes: u64,
    },
    /// The journal has no room for another object.
    #[error(
        "the store has as many objects as its journal has room for ({namespace_bytes} bytes of names and states); delete some, or make \
         a larger store"
    )]
    Objects {
        /// Bytes that the journal has for objects.
        namespace_bytes: u64,
    },
    /// Bytes on the device differ from the written ones.
    #[error("damaged: {what}")]
    Damaged {
        /// What, and where.
        what: String,
    },
    /// Content that a recipe names does not exist.
    #[error("content {} is damaged or missing", Hex(fingerprint))]
    Missing {
        /// Its fingerprint.
        fingerprint: Fingerprint,
    },
    /// No object has that name.
    #[error("there is no object {0:?}")]
    NoObject(String),
    /// The name is taken.
    #[error("there is an object {0:?} already")]
    Exists(String),
    /// The name is none.
    #[error("{name:?} cannot be a name: {why}")]
    Name {
        /// As given.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// The object may not be changed.
    #[error("{0:?} is a snapshot and may not be changed; make a clone of it")]
    ReadOnly(String),
    /// The object cannot do that.
    #[error("{name:?} is {}; {why}", kind.as_str())]
    WrongKind {
        /// Its name.
        name: String,
        /// What it is.
        kind: Kind,
        /// What it cannot do.
        why: &'static str,
    },
    /// A request past the object's end.
    #[error("{len} bytes at {offset} are past the end of {name:?}, which has {size}")]
    OutOfRange {
        /// Its name.
        name: String,
        /// Where.
        offset: u64,
        /// How many.
        len: u64,
        /// The object's size in bytes.
        size: u64,
    },
    /// An earlier failure left the store unable to promise durability.
    #[error("the store takes no changes since writing failed: {0}")]
    Poisoned(String),
    /// Another operation is in progress.
    #[error("{0}")]
    Busy(&'static str),
}

impl Error {
    /// Whether new content found no room: in the store, within its quota, or on what the store stands on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Quota { .. } | Self::NoRoom(_) => true,
            Self::Device(error) => error.kind == ErrorKind::NoSpace,
            _ => false,
        }
    }
}

impl From<nitro_index::Error> for Error {
    fn from(error: nitro_index::Error) -> Self {
        Self::Index(std::sync::Arc::new(error))
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        Self::Damaged { what: error.to_string() }
    }
}

/// A fingerprint in hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a Fingerprint);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
