//! Records of duplicates, behind the entry table of a WEU of clean content: keys whose content another entry has, in this WEU
//! or in another one.
//!
//! Record of a duplicate (32 bytes):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | key: extent number (48 bits), object (16 bits) |
//! | 8 | 7 | version: of several entries and records for one key, the highest counts |
//! | 15 | 1 | reserved, zero |
//! | 16 | 4 | WEU number of the content |
//! | 20 | 4 | generation of that WEU |
//! | 24 | 4 | start: how often the cache had been started when that WEU was filled |
//! | 28 | 2 | entry within that WEU |
//! | 30 | 2 | reserved, zero |

use super::weu::Head;
use super::{FormatError, crc32c};
use nitro_cache::DupRecord;
use nitro_cache::weu::layout::{ENTRIES_MAX, RECORD_BYTES};
use nitro_log::{Reader, Writer};
use nitro_units::{ExtentKey, Generation, WeuId};

const NAME: &str = "records of duplicates";

/// A key whose content another entry has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duplicate {
    /// Key, version, and the entry with the content.
    pub record: DupRecord,
    /// How often the cache had been started when the WEU with the content was filled: it tells apart fillings with one
    /// generation, of which the first was never written.
    pub start: u32,
}

impl Duplicate {
    /// Writes the record into `bytes`, which must be [`RECORD_BYTES`] long.
    pub fn encode(&self, bytes: &mut [u8]) {
        let DupRecord { key, version, weu, generation, entry } = self.record;
        Writer::new(bytes)
            .u64(key.raw())
            .put(&version.to_le_bytes()[..7])
            .u8(0)
            .u32(weu.0)
            .u32(generation.0)
            .u32(self.start)
            .put(&entry.to_le_bytes())
            .put(&[0; 2]);
    }

    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new(NAME, bytes);
        let key = ExtentKey::from_raw(reader.u64()?);
        let [a, b, c, d, e, f, g] = reader.array()?;
        let version = u64::from_le_bytes([a, b, c, d, e, f, g, 0]);
        match reader.u8()? {
            0 => {}
            other => return Err(reader.refuse("reserved byte", other.into())),
        }
        let (weu, generation, start) = (WeuId(reader.u32()?), Generation(reader.u32()?), reader.u32()?);
        let (entry, reserved) = (u16::from_le_bytes(reader.array()?), u16::from_le_bytes(reader.array()?));
        if u32::from(entry) >= ENTRIES_MAX {
            return Err(reader.refuse("entry", entry.into()));
        }
        if reserved != 0 {
            return Err(reader.refuse("reserved bytes", reserved.into()));
        }
        Ok(Self { record: DupRecord { key, version, weu, generation, entry }, start })
    }
}

impl Head {
    /// Bytes of the records of duplicates.
    #[must_use]
    pub const fn duplicates_bytes(&self) -> usize {
        self.duplicates as usize * RECORD_BYTES as usize
    }

    /// Where they begin within the WEU.
    #[must_use]
    pub const fn duplicates_offset(&self) -> u32 {
        self.table_offset + self.table_bytes() as u32
    }

    /// Reads the records of duplicates that this head describes.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong; then none of them must be used.
    pub fn decode_duplicates(&self, bytes: &[u8]) -> Result<Vec<Duplicate>, FormatError> {
        let need = self.duplicates_bytes();
        let bytes = bytes.get(..need).ok_or(FormatError::Short { structure: NAME, have: bytes.len(), need })?;
        if crc32c(bytes) != self.duplicates_crc {
            return Err(FormatError::Checksum { structure: NAME });
        }
        bytes.chunks_exact(RECORD_BYTES as usize).map(Duplicate::decode).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Head, Vec<Duplicate>, Vec<u8>) {
        let duplicate = |n: u32| {
            let (key, version) = (ExtentKey::from_raw(u64::from(n) << 40), u64::from(n) << 48);
            let record = DupRecord { key, version, weu: WeuId(n), generation: Generation(n + 1), entry: n as u16 * 99 };
            Duplicate { record, start: n + 7 }
        };
        let all: Vec<_> = (0..80).map(duplicate).collect();
        let mut bytes = vec![0xEE; 80 * RECORD_BYTES as usize];
        for (duplicate, bytes) in all.iter().zip(bytes.chunks_exact_mut(RECORD_BYTES as usize)) {
            duplicate.encode(bytes);
        }
        let head = Head {
            weu: WeuId(7),
            generation: Generation(3),
            entries: 0,
            table_offset: 512,
            table_crc: 0,
            epoch: 1,
            start: 4,
            version: 80 << 48,
            dirty: false,
            duplicates: 80,
            duplicates_crc: crc32c(&bytes),
        };
        (head, all, bytes)
    }

    #[test]
    fn records_come_back_and_any_flipped_bit_is_noticed() {
        let (head, all, mut bytes) = example();
        assert_eq!(head.decode_duplicates(&bytes), Ok(all));
        assert!(head.decode_duplicates(&bytes[1..]).is_err());
        for byte in 0..bytes.len() {
            bytes[byte] ^= 0x10;
            assert!(head.decode_duplicates(&bytes).is_err(), "byte {byte}");
            // Where the checksum is right, each record is looked at.
            let head = Head { duplicates_crc: crc32c(&bytes), ..head };
            let is_reserved = matches!(byte % RECORD_BYTES as usize, 15 | 30 | 31);
            assert!(!is_reserved || head.decode_duplicates(&bytes).is_err(), "byte {byte}");
            bytes[byte] ^= 0x10;
        }
    }
}
