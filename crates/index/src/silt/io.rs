//! The flash of an index, with counters and the state after a failure.

use crate::hash::seal;
use crate::{Error, PAGE_BYTES};
use bytes::Bytes;
use nitro_port::{Device, DeviceError, ErrorKind, Operation};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Counters of an index. Statistics only: they are not ordered with each other.
#[derive(Default)]
pub(super) struct Tallies {
    pub(super) inserts: AtomicU64,
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) hit_reads: AtomicU64,
    pub(super) miss_reads: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) background_read_bytes: AtomicU64,
    pub(super) corrupt_pages: AtomicU64,
    /// The buffers of conversions and merges in progress, in bytes.
    pub(super) buffer_bytes: AtomicI64,
    /// The number of look-ups that are reading from the flash.
    pub(super) reading: AtomicU32,
}

/// The flash of an index.
pub(super) struct Io<D> {
    pub(super) device: D,
    pub(super) seed: u64,
    pub(super) tallies: Tallies,
    /// The failure after which nothing more is written.
    failed: Mutex<Option<DeviceError>>,
}

/// Counts a look-up that is reading.
struct Reading<'a>(&'a AtomicU32);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// RAM that is counted while this is held.
pub(super) struct Buffers<'a> {
    tallies: &'a Tallies,
    bytes: i64,
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        self.tallies.buffer_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

impl<D: Device> Io<D> {
    pub(super) fn new(device: D, seed: u64) -> Self {
        Self { device, seed, tallies: Tallies::default(), failed: Mutex::new(None) }
    }

    /// Counts `bytes` of RAM until the result is dropped.
    pub(super) fn buffers(&self, bytes: usize) -> Buffers<'_> {
        let bytes = bytes as i64;
        self.tallies.buffer_bytes.fetch_add(bytes, Relaxed);
        Buffers { tallies: &self.tallies, bytes }
    }

    /// Returns the error of an earlier failed write or flush, after which the content of the flash is unknown.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &*self.failed.lock() {
            Some(error) => Err(Error::Device(error.clone())),
            None => Ok(()),
        }
    }

    fn fail(&self, error: DeviceError) -> Error {
        self.failed.lock().get_or_insert_with(|| {
            tracing::warn!(%error, "the index's flash failed: nothing more is written");
            error.clone()
        });
        Error::Device(error)
    }

    /// Refuses all further writes, after an operation that was cancelled before its end.
    pub(super) fn give_up(&self) {
        let error = DeviceError::new(ErrorKind::Io, Operation::Write, 0, 0);
        let _ = self.fail(error);
    }

    /// Reads a page for a look-up.
    pub(super) async fn read_page(&self, offset: u64) -> Result<Bytes, Error> {
        self.tallies.reading.fetch_add(1, Relaxed);
        let _reading = Reading(&self.tallies.reading);
        Ok(self.device.read(offset, PAGE_BYTES).await?)
    }

    /// Reads pages for a background operation.
    pub(super) async fn read_piece(&self, offset: u64, pages: u32) -> Result<Bytes, Error> {
        let len = pages as usize * PAGE_BYTES;
        let piece = self.device.read(offset, len).await?;
        self.tallies.background_read_bytes.fetch_add(len as u64, Relaxed);
        Ok(piece)
    }

    pub(super) async fn write(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.check()?;
        self.tallies.written_bytes.fetch_add(data.len() as u64, Relaxed);
        self.device.write(offset, data).await.map_err(|e| self.fail(e))
    }

    pub(super) async fn flush(&self) -> Result<(), Error> {
        self.check()?;
        self.device.flush().await.map_err(|e| self.fail(e))
    }

    /// Counts a page that fails its checksum.
    pub(super) fn note_corrupt(&self, offset: u64) {
        self.tallies.corrupt_pages.fetch_add(1, Relaxed);
        tracing::warn!(offset, "a page of the index fails its checksum; its entries count as absent");
    }

    pub(super) fn seal(&self, page: &mut [u8], offset: u64) {
        seal(page, offset, self.seed);
    }
}
