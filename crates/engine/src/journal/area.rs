//! The journal's area on the device, and its required size.

use super::budget::{Budget, DIRTY_BYTES, UNSEALED_BYTES};
use crate::format::journal::{BATCH_UNIT_BYTES, HEADER_BYTES, SLOT_BYTES};
use crate::format::superblock::Area;
use bytes::Bytes;
use nitro_port::buf::{BUF_ALIGNMENT_BYTES, BufMut};
use nitro_port::{DeviceError, ErrorKind, Geometry, Operation};

/// A good size in bytes of a snapshot's parts: large enough to write fast, small enough that a log batch need not wait
/// long. A [`Budget`] counts on parts at least this large, but for the first and the last.
pub const SNAPSHOT_PART_BYTES: u64 = 256 << 10;

const ALIGNMENT_BYTES: u64 = BUF_ALIGNMENT_BYTES as u64;
/// Least log room of a half, and that of a cache smaller than [`TINY_CACHE_BYTES`].
const LOG_BYTES_MIN: u64 = 256 << 10;
const TINY_LOG_BYTES: u64 = 64 << 10;
const TINY_CACHE_BYTES: u64 = 64 << 20;

/// The quantities for which a journal is dimensioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// WEU slots.
    pub slots: u32,
    /// Bytes of a WEU.
    pub weu_bytes: u32,
    /// Most entries of a WEU.
    pub weu_entries_max: u32,
    /// Number of dirty extents that the journal must have room for.
    pub dirty_extents: u64,
    /// WEUs of dirty extents that may have no header on the SSD yet.
    pub unsealed_weus: u32,
}

impl Counts {
    /// The division of a half of `half_bytes`, if it is long enough that such a cache never waits for its journal. With
    /// fewer bytes, fewer extents may be dirty.
    #[must_use]
    pub fn budget(&self, half_bytes: u64) -> Option<Budget> {
        let budget = Budget::new(half_bytes, ALIGNMENT_BYTES, self.slots, self.weu_entries_max)?;
        (budget.dirty_bytes(self.slots) >= self.dirty_bytes()).then_some(budget)
    }

    fn dirty_bytes(&self) -> u64 {
        let unsealed = u64::from(self.unsealed_weus) * u64::from(self.weu_entries_max);
        self.dirty_extents * DIRTY_BYTES + unsealed * UNSEALED_BYTES
    }

    /// Bytes that the journal needs: two halves, each with room for the largest [state](Budget) and for a log as long as
    /// that, at least 256 KiB; 64 KiB of log in caches of less than 64 MiB. A multiple of 8192.
    #[must_use]
    pub fn area_bytes(&self) -> u64 {
        let slots = u64::from(self.slots) * (SLOT_BYTES as u64 + u64::from(self.weu_entries_max.div_ceil(8)));
        let state = slots + self.dirty_bytes();
        let tiny = u64::from(self.slots) * u64::from(self.weu_bytes) < TINY_CACHE_BYTES;
        let log = if tiny { TINY_LOG_BYTES } else { state.max(LOG_BYTES_MIN) };
        let mut half = (state + log).next_multiple_of(ALIGNMENT_BYTES);
        // Of each further byte, two thirds or more are for the state: a few steps do.
        loop {
            let budget = Budget::new(half, ALIGNMENT_BYTES, self.slots, self.weu_entries_max);
            let have = budget.map_or(0, |budget| budget.dirty_bytes(self.slots));
            match (self.dirty_bytes() + log).saturating_sub(have) {
                0 => return 2 * half,
                missing => half = (half + missing).next_multiple_of(ALIGNMENT_BYTES),
            }
        }
    }
}

/// An area, divided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halves {
    offset: u64,
    pub(crate) half_bytes: u64,
    /// Batches are written in multiples of this.
    pub(crate) block_bytes: u64,
}

impl Halves {
    pub(crate) fn new(area: Area, geometry: &Geometry, operation: Operation) -> Result<Self, DeviceError> {
        let Self { half_bytes, .. } = Self::divide(area, geometry);
        let refuse = |kind| DeviceError::new(kind, operation, area.offset, area.len);
        if !area.offset.is_multiple_of(ALIGNMENT_BYTES) {
            return Err(refuse(ErrorKind::Misaligned));
        }
        if half_bytes == 0 {
            return Err(refuse(ErrorKind::NoSpace));
        }
        DeviceError::check(geometry, operation, area.offset, half_bytes * 2)?;
        Ok(Self::divide(area, geometry))
    }

    /// Divides an area, whether or not the device has it: a cache that is never used has no device.
    pub(crate) fn divide(area: Area, geometry: &Geometry) -> Self {
        Self {
            offset: area.offset,
            // The division does not depend on the device's blocks: a cache may be copied to another device.
            half_bytes: area.len / 2 / ALIGNMENT_BYTES * ALIGNMENT_BYTES,
            block_bytes: u64::from(geometry.block_bytes).max(BATCH_UNIT_BYTES as u64),
        }
    }

    pub(crate) const fn offset(&self, half: usize) -> u64 {
        self.offset + half as u64 * self.half_bytes
    }

    /// How a half is divided; see [`Budget::new`].
    pub(crate) fn budget(&self, slots: u32, weu_entries_max: u32) -> Option<Budget> {
        Budget::new(self.half_bytes, self.block_bytes, slots, weu_entries_max)
    }

    pub(super) const fn batch_bytes(&self, payload_bytes: u64) -> u64 {
        (HEADER_BYTES as u64 + payload_bytes).next_multiple_of(self.block_bytes)
    }

    pub(super) fn zero_block(&self) -> Bytes {
        BufMut::zeroed(self.block_bytes as usize).freeze()
    }
}
