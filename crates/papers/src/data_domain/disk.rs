//! The disks, on which the parts of the store and the pages of the index are far apart, as in a large store: there, the
//! containers of other streams lie between those of one, and arms move over all disks.

use super::noted::Noted;
use bytes::Bytes;
use nitro_device::HddDevice;
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Device, DeviceError, Geometry};
use nitro_testkit::VirtualTime;
use std::sync::Arc;

pub(super) type Hdd = HddDevice<Noted, VirtualTime>;

/// Bytes of the store between two gaps: whole containers.
const UNIT_BYTES: u64 = 1 << 20;
/// Bytes of a gap, which has some pages of the index; the rest stands for what belongs to others. With a unit, this is a
/// number of stripes that shares no divisor with the number of disks.
const GAP_BYTES: u64 = (15 << 20) + (256 << 10);
/// Bytes from one page of a gap to the next one, and the number of pages for which there is room.
const PAGE_STRIDE_BYTES: u64 = 292 << 10;
const PAGES_A_GAP: u64 = GAP_BYTES / PAGE_STRIDE_BYTES - 1;
/// Bytes of a page of the index.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Where the parts of the store and the pages of the index are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    store_bytes: u64,
    /// Gaps between the parts of the store that are in use.
    gaps: u64,
    /// Consecutive pages are this number of gaps apart, so that each level is spread over the disks.
    step: u64,
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Placement {
    /// For a store of `store_bytes`, of which the first `used_bytes` are in use; the index has at most `pages` pages.
    pub(super) fn new(store_bytes: u64, used_bytes: u64, pages: u64) -> Self {
        let gaps = used_bytes.div_ceil(UNIT_BYTES).max(pages.div_ceil(PAGES_A_GAP)).max(1);
        let golden = (gaps as f64 * 0.618) as u64;
        let step = (golden.max(1)..).find(|step| common_divisor(*step, gaps) == 1).unwrap_or(1);
        Self { store_bytes, gaps, step }
    }

    pub(super) const fn disk_bytes(&self) -> u64 {
        let units = self.store_bytes.div_ceil(UNIT_BYTES);
        (if units > self.gaps { units } else { self.gaps }) * (UNIT_BYTES + GAP_BYTES)
    }

    /// Bytes from the beginning to the end of what is in use.
    pub(super) const fn used_bytes(&self) -> u64 {
        self.gaps * (UNIT_BYTES + GAP_BYTES)
    }

    /// Where a byte of the store is.
    const fn of_store(offset: u64) -> u64 {
        offset + offset / UNIT_BYTES * GAP_BYTES
    }

    /// Where a page of the index is.
    pub(super) const fn of_page(&self, page: u64) -> u64 {
        let gap = page * self.step % self.gaps;
        gap * (UNIT_BYTES + GAP_BYTES) + UNIT_BYTES + (1 + page / self.gaps) * PAGE_STRIDE_BYTES
    }

    /// The byte of the store that is at a byte of the disk; `None` in a gap.
    pub(super) fn store_offset(at: u64) -> Option<u64> {
        let (unit, within) = (at / (UNIT_BYTES + GAP_BYTES), at % (UNIT_BYTES + GAP_BYTES));
        (within < UNIT_BYTES).then_some(unit * UNIT_BYTES + within)
    }
}

/// The store's part of the disks.
pub(super) struct StorePart {
    pub(super) disk: Arc<Hdd>,
    pub(super) placement: Placement,
}

impl StorePart {
    /// The parts of a range that are together on the disks: offset there, and length.
    fn parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = offset + len;
        let mut at = offset;
        std::iter::from_fn(move || {
            let next = ((at / UNIT_BYTES + 1) * UNIT_BYTES).min(end);
            let part = (at < end).then(|| (Placement::of_store(at), next - at));
            at = next;
            part
        })
    }
}

impl Device for StorePart {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.placement.store_bytes, ..self.disk.geometry() }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let mut parts = Self::parts(offset, len as u64);
        if let (Some((at, bytes)), None) = (parts.next(), parts.next()) {
            return self.disk.read(at, bytes as usize).await;
        }
        let mut all = BufMut::with_len(len);
        let mut done = 0;
        for (at, bytes) in Self::parts(offset, len as u64) {
            let read = self.disk.read(at, bytes as usize).await?;
            all[done..done + read.len()].copy_from_slice(&read);
            done += read.len();
        }
        Ok(all.freeze())
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let mut done = 0;
        for (at, bytes) in Self::parts(offset, data.len() as u64) {
            self.disk.write(at, data.slice(done..done + bytes as usize)).await?;
            done += bytes as usize;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.disk.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.disk.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.disk.write_zeroes(offset, len, may_unmap).await
    }

    async fn allocation(&self, _offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        Ok(vec![Allocation { len, hole: false }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_lie_apart_between_the_parts_of_the_store() {
        let placement = Placement::new(300 * UNIT_BYTES, 100 * UNIT_BYTES, 250);
        let pages: BTreeSet<u64> = (0..250).map(|page| placement.of_page(page)).collect();
        assert_eq!(pages.len(), 250);
        assert!(pages.iter().all(|at| Placement::store_offset(*at).is_none() && *at < placement.used_bytes()));
        // Few of the first pages are neighbours.
        let first: BTreeSet<u64> = (0..10).map(|page| placement.of_page(page) * 10 / placement.used_bytes()).collect();
        assert!(first.len() >= 5, "{first:?}");
        for offset in [0, UNIT_BYTES - 1, UNIT_BYTES, 77 * UNIT_BYTES + 5] {
            assert_eq!(Placement::store_offset(Placement::of_store(offset)), Some(offset));
        }
    }
}
