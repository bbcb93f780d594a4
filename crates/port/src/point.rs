//! Consistent points: states of a volume as a whole that its origin goes through, one after the other.

use crate::DeviceError;
use bytes::Bytes;
use std::pin::Pin;

/// A part of a point. Parts are added in the order in which they are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointPart {
    /// Bytes at an offset.
    Data {
        /// Of the first byte in the origin.
        offset: u64,
        /// The bytes: whole blocks of the origin.
        bytes: Bytes,
    },
    /// A range that is all zeroes.
    Zeroes {
        /// Of its first byte.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// A range that was trimmed.
    Unneeded {
        /// Of its first byte.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
}

/// Which point it is, and of when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PointStamp {
    /// Counts the points of an origin, from 1; 0: there was none.
    pub number: u64,
    /// When it was frozen, in milliseconds since 1970 (UTC).
    pub unix_ms: u64,
}

/// What a [`PointLog`] returns: boxed, since a volume knows its log as an object.
pub type PointFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>> + 'a>>;

/// Where a point is collected before the origin is changed: outside the cache, so that whoever opens the origin next finds it there.
///
/// A point is begun, gets its parts, and is sealed: from then on it counts, whatever happens, and the origin may be changed. Once the
/// origin has it durably, it is finished. One caller at a time.
pub trait PointLog: Send + Sync {
    /// The time, in milliseconds since 1970 (UTC).
    fn unix_ms(&self) -> u64;

    /// The last point that the origin has whole, or that is sealed.
    fn last(&self) -> PointStamp;

    /// Whether a point is sealed and not finished: the origin may have a part of it, and nothing may be begun.
    fn is_sealed(&self) -> bool;

    /// Begins a point; what was collected and not sealed is dropped.
    fn begin(&self, number: u64) -> PointFuture<'_, ()>;

    /// Adds parts to the point that was begun.
    fn add(&self, parts: Vec<PointPart>) -> PointFuture<'_, ()>;

    /// Makes the point durable, and then that it counts.
    fn seal(&self, unix_ms: u64) -> PointFuture<'_, ()>;

    /// Some parts of the sealed point from position `from` on, and the position of the next ones; 0 is the first position.
    /// `None`: there are no more.
    fn read(&self, from: u64) -> PointFuture<'_, Option<(Vec<PointPart>, u64)>>;

    /// Notes, durably, that the origin has the sealed point, durably.
    fn finish(&self) -> PointFuture<'_, ()>;
}
