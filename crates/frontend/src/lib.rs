//! The interface between front ends and the server: a [`Disk`] as its clients see it. NBD, iSCSI, vhost-user-blk and
//! ublk translate their protocols into its calls; the server implements it for volumes behind a cache, and tests implement
//! it in memory.
//!
//! docs/adding-a-front-end.md shows how to write another front end.
#![forbid(unsafe_code)]

mod connection;
mod disk;
mod error;
mod identity;
pub mod limits;
mod memory;
mod pace;
mod receiver;
mod replies;
mod requester;
mod scatter;
mod status;
mod tasks;
pub mod transport;
mod unflushed;

pub use connection::{Connection, Count, Counts, Protocol, Work, drive, leave};
pub use disk::{Caller, Disk, DiskInfo, DiskName, Disks, Opened, Pieces, ZeroFlags};
pub use error::DiskError;
pub use identity::{SHORT_SERIAL_BYTES, TARGET_PREFIX, UnitIdentity};
pub use memory::{RequestMemory, Share, Turn, TurnUnderWay, memory_bytes};
pub use pace::Pace;
pub use receiver::{RECEIVE_BYTES, Receiver};
pub use replies::{Batch, Cost, OutQueue};
pub use requester::Requester;
pub use scatter::{Scatter, Slices};
pub use status::{Run, StatusOf};
pub use tasks::Tasks;
pub use unflushed::Unflushed;

/// docs/adding-a-front-end.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-front-end.md")]
struct AddingAFrontEnd;

/// docs/adding-a-classifier.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-classifier.md")]
struct AddingAClassifier;
