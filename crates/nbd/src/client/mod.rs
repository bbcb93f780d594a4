//! The client side of the protocol: an export of an NBD server as a [`Device`](nitro_port::Device), over any byte stream.
//!
//! [`open`] connects, and returns a [`RemoteDisk`] for any number of threads and a [`Driver`], a future that one thread polls. The
//! driver keeps up to [`connections_max`](ClientOptions::connections_max) connections with many requests under way on each. If one ends,
//! it gives up all of them, connects again, and sends again what the server had acknowledged since its last FLUSH, before anything
//! else: a server may have lost that. It sends nothing to an export of another size.
//!
//! Servers are not trusted: lengths and counts are checked before memory is taken for them.

mod core;
mod counters;
mod drive;
mod error;
mod export;
mod handshake;
mod inbox;
mod job;
mod receive;
mod remote;
mod stream;
mod unflushed;

pub use counters::NbdCounters;
pub use drive::{ClientOptions, Connect, Driver, open};
pub use error::ClientError;
pub use export::Export;
pub use remote::RemoteDisk;
pub use stream::Security;
