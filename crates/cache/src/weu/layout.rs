//! The layout of extents within a WEU. The engine writes the bytes (docs/FORMAT.md); the manager only computes
//! positions.
//!
//! A WEU fills from both ends. Packed extents follow the head sector, each with a prefix and at a multiple of
//! [`UNIT_BYTES`]; extents stored as they are go to the end, the first one last, in whole [`BLOCK_BYTES`] and without a
//! prefix, so that they are read aligned. The entry table of the header is behind the packed extents, so that nothing
//! moves while the WEU is filled.

/// Offsets and lengths of direct I/O are multiples of this.
pub const SECTOR_BYTES: u32 = 512;
/// Stored extents begin at multiples of this within their WEU.
pub const UNIT_BYTES: u32 = 16;
/// Extents stored as they are occupy whole blocks of this size; a WEU is a multiple of it.
pub const BLOCK_BYTES: u32 = 4096;
/// The head: identity, generation, position of the entry table.
pub const HEAD_BYTES: u32 = SECTOR_BYTES;
/// One entry of the header's table.
pub const ENTRY_BYTES: u32 = 48;
/// One record of a duplicate, behind the table of entries.
pub const RECORD_BYTES: u32 = 32;
/// Maximum number of records in a WEU: their numbers have 16 bits.
pub const RECORDS_MAX: u32 = 1 << 16;
/// The prefix of each packed extent: its checksum, stored length and codec.
pub const PREFIX_BYTES: u32 = 8;
/// Entry numbers have 13 bits.
pub const ENTRIES_MAX: u32 = 1 << 13;

/// Maximum number of extents in a WEU with any compression: eight times the number that fits uncompressed.
#[must_use]
pub const fn entries_max(weu_bytes: u32, extent_bytes: u32) -> u32 {
    let entries = weu_bytes / extent_bytes * 8;
    if entries < ENTRIES_MAX { entries } else { ENTRIES_MAX }
}

/// How an extent is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// All zeroes: no payload.
    Zero,
    /// Compressed to this number of bytes, packed behind the previous extent.
    Packed(u32),
    /// As it is, in its own blocks.
    Raw {
        /// Its length in bytes: the cache's extent size.
        bytes: u32,
        /// CRC-32C of its bytes. Since there is no prefix, the WEU's entries contain it.
        crc: u32,
    },
}

impl Stored {
    /// Payload in bytes.
    #[must_use]
    pub const fn payload_bytes(self) -> u32 {
        match self {
            Self::Zero => 0,
            Self::Packed(bytes) | Self::Raw { bytes, .. } => bytes,
        }
    }
}

/// The position of a stored extent within its WEU, packed into 28 bits of a `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position(u32);

impl Position {
    /// The position of a stored extent of `stored_bytes` (a prefix included) at `offset`, a multiple of [`UNIT_BYTES`]
    /// below 8 MiB. No bytes at all: an all-zero extent.
    #[must_use]
    pub fn new(offset: u32, stored_bytes: u32) -> Self {
        debug_assert!(offset.is_multiple_of(UNIT_BYTES) && offset < 8 << 20);
        let sectors = match stored_bytes {
            0 => 0,
            n => (offset % SECTOR_BYTES + n).div_ceil(SECTOR_BYTES),
        };
        Self((offset / UNIT_BYTES) << 9 | sectors)
    }

    pub(super) const fn to_bits(self) -> u32 {
        self.0
    }

    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// First byte within the WEU.
    #[must_use]
    pub const fn offset(self) -> u32 {
        (self.0 >> 9) * UNIT_BYTES
    }

    /// Sectors to read, from the one that holds [`offset`](Self::offset).
    #[must_use]
    pub const fn sectors(self) -> u16 {
        (self.0 & 0x1FF) as u16
    }
}

/// The fill level of an open WEU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    entries_max: u32,
    /// The offset of the next packed extent.
    next: u32,
    /// The start of the extents stored as they are.
    raw: u32,
    /// The entry table begins at a multiple of this.
    block: u32,
    entries: u32,
}

impl Fill {
    pub(crate) const fn new(weu_bytes: u32, entries_max: u32) -> Self {
        Self { entries_max, next: HEAD_BYTES, raw: weu_bytes, block: 1, entries: 0 }
    }

    /// Continues at the next block boundary, at which the entry table will begin, too: the bytes before it are written
    /// already.
    pub(crate) fn align(&mut self, block_bytes: u32) {
        self.block = block_bytes;
        self.next = self.next.next_multiple_of(block_bytes);
    }

