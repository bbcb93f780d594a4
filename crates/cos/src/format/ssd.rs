//! The format of a store's SSD: two superblocks in its first two blocks, and write-evict units, the first one at the
//! size of a unit. The SSD is a cache: data that fail a check are not used, and nothing is lost.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROSSD` |
//! | 8 | 4 | format version: 1, or 2 if chunks may be in LZ4; 2 more if it has short fingerprints |
//! | 12 | 4 | bytes of a unit |
//! | 16 | 8 | identity of the store that it belongs to |
//! | 24 | 8 | session: a checksum of the checkpoint with which the store was closed; 0: in use, or not closed |
//! | 32 | 8 | filling: a different number each time the SSD is emptied; part of all checksums and keys |
//! | 40 | 4 | units |
//! | 44 | 4 | bytes of a chunk that is stored as it is |
//! | 48 | 4 | pages of short fingerprints; 0: none |
//! | 52 | 4036 | reserved, zero |
//! | 4088 | 8 | checksum of the 4088 bytes before |
//!
//! Each unit begins with a head. Packed pieces follow it, then the table of all pieces; chunks of the store's size are
//! at the end of the unit, the first one last, in whole blocks.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROSWU` |
//! | 8 | 4 | number of the unit |
//! | 12 | 4 | generation: how many times the unit was filled |
//! | 16 | 4 | pieces |
//! | 20 | 4 | where the table begins |
//! | 24 | 8 | version of its last piece |
//! | 32 | 8 | checksum of the table |
//! | 40 | 8 | checksum of the 40 bytes before |
//!
//! The table has an entry for each piece, in the order in which they were stored:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | key: a hash of the piece's identity |
//! | 8 | 4 | where it begins in the unit |
//! | 12 | 4 | bytes that are stored, a prefix included |
//! | 16 | 4 | check, of a piece that is stored as it is |
//! | 20 | 1 | class: 1 recipes (`fmd`), 2 pages of the index or of short fingerprints (`fpi`), 3 chunks (`data`) |
//! | 21 | 1 | 1: stored as it is; 0: packed |
//! | 22 | 2 | reserved, zero |
//!
//! A packed piece has a prefix:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | bytes of the piece |
//! | 4 | 4 | check |
//!
//! A page of short fingerprints consists of at most 680 entries, the newest first:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 3 | container: its slot and, in the bits that slots do not need, the low bits of its sequence number |
//! | 3 | 3 | bytes 16 to 18 of the fingerprint |
//!
//! The number of its page is a number from bytes 12 to 15 of the fingerprint, times the number of pages, divided by
//! 2^32.
//!
//! In versions 2 and 4, the bytes of a packed chunk begin with its length before compression (4 bytes), if it is in LZ4, or
//! with zero.
//!
//! A check is the lower half of an XXH3-64 of the piece, as it is stored, seeded with another hash of the piece's
//! identity and with the generation.

use super::{BLOCK_BYTES, checksum, u32_at, u64_at};
use crate::Error;
use nitro_port::buf::BufMut;

const MAGIC: [u8; 8] = *b"NITROSSD";
const UNIT_MAGIC: [u8; 8] = *b"NITROSWU";
/// The format's versions: without and with chunks in LZ4, and both with short fingerprints. Earlier programs must not
/// use SSDs of versions that they do not know.
const VERSIONS: [u32; 4] = [1, 2, 3, 4];
const SUM_AT: usize = BLOCK_BYTES - 8;
/// The offsets of the copies of the superblock.
pub(crate) const COPIES_AT: [u64; 2] = [0, BLOCK_BYTES as u64];
/// Bytes of a unit's header.
pub(crate) const HEAD_BYTES: usize = 48;
/// Bytes of an entry of a unit's table.
pub(crate) const ENTRY_BYTES: usize = 24;
/// Bytes of the prefix of a packed piece.
pub(crate) const PREFIX_BYTES: usize = 8;

/// The identity of the SSD, and its last session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SsdSuperblock {
    pub(crate) unit_bytes: u32,
    pub(crate) identity: u64,
    pub(crate) session: u64,
    pub(crate) filling: u64,
    pub(crate) units: u32,
    pub(crate) extent_bytes: u32,
    pub(crate) lz4: bool,
    /// The number of pages of short fingerprints; 0: none.
    pub(crate) short_pages: u32,
}

impl SsdSuperblock {
    pub(crate) fn encode(&self) -> BufMut {
        let mut page = BufMut::zeroed(BLOCK_BYTES);
        page[..8].copy_from_slice(&MAGIC);
        let version = VERSIONS[usize::from(self.lz4) + 2 * usize::from(self.short_pages > 0)];
        page[8..12].copy_from_slice(&version.to_le_bytes());
        page[12..16].copy_from_slice(&self.unit_bytes.to_le_bytes());
        page[16..24].copy_from_slice(&self.identity.to_le_bytes());
        page[24..32].copy_from_slice(&self.session.to_le_bytes());
        page[32..40].copy_from_slice(&self.filling.to_le_bytes());
        page[40..44].copy_from_slice(&self.units.to_le_bytes());
        page[44..48].copy_from_slice(&self.extent_bytes.to_le_bytes());
        page[48..52].copy_from_slice(&self.short_pages.to_le_bytes());
        reseal_superblock(&mut page);
        page
    }

