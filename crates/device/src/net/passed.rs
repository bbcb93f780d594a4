//! Listening sockets that a service manager passes.

use super::listener::{ListenAddress, Listener};
use crate::error::Error;
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, sockopt};
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The first descriptor that a service manager passes (sd_listen_fds(3)).
const PASSED_FIRST: RawFd = 3;

/// The first `count` sockets that a service manager passed to this process; for each, an error if it is not a listening
/// stream socket. To be called once, inside a [`Reactor`](crate::Reactor), by a process to which this number of sockets
/// was passed.
pub fn passed(count: usize) -> Vec<Result<Listener, Error>> {
    let end = PASSED_FIRST.saturating_add(i32::try_from(count).unwrap_or(0));
    (PASSED_FIRST..end).map(take_over).collect()
}

#[expect(unsafe_code, reason = "a descriptor is known by its number alone")]
fn take_over(number: RawFd) -> Result<Listener, Error> {
    let fail = |e: io::Error| Error::from_io(e, "listen on", format_args!("descriptor {number}"));
    let invalid = |why: &'static str| fail(io::Error::new(io::ErrorKind::InvalidInput, why));
    // SAFETY: the descriptor is only examined; if it does not exist, the kernel returns an error.
    let looked_at = unsafe { BorrowedFd::borrow_raw(number) };
    let is_stream = sockopt::socket_type(looked_at).map_err(|e| fail(e.into()))? == SocketType::STREAM;
    if !is_stream || !sockopt::socket_acceptconn(looked_at).map_err(|e| fail(e.into()))? {
        return Err(invalid("it is not a listening stream socket"));
    }
    let name = getsockname(looked_at).map_err(|e| fail(e.into()))?;
    let address = match name.address_family() {
        AddressFamily::UNIX => {
            let unix = SocketAddrUnix::try_from(name).map_err(|e| fail(e.into()))?;
            let path = unix.path_bytes().ok_or_else(|| invalid("the socket has no path"))?;
            ListenAddress::Unix(PathBuf::from(OsStr::from_bytes(path)))
        }
        _ => ListenAddress::Tcp(SocketAddr::try_from(name).map_err(|e| fail(e.into()))?),
    };
    // SAFETY: the service manager has passed the descriptor to this process, which takes it over once (see `passed`).
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|e| fail(e.into()))?;
    Listener::adopted(socket, address).map_err(fail)
}
