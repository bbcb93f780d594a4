//! The interfaces of the engine to devices and time, implemented by `nitro-device` and by simulated devices in tests.
//! Futures need not be `Send`: a future is polled by the thread that created it (thread per core); the devices
//! themselves are shared by all threads.

use bytes::Bytes;
use nitro_units::Fingerprint;
use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Size and granularity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity in bytes; a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Offsets and lengths of reads and writes are multiples of this: a power of two from 1 to 4096.
    pub block_bytes: u32,
    /// The preferred request size in bytes; a hint for clients.
    pub preferred_bytes: u32,
    /// Whether positioning is slow, as on a hard disk.
    pub rotational: bool,
}

/// One run of a device's allocation map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Length in bytes.
    pub len: u64,
    /// No storage is assigned to the run; it reads as zeroes.
    pub hole: bool,
}

/// The order of requests that wait for a device: the bands of priority of their classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Urgency {
    /// After all others.
    Low,
    /// Requests without a class, and those that are not of a client.
    #[default]
    Normal,
    /// Before the normal ones.
    High,
    /// Before all others.
    Highest,
}

impl Urgency {
    /// The number of them.
    pub const COUNT: usize = 4;
    /// From the last to the first.
    pub const ALL: [Self; Self::COUNT] = [Self::Low, Self::Normal, Self::High, Self::Highest];
}