    /// Decodes a block.
    pub(crate) fn decode(page: &[u8]) -> Result<Self, Error> {
        if page.len() != BLOCK_BYTES || page[..8] != MAGIC {
            return Err(Error::NotAStore("the SSD does not begin with the magic number of a store's SSD".to_owned()));
        }
        if u64_at(page, SUM_AT) != checksum(&page[..SUM_AT], 0, 0) {
            return Err(Error::Damaged { what: "the SSD's superblock fails its checksum".to_owned() });
        }
        let version = u32_at(page, 8);
        if !VERSIONS.contains(&version) {
            return Err(Error::Damaged { what: format!("the SSD's format is version {version}") });
        }
        let short_pages = u32_at(page, 48);
        if (short_pages > 0) != (version >= VERSIONS[2]) {
            let what = format!("the SSD's superblock, of version {version}, has {short_pages} pages of fingerprints");
            return Err(Error::Damaged { what });
        }
        Ok(Self {
            unit_bytes: u32_at(page, 12),
            identity: u64_at(page, 16),
            session: u64_at(page, 24),
            filling: u64_at(page, 32),
            units: u32_at(page, 40),
            extent_bytes: u32_at(page, 44),
            lz4: version.is_multiple_of(2),
            short_pages,
        })
    }
}

/// Whether a device that begins with these bytes is the SSD of a store. The magic is not enough: that of a cache is the
/// same.
#[must_use]
pub fn is_ssd(start: &[u8]) -> bool {
    let copy = |at: u64| start.get(at as usize..)?.get(..BLOCK_BYTES);
    COPIES_AT.into_iter().filter_map(copy).any(|page| SsdSuperblock::decode(page).is_ok())
}

/// Writes the magic and the checksum into a superblock, and a version if it has none that is known.
pub(crate) fn reseal_superblock(page: &mut [u8]) {
    page[..8].copy_from_slice(&MAGIC);
    if !VERSIONS.contains(&u32_at(page, 8)) {
        page[8..12].copy_from_slice(&VERSIONS[0].to_le_bytes());
    }
    let sum = checksum(&page[..SUM_AT], 0, 0);
    page[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// A piece as in a unit's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) offset: u32,
    pub(crate) stored_bytes: u32,
    pub(crate) check: u32,
    pub(crate) class: u8,
    pub(crate) raw: bool,
}

/// The header and the table of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitTable {
    pub(crate) unit: u32,
    pub(crate) generation: u32,
    pub(crate) version: u64,
    pub(crate) entries: Vec<Entry>,
}

impl UnitTable {
    /// Writes the header and the table, which begins at `table`, into a unit.
    pub(crate) fn encode(&self, out: &mut [u8], table: usize, filling: u64) {
        let end = table + self.entries.len() * ENTRY_BYTES;
        for (entry, field) in self.entries.iter().zip(out[table..end].chunks_exact_mut(ENTRY_BYTES)) {
            field[..8].copy_from_slice(&entry.key.to_le_bytes());
            field[8..12].copy_from_slice(&entry.offset.to_le_bytes());
            field[12..16].copy_from_slice(&entry.stored_bytes.to_le_bytes());
            field[16..20].copy_from_slice(&entry.check.to_le_bytes());
            field[20..].copy_from_slice(&[entry.class, entry.raw.into(), 0, 0]);
        }
        let sum = checksum(&out[table..end], filling, self.unit.into());
        out[..8].copy_from_slice(&UNIT_MAGIC);
        out[8..12].copy_from_slice(&self.unit.to_le_bytes());
        out[12..16].copy_from_slice(&self.generation.to_le_bytes());
        out[16..20].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out[20..24].copy_from_slice(&(table as u32).to_le_bytes());
        out[24..32].copy_from_slice(&self.version.to_le_bytes());
        out[32..40].copy_from_slice(&sum.to_le_bytes());
        let sum = checksum(&out[..40], filling, self.unit.into());
        out[40..48].copy_from_slice(&sum.to_le_bytes());
    }

