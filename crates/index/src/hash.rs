//! Hashes of keys and pages.

use crate::PAGE_BYTES;
use crc_fast::CrcAlgorithm;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The hash of a key: uniform for any distribution of keys, and different in each index (`seed`).
#[inline]
pub(crate) fn hash_of(key: &[u8], seed: u64) -> u128 {
    xxh3_128_with_seed(key, seed)
}

/// Bytes of the checksum at the beginning of a page.
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// The checksum of a page at `offset` on the flash: CRC-64/NVME of the bytes after the checksum, mixed with offset and
/// seed. A page that was written at another offset, or by another index, fails the check.
fn checksum(page: &[u8], offset: u64, seed: u64) -> u64 {
    let mut place = seed ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    place = (place ^ place >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &page[CHECKSUM_BYTES..]) ^ place ^ place >> 32
}

/// Writes the checksum into the first bytes of a page.
pub(crate) fn seal(page: &mut [u8], offset: u64, seed: u64) {
    debug_assert_eq!(page.len(), PAGE_BYTES);
    let sum = checksum(page, offset, seed);
    page[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// Whether a page is as it was written at `offset`.
pub(crate) fn is_sealed(page: &[u8], offset: u64, seed: u64) -> bool {
    page.len() == PAGE_BYTES && page[..CHECKSUM_BYTES] == checksum(page, offset, seed).to_le_bytes()
}
