//! A WEU's header: a head of one sector at its start, the entry table behind the last packed extent, and behind it
//! [records of duplicates](super::duplicate).
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
//! | 40 | 4 | start: how often the cache had been started when the WEU was filled |
//! | 44 | 8 | version: the highest among the entries and the records of duplicates |
//! | 52 | 1 | 1: dirty content; 0: clean content |
//! | 53 | 4 | number of records of duplicates, which are behind the entry table |
//! | 57 | 4 | CRC-32C of the records of duplicates; 0 if there are none |
//! | 61 | 447 | reserved, zero |
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
//! | 36 | 4 | checksum: CRC-32C of the payload, mixed with the place that it was written to; 0 if all zeroes |
//! | 40 | 1 | flags: bit 0, has a fingerprint; bit 1, stored as it is: whole blocks without a prefix; bits 2 to 6, the class |
//! | 41 | 7 | version: of several entries for one key, the highest counts |

use super::flags::Flags;
use super::{FORMAT_VERSION, FormatError, crc32c, other_version};
use nitro_cache::weu::layout::{BLOCK_BYTES, ENTRIES_MAX, ENTRY_BYTES, HEAD_BYTES, RECORDS_MAX, UNIT_BYTES};
use nitro_log::{Reader, Writer};
use nitro_units::{ClassId, ExtentKey, Fingerprint, Generation, WeuId};

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
    /// [`Place::mix`](super::stored::Place::mix) of the payload's CRC-32C; 0 without payload.
    pub checksum: u32,
    /// Stored as it is, in whole blocks, without a prefix.
    pub raw: bool,
    /// The class of the request that stored it.
    pub class: ClassId,
    /// Of several entries for one key, the highest version counts; 56 bits.
    pub version: u64,
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
    /// How often the cache had been started when the WEU was filled.
    pub start: u32,
    /// The highest version among the entries and the records of duplicates.
    pub version: u64,
    /// The WEU was filled with dirty content.
    pub dirty: bool,
    /// Records of duplicates behind the table.
    pub duplicates: u32,
    /// CRC-32C of them.
    pub duplicates_crc: u32,
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
            .u64(self.epoch)
            .u32(self.start)
            .u64(self.version)
            .u8(self.dirty.into())
            .u32(self.duplicates)
            .u32(self.duplicates_crc);
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
            return Err(other_version(version));
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
            start: reader.u32()?,
            version: reader.u64()?,
            dirty: match reader.u8()? {
                0 => false,
                1 => true,
                other => return Err(reader.refuse("kind of content", other.into())),
            },
            duplicates: reader.u32()?,
            duplicates_crc: reader.u32()?,
        };
        if head.entries > ENTRIES_MAX {
            return Err(reader.refuse("number of entries", head.entries.into()));
        }
        if head.duplicates > RECORDS_MAX {
            return Err(reader.refuse("number of records of duplicates", head.duplicates.into()));
        }
        let end = u64::from(head.table_offset) + (head.table_bytes() + head.duplicates_bytes()) as u64;
        if head.table_offset < HEAD_BYTES || end > u64::from(weu_bytes) {
            return Err(reader.refuse("table offset", head.table_offset.into()));
        }
        Ok(head)
    }

    /// Reads the entry table that this head of a WEU of `weu_bytes` describes.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong; then the WEU must not be used.
    pub fn decode_table(&self, table: &[u8], weu_bytes: u32) -> Result<Vec<Entry>, FormatError> {
        let need = self.table_bytes();
        let table = table.get(..need).ok_or(FormatError::Short { structure: TABLE, have: table.len(), need })?;
        if crc32c(table) != self.table_crc {
            return Err(FormatError::Checksum { structure: TABLE });
        }
        table.chunks_exact(ENTRY_BYTES as usize).map(|bytes| self.decode_entry(bytes, weu_bytes)).collect()
    }

    fn decode_entry(&self, bytes: &[u8], weu_bytes: u32) -> Result<Entry, FormatError> {
        let mut reader = Reader::new(TABLE, bytes);
        let key = ExtentKey::from_raw(reader.u64()?);
        let fingerprint = Fingerprint(reader.array()?);
        let (offset, stored_bytes, checksum) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let Flags { has_fingerprint, raw, class } = Flags::read(&mut reader)?;
        let table_end = self.table_offset as usize + self.table_bytes() + self.duplicates_bytes();
        let (first, end) = if raw { (table_end as u32, weu_bytes) } else { (HEAD_BYTES, self.table_offset) };
        if offset < first || u64::from(offset) + u64::from(stored_bytes) > end.into() {
            return Err(reader.refuse("offset", offset.into()));
        }
        if raw && (stored_bytes == 0 || !(offset | stored_bytes).is_multiple_of(BLOCK_BYTES)) {
            return Err(reader.refuse("stored length", stored_bytes.into()));
        }
        if !offset.is_multiple_of(UNIT_BYTES) {
            return Err(reader.refuse("offset", offset.into()));
        }
        let fingerprint = has_fingerprint.then_some(fingerprint);
        let [a, b, c, d, e, f, g] = reader.array()?;
        let version = u64::from_le_bytes([a, b, c, d, e, f, g, 0]);
        Ok(Entry { key, fingerprint, offset, stored_bytes, checksum, raw, class, version })
    }
}

