//! How the bytes of half a journal are divided, so that there is always room for the next snapshot and for what is
//! committed while it is written.
//!
//! - A *round* is what one commit takes: the records that wait in the ledger, those of volumes that changed, the write
//!   log's position. It is no longer than [`round_bytes`](Budget::round_bytes) (R), since the ledger delays records
//!   that would exceed it.
//! - The *state* is the content of a snapshot of a single moment: slots, dirty extents, units without header, open
//!   regions, volumes. It is no longer than [`state_bytes`](Budget::state_bytes) (T), since code that makes extents
//!   dirty, opens regions or adds volumes stays within the shares given here.
//! - The *carry* consists of the records that are committed while a snapshot is written, and written again behind it:
//!   the records that the old log takes meanwhile, up to [`logged_bytes`](Budget::logged_bytes) (with more, the
//!   snapshot is completed at once), the round that had no room there, and the round that is taken at the end. Together
//!   they are C.
//! - A snapshot is taken while the state changes. Everything in it beyond the state at its beginning comes from records
//!   of the carry, and takes no more bytes than there. So it is no longer than T + C, and with its end T + 2C.
//! - Behind it there is room for two more rounds, so that no commit needs two snapshots.
//!
//! Hence T + 2C + 2R, and the headers and padding of the batches, fit into a half: T is what is left of it. Assertions
//! in debug builds check each of these numbers at run time.

use super::{FIRST_PART_BYTES_MIN, SNAPSHOT_PART_BYTES};
use crate::format::journal::{
    DIRTY_BASE_BYTES_MAX, DIRTY_DUP_BYTES, HEADER_BYTES, LOG_BYTES, NEXT_VERSION_BYTES, REGION_BYTES, SLOT_BYTES,
    VERSIONED_BYTES,
};

/// Bytes of a snapshot for each dirty extent.
pub(crate) const DIRTY_BYTES: u64 = DIRTY_DUP_BYTES as u64;
/// Bytes of a snapshot for each entry of a WEU that has no header on the SSD yet: the entry, and a record that it is
/// clean.
pub(crate) const UNSEALED_BYTES: u64 = (DIRTY_BASE_BYTES_MAX + VERSIONED_BYTES) as u64;

/// A round's share of a half, and its bounds in bytes. Up to the small one, the share is twice as large.
const ROUND_SHARE: u64 = 64;
const ROUND_BYTES_SMALL: u64 = 256 << 10;
const ROUND_BYTES_MIN: u64 = 1 << 10;
const ROUND_BYTES_MAX: u64 = 1 << 20;
/// The share of a half for what the old log takes during a snapshot, and most bytes of it: it is kept in RAM.
const LOGGED_SHARE: u64 = 64;
const LOGGED_BYTES_MAX: u64 = 16 << 20;
/// The share of a round that is for volumes, and most bytes of it.
const VOLUMES_SHARE: u64 = 3;
const VOLUMES_BYTES_MAX: u64 = 56 << 10;
/// The share of a half for open regions, and most of them: more than twice as many as there can be volumes.
const REGIONS_SHARE: u64 = 16;
const REGIONS_MAX: u64 = 4096;
/// A half must have room for so many dirty extents without header.
const DIRTY_MIN: u64 = 32;
/// Records that occur once: the next version, the write log's position.
const ONCE_BYTES: u64 = (NEXT_VERSION_BYTES + LOG_BYTES) as u64;

/// The division of a half; all but `slots` follows from its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most bytes of records that one commit takes.
    pub round_bytes: u64,
    /// Most bytes of records that the log takes while a snapshot is written.
    pub logged_bytes: u64,
    /// Most bytes of records that may wait in the ledger.
    pub pending_bytes: u64,
    /// Most bytes of the records of all volumes.
    pub volumes_bytes: u64,
    /// Most open regions.
    pub regions_max: u64,
    /// For slots, dirty extents and units without header.
    shared_bytes: u64,
    slot_bytes: u64,
}

impl Budget {
    /// Divides a half of `half_bytes`, written in blocks of `block_bytes`, of a cache whose WEUs have at most
    /// `weu_entries_max` entries. `None`: a cache of `slots` slots can do nothing with so few.
    #[must_use]
    pub fn new(half_bytes: u64, block_bytes: u64, slots: u32, weu_entries_max: u32) -> Option<Self> {
        let small = (half_bytes / (ROUND_SHARE / 2)).min(ROUND_BYTES_SMALL);
        let round_bytes = (half_bytes / ROUND_SHARE).max(small).clamp(ROUND_BYTES_MIN, ROUND_BYTES_MAX);
        let logged_bytes = (half_bytes / LOGGED_SHARE).clamp(round_bytes, LOGGED_BYTES_MAX);
        let volumes_bytes = (round_bytes / VOLUMES_SHARE).min(VOLUMES_BYTES_MAX);
        let regions_max = (half_bytes / REGIONS_SHARE / REGION_BYTES as u64).min(REGIONS_MAX);
        // The first part, which may be small, those that are not, the last one, the end; and the two rounds behind it.
        let batches = half_bytes / SNAPSHOT_PART_BYTES + 5;
        let others = 2 * (logged_bytes + 2 * round_bytes)
            + 2 * round_bytes
            + volumes_bytes
            + regions_max * REGION_BYTES as u64
            + ONCE_BYTES
            + batches * (HEADER_BYTES as u64 + block_bytes);
        let budget = Self {
            round_bytes,
            logged_bytes,
            pending_bytes: round_bytes - volumes_bytes - LOG_BYTES as u64,
            volumes_bytes,
            regions_max,
            shared_bytes: half_bytes.checked_sub(others)?,
            // A bit for each entry, and as many for records of duplicates: all slots have no more of them than of entries. Each
            // of the two ends within a byte.
            slot_bytes: SLOT_BYTES as u64 + 2 * u64::from(weu_entries_max.div_ceil(8)) + 2,
        };
        let least = DIRTY_MIN * (DIRTY_BYTES + UNSEALED_BYTES);
        (budget.dirty_bytes(slots) >= least && half_bytes >= FIRST_PART_BYTES_MIN).then_some(budget)
    }

    /// Most bytes of a snapshot for dirty extents (`DIRTY_BYTES` each) and entries of units without header
    /// (`UNSEALED_BYTES` each), with `slots` slots.
    #[must_use]
    pub fn dirty_bytes(&self, slots: u32) -> u64 {
        self.shared_bytes.saturating_sub(u64::from(slots) * self.slot_bytes)
    }

    /// Most bytes of records that tell the state of one moment.
    #[must_use]
    pub const fn state_bytes(&self) -> u64 {
        self.shared_bytes + self.volumes_bytes + self.regions_max * REGION_BYTES as u64 + ONCE_BYTES
    }

    /// Most bytes of records that a snapshot carries.
    #[must_use]
    pub const fn carry_bytes(&self) -> u64 {
        self.logged_bytes + 2 * self.round_bytes
    }

    /// Most bytes of records in a snapshot, its end not included.
    #[must_use]
    pub const fn snapshot_bytes(&self) -> u64 {
        self.state_bytes() + self.carry_bytes()
    }
}
