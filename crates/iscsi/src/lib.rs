//! Nitro's iSCSI target: the protocol (RFC 7143) and the SCSI disk behind it (SPC-5, SBC-4), over any byte stream.
//!
//! [`serve`] is one future for one connection, polled on one thread; it names no runtime. Each disk of [`Disks`](nitro_frontend::Disks) is a
//! target of its own, [`TARGET_PREFIX`] and the disk's name, with logical unit 0. A session has one connection; error recovery
//! level is 0. What sessions of one target share, as reservations, is in [`Targets`].
//!
//! Clients are not trusted. Lengths are checked before anything is allocated, memory is bounded by [`Limits`] and
//! [`RequestMemory`](nitro_frontend::RequestMemory), and what cannot be understood ends its own connection only.
#![forbid(unsafe_code)]

mod access;
mod error;
mod groups;
mod limits;
mod link;
mod login;
pub mod protocol;
pub mod scsi;
mod server;
mod session;
mod target;

pub use access::{Access, Account, Network};
pub use error::IscsiError;
pub use groups::Groups;
pub use limits::Limits;
pub use server::{ConnectionSummary, End, Ends, ServerOptions, TARGET_PREFIX, serve};
pub use target::{Keeper, Targets};
