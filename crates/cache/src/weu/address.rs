//! Units and entries as one number, for indexes that have no bit to spare.

use nitro_units::WeuId;

/// Bits of an [`Address`]: enough for 16 TiB of extents of 8 KiB that shrink to an eighth.
pub(crate) const ADDRESS_BITS: u32 = 34;

/// An entry of a unit as a number of [`ADDRESS_BITS`] bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) u64);

impl Address {
    /// The address of an entry, of which units have at most `1 << entry_bits`.
    pub(crate) const fn of(weu: WeuId, entry: u16, entry_bits: u32) -> Self {
        debug_assert!((entry as u64) < 1 << entry_bits && (weu.0 as u64) < 1 << (ADDRESS_BITS - entry_bits));
        Self((weu.0 as u64) << entry_bits | entry as u64)
    }

    /// The unit and the entry.
    pub(crate) const fn parts(self, entry_bits: u32) -> (WeuId, u16) {
        (WeuId((self.0 >> entry_bits) as u32), (self.0 & ((1 << entry_bits) - 1)) as u16)
    }

    /// The number of units whose entries have addresses.
    pub(crate) const fn units_max(entry_bits: u32) -> u64 {
        1 << (ADDRESS_BITS - entry_bits)
    }
}
