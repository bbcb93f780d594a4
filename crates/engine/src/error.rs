//! The engine's error.

use crate::format::FormatError;
use nitro_cache::SettingError;
use nitro_port::{DeviceError, ErrorKind as DeviceErrorKind};
use std::sync::Arc;

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
    /// Writes are refused because an earlier one may be lost.
    Poisoned,
    /// The newest content was only in the cache, and is lost.
    Lost,
    /// The write log is not the one that belongs to the cache.
    Log,
    /// The devices are not all those of one cache.
    Devices,
}

/// A UUID as it is written.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    let dash = |at| if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
    uuid.iter().enumerate().map(|(at, byte)| format!("{}{byte:02x}", dash(at))).collect()
}

fn numbers_text(numbers: &[u32]) -> String {
    let each: Vec<_> = numbers.iter().map(|number| format!("device {number}")).collect();
    each.join(", ")
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
    /// The cache has no room for a write until more data are destaged, and the origin refuses them.
    #[error("the cache's room for dirty data of the volume is used up, and destage fails: {0}")]
    Destage(#[source] DeviceError),
    /// A write could only be made around the consistent points of the volume.
    #[error("{why}, and nothing may go around the volume's consistent points")]
    Around {
        /// Why it cannot be buffered.
        why: &'static str,
    },
    /// The cache device failed in an operation that requires it.
    #[error("cache device: {0}")]
    Flash(#[source] DeviceError),
    /// The origin has more extents than a cache can number.
    #[error(
        "an origin of {size_bytes} bytes is too large: with this extent size a cache serves at most {size_bytes_max}"
    )]
    TooLarge {
        /// The origin's size.
        size_bytes: u64,
        /// The maximum size.
        size_bytes_max: u64,
    },
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(#[from] SettingError),
    /// The cache device holds something that this program does not understand.
    #[error("cache device: {0}")]
    Format(#[from] FormatError),
    /// The journal of the cache was damaged by its device: its last records are lost, perhaps with the locations of
    /// dirty extents. The rest of the cache must not be trusted.
    #[error("the cache's journal is damaged: {batches} batches that had been durable cannot be read")]
    Damaged {
        /// Batches that are missing at its end.
        batches: u32,
    },
    /// The devices that were given are not those of one cache.
    #[error("{why}")]
    Devices {
        /// Which of them, by its position among those that were given; `None`: all of them.
        device: Option<usize>,
        /// What is wrong.
        why: String,
    },
    /// Devices of the cache that may hold dirty data are missing.
    #[error(
        "{} of the cache's {devices} devices {} missing ({}), and dirty data of {dirty_extents} extents are there alone",
        numbers.len(), if numbers.len() == 1 { "is" } else { "are" }, numbers_text(numbers)
    )]
    DevicesMissing {
        /// Their numbers.
        numbers: Vec<u32>,
        /// Number of devices of the cache.
        devices: u32,
        /// Dirty extents that they hold.
        dirty_extents: u64,
    },
    /// The log device failed.
    #[error("log device: {0}")]
    Log(#[source] DeviceError),
    /// The log device holds data in an unknown format.
    #[error("log device: {0}")]
    LogFormat(#[source] FormatError),
    /// The cache was used with a write log that is missing.
    #[error(
        "the cache was used with the write log {}, which may hold writes that are nowhere else, and {}",
        uuid_text(uuid), if *another { "this log device is another one" } else { "no log device is given" }
    )]
    LogMissing {
        /// The identity of the log.
        uuid: [u8; 16],
        /// Another device was given instead.
        another: bool,
    },
    /// The log device belongs to another cache.
    #[error("the log device holds the write log of another cache, {}", uuid_text(cache_uuid))]
    LogForeign {
        /// The identity of that cache.
        cache_uuid: [u8; 16],
    },
    /// The write log was damaged by its device: writes that had been acknowledged cannot be read there.
    #[error("the write log is damaged: writes that had been durable cannot be read")]
    LogDamaged,
    /// The log device holds an older copy of the write log.
    #[error(
        "the write log is an older copy of the one that the cache was last used with: it lacks what was written in the last \
         {starts} start{}", if *starts == 1 { "" } else { "s" }
    )]
    LogOutdated {
        /// How often the cache was started since with the newer one.
        starts: u32,
    },
    /// The cache is an older copy than its write log.
    #[error(
        "the cache is an older copy: its write log was used in {starts} later start{} of it", if *starts == 1 { "" } else { "s" }
    )]
    OlderThanLog {
        /// How often the log was used since with the newer copy.
        starts: u32,
    },
    /// An operation that makes data durable failed: acknowledged writes may be lost, so no write is acknowledged until
    /// the volume is opened again.
    #[error("writes are refused: {reason}")]
    Poisoned {
        /// What failed.
        reason: Arc<str>,
    },
    /// The newest content of an extent was only in the cache, and cannot be read there. A write of the whole extent
    /// removes the error.
    #[error(
        "the {len} bytes at {offset} were dirty in the cache and are lost there; they are readable again once overwritten"
    )]
    Lost {
        /// First byte of the extent within the volume.
        offset: u64,
        /// Its length.
        len: u64,
    },
}

impl Error {
    /// Whether the cache's devices are the cause, and not the origin or the request: its SSD or its write log failed, or what only the
    /// cache had is lost there. Of refused writes, [`Poisoned`](Self::Poisoned), the reason tells.
    #[must_use]
    pub fn is_of_cache(&self) -> bool {
        match self {
            Self::Flash(_) | Self::Log(_) | Self::Lost { .. } => true,
            Self::Format(_) | Self::Damaged { .. } | Self::LogFormat(_) | Self::LogDamaged => true,
            Self::Devices { .. } | Self::DevicesMissing { .. } => true,
            Self::LogMissing { .. }
            | Self::LogForeign { .. }
            | Self::LogOutdated { .. }
            | Self::OlderThanLog { .. } => true,
            Self::OutOfRange { .. } | Self::ReadOnly | Self::Origin(_) | Self::Destage(_) => false,
            Self::Around { .. } => false,
            Self::TooLarge { .. } | Self::Setting(_) | Self::Poisoned { .. } => false,
        }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OutOfRange { .. } => ErrorKind::OutOfRange,
            Self::ReadOnly => ErrorKind::ReadOnly,
            Self::Setting(_) | Self::TooLarge { .. } => ErrorKind::Setting,
            Self::Format(_) | Self::Damaged { .. } | Self::LogFormat(_) | Self::LogDamaged => ErrorKind::Format,
            Self::LogMissing { .. }
            | Self::LogForeign { .. }
            | Self::LogOutdated { .. }
            | Self::OlderThanLog { .. } => ErrorKind::Log,
            Self::Devices { .. } | Self::DevicesMissing { .. } => ErrorKind::Devices,
            Self::Poisoned { .. } => ErrorKind::Poisoned,
            Self::Lost { .. } => ErrorKind::Lost,
            Self::Around { .. } => ErrorKind::Io,
            Self::Origin(e) | Self::Destage(e) | Self::Flash(e) | Self::Log(e) => match e.kind {
                DeviceErrorKind::NoSpace => ErrorKind::NoSpace,
                DeviceErrorKind::Unsupported => ErrorKind::Unsupported,
                DeviceErrorKind::ReadOnly => ErrorKind::ReadOnly,
                _ => ErrorKind::Io,
            },
        }
    }
}
