//! The errors of requests that clients get.

use std::fmt;

/// Why a request failed. Each front end maps these to the error numbers of its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskError {
    /// The medium or the path to it failed.
    Io,
    /// The range is not within the disk.
    OutOfRange,
    /// The disk is read-only.
    ReadOnly,
    /// There is no room for the written data.
    NoSpace,
    /// The disk does not support the request, or not in the requested time.
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
