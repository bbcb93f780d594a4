//! A device of any kind as one type: a test binary then compiles what is generic over devices only once.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use nitro_port::{Allocation, Device, DeviceError, Geometry, Origin, Recipe, Urgency};
use nitro_units::Fingerprint;
use std::any::{Any, type_name};
use std::ops::Range;
use std::sync::Arc;

type Answer<'a, T> = LocalBoxFuture<'a, Result<T, DeviceError>>;

/// [`Origin`], with boxed futures.
trait Object: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn geometry(&self) -> Geometry;
    fn read(&self, offset: u64, len: usize) -> Answer<'_, Bytes>;
    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> Answer<'_, Bytes>;
    fn write(&self, offset: u64, data: Bytes) -> Answer<'_, ()>;
    fn flush(&self) -> Answer<'_, ()>;
    fn discard(&self, offset: u64, len: u64) -> Answer<'_, ()>;
    fn reserve(&self, offset: u64, len: u64) -> Answer<'_, ()>;
    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Answer<'_, ()>;
    fn allocation(&self, offset: u64, len: u64) -> Answer<'_, Vec<Allocation>>;
    fn keeps_writes(&self) -> bool;
    fn unit_bytes(&self) -> Option<u32>;
    fn recipe_extent_bytes(&self) -> Option<u32>;
    fn recipe(&self, offset: u64, len: u64) -> Answer<'_, Recipe>;
    fn write_known<'a>(&'a self, offset: u64, data: Bytes, known: &'a [Option<Fingerprint>]) -> Answer<'a, ()>;
    fn reads_parts(&self) -> bool;
    fn read_parts<'a>(&'a self, urgency: Urgency, parts: &'a [Range<u64>]) -> Answer<'a, Vec<Bytes>>;
}

impl<D: Origin> Object for D {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn geometry(&self) -> Geometry {
        Device::geometry(self)
    }

    fn read(&self, offset: u64, len: usize) -> Answer<'_, Bytes> {
        Device::read(self, offset, len).boxed_local()
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> Answer<'_, Bytes> {
        Device::read_with(self, urgency, offset, len).boxed_local()
    }

    fn write(&self, offset: u64, data: Bytes) -> Answer<'_, ()> {
        Device::write(self, offset, data).boxed_local()
    }

    fn flush(&self) -> Answer<'_, ()> {
        Device::flush(self).boxed_local()
    }

    fn discard(&self, offset: u64, len: u64) -> Answer<'_, ()> {
        Device::discard(self, offset, len).boxed_local()
    }

    fn reserve(&self, offset: u64, len: u64) -> Answer<'_, ()> {
        Device::reserve(self, offset, len).boxed_local()
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Answer<'_, ()> {
        Device::write_zeroes(self, offset, len, may_unmap).boxed_local()
    }

    fn allocation(&self, offset: u64, len: u64) -> Answer<'_, Vec<Allocation>> {
        Device::allocation(self, offset, len).boxed_local()
    }

    fn keeps_writes(&self) -> bool {
        Origin::keeps_writes(self)
    }

    fn unit_bytes(&self) -> Option<u32> {
        Origin::unit_bytes(self)
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        Origin::recipe_extent_bytes(self)
    }

    fn recipe(&self, offset: u64, len: u64) -> Answer<'_, Recipe> {
        Origin::recipe(self, offset, len).boxed_local()
    }

    fn write_known<'a>(&'a self, offset: u64, data: Bytes, known: &'a [Option<Fingerprint>]) -> Answer<'a, ()> {
        Origin::write_known(self, offset, data, known).boxed_local()
    }

    fn reads_parts(&self) -> bool {
        Origin::reads_parts(self)
    }

    fn read_parts<'a>(&'a self, urgency: Urgency, parts: &'a [Range<u64>]) -> Answer<'a, Vec<Bytes>> {
        Origin::read_parts(self, urgency, parts).boxed_local()
    }
}

/// A device of any kind.
#[derive(Clone)]
pub struct Erased(Arc<dyn Object>);

impl Erased {
    /// Hides the type of a device.
    pub fn new(device: impl Origin) -> Self {
        Self(Arc::new(device))
    }

    /// The device.
    ///
    /// # Panics
    /// It is of another type.
    #[must_use]
    pub fn of<D: 'static>(&self) -> &D {
        self.0.as_any().downcast_ref().unwrap_or_else(|| panic!("the device is no {}", type_name::<D>()))
    }
}

impl Device for Erased {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        self.0.read(offset, len)
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        self.0.read_with(urgency, offset, len)
    }

    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>> {
        self.0.write(offset, data)
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>> {
        self.0.discard(offset, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>> {
        self.0.reserve(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> impl Future<Output = Result<(), DeviceError>> {
        self.0.write_zeroes(offset, len, may_unmap)
    }

    fn allocation(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Allocation>, DeviceError>> {
        self.0.allocation(offset, len)
    }
}

impl Origin for Erased {
    fn keeps_writes(&self) -> bool {
        self.0.keeps_writes()
    }

    fn unit_bytes(&self) -> Option<u32> {
        self.0.unit_bytes()
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        self.0.recipe_extent_bytes()
    }

    fn recipe(&self, offset: u64, len: u64) -> impl Future<Output = Result<Recipe, DeviceError>> {
        self.0.recipe(offset, len)
    }

    async fn write_known(&self, offset: u64, data: Bytes, known: &[Option<Fingerprint>]) -> Result<(), DeviceError> {
        self.0.write_known(offset, data, known).await
    }

    fn reads_parts(&self) -> bool {
        self.0.reads_parts()
    }

    async fn read_parts(&self, urgency: Urgency, parts: &[Range<u64>]) -> Result<Vec<Bytes>, DeviceError> {
        self.0.read_parts(urgency, parts).await
    }
}
