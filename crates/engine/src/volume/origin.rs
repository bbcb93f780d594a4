//! Access to the origin in whole extents, and in any bytes: origins have a block size, and the last extent may extend
//! beyond their end.

use super::Volume;
use super::stretches::Timed;
use crate::error::Error;
use bytes::Bytes;
use futures_util::future::{Either, select};
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, DeviceError, ErrorKind, Operation, Origin, Urgency};
use nitro_units::{ExtentRange, Fingerprint};
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A read of the origin in progress; it is counted while this exists.
struct OriginRead<'a>(&'a AtomicUsize);

impl<'a> OriginRead<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for OriginRead<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    fn origin_block(&self) -> u64 {
        self.origin.geometry().block_bytes.into()
    }

    /// Reads from the origin, aligned or not.
    pub(super) async fn read_origin(&self, range: Range<u64>, urgency: Urgency) -> Result<Bytes, Error> {
        let block = self.origin_block();
        let start = range.start / block * block;
        let len = (range.end.next_multiple_of(block) - start) as usize;
        self.metrics.origin_reads.add(1);
        self.metrics.origin_read_bytes.add(len as u64);
        let reading = OriginRead::new(&self.origin_reading);
        let timed = Timed::new(&self.costs, &self.cache.clock);
        let read = self.origin.read_with(urgency, start, len);
        let bytes = self.in_origins_time(read, start..start + len as u64).await.map_err(Error::Origin)?;
        timed.end(len as u64);
        drop(reading);
        let skip = (range.start - start) as usize;
        Ok(bytes.slice(skip..skip + (range.end - range.start) as usize))
    }

    /// Waits for a read of the origin, as long as it may take.
    async fn in_origins_time<T>(
        &self,
        read: impl Future<Output = Result<T, DeviceError>>,
        range: Range<u64>,
    ) -> Result<T, DeviceError> {
        let read = self.answered(read);
        let Some(timeout) = self.cache.live.origin_timeout() else { return read.await };
        match select(pin!(read), pin!(self.cache.clock.sleep(timeout))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                self.metrics.origin_timeouts.add(1);
                let len = range.end - range.start;
                Err(DeviceError::new(ErrorKind::TimedOut, Operation::Read, range.start, len))
            }
        }
    }

    /// Reads runs of whole extents from an origin that reads parts.
    pub(super) async fn read_parts(&self, runs: &[ExtentRange], urgency: Urgency) -> Result<Vec<Vec<Bytes>>, Error> {
        let block = self.origin_block();
        // Extents are whole blocks, except for a last one that extends beyond the volume's end.
        let part = |run: &ExtentRange| {
            let Range { start, end } = self.bytes_of(*run);
            start..end.next_multiple_of(block)
        };
        let parts: Vec<Range<u64>> = runs.iter().map(part).collect();
        let stretch = parts.first().map_or(0, |p| p.start)..parts.last().map_or(0, |p| p.end);
        self.metrics.origin_reads.add(1);
        self.metrics.origin_read_bytes.add(parts.iter().map(|p| p.end - p.start).sum());
        let _reading = OriginRead::new(&self.origin_reading);
        let read = self.in_origins_time(self.origin.read_parts(urgency, &parts), stretch).await;
        let own = |(run, bytes): (&ExtentRange, Bytes)| {
            let Range { start, end } = self.bytes_of(*run);
            self.split(*run, bytes.slice(..(end - start) as usize))
        };
        Ok(runs.iter().zip(read.map_err(Error::Origin)?).map(own).collect())
    }

    /// The bytes of extents that are in the volume.
    pub(super) fn bytes_of(&self, extents: ExtentRange) -> Range<u64> {
        let Range { start, end } = extents.bytes(self.extent_bytes());
        start..end.min(self.size_bytes())
    }

    /// Reads whole extents from the origin; an extent that extends beyond the volume's end is padded with zeroes.
    pub(super) async fn read_origin_extents(
        &self,
        extents: ExtentRange,
        urgency: Urgency,
    ) -> Result<Vec<Bytes>, Error> {
        Ok(self.split(extents, self.read_origin(self.bytes_of(extents), urgency).await?))
    }

    /// The bytes of extents, each by itself.
    pub(super) fn split(&self, extents: ExtentRange, mut bytes: Bytes) -> Vec<Bytes> {
        let each = self.extent_bytes() as usize;
        (0..extents.count())
            .map(|_| match bytes.len() >= each {
                true => bytes.split_to(each),
                false => self.padded(&bytes),
            })
            .collect()
    }

    /// The bytes at an extent's start, padded with zeroes.
    pub(super) fn padded(&self, bytes: &[u8]) -> Bytes {
        let mut whole = BufMut::zeroed(self.extent_bytes() as usize);
        whole[..bytes.len()].copy_from_slice(bytes);
        whole.freeze()
    }

    /// Writes to the origin. Unaligned parts of blocks are read, changed and written: the caller excludes other writes
    /// to these extents.
    pub(super) async fn write_origin(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.write_known(offset, data, &[]).await
    }

    /// As [`write_origin`](Self::write_origin), with the fingerprints of the extents that the write touches, or none at all.
    pub(super) fn write_known(
        &self,
        offset: u64,
        data: Bytes,
        known: &[Option<Fingerprint>],
    ) -> impl Future<Output = Result<(), Error>> {
        self.write_as::<true>(offset, data, known)
    }

    /// As [`write_known`](Self::write_known), of what the cache keeps until the origin was flushed: a client's flush need not wait for it.
    pub(super) fn put_known(
        &self,
        offset: u64,
        data: Bytes,
        known: &[Option<Fingerprint>],
    ) -> impl Future<Output = Result<(), Error>> {
        self.write_as::<false>(offset, data, known)
    }

    /// A write that a client's flush waits for if it `COUNTS`. One future: one within another would be larger.
    async fn write_as<const COUNTS: bool>(
        &self,
        offset: u64,
        data: Bytes,
        known: &[Option<Fingerprint>],
    ) -> Result<(), Error> {
        let block = self.origin_block();
        let is_whole = offset.is_multiple_of(block) && (data.len() as u64).is_multiple_of(block);
        // Boxed, here and below: rare, and the future of a write is allocated and moved.
        let (start, data) = if is_whole { (offset, data) } else { Box::pin(self.widened(offset, data)).await? };
        self.metrics.origin_writes.add(1);
        self.metrics.origin_written_bytes.add(data.len() as u64);
        let written = match known.is_empty() {
            true => self.answered(self.origin.write(start, data)).await,
            false => self.answered(Box::pin(self.origin.write_known(start, data, known))).await,
        };
        let result = written.map_err(Error::Origin);
        if COUNTS {
            self.origin_writes.fetch_add(1, Ordering::SeqCst);
        }
        result
    }

    /// A write of whole blocks that changes nothing beside `data`: its offset and its bytes.
    async fn widened(&self, offset: u64, data: Bytes) -> Result<(u64, Bytes), Error> {
        let block = self.origin_block();
        let end = offset + data.len() as u64;
        let (start, stop) = (offset / block * block, end.next_multiple_of(block));
        let mut whole = BufMut::with_len((stop - start) as usize);
        let last = stop - block;
        if start != offset {
            let first = self.read_origin(start..start + block, Urgency::Normal).await?;
            whole[..block as usize].copy_from_slice(&first);
        }
        if stop != end && (last != start || start == offset) {
            let tail = self.read_origin(last..stop, Urgency::Normal).await?;
            whole[(last - start) as usize..].copy_from_slice(&tail);
        }
        let at = (offset - start) as usize;
        whole[at..at + data.len()].copy_from_slice(&data);
        Ok((start, whole.freeze()))
    }
}
