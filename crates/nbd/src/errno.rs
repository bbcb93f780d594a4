//! The error numbers of the transmission phase ("Error values" in proto.md).

use nitro_frontend::DiskError;
use std::fmt;

/// Why a command failed, as the client is told. The numbers are fixed by the protocol, whatever the host uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NbdErrno {
    /// Operation not permitted: a write to a read-only export.
    Permission = 1,
    /// The medium or the path to it failed.
    Io = 5,
    /// Out of memory.
    NoMemory = 12,
    /// The request is malformed, or reads past the end.
    Invalid = 22,
    /// No space is left, or the request writes past the end.
    NoSpace = 28,
    /// A read with `DF` is larger than what the server sends in one chunk.
    Overflow = 75,
    /// The operation is not supported, or zeroing would not be fast.
    NotSupported = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

impl NbdErrno {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// One lower-case phrase, also sent in error chunks.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "operation not permitted",
            Self::Io => "I/O error",
            Self::NoMemory => "out of memory",
            Self::Invalid => "invalid request",
            Self::NoSpace => "no space left",
            Self::Overflow => "value too large",
            Self::NotSupported => "operation not supported",
            Self::Shutdown => "server is shutting down",
        }
    }
}

impl fmt::Display for NbdErrno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for NbdErrno {}

impl From<DiskError> for NbdErrno {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Io => Self::Io,
            DiskError::OutOfRange => Self::Invalid,
            DiskError::ReadOnly => Self::Permission,
            DiskError::NoSpace => Self::NoSpace,
            DiskError::Unsupported => Self::NotSupported,
        }
    }
}