    /// The offset and length of the table from a header; `None` if the header is not of this unit and filling.
    pub(crate) fn place(head: &[u8], (unit, unit_bytes): (u32, u32), filling: u64) -> Option<(usize, usize)> {
        if head.len() < HEAD_BYTES || head[..8] != UNIT_MAGIC || u32_at(head, 8) != unit {
            return None;
        }
        if u64_at(head, 40) != checksum(&head[..40], filling, unit.into()) {
            return None;
        }
        let (count, table) = (u32_at(head, 16) as usize, u32_at(head, 20) as usize);
        let len = count.checked_mul(ENTRY_BYTES)?;
        let fits = table >= HEAD_BYTES && table.checked_add(len)? <= unit_bytes as usize;
        fits.then_some((table, len))
    }

    /// The generation and the version in a header for which [`place`](Self::place) returned a table.
    pub(crate) fn of_head(head: &[u8]) -> (u32, u64) {
        (u32_at(head, 12), u64_at(head, 24))
    }

    /// Decodes a table; [`place`](Self::place) must have returned its position from `head`.
    pub(crate) fn decode(head: &[u8], table: &[u8], filling: u64) -> Option<Self> {
        let unit = u32_at(head, 8);
        if u64_at(head, 32) != checksum(table, filling, unit.into()) {
            return None;
        }
        let entries = table.chunks_exact(ENTRY_BYTES).map(|field| Entry {
            key: u64_at(field, 0),
            offset: u32_at(field, 8),
            stored_bytes: u32_at(field, 12),
            check: u32_at(field, 16),
            class: field[20],
            raw: field[21] == 1,
        });
        Some(Self { unit, generation: u32_at(head, 12), version: u64_at(head, 24), entries: entries.collect() })
    }
}

/// Writes magic and checksums into a unit, as far as it is long enough for its contents; for tests and fuzzing.
pub(crate) fn reseal_unit(bytes: &mut [u8], unit: u32, filling: u64) {
    if bytes.len() < HEAD_BYTES {
        return;
    }
    bytes[..8].copy_from_slice(&UNIT_MAGIC);
    bytes[8..12].copy_from_slice(&unit.to_le_bytes());
    let (count, table) = (u32_at(bytes, 16) as usize, u32_at(bytes, 20) as usize);
    let end = table.saturating_add(count.saturating_mul(ENTRY_BYTES));
    if let Some(table) = bytes.get(table..end) {
        let sum = checksum(table, filling, unit.into());
        bytes[32..40].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = checksum(&bytes[..40], filling, unit.into());
    bytes[40..48].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SsdSuperblock {
        SsdSuperblock {
            unit_bytes: 1,
            identity: 2,
            session: 3,
            filling: 4,
            units: 5,
            extent_bytes: 6,
            lz4: true,
            short_pages: 7,
        }
    }

    #[test]
    fn superblocks_come_back_and_no_byte_goes_unnoticed() {
        let superblock = sample();
        for (lz4, short_pages) in [(false, 0), (true, 0), (false, 9)] {
            let other = SsdSuperblock { lz4, short_pages, ..superblock };
            assert_eq!(SsdSuperblock::decode(&other.encode()).unwrap(), other);
        }
        let mut page = superblock.encode();
        assert_eq!(SsdSuperblock::decode(&page).unwrap(), superblock);
        for at in (0..BLOCK_BYTES).step_by(7) {
            page[at] ^= 1;
            assert!(SsdSuperblock::decode(&page).is_err());
            page[at] ^= 1;
        }
    }

    #[test]
    fn an_ssd_is_known_by_either_superblock_and_not_by_its_magic_alone() {
        let page = sample().encode();
        assert!(is_ssd(&page) && is_ssd(&[&vec![9; BLOCK_BYTES], &page[..]].concat()));
        let cache = [&MAGIC[..], &vec![1; 2 * BLOCK_BYTES]].concat();
        assert!(!is_ssd(&cache) && !is_ssd(&page[..100]) && !is_ssd(&[]));
    }

    #[test]
    fn units_come_back_and_no_byte_of_head_and_table_goes_unnoticed() {
        let entry = |n: u32| Entry {
            key: u64::from(n) << 40,
            offset: n * 4096,
            stored_bytes: 4096,
            check: n,
            class: 3,
            raw: n.is_multiple_of(2),
        };
        let table = UnitTable { unit: 7, generation: 8, version: 9, entries: (0..20).map(entry).collect() };
        let mut unit = vec![0; 16384];
        table.encode(&mut unit, 1024, 5);
        let decode = |unit: &[u8], number, filling| {
            let (at, len) = UnitTable::place(unit, (number, 16384), filling)?;
            UnitTable::decode(unit, &unit[at..at + len], filling)
        };
        assert_eq!(decode(&unit, 7, 5), Some(table));
        assert_eq!((decode(&unit, 6, 5), decode(&unit, 7, 6)), (None, None));
        for at in (0..HEAD_BYTES).chain(1024..1024 + 20 * ENTRY_BYTES) {
            unit[at] ^= 1;
            assert_eq!(decode(&unit, 7, 5), None, "byte {at}");
            unit[at] ^= 1;
        }
    }
}
