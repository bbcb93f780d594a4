//! NBD: the protocol ([doc/proto.md][proto] of the NBD project), over any byte stream. Nitro's server, and in [`client`] the
//! client that makes an export of another server a device.
//!
//! [`serve`] is one future for one connection, polled on one thread; it depends on no async runtime. It serves a
//! [`Disk`](nitro_frontend::Disk) to a client at the other end of a [`ReadHalf`](transport::ReadHalf) and a
//! [`WriteHalf`](transport::WriteHalf). The crate has no caching logic and opens no sockets; its tests run in memory
//! (see [`transport::memory`]).
//!
//! Clients are not trusted. Lengths are checked before anything is allocated, memory is bounded by [`Limits`] and
//! [`RequestMemory`], and a malformed message ends only its own connection.
//!
//! [proto]: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
#![forbid(unsafe_code)]

pub mod client;
mod context;
mod errno;
mod error;
mod handshake;
mod limits;
mod link;
pub mod protocol;
mod server;
mod session;
mod tls;

pub use context::Context;
pub use errno::NbdErrno;
pub use error::{NbdError, Phase};
pub use limits::Limits;
pub use nitro_frontend::{RECEIVE_BYTES, RequestMemory, transport};
pub use server::{ConnectionSummary, ServerOptions, serve};
pub use session::End;
pub use tls::{ClientTlsFiles, FINGERPRINT_PREFIX, TlsFiles, TlsPolicy};
