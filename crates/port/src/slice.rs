//! A part of a device, as a device.

use crate::{Allocation, Device, DeviceError, ErrorKind, Geometry, Operation};
use bytes::Bytes;

/// `len` bytes of a device from `offset` on. Both are multiples of the device's block size.
#[derive(Debug)]
pub struct SliceDevice<D> {
    device: D,
    offset: u64,
    len: u64,
}

impl<D: Device> SliceDevice<D> {
    /// A part of `device`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] or [`ErrorKind::Misaligned`] if there is no such part.
    pub fn new(device: D, offset: u64, len: u64) -> Result<Self, DeviceError> {
        DeviceError::check(&device.geometry(), Operation::Open, offset, len)?;
        Ok(Self { device, offset, len })
    }

    /// The offset of a request on the whole device, if it is within the part.
    fn place(&self, operation: Operation, offset: u64, len: u64) -> Result<u64, DeviceError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.offset + offset),
            _ => Err(DeviceError::new(ErrorKind::OutOfRange, operation, offset, len)),
        }
    }
}

impl<D: Device> Device for SliceDevice<D> {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.len, ..self.device.geometry() }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.device.read(self.place(Operation::Read, offset, len as u64)?, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.device.write(self.place(Operation::Write, offset, data.len() as u64)?, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.device.discard(self.place(Operation::Discard, offset, len)?, len).await
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.device.reserve(self.place(Operation::Reserve, offset, len)?, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.device.write_zeroes(self.place(Operation::WriteZeroes, offset, len)?, len, may_unmap).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.device.allocation(self.place(Operation::Allocation, offset, len)?, len).await
    }
}
