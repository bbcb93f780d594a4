//! The write log: a ring of batches on a fast device of its own (NVRAM, a log SSD). In write-back, what is written is
//! acknowledged when it is there, durably, so that FLUSH need not wait for the cache device.
//!
//! `ring` is the log while it is in use: what waits to be written, what is there and still needed. `append` writes
//! batches, one at a time: whoever finds none under way writes all that waits, with one write and one flush. `read` goes
//! through what a crash left; `start` decides whether a cache may be started with the log that it is given.
//!
//! Contents are whole extents, also where a client wrote less: they say everything without what they are part of, so that
//! a restart needs no origin, and the newest of an extent is all that counts. A batch is needed until the journal says
//! that everything of it, and of all before it, is in the cache. Where an origin is to be written to past the cache, and
//! the log may still hold older contents of those extents, the log is told first that these are void.

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
