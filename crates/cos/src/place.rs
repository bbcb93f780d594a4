//! Places of chunks, and references to chunks.

use crate::format::SECTOR_BYTES;
use nitro_units::Fingerprint;

/// The place where a chunk was stored: a hint, used only if the region there holds the chunk's fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Place {
    /// The container's slot; 24 bits.
    pub slot: u32,
    /// The first sector of the chunk's region in the container; 13 bits.
    pub sector: u16,
    /// The number of sectors of the region; 9 bits.
    pub sectors: u16,
    /// The chunk's number within the container.
    pub number: u16,
}

impl Place {
    /// Bytes of an encoded place.
    pub(crate) const BYTES: usize = 8;
    /// The maximum number of slots of a store.
    pub(crate) const SLOTS_MAX: u32 = 1 << 24;
    /// The maximum number of sectors of a region.
    pub(crate) const REGION_SECTORS_MAX: u16 = (1 << 9) - 1;

    /// Encodes the place for recipes and indexes.
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.slot) << 38
            | u64::from(self.sector) << 25
            | u64::from(self.sectors) << 16
            | u64::from(self.number)
    }

    /// Decodes a place; every number is valid.
    pub(crate) fn unpack(packed: u64) -> Self {
        Self {
            slot: (packed >> 38) as u32 & (Self::SLOTS_MAX - 1),
            sector: (packed >> 25) as u16 & 0x1FFF,
            sectors: (packed >> 16) as u16 & Self::REGION_SECTORS_MAX,
            number: packed as u16,
        }
    }

    /// The offset of the region in its container, in bytes.
    pub(crate) fn offset(self) -> u64 {
        u64::from(self.sector) * SECTOR_BYTES as u64
    }

    /// Bytes of the region.
    pub(crate) fn region_bytes(self) -> usize {
        usize::from(self.sectors) * SECTOR_BYTES
    }
}

/// A reference to a chunk in a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The fingerprint of the chunk.
    pub fingerprint: Fingerprint,
    /// The last known place of the chunk.
    pub place: Place,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let place = Place { slot: 0xAB_CDEF, sector: 8191, sectors: 511, number: 65535 };
        assert_eq!(Place::unpack(place.pack()), place);
        let place = Place { slot: 1, sector: 2, sectors: 3, number: 4 };
        assert_eq!(Place::unpack(place.pack()), place);
    }
}
