//! A WEU's header: a head of one sector at its start, and the entry table behind the last stored extent.
//!
//! Head (512 bytes):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROWEU` |
//! | 8 | 4 | format version |
//! | 12 | 4 | WEU number |
//! | 16 | 4 | generation |
//! | 20 | 4 | number of entries |
//! | 24 | 4 | offset of the entry table within the WEU |
//! | 28 | 4 | CRC-32C of the entry table |
//! | 32 | 8 | epoch: the cache's, random for each formatting |
//! | 40 | 468 | reserved, zero |
//! | 508 | 4 | CRC-32C of the 508 bytes before |
//!
//! Entry (48 bytes):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | key: extent number (48 bits), object (16 bits) |
//! | 8 | 20 | fingerprint; zero without one |
//! | 28 | 4 | offset of the stored extent within the WEU |
//! | 32 | 4 | stored length in bytes, prefix included; 0: all zeroes |
//! | 36 | 4 | extent length in bytes |
//! | 40 | 1 | flags: bit 0, has a fingerprint |
//! | 41 | 7 | reserved, zero |

use super::field::{Reader, Writer};
use super::{FORMAT_VERSION, FormatError, crc32c};
use nitro_cache::weu::layout::{ENTRIES_MAX, ENTRY_BYTES, HEAD_BYTES};
use nitro_cache::{ExtentKey, Fingerprint, Generation, WeuId};

const MAGIC: [u8; 8] = *b"NITROWEU";
const HEAD: &str = "WEU head";
const TABLE: &str = "WEU entry table";
const CRC_AT: usize = HEAD_BYTES as usize - 4;

/// One base extent of a WEU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The first key of the content.
    pub key: ExtentKey,
    /// The content's fingerprint, where deduplication is on.
    pub fingerprint: Option<Fingerprint>,
    /// First byte of the stored extent within the WEU.
    pub offset: u32,
    /// Stored bytes, prefix included; 0: an all-zero extent.
    pub stored_bytes: u32,
    /// Bytes of the extent.
    pub extent_bytes: u32,
}

/// The head of a WEU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Which slot.
    pub weu: WeuId,
    /// Which filling of it.
    pub generation: Generation,
    /// Entries in the table.
    pub entries: u32,
    /// Where the table begins.
    pub table_offset: u32,
    /// CRC-32C of the table.
    pub table_crc: u32,
    /// The cache's formatting.
    pub epoch: u64,
}

impl Head {
    /// Bytes of the entry table.
    #[must_use]
    pub const fn table_bytes(&self) -> usize {
        self.entries as usize * ENTRY_BYTES as usize
    }

