//! The format on flash: superblock, WEU header, stored extents (docs/FORMAT.md shows the tables). Numbers are
//! little-endian; structures have versions and checksums.

pub mod duplicate;
mod flags;
pub mod journal;
pub mod stored;
pub mod superblock;
pub mod weu;
pub mod write_log;

pub use nitro_log::{FormatError, crc32c};

/// The format's version; another one is refused with its number.
pub const FORMAT_VERSION: u32 = 1;
/// The superblock's version if a write log is, or was, in use: programs that do not know write logs refuse the cache.
pub const FORMAT_VERSION_LOGGED: u32 = 2;
/// The superblock's version if the cache has several devices: programs that do not know this refuse each of them.
pub const FORMAT_VERSION_STRIPED: u32 = 3;
/// The superblock's version with a field of features; it replaces the versions before. Programs that do not know it refuse
/// the cache.
pub const FORMAT_VERSION_FEATURES: u32 = 4;

/// The format has another version than this program knows.
pub(crate) const fn other_version(found: u32) -> FormatError {
    FormatError::Version { found, known: FORMAT_VERSION_FEATURES }
}
