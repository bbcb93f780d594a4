//! Errors of a store.

use crate::Kind;
use nitro_log::FormatError;
use nitro_port::{DeviceError, ErrorKind};
use nitro_units::Fingerprint;
use std::fmt;

/// A failed operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store's device failed.
    #[error("the store's device failed")]
    Device(#[from] DeviceError),
    /// The fingerprint index failed.
    #[error("the store's fingerprint index failed")]
    Index(#[source] std::sync::Arc<nitro_index::Error>),
    /// The device holds no store.
    #[error("there is no store: {0}")]
    NotAStore(String),
    /// The format of the store is newer than this program.
    #[error("made by a later nitro: format version {0}; this program knows versions up to {known}", known = crate::format::VERSION)]
    Version(u32),
    /// A setting is not valid.
    #[error("{what} cannot be {given}: {why}")]
    Setting {
        /// The name of the setting.
        what: &'static str,
        /// The value that was given.
        given: u64,
        /// The reason, and valid values.
        why: String,
    },
    /// There is no room for new content.
    #[error(
        "the store is full: {used} of {containers} containers hold content; delete what is not needed and run gc, or make it larger (`nitro cos grow`)"
    )]
    Full {
        /// The number of containers in use.
        used: u32,
        /// The number of containers of the store.
        containers: u32,
    },
    /// The file system below the store has no room for another container.
    #[error("the filesystem that holds the store is full; make room there, or delete what is not needed and run gc")]
    NoRoom(#[source] DeviceError),
    /// The quota leaves no room for new content.
    #[error(
        "the store's quota of {quota_bytes} bytes leaves no room, {used_bytes} are in use; delete what is not needed and run gc, or \
         raise the quota"
    )]
    Quota {
        /// Bytes of the containers in use.
        used_bytes: u64,
        /// See [`Store::set_quota`](crate::Store::set_quota).
        quota_bytes: u64,
    },
    /// The journal has no room for another object in use.
    #[error(
        "the store's journal has no room for another object in use ({namespace_bytes} bytes of names and states); use fewer at a time, \
         collect (`nitro cos gc`), or make the store larger (`nitro cos grow`)"
    )]
    Objects {
        /// Bytes that the journal has for objects.
        namespace_bytes: u64,
    },
    /// Bytes on the device differ from those that were written.
    #[error("damaged: {what}")]
    Damaged {
        /// The damaged structure, and its location.
        what: String,
    },
    /// Content that a recipe refers to does not exist.
    #[error("content {} is damaged or missing", Hex(fingerprint))]
    Missing {
        /// The fingerprint of the content.
        fingerprint: Fingerprint,
    },
    /// There is no object with this name.
    #[error("there is no object {0:?}")]
    NoObject(String),
    /// An object with this name exists already.
    #[error("there is an object {0:?} already")]
    Exists(String),
    /// The name is not valid.
    #[error("{name:?} is not a valid name: {why}")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// No volume has the content that an increment is based on.
    #[error("no volume has the content of {0:?}, on which the increment is based; import that first")]
    NoBase(String),
    /// The object is read-only.
    #[error("{0:?} is a snapshot and may not be changed; make a clone of it")]
    ReadOnly(String),
    /// The object does not support the operation.
    #[error("{name:?} is {}; {why}", kind.as_str())]
    WrongKind {
        /// The name of the object.
        name: String,
        /// The kind of the object.
        kind: Kind,
        /// The reason.
        why: &'static str,
    },
    /// A request extends beyond the end of the object.
    #[error("{len} bytes at {offset} are past the end of {name:?}, which has {size}")]
    OutOfRange {
        /// The name of the object.
        name: String,
        /// The offset of the request in bytes.
        offset: u64,
        /// The length of the request in bytes.
        len: u64,
        /// The size of the object in bytes.
        size: u64,
    },
    /// An earlier failure left it unknown what is durable.
    #[error("the store accepts no changes because a write failed: {0}")]
    Poisoned(String),
    /// The other side of a transfer does not do as it should.
    #[error("{0}")]
    Transfer(&'static str),
    /// Another operation is in progress.
    #[error("{0}")]
    Busy(&'static str),
}

impl Error {
    /// Whether there was no room for new content: in the store, within its quota, or on the device below.
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

/// A fingerprint as hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a Fingerprint);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
