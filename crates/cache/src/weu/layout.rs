//! How extents are laid out within a WEU. The engine writes the bytes (docs/FORMAT.md); the manager only counts them.
//!
//! A WEU begins with one head sector; stored extents follow, each with a prefix and at a multiple of
//! [`UNIT_BYTES`]; the entry table of the header comes last, so that extents never move while the WEU fills.

/// Direct I/O is in multiples of this.
pub const SECTOR_BYTES: u32 = 512;
/// Stored extents begin at multiples of this within their WEU.
pub const UNIT_BYTES: u32 = 16;
/// The head: identity, generation, where the entry table lies.
pub const HEAD_BYTES: u32 = SECTOR_BYTES;
/// One entry of the header's table.
pub const ENTRY_BYTES: u32 = 48;
/// What precedes each stored extent: its checksum, stored length and codec.
pub const PREFIX_BYTES: u32 = 8;
/// Entry numbers have 13 bits.
pub const ENTRIES_MAX: u32 = 1 << 13;

/// Where a stored extent lies within its WEU, packed into 28 bits of a `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position(u32);

impl Position {
    /// The position of a stored extent of `stored_bytes` (prefix included) at `offset`, a multiple of [`UNIT_BYTES`]
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

/// How full an open WEU is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    weu_bytes: u32,
    entries_max: u32,
    next: u32,
    entries: u32,
}

impl Fill {
    pub(crate) const fn new(weu_bytes: u32, entries_max: u32) -> Self {
        Self { weu_bytes, entries_max, next: HEAD_BYTES, entries: 0 }
    }

    /// Takes room for one more extent of `payload_bytes` (0: all zero); `None` when it does not fit any more.
    pub(crate) fn take(&mut self, payload_bytes: u32) -> Option<Position> {
        let stored = if payload_bytes == 0 { 0 } else { payload_bytes + PREFIX_BYTES };
        let end = self.next + stored.next_multiple_of(UNIT_BYTES);
        let entries = self.entries + 1;
        if entries > self.entries_max || end + entries * ENTRY_BYTES > self.weu_bytes {
            return None;
        }
        let position = Position::new(self.next, stored);
        (self.next, self.entries) = (end, entries);
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

    #[test]
    fn a_weu_takes_extents_until_header_and_payload_meet() {
        let mut fill = Fill::new(512 << 10, 8192);
        let mut last = 0;
        let count = std::iter::from_fn(|| fill.take(8192)).inspect(|p| last = p.offset() + 8200).count() as u32;
        assert!(last + count * ENTRY_BYTES <= 512 << 10);
        assert_eq!(count, ((512 << 10) - HEAD_BYTES) / (8208 + ENTRY_BYTES));
        let mut zeroes = Fill::new(8 << 20, 8192);
        assert_eq!(std::iter::from_fn(|| zeroes.take(0)).count(), ENTRIES_MAX as usize);
    }
}
