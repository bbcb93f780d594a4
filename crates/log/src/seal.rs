//! Blocks that end with their own checksum ("sealed").

use crc_fast::CrcAlgorithm;

/// The size of the checksum at the end of a sealed block, in bytes.
pub const CHECKSUM_BYTES: usize = 4;

/// CRC-32C (Castagnoli) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Writes the checksum of a block's other bytes into its last [`CHECKSUM_BYTES`].
///
/// # Panics
/// If the block is shorter than that.
pub fn seal(block: &mut [u8]) {
    let at = block.len() - CHECKSUM_BYTES;
    let crc = crc32c(&block[..at]);
    block[at..].copy_from_slice(&crc.to_le_bytes());
}

/// Whether a block ends with the checksum of its other bytes.
#[must_use]
pub fn is_sealed(block: &[u8]) -> bool {
    block.split_last_chunk::<CHECKSUM_BYTES>().is_some_and(|(rest, crc)| crc32c(rest).to_le_bytes() == *crc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_anywhere_breaks_the_seal() {
        let mut block: Vec<u8> = (0..=255).collect();
        seal(&mut block);
        assert!(is_sealed(&block));
        for at in 0..block.len() {
            block[at] ^= 0x10;
            assert!(!is_sealed(&block), "byte {at}");
            block[at] ^= 0x10;
        }
        assert!(!is_sealed(&block[..3]) && !is_sealed(&[]));
        // The check value of CRC-32C (RFC 3720, B.4): 32 bytes of zeroes.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    }
}
