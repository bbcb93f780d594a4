//! The engine's error.

use crate::format::FormatError;
use crate::port::{DeviceError, ErrorKind as DeviceErrorKind};
use nitro_cache::SettingError;

/// What went wrong, for callers that answer by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request reaches past the volume's end.
    OutOfRange,
    /// The volume may not be written to.
    ReadOnly,
    /// No space is left on the origin.
    NoSpace,
    /// The origin cannot do this.
    Unsupported,
    /// A device failed.
    Io,
    /// A setting cannot be used.
    Setting,
    /// The cache device holds something that this program does not understand.
    Format,
}

/// A failed request to the engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The request reaches past the volume's end.
    #[error("{len} bytes at {offset} reach past the volume's end at {size_bytes}")]
    OutOfRange {
        /// First byte of the request.
        offset: u64,
        /// Its length.
        len: u64,
        /// The volume's size.
        size_bytes: u64,
    },
    /// The volume was opened read-only.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The origin failed.
    #[error("origin: {0}")]
    Origin(#[source] DeviceError),
    /// The cache device failed, in an operation that cannot do without it.
    #[error("cache device: {0}")]
    Flash(#[source] DeviceError),
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(#[from] SettingError),
    /// The cache device holds something that this program does not understand.
    #[error("cache device: {0}")]
    Format(#[from] FormatError),
}

impl Error {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OutOfRange { .. } => ErrorKind::OutOfRange,
            Self::ReadOnly => ErrorKind::ReadOnly,
            Self::Setting(_) => ErrorKind::Setting,
            Self::Format(_) => ErrorKind::Format,
            Self::Origin(e) | Self::Flash(e) => match e.kind {
                DeviceErrorKind::NoSpace => ErrorKind::NoSpace,
                DeviceErrorKind::Unsupported => ErrorKind::Unsupported,
                DeviceErrorKind::ReadOnly => ErrorKind::ReadOnly,
                _ => ErrorKind::Io,
            },
        }
    }
}
