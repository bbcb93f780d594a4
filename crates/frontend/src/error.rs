//! Why a request failed, as a client may be told.

use std::fmt;

/// Why a request failed. Each front end has its own numbers for these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskError {
    /// The medium or the path to it failed.
    Io,
    /// The range is not within the disk.
    OutOfRange,
    /// The disk takes no writes.
    ReadOnly,
    /// There is no room for what was to be written.
    NoSpace,
    /// The disk cannot do it, or not as fast as was asked for.
    Unsupported,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "I/O error",
            Self::OutOfRange => "the range is not within the disk",
            Self::ReadOnly => "the disk is read-only",
            Self::NoSpace => "no space left",
            Self::Unsupported => "operation not supported",
        })
    }
}

impl std::error::Error for DiskError {}
