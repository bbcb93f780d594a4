//! Write-back and the journal's write side: what makes the cache's own data durable.
//!
//! `ledger` gathers what the journal is to be told, and wakes the committer; `dirty` puts dirty extents into write-evict
//! units of their own; `shares` keeps each volume's part of the room for them; `committer` writes what both have gathered,
//! with one flush; `snapshot` tells the whole state anew when the journal's log is full. What each of them may tell is bounded
//! by the [`Budget`](crate::journal::Budget).

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
