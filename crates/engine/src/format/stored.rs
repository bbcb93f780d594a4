//! A packed extent: a prefix of 8 bytes, then the payload.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | checksum: CRC-32C of the payload, mixed with the place that it was written to |
//! | 4 | 3 | payload length in bytes |
//! | 7 | 1 | encoding: 1 LZ4, 2 Zstandard |
//!
//! An extent stored as it is has no prefix: the WEU's entry table has its checksum, mixed in the same way.

use super::crc32c;
use nitro_cache::weu::layout::PREFIX_BYTES;
use nitro_port::codec::Encoding;
use nitro_units::{Generation, WeuId};

/// The write position of a stored extent. It is mixed into the checksum, so that the check fails for bytes of another
/// position or another filling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Random for each formatting of the cache.
    pub epoch: u64,
    /// How often the cache had been started: an interrupted start may have left bytes in a filling whose generation is
    /// used again.
    pub start: u32,
    /// The WEU.
    pub weu: WeuId,
    /// Its filling.
    pub generation: Generation,
    /// First byte within the WEU: of the prefix, if there is one.
    pub offset: u32,
}

impl Place {
    /// Mixes the CRC-32C of a payload with the write position, in the form on flash. Mixing twice restores the CRC.
    #[must_use]
    pub fn mix(&self, crc: u32) -> u32 {
        crc ^ self.salt()
    }

    fn salt(&self) -> u32 {
        let mut x = self.epoch.wrapping_add(u64::from(self.start).wrapping_mul(0xD6E8_FEB8_6659_FD93))
            ^ (u64::from(self.weu.0) << 32 | u64::from(self.generation.0)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ u64::from(self.offset) << 17;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) as u32
    }
}

/// The prefix of a packed extent.
#[must_use]
pub fn prefix(place: &Place, encoding: Encoding, payload: &[u8]) -> [u8; PREFIX_BYTES as usize] {
    let [a, b, c, d] = place.mix(crc32c(payload)).to_le_bytes();
    let [e, f, g, _] = (payload.len() as u32).to_le_bytes();
    [a, b, c, d, e, f, g, encoding as u8]
}

/// Finds the payload in `bytes`, which begin with the prefix, and checks it against `place`. `None`: the check fails.
#[must_use]
pub fn payload_range(place: &Place, bytes: &[u8]) -> Option<(Encoding, std::ops::Range<usize>)> {
    let ([a, b, c, d, e, f, g, encoding], rest) = bytes.split_first_chunk::<{ PREFIX_BYTES as usize }>()?;
    let payload = rest.get(..u32::from_le_bytes([*e, *f, *g, 0]) as usize)?;
    let encoding = Encoding::from_number(*encoding).filter(|e| *e != Encoding::Raw)?;
    let stored = u32::from_le_bytes([*a, *b, *c, *d]);
    let start = PREFIX_BYTES as usize;
    (place.mix(crc32c(payload)) == stored).then(|| (encoding, start..start + payload.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bytes_of_that_place_pass() {
        let place = Place { epoch: 5, start: 1, weu: WeuId(3), generation: Generation(9), offset: 4096 };
        let payload = b"some payload, not too short";
        let mut bytes = prefix(&place, Encoding::Lz4, payload).to_vec();
        bytes.extend(payload);
        assert_eq!(payload_range(&place, &bytes), Some((Encoding::Lz4, 8..8 + payload.len())));
        for bit in 0..7 * 8 + payload.len() * 8 {
            let bit = if bit < 56 { bit } else { bit + 8 };
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(payload_range(&place, &flipped), None, "bit {bit}");
        }
        for other in [
            Place { epoch: 6, ..place },
            Place { start: 2, ..place },
            Place { weu: WeuId(4), ..place },
            Place { generation: Generation(10), ..place },
            Place { offset: 4112, ..place },
        ] {
            assert_eq!(payload_range(&other, &bytes), None);
        }
        assert_eq!(payload_range(&place, &bytes[..20]), None);
    }
}
