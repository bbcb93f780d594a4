//! Stream sockets, unix and TCP: listening, and connecting to servers.

mod connect;
mod credentials;
mod listener;
mod passed;
mod stream;

pub use connect::connect_to;
pub use listener::{Accepted, Access, ListenAddress, Listener, Peer, TcpLimits};
pub use passed::passed;
pub use stream::{StreamReader, StreamWriter};

use compio::runtime::Runtime;
use rustix::fd::AsFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;

/// Prepares a socket for the current thread's reactor. A ring waits for readiness itself, and with `O_NONBLOCK` it
/// would return `EAGAIN` instead; polling needs `O_NONBLOCK`.
fn adopt(socket: impl AsFd) -> io::Result<()> {
    let polling = Runtime::with_current(|runtime| runtime.driver_type().is_polling());
    let mut flags = fcntl_getfl(&socket)?;
    flags.set(OFlags::NONBLOCK, polling);
    Ok(fcntl_setfl(&socket, flags)?)
}
