//! The interfaces between Nitro's crates: devices and clocks (implemented by `nitro-device`, and by simulated ones in
//! tests), the work that requests belong to, buffers, slices of devices, codecs and fingerprints, waiting and locks of
//! ranges on any executor.
//!
//! It names no async runtime and does no I/O.
#![forbid(unsafe_code)]

pub mod buf;
pub mod codec;
mod device;
mod identity;
pub mod latch;
mod point;
pub mod range_lock;
pub mod slice;
mod work;
pub mod yielding;

pub use bytes::Bytes;
pub use device::{
    Allocation, Clock, Device, DeviceError, ErrorKind, Geometry, Operation, Origin, Recipe, Urgency, read_each,
};
pub use identity::{Means, Sameness, StorageId};
pub use nitro_units::Fingerprint;
pub use point::{PointFuture, PointLog, PointPart, PointStamp};
pub use work::{Work, WorkKind};
