//! Reads stored extents and verifies them.

use super::Cache;
use crate::format::crc32c;
use crate::format::journal::FORGET_BYTES;
use crate::format::stored::payload_range;
use crate::health::Access;
use crate::volume::EXTENTS_PER_LOCK;
use bytes::{Buf, Bytes};
use nitro_cache::Location;
use nitro_port::codec::decode;
use nitro_port::{Clock, Device, DeviceError, Urgency};
use nitro_units::{ExtentKey, WeuId};
use std::ops::Range;

/// Extents fetched from the cache, in the order asked for.
pub(crate) type Fetched = smallvec::SmallVec<[Option<Bytes>; 1]>;

impl<F: Device, C: Clock> Cache<F, C> {
    /// The range of a WEU that contains the given locations, in whole blocks of the device.
    fn span(&self, wanted: &[(ExtentKey, Location)]) -> Range<u32> {
        let block = self.block_bytes();
        let (mut start, mut end) = (u32::MAX, 0);
        for (_, location) in wanted {
            let sectors = location.span();
            (start, end) = (start.min(sectors.start), end.max(sectors.end));
        }
        start / block * block..end.next_multiple_of(block)
    }

    /// Reads stored extents that are close to each other in one WEU. The result is `None` for each extent whose WEU was
    /// refilled meanwhile, whose checksum is wrong, or for which the device failed. These are counted, and dropped by
    /// the manager.
    #[expect(clippy::manual_async_fn, reason = "the arguments of an async fn take room in its future twice")]
    pub(crate) fn fetch(&self, wanted: &[(ExtentKey, Location)], urgency: Urgency) -> impl Future<Output = Fetched> {
        async move {
            if let Some(fetched) = wanted.iter().map(|(_, location)| self.without_reading(location)).collect() {
                return fetched;
            }
            let (offset, len) = self.span_to_read(wanted);
            let result = self.flash.read_with(urgency, offset, len).await;
            let (fetched, useless) = self.take_out(wanted, result);
            if useless.is_empty() { fetched } else { Box::pin(self.without(fetched, useless)).await }
        }
    }

    /// Lets the manager drop the `useless` entries.
    async fn without(&self, fetched: Fetched, useless: Vec<(ExtentKey, Location)>) -> Fetched {
        self.forget(&useless).await;
        fetched
    }

    /// Extents that need no read of the device; `None` for those that do. Runs of several have none of them.
    fn without_reading(&self, location: &Location) -> Option<Option<Bytes>> {
        if location.sectors == 0 {
            return Some(Some(self.zero_extent.clone()));
        }
        // One that was in RAM when asked for may be on the SSD by now.
        let (encoding, payload) = location.in_ram.then(|| self.resident.get(location)).flatten()?;
        Some(decode(encoding, payload, self.extent_bytes()))
    }

    /// The offset on the device and the number of bytes to read for some extents of one WEU.
    fn span_to_read(&self, wanted: &[(ExtentKey, Location)]) -> (u64, usize) {
        let (span, weu) = (self.span(wanted), wanted.first().map_or(WeuId(0), |(_, first)| first.weu));
        self.metrics.ssd_reads.add(1);
        self.metrics.ssd_read_bytes.add(span.len() as u64);
        (self.slot_offset(weu) + u64::from(span.start), span.len())
    }

    /// Takes extents out of the bytes that were read; returns also the entries to drop.
    fn take_out(
        &self,
        wanted: &[(ExtentKey, Location)],
        result: Result<Bytes, DeviceError>,
    ) -> (Fetched, Vec<(ExtentKey, Location)>) {
        let Some((_, first)) = wanted.first() else { return Default::default() };
        let none = || wanted.iter().map(|_| None).collect();
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(error) => {
                self.metrics.ssd_read_errors.add(1);
                self.failed(Access::Read, first.weu, &error);
                return (none(), wanted.to_vec());
            }
        };
        self.succeeded(Access::Read, first.weu);
        // The generation is checked after the bytes were read: a refill raises it before it writes.
        if !self.manager.lock().is_current(first.weu, first.generation) {
            self.metrics.outrun_reads.add(1);
            return (none(), Vec::new());
        }
        let start = self.span(wanted).start;
        let fetched: Fetched = match wanted {
            [(_, location)] => Fetched::from_iter([self.unpack(location, bytes, start)]),
            _ => wanted.iter().map(|(_, location)| self.unpack(location, bytes.clone(), start)).collect(),
        };
        let corrupt = wanted.iter().zip(&fetched).filter(|(_, fetched)| fetched.is_none());
        let corrupt: Vec<_> = corrupt.map(|(wanted, _)| *wanted).collect();
        self.metrics.corrupt_extents.add(corrupt.len() as u64);
        (fetched, corrupt)
    }

    /// Takes a stored extent out of `bytes`, which begin at byte `start` of its WEU.
    fn unpack(&self, location: &Location, mut bytes: Bytes, start: u32) -> Option<Bytes> {
        bytes.advance(((location.offset - start) as usize).min(bytes.len()));
        match location.raw_crc {
            Some(crc) => {
                bytes.truncate(self.extent_bytes());
                (bytes.len() == self.extent_bytes() && crc32c(&bytes) == crc).then_some(bytes)
            }
            None => payload_range(&self.place(location), &bytes).and_then(|(encoding, payload)| {
                bytes.truncate(payload.end);
                bytes.advance(payload.start);
                decode(encoding, bytes, self.extent_bytes())
            }),
        }
    }

    /// Removes useless entries, unless they have been replaced meanwhile.
    async fn forget(&self, wanted: &[(ExtentKey, Location)]) {
        let step = self.ledger.step(FORGET_BYTES, EXTENTS_PER_LOCK) as usize;
        for some in wanted.chunks(step) {
            self.telling(some.len() * FORGET_BYTES, |manager| {
                for (key, location) in some {
                    if manager.peek(*key).is_some_and(|found| found.is_same(location)) {
                        manager.disown(*key);
                    }
                }
            })
            .await;
        }
    }
}
