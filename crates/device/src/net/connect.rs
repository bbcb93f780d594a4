//! Connecting to servers.

use super::listener::{ListenAddress, TcpLimits, tune_tcp, tune_unix};
use super::stream::{StreamReader, StreamWriter, split};
use crate::runtime::Lent;
use compio::driver::op::{Interest, PollOnce};
use compio::runtime::submit;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Connects to a server, on the current thread's reactor. May be dropped at any time.
///
/// # Errors
/// The error of the operating system. A unix socket whose queue of connections is full is [`io::ErrorKind::WouldBlock`].
pub async fn connect_to(address: &ListenAddress, limits: TcpLimits) -> io::Result<(StreamReader, StreamWriter)> {
    let family = match address {
        ListenAddress::Unix(_) => AddressFamily::UNIX,
        ListenAddress::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        ListenAddress::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = Arc::new(socket_with(family, SocketType::STREAM, flags, None)?);
    let begun = match address {
        ListenAddress::Unix(path) => {
            tune_unix(&socket);
            connect(&socket, &SocketAddrUnix::new(path)?)
        }
        ListenAddress::Tcp(address) => {
            tune_tcp(&socket, limits);
            connect(&socket, address)
        }
    };
    match begun {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            submit(PollOnce::new(Lent::new(&socket), Interest::Writable)).await.0?;
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    split(socket)
}
