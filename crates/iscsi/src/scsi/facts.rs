//! The properties of a logical unit.

use super::{Range, Sense};
use nitro_frontend::UnitIdentity;
use std::sync::Arc;

/// Bytes of a logical block.
pub const BLOCK_BYTES: u32 = 512;

/// The properties of a logical unit, by which commands are checked and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The names and numbers of the unit.
    pub identity: Arc<UnitIdentity>,
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
