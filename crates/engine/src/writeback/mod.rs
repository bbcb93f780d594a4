//! Write-back and the journal's write side: what makes the cache's own data durable.
//!
//! `ledger` collects journal records and wakes the committer; `dirty` inserts dirty extents into separate write-evict
//! units; `shares` manages each volume's share of the room for them; `committer` writes records and data with one
//! flush; `snapshot` writes the whole state when the journal's log is full. The [`Budget`](crate::journal::Budget)
//! bounds the records of each of them.

mod committer;
mod dirty;
mod ledger;
mod shares;
mod snapshot;

pub(crate) use committer::Commits;
pub(crate) use dirty::DirtyOpen;
pub(crate) use ledger::{Ledger, Room};
pub use shares::DirtyShare;
pub(crate) use shares::Shares;

use std::time::Duration;

/// How long to wait for room for dirty extents before looking again.
pub(crate) const ROOM_WAIT: Duration = Duration::from_millis(100);
