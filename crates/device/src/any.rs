//! One type for every device that a user can configure, so that the program need not be generic.

use crate::{CompioClock, FileDevice, HddDevice, RamDevice};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::Either;
use nitro_port::{Allocation, Device, DeviceError, Geometry, Urgency};

/// A device of any kind that a user can configure.
pub enum AnyDevice {
    /// A file or block device.
    File(FileDevice),
    /// A file or block device made as slow as a hard disk, for demonstrations.
    Hdd(HddDevice<FileDevice, CompioClock>),
    /// RAM.
    Ram(RamDevice),
}

macro_rules! each {
    ($any:expr, $device:ident => $call:expr) => {
        match $any {
            AnyDevice::File($device) => $call,
            AnyDevice::Hdd($device) => $call,
            AnyDevice::Ram($device) => $call,
        }
    };
}

impl AnyDevice {
    /// The file or block device that it consists of; `None`: it is RAM.
    #[must_use]
    pub fn file(&self) -> Option<&FileDevice> {
        match self {
            Self::File(file) => Some(file),
            Self::Hdd(hdd) => Some(hdd.inner()),
            Self::Ram(_) => None,
        }
    }
}

impl Device for AnyDevice {
    fn geometry(&self) -> Geometry {
        each!(self, d => d.geometry())
    }

    // No `async fn`, and rare variants boxed: each request has such a future, which must be small.
    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        match self {
            Self::File(file) => Either::Left(file.read(offset, len)),
            Self::Hdd(hdd) => Either::Right(hdd.read(offset, len).boxed_local()),
            Self::Ram(ram) => Either::Right(ram.read(offset, len).boxed_local()),
        }
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        match self {
            Self::File(file) => Either::Left(file.read_with(urgency, offset, len)),
            // Its emulation has the queue of a disk, which knows no priorities.
            Self::Hdd(hdd) => Either::Right(hdd.read(offset, len).boxed_local()),
            Self::Ram(ram) => Either::Right(ram.read(offset, len).boxed_local()),
        }
    }

    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>> {
        match self {
            Self::File(file) => Either::Left(file.write(offset, data)),
            Self::Hdd(hdd) => Either::Right(hdd.write(offset, data).boxed_local()),
            Self::Ram(ram) => Either::Right(ram.write(offset, data).boxed_local()),
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        each!(self, d => d.flush().await)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        each!(self, d => d.discard(offset, len).await)
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        each!(self, d => d.reserve(offset, len).await)
    }

    async fn extend(&self, size_bytes: u64) -> Result<(), DeviceError> {
        each!(self, d => d.extend(size_bytes).await)
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        each!(self, d => d.write_zeroes(offset, len, may_unmap).await)
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        each!(self, d => d.allocation(offset, len).await)
    }
}

impl From<FileDevice> for AnyDevice {
    fn from(device: FileDevice) -> Self {
        Self::File(device)
    }
}

impl From<HddDevice<FileDevice, CompioClock>> for AnyDevice {
    fn from(device: HddDevice<FileDevice, CompioClock>) -> Self {
        Self::Hdd(device)
    }
}

impl From<RamDevice> for AnyDevice {
    fn from(device: RamDevice) -> Self {
        Self::Ram(device)
    }
}

nitro_port::plain_origin!(AnyDevice, keeps_writes: |device| !matches!(device, AnyDevice::Ram(_)));
