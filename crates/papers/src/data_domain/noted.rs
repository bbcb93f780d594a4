//! A device that notes the requests that it gets.

use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_port::{Allocation, Device, DeviceError, Geometry};
use parking_lot::Mutex;

/// A request for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A device in RAM that notes its reads.
pub(super) struct Noted {
    inner: RamDevice,
    reads: Mutex<Vec<Request>>,
}

impl Noted {
    pub(super) fn new(inner: RamDevice) -> Self {
        Self { inner, reads: Mutex::default() }
    }

    /// The reads since the last call, in the order of their arrival.
    pub(super) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut self.reads.lock())
    }
}

impl Device for Noted {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.reads.lock().push(Request { offset, bytes: len as u64 });
        self.inner.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.inner.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.inner.write_zeroes(offset, len, may_unmap).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.inner.allocation(offset, len).await
    }
}
