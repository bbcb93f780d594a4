//! Nitro's iSCSI target: the protocol (RFC 7143) and the SCSI disk behind it (SPC-5, SBC-4), over any byte stream.
//!
//! [`serve`] is one future for one connection, polled on one thread; it depends on no async runtime. Each disk of
//! [`Disks`](nitro_frontend::Disks) is a target of its own, with logical unit 0; its
//! [`UnitIdentity`](nitro_frontend::UnitIdentity) has the target's name. A session has one connection; the error recovery level is 0. [`Targets`] holds the state that
//! the sessions of a target share, such as reservations.
//!
//! Clients are not trusted. Lengths are checked before anything is allocated, memory is bounded by [`Limits`] and
//! [`RequestMemory`](nitro_frontend::RequestMemory), and a malformed PDU ends only its own connection.
#![forbid(unsafe_code)]

mod access;
mod error;
mod groups;
mod limits;
mod link;
mod login;
mod name;
pub mod protocol;
pub mod scsi;
mod server;
mod session;
mod target;

pub use access::{Access, Account, AllowList, Network};
pub use error::IscsiError;
pub use groups::{Groups, IoClass};
pub use limits::Limits;
pub use name::{Name, NameError, NamePattern};
pub use nitro_frontend::TARGET_PREFIX;
pub use server::{ConnectionSummary, End, Ends, ServerOptions, serve};
pub use target::{Keeper, StoredStates, Targets};
