//! The write log: a ring of batches on a separate fast device (NVRAM, a log SSD). In write-back, a write is
//! acknowledged when it is durable there, so that FLUSH need not wait for the cache device.
//!
//! `ring` is the state of the log in use: entries that wait to be written, and batches that are still needed. `append`
//! writes batches, one at a time: a caller that finds none in progress writes all waiting entries, with one write and
//! one flush. `read` reads the log after a crash; `start` decides whether a cache may be started with a given log.
//!
//! Contents are whole extents, even if a client wrote less: therefore a restart needs no origin to merge them, and uses
//! only the newest content of an extent. A batch is needed until the journal records that its contents, and those of
//! all batches before it, are in the cache. Before a write that bypasses the cache goes to the origin, the log gets an
//! entry that older contents of those extents are void, if it may still hold such contents.

mod append;
mod read;
mod ring;
mod start;

pub(crate) use read::{read_label, read_row};
pub(crate) use ring::{Logged, WriteLog};
pub(crate) use start::newest;
pub use start::{LogDevice, MissingLog};

use serde::Serialize;

/// The state of a write log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogStatus {
    /// In use: writes in write-back are durable when they are acknowledged.
    pub active: bool,
    /// Why it is not in use any more, if so.
    pub failed: Option<String>,
    /// Bytes of its ring.
    pub ring_bytes: u64,
    /// Bytes of it that are still needed.
    pub used_bytes: u64,
    /// Batches written.
    pub batches: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Times that writers waited for room in the ring.
    pub stalls: u64,
}