    /// Writes the head into the first [`HEAD_BYTES`] of `sector`.
    pub fn encode(&self, sector: &mut [u8]) {
        sector[..HEAD_BYTES as usize].fill(0);
        Writer::new(sector)
            .put(&MAGIC)
            .u32(FORMAT_VERSION)
            .u32(self.weu.0)
            .u32(self.generation.0)
            .u32(self.entries)
            .u32(self.table_offset)
            .u32(self.table_crc)
            .u64(self.epoch);
        let crc = crc32c(&sector[..CRC_AT]);
        sector[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a head from the start of a WEU of `weu_bytes`.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong.
    pub fn decode(bytes: &[u8], weu_bytes: u32) -> Result<Self, FormatError> {
        let sector = bytes.get(..HEAD_BYTES as usize);
        let sector =
            sector.ok_or(FormatError::Short { structure: HEAD, have: bytes.len(), need: HEAD_BYTES as usize })?;
        let mut reader = Reader::new(HEAD, sector);
        if reader.array()? != MAGIC {
            return Err(FormatError::Magic { structure: HEAD });
        }
        let version = reader.u32()?;
        if version != FORMAT_VERSION {
            return Err(FormatError::Version { found: version });
        }
        if sector[CRC_AT..] != crc32c(&sector[..CRC_AT]).to_le_bytes() {
            return Err(FormatError::Checksum { structure: HEAD });
        }
        let head = Self {
            weu: WeuId(reader.u32()?),
            generation: Generation(reader.u32()?),
            entries: reader.u32()?,
            table_offset: reader.u32()?,
            table_crc: reader.u32()?,
            epoch: reader.u64()?,
        };
        if head.entries > ENTRIES_MAX {
            return Err(reader.refuse("number of entries", head.entries.into()));
        }
        let end = u64::from(head.table_offset) + head.table_bytes() as u64;
        if head.table_offset < HEAD_BYTES || end > u64::from(weu_bytes) {
            return Err(reader.refuse("table offset", head.table_offset.into()));
        }
        Ok(head)
    }

    /// Reads the entry table that this head describes.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong; then nothing of the WEU may be used.
    pub fn decode_table(&self, table: &[u8]) -> Result<Vec<Entry>, FormatError> {
        let need = self.table_bytes();
        let table = table.get(..need).ok_or(FormatError::Short { structure: TABLE, have: table.len(), need })?;
        if crc32c(table) != self.table_crc {
            return Err(FormatError::Checksum { structure: TABLE });
        }
        table.chunks_exact(ENTRY_BYTES as usize).map(|bytes| self.decode_entry(bytes)).collect()
    }

    fn decode_entry(&self, bytes: &[u8]) -> Result<Entry, FormatError> {
        let mut reader = Reader::new(TABLE, bytes);
        let key = ExtentKey::from_raw(reader.u64()?);
        let fingerprint = Fingerprint(reader.array()?);
        let (offset, stored_bytes, extent_bytes) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let flags = reader.u8()?;
        if flags > 1 {
            return Err(reader.refuse("flags", flags.into()));
        }
        if offset < HEAD_BYTES || u64::from(offset) + u64::from(stored_bytes) > self.table_offset.into() {
            return Err(reader.refuse("offset", offset.into()));
        }
        Ok(Entry { key, fingerprint: (flags == 1).then_some(fingerprint), offset, stored_bytes, extent_bytes })
    }
}

/// Writes the entry table into `bytes`, which must be [`ENTRY_BYTES`] long for each entry. Returns its checksum.
pub fn encode_table(entries: &[Entry], bytes: &mut [u8]) -> u32 {
    for (entry, bytes) in entries.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES as usize)) {
        Writer::new(bytes)
            .u64(entry.key.raw())
            .put(&entry.fingerprint.map_or([0; 20], |f| f.0))
            .u32(entry.offset)
            .u32(entry.stored_bytes)
            .u32(entry.extent_bytes)
            .u8(u8::from(entry.fingerprint.is_some()))
            .put(&[0; 7]);
    }
    crc32c(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WEU_BYTES: u32 = 512 << 10;

    fn example() -> (Head, Vec<Entry>, Vec<u8>) {
        let entry = |n: u32| Entry {
            key: ExtentKey::from_raw(u64::from(n) << 40),
            fingerprint: n.is_multiple_of(2).then_some(Fingerprint([n as u8; 20])),
            offset: 512 + n * 4096,
            stored_bytes: n * 100,
            extent_bytes: 8192,
        };
        let entries: Vec<_> = (0..20).map(entry).collect();
        let mut weu = vec![0; WEU_BYTES as usize];
        let table_offset = 100_000;
        let at = table_offset as usize;
        let table_crc = encode_table(&entries, &mut weu[at..at + 20 * 48]);
        let head = Head { weu: WeuId(7), generation: Generation(3), entries: 20, table_offset, table_crc, epoch: 0xAB };
        head.encode(&mut weu);
        (head, entries, weu)
    }

    fn decode(weu: &[u8]) -> Result<(Head, Vec<Entry>), FormatError> {
        let head = Head::decode(weu, WEU_BYTES)?;
        let entries = head.decode_table(&weu[head.table_offset as usize..])?;
        Ok((head, entries))
    }

    #[test]
    fn a_header_comes_back_and_any_flipped_bit_is_noticed() {
        let (head, entries, mut weu) = example();
        assert_eq!(decode(&weu), Ok((head, entries)));
        let table = head.table_offset as usize;
        for byte in (0..512).chain(table..table + head.table_bytes()) {
            weu[byte] ^= 0x10;
            assert!(decode(&weu).is_err(), "byte {byte}");
            weu[byte] ^= 0x10;
        }
        weu[8] = 9;
        assert_eq!(Head::decode(&weu, WEU_BYTES), Err(FormatError::Version { found: 9 }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..2000), fix in any::<bool>()) {
            if fix && bytes.len() >= 512 {
                bytes[..8].copy_from_slice(&MAGIC);
                bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
                let crc = crc32c(&bytes[..CRC_AT]);
                bytes[CRC_AT..512].copy_from_slice(&crc.to_le_bytes());
            }
            if let Ok(head) = Head::decode(&bytes, WEU_BYTES) {
                let _ = head.decode_table(&bytes);
            }
        }
    }
}
