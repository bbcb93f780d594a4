//! The device of an SSD as a trait object: the store and its SSD may have devices of different types.

use bytes::Bytes;
use futures_util::future::{FutureExt, LocalBoxFuture};
use nitro_port::{Device, DeviceError, Geometry};

/// A [`Device`] of an erased type.
pub(crate) trait Flash: Send + Sync + 'static {
    fn geometry(&self) -> Geometry;
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Bytes, DeviceError>>;
    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, Result<(), DeviceError>>;
    fn flush(&self) -> LocalBoxFuture<'_, Result<(), DeviceError>>;
}

impl<D: Device> Flash for D {
    fn geometry(&self) -> Geometry {
        Device::geometry(self)
    }

    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Bytes, DeviceError>> {
        Device::read(self, offset, len).boxed_local()
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, Result<(), DeviceError>> {
        Device::write(self, offset, data).boxed_local()
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), DeviceError>> {
        Device::flush(self).boxed_local()
    }
}