/// A block device: the origin, or the flash (SSD) of a cache.
///
/// The caller keeps requests within [`Geometry::size_bytes`] and aligned to [`Geometry::block_bytes`]; a device refuses
/// others with [`ErrorKind::OutOfRange`] or [`ErrorKind::Misaligned`]. A write is durable once a [`flush`](Self::flush)
/// that began after its end has returned `Ok`. Dropping a future does not undo its request.
pub trait Device: Send + Sync + 'static {
    /// Size and granularity. Constant except `size_bytes`, which may grow.
    fn geometry(&self) -> Geometry;

    /// Reads `len` bytes at `offset`. The result starts at a page-aligned address if that saves a copy.
    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>>;

    /// As [`read`](Self::read), in an order with other requests that wait, if the device has a queue in which they do.
    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        let _ = urgency;
        self.read(offset, len)
    }

    /// Writes `data` at `offset`. Page-aligned data is written without a copy.
    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>>;

    /// Makes every write that has returned durable.
    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>>;

    /// Tells the device that the data of a range are not needed; its content is unspecified afterwards.
    /// [`ErrorKind::Unsupported`]: the device cannot do this; the caller then continues without it.
    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>>;

    /// Allocates storage for a range, so that later writes to it find room; its content does not change. A device with
    /// all its storage allocated does nothing. [`ErrorKind::NoSpace`]: there is not enough storage, of which some may
    /// have been allocated; [`ErrorKind::Unsupported`]: the device cannot do this.
    fn reserve(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>> {
        let _ = (offset, len);
        async { Ok(()) }
    }

    /// Makes the device at least `size_bytes` large, if it is smaller, and notices that it has become larger. What is new has no
    /// certain content. [`ErrorKind::Unsupported`]: it has the size that it has.
    fn extend(&self, size_bytes: u64) -> impl Future<Output = Result<(), DeviceError>> {
        let has = self.geometry().size_bytes;
        let refused = DeviceError::new(ErrorKind::Unsupported, Operation::Reserve, has, size_bytes.saturating_sub(has));
        async move { if size_bytes <= has { Ok(()) } else { Err(refused) } }
    }

    /// Makes a range read as zeroes without transferring them. With `may_unmap`, storage may be released.
    /// [`ErrorKind::Unsupported`]: this is not faster than writing zeroes; nothing has changed then.
    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> impl Future<Output = Result<(), DeviceError>>;

    /// The allocation map of a range, in order, covering it whole. A device without this information returns
    /// "allocated".
    fn allocation(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Allocation>, DeviceError>> {
        let _ = offset;
        async move { Ok(vec![Allocation { len, hole: false }]) }
    }
}

/// A device behind a volume. Methods that a wrapper has to pass on have no default here: a wrapper that does not pass
/// them on does not compile. [`plain_origin!`](crate::plain_origin) is for devices that do not know their contents by
/// fingerprint.
pub trait Origin: Device {
    /// Whether a write that has returned survives the end of the process (not that of the machine) also if it was not
    /// flushed.
    fn keeps_writes(&self) -> bool;

    /// If a write of a part of a unit costs about as much as one of the whole, as with objects of a bucket: the bytes of a unit, a power
    /// of two. Such a device gets whole units where it can, and is flushed less often.
    fn unit_bytes(&self) -> Option<u32>;

    /// If the device knows its contents by fingerprint (BLAKE3, cut to 160 bits) without reading them: the bytes of the
    /// extents in [`recipe`](Self::recipe).
    fn recipe_extent_bytes(&self) -> Option<u32>;

    /// The recipe of a range of whole extents. A device with recipes (see
    /// [`recipe_extent_bytes`](Self::recipe_extent_bytes)) returns one fingerprint for each extent of the range.
    fn recipe(&self, offset: u64, len: u64) -> impl Future<Output = Result<Recipe, DeviceError>>;

    /// As [`write`](Device::write), for a device with recipes, with the fingerprints of the extents that the range
    /// touches, in order; `None`: unknown. The device trusts them.
    fn write_known(
        &self,
        offset: u64,
        data: Bytes,
        known: &[Option<Fingerprint>],
    ) -> impl Future<Output = Result<(), DeviceError>>;

    /// Whether the device decides better than its caller which bytes are read with one request, because it does not
    /// store them in their order. Such a device is to be asked for all ranges of a request at once, with
    /// [`read_parts`](Self::read_parts).
    fn reads_parts(&self) -> bool;

    /// Reads several ranges, which are in order and do not overlap: as [`read_with`](Device::read_with) does each, but
    /// as few requests as possible are made for all. Only for a device that [`reads_parts`](Self::reads_parts).
    fn read_parts(
        &self,
        urgency: Urgency,
        parts: &[Range<u64>],
    ) -> impl Future<Output = Result<Vec<Bytes>, DeviceError>>;
}

/// Reads ranges one after the other: [`Origin::read_parts`] of a device that does not [read parts](Origin::reads_parts).
///
/// # Errors
/// That of the first range that cannot be read.
pub async fn read_each(
    device: &impl Device,
    urgency: Urgency,
    parts: &[Range<u64>],
) -> Result<Vec<Bytes>, DeviceError> {
    let mut read = Vec::with_capacity(parts.len());
    for part in parts {
        read.push(device.read_with(urgency, part.start, (part.end - part.start) as usize).await?);
    }
    Ok(read)
}

/// Makes a device an [`Origin`] that does not know its contents by fingerprint: `plain_origin!(MyDevice)`, or
/// `plain_origin!(<D: Device> MyDevice<D>)`. Its writes survive the end of the process, as those of files and block
/// devices do; `plain_origin!(MyDevice, keeps_writes: |device| ...)` decides for each device whether they do. It has no units,
/// unless `unit_bytes: |device| ...` follows.
#[macro_export]
macro_rules! plain_origin {
    (<$($parameter:ident: $bound:path),+> $device:ty) => {
        $crate::plain_origin!(@ [$($parameter: $bound),+] $device, |_| true, |_| None);
    };
    (@ [$($parameter:ident: $bound:path),*] $device:ty, $keeps_writes:expr, $unit_bytes:expr) => {
        impl<$($parameter: $bound),*> $crate::Origin for $device {
            fn keeps_writes(&self) -> bool {
                let keeps_writes: fn(&Self) -> bool = $keeps_writes;
                keeps_writes(self)
            }

            fn unit_bytes(&self) -> Option<u32> {
                let unit_bytes: fn(&Self) -> Option<u32> = $unit_bytes;
                unit_bytes(self)
            }

            fn recipe_extent_bytes(&self) -> Option<u32> {
                None
            }

            async fn recipe(&self, offset: u64, len: u64) -> Result<$crate::Recipe, $crate::DeviceError> {
                Err($crate::DeviceError::new($crate::ErrorKind::Unsupported, $crate::Operation::Read, offset, len))
            }

            fn write_known(
                &self,
                offset: u64,
                data: $crate::Bytes,
                _known: &[Option<$crate::Fingerprint>],
            ) -> impl Future<Output = Result<(), $crate::DeviceError>> {
                $crate::Device::write(self, offset, data)
            }

            fn reads_parts(&self) -> bool {
                false
            }

            fn read_parts(
                &self,
                urgency: $crate::Urgency,
                parts: &[::std::ops::Range<u64>],
            ) -> impl Future<Output = Result<Vec<$crate::Bytes>, $crate::DeviceError>> {
                $crate::read_each(self, urgency, parts)
            }
        }
    };
    ($device:ty) => {
        $crate::plain_origin!(@ [] $device, |_| true, |_| None);
    };
    ($device:ty, keeps_writes: $keeps_writes:expr) => {
        $crate::plain_origin!(@ [] $device, $keeps_writes, |_| None);
    };
    ($device:ty, keeps_writes: $keeps_writes:expr, unit_bytes: $unit_bytes:expr) => {
        $crate::plain_origin!(@ [] $device, $keeps_writes, $unit_bytes);
    };
}

/// Fingerprints of extents, in order; `None` for one that is all zeroes.
pub type Recipe = Vec<Option<Fingerprint>>;

impl<D: Device> Device for Arc<D> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        (**self).read(offset, len)
    }

    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        (**self).read_with(urgency, offset, len)
    }

    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).write(offset, data)
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).flush()
    }

    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).discard(offset, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).reserve(offset, len)
    }

    fn extend(&self, size_bytes: u64) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).extend(size_bytes)
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).write_zeroes(offset, len, may_unmap)
    }

    fn allocation(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Allocation>, DeviceError>> {
        (**self).allocation(offset, len)
    }
}

