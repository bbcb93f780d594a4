//! The ports: what the engine needs from the world, implemented by `nitro-device` for real and by simulated devices in
//! tests. Futures need not be `Send`: one is polled where it was made (thread per core); the devices themselves are
//! shared by all threads.

use bytes::Bytes;
use nitro_units::Fingerprint;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Size and granularity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity in bytes; a multiple of `block_bytes`.
    pub size_bytes: u64,
    /// Offsets and lengths of reads and writes are multiples of this: a power of two from 1 to 4096.
    pub block_bytes: u32,
    /// The request size in bytes from which the device is at its best; a hint for clients.
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

/// A block device: the origin, or the flash (SSD) of a cache.
///
/// The caller keeps requests within [`Geometry::size_bytes`] and aligned to [`Geometry::block_bytes`]; a device refuses
/// others with [`ErrorKind::OutOfRange`] or [`ErrorKind::Misaligned`]. A write is durable once a [`flush`](Self::flush)
/// that began after its end has returned `Ok`. Dropping a future does not undo its request.
pub trait Device: Send + Sync + 'static {
    /// Size and granularity. Constant but for `size_bytes`, which may grow.
    fn geometry(&self) -> Geometry;

    /// Reads `len` bytes at `offset`. The result starts at a page-aligned address where that saves a copy.
    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>>;

    /// Writes `data` at `offset`. Page-aligned data is written without a copy.
    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>>;

    /// Makes every write that has returned durable.
    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>>;

    /// Tells the device that a range holds nothing of worth; what it reads as afterwards is unspecified.
    /// [`ErrorKind::Unsupported`] where it cannot; the caller then goes on without.
    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>>;

    /// Has storage assigned to a range, so that later writes to it find room; what it holds stays. A device that has all its
    /// storage does nothing. [`ErrorKind::NoSpace`] where there is not enough, of which some may have been assigned then;
    /// [`ErrorKind::Unsupported`] where it cannot.
    fn reserve(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DeviceError>> {
        let _ = (offset, len);
        async { Ok(()) }
    }

    /// Makes a range read as zeroes without transferring them. With `may_unmap`, storage may be released.
    /// [`ErrorKind::Unsupported`] where that is not faster than writing zeroes; nothing has changed then.
    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> impl Future<Output = Result<(), DeviceError>>;

    /// The allocation map of a range, in order, covering it whole. A device that does not know says "allocated".
    fn allocation(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Allocation>, DeviceError>> {
        let _ = offset;
        async move { Ok(vec![Allocation { len, hole: false }]) }
    }
}

/// A device that volumes lie on. What a wrapper of one has to pass on has no default here: one that forgets it does not compile.
/// [`plain_origin!`](crate::plain_origin) is for devices that know no contents by fingerprint.
pub trait Origin: Device {
    /// Where the device knows contents by fingerprint (BLAKE3, cut to 160 bits), without reading them: the bytes of the
    /// extents that [`recipe`](Self::recipe) tells of.
    fn recipe_extent_bytes(&self) -> Option<u32>;

    /// What a range of whole extents holds. Of a device that has recipes, see
    /// [`recipe_extent_bytes`](Self::recipe_extent_bytes), as many as the range has extents.
    fn recipe(&self, offset: u64, len: u64) -> impl Future<Output = Result<Recipe, DeviceError>>;

    /// As [`write`](Device::write), of a device that has recipes; with the fingerprints of the extents that the range
    /// touches, in order, `None` where it is not known. They are trusted.
    fn write_known(
        &self,
        offset: u64,
        data: Bytes,
        known: &[Option<Fingerprint>],
    ) -> impl Future<Output = Result<(), DeviceError>>;
}

/// Makes a device an [`Origin`] that knows no contents by fingerprint: `plain_origin!(MyDevice)`, or
/// `plain_origin!(<D: Device> MyDevice<D>)`.
#[macro_export]
macro_rules! plain_origin {
    (<$($parameter:ident: $bound:path),+> $device:ty) => {
        $crate::plain_origin!(@ [$($parameter: $bound),+] $device);
    };
    (@ [$($parameter:ident: $bound:path),*] $device:ty) => {
        impl<$($parameter: $bound),*> $crate::Origin for $device {
            fn recipe_extent_bytes(&self) -> Option<u32> {
                None
            }

            async fn recipe(&self, offset: u64, len: u64) -> Result<$crate::Recipe, $crate::DeviceError> {
                Err($crate::DeviceError::new($crate::ErrorKind::Unsupported, $crate::Operation::Read, offset, len))
            }

            async fn write_known(
                &self,
                offset: u64,
                data: $crate::Bytes,
                _known: &[Option<$crate::Fingerprint>],
            ) -> Result<(), $crate::DeviceError> {
                $crate::Device::write(self, offset, data).await
            }
        }
    };
    ($device:ty) => {
        $crate::plain_origin!(@ [] $device);
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

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> impl Future<Output = Result<(), DeviceError>> {
        (**self).write_zeroes(offset, len, may_unmap)
    }

    fn allocation(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Allocation>, DeviceError>> {
        (**self).allocation(offset, len)
    }
}

impl<D: Origin> Origin for Arc<D> {
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
}

/// Time, as the engine sees it.
pub trait Clock: Send + Sync + 'static {
    /// Time since an arbitrary fixed moment; never goes back.
    fn now(&self) -> Duration;

    /// Ends after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// What a device was asked to do when it failed.
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
    /// The request reaches past the end.
    OutOfRange,
    /// Offset or length is not a multiple of the block size.
    Misaligned,
    /// The device has no such operation.
    Unsupported,
    /// The device may not be written to.
    ReadOnly,
    /// No answer came in time.
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
    /// Why.
    pub kind: ErrorKind,
    /// What was asked.
    pub operation: Operation,
    /// At which byte.
    pub offset: u64,
    /// How many bytes.
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
