//! The properties of a logical unit.

use super::{Range, Sense};
use sha2::{Digest, Sha256};

/// Bytes of a logical block.
pub const BLOCK_BYTES: u32 = 512;

/// The properties of a logical unit, by which commands are checked and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The target's name.
    pub target: String,
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
    /// A number that identifies the unit; see [`identity_of`](Facts::identity_of).
    pub identity: u64,
}

impl Facts {
    /// A number that identifies the unit of the target named `target` on the server identified by `machine`: 64 bits of
    /// a hash of both.
    #[must_use]
    pub fn identity_of(machine: &[u8], target: &str) -> u64 {
        let hash = Sha256::new().chain_update(machine).chain_update([0]).chain_update(target).finalize();
        hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The serial number: 16 hexadecimal digits.
    #[must_use]
    pub fn serial(&self) -> String {
        format!("{:016x}", self.identity)
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
            target: "iqn.2026-11.nitro:vm".into(),
            blocks: 2048,
            read_only: false,
            rotational: false,
            can_unmap: true,
            physical_bytes: 8192,
            transfer_blocks_max: 16384,
            keeps_reservations: true,
            identity: Self::identity_of(b"here", "iqn.2026-11.nitro:vm"),
        }
    }
}