/// Writes the entry table into `bytes`, which must be [`ENTRY_BYTES`] long for each entry. Returns its checksum.
pub fn encode_table(entries: &[Entry], bytes: &mut [u8]) -> u32 {
    for (entry, bytes) in entries.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES as usize)) {
        let Entry { fingerprint, raw, class, .. } = *entry;
        Writer::new(bytes)
            .u64(entry.key.raw())
            .put(&fingerprint.map_or([0; 20], |f| f.0))
            .u32(entry.offset)
            .u32(entry.stored_bytes)
            .u32(entry.checksum)
            .u8(Flags { has_fingerprint: fingerprint.is_some(), raw, class }.to_byte())
            .put(&entry.version.to_le_bytes()[..7]);
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
            offset: if n < 15 { 512 + n * 4096 } else { WEU_BYTES - (n - 14) * 8192 },
            stored_bytes: if n < 15 { n * 100 } else { 8192 },
            checksum: n * 77,
            raw: n >= 15,
            class: ClassId::new(n as u8 * 3 % 32).unwrap(),
            version: u64::from(n) << 50,
        };
        let entries: Vec<_> = (0..20).map(entry).collect();
        let mut weu = vec![0; WEU_BYTES as usize];
        let table_offset = 100_000;
        let at = table_offset as usize;
        let table_crc = encode_table(&entries, &mut weu[at..at + 20 * 48]);
        let head = Head {
            weu: WeuId(7),
            generation: Generation(3),
            entries: 20,
            table_offset,
            table_crc,
            epoch: 0xAB,
            start: 4,
            version: 19 << 50,
            dirty: true,
            duplicates: 3,
            duplicates_crc: 0xCD,
        };
        head.encode(&mut weu);
        (head, entries, weu)
    }

    fn decode(weu: &[u8]) -> Result<(Head, Vec<Entry>), FormatError> {
        let head = Head::decode(weu, WEU_BYTES)?;
        let entries = head.decode_table(&weu[head.table_offset as usize..], WEU_BYTES)?;
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
        assert_eq!(Head::decode(&weu, WEU_BYTES), Err(other_version(9)));
    }

    #[test]
    fn entries_outside_their_part_of_the_weu_are_refused() {
        let (head, entries, _) = example();
        let (packed, raw) = (entries[1], entries[19]);
        let table_end = head.duplicates_offset() + head.duplicates_bytes() as u32;
        for wrong in [
            Entry { offset: 496, ..packed },
            Entry { offset: head.table_offset - 50, ..packed },
            Entry { raw: true, ..packed },
            Entry { raw: false, ..raw },
            Entry { offset: raw.offset + 512, ..raw },
            Entry { offset: table_end / 4096 * 4096, ..raw },
            Entry { offset: WEU_BYTES - 4096, ..raw },
            Entry { offset: u32::MAX - 4095, ..raw },
            Entry { stored_bytes: 0, ..raw },
        ] {
            let mut table = entries.clone();
            table[3] = wrong;
            let mut bytes = vec![0; head.table_bytes()];
            let head = Head { table_crc: encode_table(&table, &mut bytes), ..head };
            assert!(head.decode_table(&bytes, WEU_BYTES).is_err(), "{wrong:?}");
        }
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
                let _ = head.decode_table(&bytes, WEU_BYTES);
            }
        }
    }
}
