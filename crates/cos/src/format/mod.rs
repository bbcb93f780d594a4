//! The format on the store's device (docs/FORMAT.md shows the tables). Numbers are little-endian; structures have
//! versions and checksums.

pub(crate) mod batch;
pub(crate) mod container;
pub(crate) mod increment;
pub(crate) mod node;
pub(crate) mod page;
pub(crate) mod record;
pub(crate) mod region;
pub(crate) mod ssd;
pub(crate) mod superblock;
pub(crate) mod transfer;

pub(crate) use nitro_log::{u16_at, u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The newest version of the format; later ones are refused. Version 2 may have a directory, version 3 has grown.
pub const VERSION: u32 = 3;
/// The unit of positions within containers.
pub(crate) const SECTOR_BYTES: usize = 512;
/// Writes begin and end at multiples of this, in bytes.
pub(crate) const BLOCK_BYTES: usize = 4096;
pub(crate) const BLOCK_SECTORS: u16 = (BLOCK_BYTES / SECTOR_BYTES) as u16;

/// The checksum of bytes at offset `at` of the store with this seed; it differs for other offsets and stores.
pub(crate) fn checksum(bytes: &[u8], seed: u64, at: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
