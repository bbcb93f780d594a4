//! The journal's place on the device, and how large it must be.

use crate::buf::{BUF_ALIGNMENT_BYTES, BufMut};
use crate::format::journal::{
    BATCH_UNIT_BYTES, DIRTY_BASE_BYTES_MAX, HEADER_BYTES, REGION_BYTES, SLOT_BYTES, VOLUME_BYTES_MAX,
};
use crate::port::{DeviceError, ErrorKind, Geometry, Operation};
use bytes::Bytes;

/// A good size in bytes of a snapshot's parts: large enough to write fast, small enough that a log batch need not wait
/// long; [`Counts::area_bytes`] counts on parts at least this large, but for the first.
pub const SNAPSHOT_PART_BYTES: u64 = 256 << 10;

const ALIGNMENT_BYTES: u64 = BUF_ALIGNMENT_BYTES as u64;
/// Least log room of a half, and that of a cache smaller than [`TINY_CACHE_BYTES`].
const LOG_BYTES_MIN: u64 = 256 << 10;
const TINY_LOG_BYTES: u64 = 64 << 10;
const TINY_CACHE_BYTES: u64 = 64 << 20;

/// The part of the device that the journal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// First byte; a multiple of 4096.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// How much a snapshot may have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// WEU slots.
    pub slots: u32,
    /// Bytes of a WEU.
    pub weu_bytes: u32,
    /// Most entries of a WEU.
    pub weu_entries_max: u32,
    /// Most dirty and lost extents.
    pub dirty_max: u64,
    /// Most entries of WEUs that are not sealed.
    pub unsealed_entries_max: u64,
    /// Most regions open for write-through.
    pub regions_max: u64,
    /// Most volumes.
    pub volumes_max: u64,
}

impl Counts {
    /// Most bytes that a half must have beyond the largest snapshot, for a first part that is smaller than the others.
    pub const FIRST_PART_WASTE_BYTES: u64 = HEADER_BYTES as u64 + ALIGNMENT_BYTES;

    /// Bytes of the largest snapshot, written in parts of [`SNAPSHOT_PART_BYTES`] or more.
    #[must_use]
    pub fn snapshot_bytes(&self) -> u64 {
        let slot = SLOT_BYTES as u64 + u64::from(self.weu_entries_max).div_ceil(8);
        let records = u64::from(self.slots) * slot
            + (self.dirty_max + self.unsealed_entries_max) * DIRTY_BASE_BYTES_MAX as u64
            + self.regions_max * REGION_BYTES as u64
            + self.volumes_max * VOLUME_BYTES_MAX as u64;
        // Each batch has a header and fills its last block; one more holds what is left, one the end.
        let batches = records / SNAPSHOT_PART_BYTES + 2;
        (records + batches * (HEADER_BYTES as u64 + ALIGNMENT_BYTES)).next_multiple_of(ALIGNMENT_BYTES)
    }

    /// Bytes that the journal needs: two halves, each with room for the largest snapshot and for a log as large, which
    /// is at least 256 KiB; 64 KiB of log in caches of less than 64 MiB. A multiple of 8192.
    #[must_use]
    pub fn area_bytes(&self) -> u64 {
        let snapshot = self.snapshot_bytes();
        let tiny = u64::from(self.slots) * u64::from(self.weu_bytes) < TINY_CACHE_BYTES;
        let log = if tiny { TINY_LOG_BYTES } else { snapshot.max(LOG_BYTES_MIN) };
        2 * (snapshot + log)
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
        let block_bytes = u64::from(geometry.block_bytes).max(BATCH_UNIT_BYTES as u64);
        // The division does not depend on the device's blocks: a cache may be copied to another device.
        let half_bytes = area.len / 2 / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        let refuse = |kind| DeviceError::new(kind, operation, area.offset, area.len);
        if !area.offset.is_multiple_of(ALIGNMENT_BYTES) {
            return Err(refuse(ErrorKind::Misaligned));
        }
        if half_bytes == 0 {
            return Err(refuse(ErrorKind::NoSpace));
        }
        DeviceError::check(geometry, operation, area.offset, half_bytes * 2)?;
        Ok(Self { offset: area.offset, half_bytes, block_bytes })
    }

    pub(crate) const fn offset(&self, half: usize) -> u64 {
        self.offset + half as u64 * self.half_bytes
    }

    pub(super) const fn batch_bytes(&self, payload_bytes: u64) -> u64 {
        (HEADER_BYTES as u64 + payload_bytes).next_multiple_of(self.block_bytes)
    }

    pub(super) fn zero_block(&self) -> Bytes {
        BufMut::zeroed(self.block_bytes as usize).freeze()
    }
}
