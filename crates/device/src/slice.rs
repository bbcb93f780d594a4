//! A part of a device, as a device of its own.

use bytes::Bytes;
use nitro_engine::port::{Allocation, Device, DeviceError, ErrorKind, Geometry, Operation};

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
    /// [`ErrorKind::OutOfRange`] or [`ErrorKind::Misaligned`] where there is no such part.
    pub fn new(device: D, offset: u64, len: u64) -> Result<Self, DeviceError> {
        DeviceError::check(&device.geometry(), Operation::Open, offset, len)?;
        Ok(Self { device, offset, len })
    }

    /// Where a request goes on the whole device, if it is within the part.
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

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.device.write_zeroes(self.place(Operation::WriteZeroes, offset, len)?, len, may_unmap).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.device.allocation(self.place(Operation::Allocation, offset, len)?, len).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RamDevice;

    fn block_on<F: Future>(future: F) -> F::Output {
        crate::Reactor::new().unwrap().block_on(future)
    }

    #[test]
    fn a_part_stays_within_its_bounds() {
        let whole = RamDevice::new(64 << 10, 4096);
        block_on(whole.write(8192, vec![7; 4096].into())).unwrap();
        let part = SliceDevice::new(whole, 8192, 16384).unwrap();
        assert_eq!(part.geometry().size_bytes, 16384);
        assert_eq!(block_on(part.read(0, 4096)).unwrap(), vec![7; 4096]);
        block_on(part.write(12288, vec![9; 4096].into())).unwrap();
        assert_eq!(block_on(part.device.read(20480, 4096)).unwrap(), vec![9; 4096]);
        for (offset, len) in [(16384, 4096), (12288, 8192), (u64::MAX - 4095, 4096)] {
            assert_eq!(block_on(part.read(offset, len)).unwrap_err().kind, ErrorKind::OutOfRange);
        }
        assert!(SliceDevice::new(RamDevice::new(8192, 4096), 4096, 8192).is_err());
        assert!(SliceDevice::new(RamDevice::new(8192, 4096), 512, 4096).is_err());
    }
}
