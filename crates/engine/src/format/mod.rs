//! What stands on flash: superblock, WEU header, stored extents (docs/FORMAT.md shows the tables). Little-endian,
//! versioned, checksummed; offsets follow from what precedes them.

mod field;
pub mod journal;
pub mod stored;
pub mod superblock;
pub mod weu;
pub mod write_log;

use crc_fast::CrcAlgorithm;

/// The format's version; another one is refused with its number.
pub const FORMAT_VERSION: u32 = 1;
/// The superblock's version where a write log is, or was, in use: programs that know nothing of logs refuse the cache.
pub const FORMAT_VERSION_LOGGED: u32 = 2;

/// CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Why bytes from flash are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Fewer bytes than the structure has.
    #[error("{structure}: {have} bytes, but it has {need}")]
    Short {
        /// What was read.
        structure: &'static str,
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The magic number is another.
    #[error("{structure}: no magic number; this is something else")]
    Magic {
        /// What was read.
        structure: &'static str,
    },
    /// A format that this program does not know.
    #[error("format version {found}; this program knows versions up to {FORMAT_VERSION_LOGGED}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// The checksum does not match.
    #[error("{structure}: checksum mismatch")]
    Checksum {
        /// What was read.
        structure: &'static str,
    },
    /// A field has a value that it cannot have.
    #[error("{structure}: {field} is {value}")]
    Field {
        /// What was read.
        structure: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}
