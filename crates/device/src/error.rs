//! Errors of set-up: opening devices, listening, starting reactors. Requests fail with the engine's
//! [`DeviceError`](nitro_port::DeviceError) instead.

use std::fmt;
use std::io;

/// Why something could not be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The operating system refused; see the source.
    Io,
    /// Another process, or another part of this process, uses it.
    InUse,
    /// No space is left.
    NoSpace,
    /// It is neither a regular file nor a block device.
    NotADevice,
    /// A file of this name exists already.
    Exists,
    /// The system refuses a thread.
    NoThread,
    /// The file is, or would be, larger than the process may write (`RLIMIT_FSIZE`), or than its file system allows.
    TooLarge,
}

impl ErrorKind {
    /// One lower-case phrase.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Io => "refused by the operating system",
            Self::InUse => "is in use by another process",
            Self::NoSpace => "no space left",
            Self::NotADevice => "neither a regular file nor a block device",
            Self::Exists => "exists already",
            Self::NoThread => "the system refuses a thread",
            Self::TooLarge => {
                "larger than the limit of file sizes (ulimit -f, LimitFSIZE=), or the file system, allows"
            }
        }
    }
}

/// A failed set-up.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {subject}: {}", kind.as_str())]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The operation: `open`, `create`, `listen on`, `start`.
    pub operation: &'static str,
    /// Its subject: a path, an address or a thread's name.
    pub subject: String,
    /// The operating system's error, if there is one.
    #[source]
    pub source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: &'static str, subject: impl fmt::Display) -> Self {
        Self { kind, operation, subject: subject.to_string(), source: None }
    }

    pub(crate) fn from_io(source: impl Into<io::Error>, operation: &'static str, subject: impl fmt::Display) -> Self {
        let source = source.into();
        let kind = match source.kind() {
            io::ErrorKind::ResourceBusy | io::ErrorKind::AddrInUse => ErrorKind::InUse,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            io::ErrorKind::FileTooLarge => ErrorKind::TooLarge,
            _ => ErrorKind::Io,
        };
        Self { kind, operation, subject: subject.to_string(), source: Some(source) }
    }
}