impl<D: Origin> Origin for Arc<D> {
    fn keeps_writes(&self) -> bool {
        (**self).keeps_writes()
    }

    fn unit_bytes(&self) -> Option<u32> {
        (**self).unit_bytes()
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        (**self).recipe_extent_bytes()
    }

    fn recipe(&self, offset: u64, len: u64) -> impl Future<Output = Result<Recipe, DeviceError>> {
        (**self).recipe(offset, len)
    }

    fn write_known(
        &self,
        offset: u64,
        data: Bytes,
        known: &[Option<Fingerprint>],
    ) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).write_known(offset, data, known)
    }

    fn reads_parts(&self) -> bool {
        (**self).reads_parts()
    }

    fn read_parts(
        &self,
        urgency: Urgency,
        parts: &[Range<u64>],
    ) -> impl Future<Output = Result<Vec<Bytes>, DeviceError>> {
        (**self).read_parts(urgency, parts)
    }
}

/// The engine's clock.
pub trait Clock: Send + Sync + 'static {
    /// Time since an arbitrary fixed moment; it never decreases.
    fn now(&self) -> Duration;

    /// Ends after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// The operation of a device that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opening it.
    Open,
    /// [`Device::read`].
    Read,
    /// [`Device::write`].
    Write,
    /// [`Device::flush`].
    Flush,
    /// [`Device::discard`].
    Discard,
    /// [`Device::reserve`].
    Reserve,
    /// [`Device::write_zeroes`].
    WriteZeroes,
    /// [`Device::allocation`].
    Allocation,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Reserve => "reserve",
            Self::WriteZeroes => "write zeroes",
            Self::Allocation => "allocation map",
        })
    }
}

/// Why a device failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The medium or the path to it failed.
    Io,
    /// No space is left.
    NoSpace,
    /// The request extends beyond the end.
    OutOfRange,
    /// Offset or length is not a multiple of the block size.
    Misaligned,
    /// The device does not support the operation.
    Unsupported,
    /// The device may not be written to.
    ReadOnly,
    /// The device did not answer in time.
    TimedOut,
}

impl ErrorKind {
    /// One lower-case phrase.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Io => "I/O error",
            Self::NoSpace => "no space left",
            Self::OutOfRange => "past the end of the device",
            Self::Misaligned => "not a multiple of the block size",
            Self::Unsupported => "not supported",
            Self::ReadOnly => "read-only device",
            Self::TimedOut => "no answer in time",
        }
    }
}

/// A failed device operation.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{operation} of {len} bytes at {offset}: {}", kind.as_str())]
pub struct DeviceError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The operation.
    pub operation: Operation,
    /// The offset in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// The operating system's error, if there is one.
    #[source]
    pub source: Option<Arc<io::Error>>,
}

impl DeviceError {
    /// An error without a source.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: Operation, offset: u64, len: u64) -> Self {
        Self { kind, operation, offset, len, source: None }
    }

    /// An error of the operating system; its kind is derived from `source`.
    #[must_use]
    pub fn from_io(source: io::Error, operation: Operation, offset: u64, len: u64) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => ErrorKind::ReadOnly,
            _ => ErrorKind::Io,
        };
        Self { kind, operation, offset, len, source: Some(Arc::new(source)) }
    }

    /// Checks a request against a geometry, as every device does first.
    ///
    /// # Errors
    /// [`ErrorKind::Misaligned`] or [`ErrorKind::OutOfRange`].
    pub fn check(geometry: &Geometry, operation: Operation, offset: u64, len: u64) -> Result<(), Self> {
        let block = u64::from(geometry.block_bytes);
        if !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Err(Self::new(ErrorKind::Misaligned, operation, offset, len));
        }
        match offset.checked_add(len) {
            Some(end) if end <= geometry.size_bytes => Ok(()),
            _ => Err(Self::new(ErrorKind::OutOfRange, operation, offset, len)),
        }
    }
}
