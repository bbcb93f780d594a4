//! The properties of a logical unit.

use super::{Range, Sense};
use nitro_frontend::UnitIdentity;
use std::sync::Arc;

/// Bytes of a logical block, unless the unit has larger ones.
pub const BLOCK_BYTES: u32 = 512;
/// Most bytes of an UNMAP in total, and of a WRITE SAME: the length of a range in bytes must fit into 32 bits.
const UNMAP_BYTES_MAX: u32 = 512 << 20;
const WRITE_SAME_BYTES_MAX: u32 = 1 << 30;

/// The properties of a logical unit, by which commands are checked and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The names and numbers of the unit.
    pub identity: Arc<UnitIdentity>,
    /// Bytes of a logical block: 512 or 4096.
    pub block_bytes: u32,
    /// Size in logical blocks.
    pub blocks: u64,
    /// Writing commands are refused.
    pub read_only: bool,
    /// The medium is reported as rotating.
    pub rotational: bool,
    /// UNMAP is supported.
    pub can_unmap: bool,
    /// Size of a physical block in bytes: a power of two.
    pub physical_bytes: u32,
    /// Longest transfer in blocks.
    pub transfer_blocks_max: u32,
    /// Reservations can be kept over a restart of the server.
    pub keeps_reservations: bool,
}

impl Facts {
    /// Most blocks of an UNMAP in total.
    pub(crate) const fn unmap_blocks_max(&self) -> u32 {
        UNMAP_BYTES_MAX / self.block_bytes
    }

    /// Most blocks of a WRITE SAME.
    pub(crate) const fn write_same_blocks_max(&self) -> u32 {
        WRITE_SAME_BYTES_MAX / self.block_bytes
    }

    /// Checks that a range lies within the unit. An empty range may lie at the unit's end.
    ///
    /// # Errors
    /// [`Sense`] data LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub fn check(&self, range: Range) -> Result<(), Sense> {
        match range.lba.checked_add(range.blocks.into()) {
            Some(end) if end <= self.blocks => Ok(()),
            _ => Err(Sense::OUT_OF_RANGE),
        }
    }
}

#[cfg(test)]
impl Facts {
    pub(crate) fn example() -> Self {
        Self {
            identity: Arc::new(UnitIdentity::of(b"here", "vm")),
            block_bytes: BLOCK_BYTES,
            blocks: 2048,
            read_only: false,
            rotational: false,
            can_unmap: true,
            physical_bytes: 8192,
            transfer_blocks_max: 16384,
            keeps_reservations: true,
        }
    }
}