    /// How many further extents of `bytes` fit, if none takes more room than it does uncompressed.
    pub(crate) fn room_for(&self, bytes: u32) -> u32 {
        let table_end = self.next.next_multiple_of(self.block) + self.entries * ENTRY_BYTES;
        let room = self.raw.saturating_sub(table_end) / (bytes.next_multiple_of(BLOCK_BYTES) + ENTRY_BYTES);
        room.min(self.entries_max - self.entries)
    }

    /// Bytes that are left behind the table of entries.
    pub(crate) fn room_bytes(&self) -> u32 {
        self.raw.saturating_sub(self.next.next_multiple_of(self.block) + self.entries * ENTRY_BYTES)
    }

    /// Assigns the position of one more extent, so that `kept_bytes` are left behind the table of entries; `None`: it
    /// does not fit.
    pub(crate) fn take(&mut self, stored: Stored, kept_bytes: u32) -> Option<Position> {
        let (front, back) = match stored {
            Stored::Zero => (0, 0),
            Stored::Packed(payload) => (payload + PREFIX_BYTES, 0),
            Stored::Raw { bytes, .. } => (0, bytes.next_multiple_of(BLOCK_BYTES)),
        };
        let entries = self.entries + 1;
        let next = self.next + front.next_multiple_of(UNIT_BYTES);
        let raw = self.raw.checked_sub(back)?;
        if entries > self.entries_max || next.next_multiple_of(self.block) + entries * ENTRY_BYTES + kept_bytes > raw {
            return None;
        }
        let position = match back {
            0 => Position::new(self.next, front),
            _ => Position::new(raw, back),
        };
        (self.next, self.raw, self.entries) = (next, raw, entries);
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_cover_their_bytes(unit in 0u32..(8 << 20) / UNIT_BYTES, stored in 0u32..=131_080) {
            let position = Position::new(unit * UNIT_BYTES, stored);
            prop_assert_eq!(position.offset(), unit * UNIT_BYTES);
            let start = position.offset() / SECTOR_BYTES * SECTOR_BYTES;
            let end = start + u32::from(position.sectors()) * SECTOR_BYTES;
            prop_assert!(stored == 0 || end >= position.offset() + stored);
            prop_assert!(end < position.offset() + stored + SECTOR_BYTES);
        }
    }

    proptest! {
        #[test]
        fn extents_stored_as_they_are_have_blocks_of_their_own(
            all in prop::collection::vec(prop_oneof![Just(None), (0u32..9000).prop_map(Some)], 1..400),
        ) {
            let mut fill = Fill::new(512 << 10, 8192);
            let mut taken: Vec<(u32, u32)> = vec![(0, HEAD_BYTES)];
            for packed in all {
                let stored = match packed {
                    None => Stored::Raw { bytes: 8192, crc: 0 },
                    Some(0) => Stored::Zero,
                    Some(bytes) => Stored::Packed(bytes),
                };
                let room = fill.room_for(8192);
                let Some(position) = fill.take(stored, 0) else {
                    prop_assert!(room == 0 || stored.payload_bytes() > 8176);
                    continue;
                };
                prop_assert!(stored.payload_bytes() > 8176 || fill.room_for(8192) + 1 >= room);
                let (start, len) = (position.offset(), stored.payload_bytes());
                if packed.is_none() {
                    prop_assert_eq!((start % BLOCK_BYTES, u32::from(position.sectors())), (0, 16));
                }
                let end = start + if packed.is_none() || len == 0 { len } else { len + PREFIX_BYTES };
                prop_assert!(taken.iter().all(|(s, e)| end <= *s || start >= *e || start == end));
                taken.push((start, end));
            }
            let table = (taken.len() as u32 - 1) * ENTRY_BYTES;
            let packed_end = taken.iter().map(|t| t.1).filter(|e| *e <= fill.next).max();
            prop_assert!(packed_end.is_none_or(|end| end + table <= fill.raw));
        }
    }

    #[test]
    fn a_weu_takes_extents_until_header_and_payload_meet() {
        let mut fill = Fill::new(512 << 10, 8192);
        let mut last = 0;
        let count = std::iter::from_fn(|| fill.take(Stored::Packed(8192), 0))
            .inspect(|p| last = p.offset() + 8200)
            .count() as u32;
        assert!(last + count * ENTRY_BYTES <= 512 << 10);
        assert_eq!(count, ((512 << 10) - HEAD_BYTES) / (8208 + ENTRY_BYTES));
        let mut raw = Fill::new(512 << 10, 8192);
        assert_eq!(raw.room_for(8192), 63);
        assert_eq!(std::iter::from_fn(|| raw.take(Stored::Raw { bytes: 8192, crc: 0 }, 0)).count(), 63);
        let mut zeroes = Fill::new(8 << 20, 8192);
        assert_eq!(std::iter::from_fn(|| zeroes.take(Stored::Zero, 0)).count(), ENTRIES_MAX as usize);
    }
}
