//! Checksums of headers and data (RFC 7143 §13.1).

use crc_fast::CrcAlgorithm;

/// Bytes of a checksum.
pub const DIGEST_BYTES: usize = 4;

/// The checksum of headers or of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Digest {
    /// No checksum.
    #[default]
    None,
    /// CRC32C.
    Crc32c,
}

impl Digest {
    /// The checksum's length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Crc32c => DIGEST_BYTES,
        }
    }
}

/// CRC32C of the concatenated pieces, in the byte order of the wire.
#[must_use]
pub fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; DIGEST_BYTES] {
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.into_iter().for_each(|piece| digest.update(piece));
    (digest.finalize() as u32).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7143 appendix A.4 (RFC 3720 B.4).
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c([&[0; 32][..]]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c([&[0xff; 16][..], &[0xff; 16]]), [0x43, 0xab, 0xa8, 0x62]);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c([&rising[..]]), [0x4e, 0x79, 0xdd, 0x46]);
    }
}
