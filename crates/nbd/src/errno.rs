//! The error numbers of the transmission phase ("Error values" in proto.md).

use nitro_frontend::DiskError;
use std::fmt;

/// The error number in a reply. The protocol fixes the numbers; they do not depend on the server's operating system.
/// `NBD_EOVERFLOW` is not among them: every read is answered in one chunk, whether `NBD_CMD_FLAG_DF` is set or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NbdErrno {
    /// Operation not permitted: a write to a read-only export.
    Permission = 1,
    /// The medium or the path to it failed.
    Io = 5,
    /// Out of memory.
    NoMemory = 12,
    /// The request is malformed or not offered, or its range ends past the end of the export (writes: `NoSpace`).
    Invalid = 22,
    /// No space is left, or a write of data or zeroes ends past the end of the export.
    NoSpace = 28,
    /// The operation is not supported, or `NBD_CMD_FLAG_FAST_ZERO` was set and zeroing would not be fast.
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

    /// A lower-case phrase: the message of an error chunk that has no more specific one.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "operation not permitted",
            Self::Io => "I/O error",
            Self::NoMemory => "out of memory",
            Self::Invalid => "invalid request",
            Self::NoSpace => "no space left",
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
