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
    let mut running = RunningDigest::new(Digest::Crc32c);
    pieces.into_iter().for_each(|piece| running.add(piece));
    running.end()
}

/// The checksum of bytes that arrive in parts.
pub(crate) struct RunningDigest(Option<crc_fast::Digest>);

impl RunningDigest {
    /// Begins a checksum; without one, all bytes are right.
    pub(crate) fn new(digest: Digest) -> Self {
        Self(match digest {
            Digest::None => None,
            Digest::Crc32c => Some(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
        })
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, part: &[u8]) {
        if let Some(digest) = &mut self.0 {
            digest.update(part);
        }
    }

    /// Length in bytes of the checksum on the wire.
    pub(crate) const fn bytes(&self) -> usize {
        if self.0.is_some() { DIGEST_BYTES } else { 0 }
    }

    /// Whether `received`, the checksum on the wire, is that of the parts.
    pub(crate) fn is_right(&self, received: &[u8]) -> bool {
        self.0.is_none() || received == self.end()
    }

    fn end(&self) -> [u8; DIGEST_BYTES] {
        self.0.as_ref().map_or(0, |digest| digest.finalize() as u32).to_le_bytes()
    }
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
