//! The location of a cached extent.

use super::layout::SECTOR_BYTES;
use nitro_units::{Generation, WeuId};

/// The location of a cached extent; valid only while its WEU has this `generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The write-evict unit.
    pub weu: WeuId,
    /// The generation of the filling of `weu` that holds the extent.
    pub generation: Generation,
    /// The extent's number within the WEU's header.
    pub entry: u16,
    /// First byte of the stored extent within the WEU.
    pub offset: u32,
    /// Number of 512-byte sectors that must be read, from the one that holds `offset` on, to get the whole stored
    /// extent. 0: the extent is all zeroes and has no payload.
    pub sectors: u16,
    /// CRC-32C of an extent that is stored as it is, in whole blocks from `offset` on. Others have a prefix with their
    /// checksum.
    pub raw_crc: Option<u32>,
    /// The WEU was still in RAM, being filled or written, at the time of the look-up.
    pub in_ram: bool,
}

impl Location {
    /// Whether two locations are of the same stored extent.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.weu, self.generation, self.entry) == (other.weu, other.generation, other.entry)
    }

    /// The bytes of the WEU that must be read to get the whole stored extent, in whole sectors.
    #[must_use]
    pub const fn span(&self) -> std::ops::Range<u32> {
        let start = self.offset / SECTOR_BYTES * SECTOR_BYTES;
        start..start + self.sectors as u32 * SECTOR_BYTES
    }
}
