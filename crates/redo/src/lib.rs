//! Redo files: how an origin that has no snapshots of its own goes from one consistent point to the next.
//!
//! All that changed since the last point is written to the redo file, and made durable; then a mark in the file says, durably, that
//! it is complete; then the origin is changed, and flushed; then the mark says that it is done. Whoever opens the origin next
//! [applies](RedoLog::apply) a complete redo file, as often as it takes, and ignores an incomplete one. So the origin is, at any
//! moment and after any crash, at the last point or at the one before. docs/FORMAT.md has the tables.
#![forbid(unsafe_code)]

mod format;
mod log;

pub use format::{BLOCK_BYTES, CHUNK_BYTES_MAX, Chunk, ENTRIES_MAX, HEAD_BYTES, Header};
pub use log::{RedoError, RedoLog};
