//! Stream sockets, unix and TCP.

mod credentials;
mod listener;
mod passed;
mod stream;

pub use listener::{Accepted, Access, ListenAddress, Listener, Peer, TcpLimits};
pub use passed::passed;
pub use stream::{StreamReader, StreamWriter};

use compio::runtime::Runtime;
use rustix::fd::AsFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;

/// Sets a socket up for the current thread's reactor: a ring waits by itself and must not be told to give up
/// (`O_NONBLOCK` would make it answer `EAGAIN`), polling needs just that.
fn adopt(socket: impl AsFd) -> io::Result<()> {
    let polling = Runtime::with_current(|runtime| runtime.driver_type().is_polling());
    let mut flags = fcntl_getfl(&socket)?;
    flags.set(OFlags::NONBLOCK, polling);
    Ok(fcntl_setfl(&socket, flags)?)
}
