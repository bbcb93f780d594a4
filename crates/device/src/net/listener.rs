//! Listening and accepting.

use super::adopt;
use super::stream::{self, StreamReader, StreamWriter};
use crate::error::{Error, ErrorKind};
use crate::linger::patiently;
use compio::driver::op::Accept;
use compio::runtime::submit;
use compio_buf::{BufResult, IntoInner};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, fchmod, stat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with, sockopt,
};
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Send buffer of an accepted connection in bytes: a batch of replies goes out in one system call.
const SEND_BUFFER_BYTES: usize = 4 << 20;
/// Receive buffer of an accepted unix connection in bytes. TCP's is left to the kernel, which tunes it.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A unix socket's path.
    Unix(PathBuf),
    /// An IP address and a port; port 0 lets the kernel choose.
    Tcp(SocketAddr),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// A listening socket. Accepts on the reactor that polls it.
pub struct Listener {
    socket: Arc<OwnedFd>,
    address: ListenAddress,
    /// The socket file's device and inode, to be removed with the listener.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Listens. A unix socket is open to its owner alone (mode 0600); a socket file that nobody answers on any more is
    /// replaced. To be called inside a [`Reactor`](crate::Reactor).
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if somebody listens there, [`ErrorKind::Exists`] if a file of another kind is in the way, or
    /// what the operating system says.
    pub fn bind(address: &ListenAddress) -> Result<Self, Error> {
        let fail = |e: io::Error| Error::from_io(e, "listen on", address);
        let listener = match address {
            ListenAddress::Unix(path) => {
                patiently(|| remove_stale(path, address), |e| e.kind == ErrorKind::InUse)?;
                let socket = bind_unix(path).map_err(|e| fail(e.into()))?;
                let file = stat(path).ok().map(|s| (s.st_dev, s.st_ino));
                Self { socket: Arc::new(socket), address: address.clone(), file }
            }
            ListenAddress::Tcp(wanted) => {
                let socket = TcpListener::bind(wanted).map_err(fail)?;
                let address = ListenAddress::Tcp(socket.local_addr().map_err(fail)?);
                Self { socket: Arc::new(socket.into()), address, file: None }
            }
        };
        adopt(&listener.socket).map_err(fail)?;
        Ok(listener)
    }

    /// Where it listens; with the port that the kernel chose.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Waits for the next connection. A failure concerns one connection, or passes when file descriptors are free again.
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let BufResult(result, op) = submit(Accept::new(Arc::clone(&self.socket))).await;
        result?;
        let (socket, _) = op.into_inner();
        let socket = OwnedFd::from(socket);
        let is_tcp = matches!(self.address, ListenAddress::Tcp(_));
        tune(&socket, is_tcp);
        Ok(Accepted { socket })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let (ListenAddress::Unix(path), Some(file)) = (&self.address, self.file)
            && stat(path).is_ok_and(|s| (s.st_dev, s.st_ino) == file)
        {
            // Left behind, it is removed by the next one who listens here.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket file on which nobody listens.
fn remove_stale(path: &Path, address: &ListenAddress) -> Result<(), Error> {
    let Ok(found) = stat(path) else { return Ok(()) };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(Error::new(ErrorKind::Exists, "listen on", address));
    }
    let fail = |e: Errno| Error::from_io(e, "listen on", address);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(fail)?;
    match connect(&probe, &SocketAddrUnix::new(path).map_err(fail)?) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(|e| Error::from_io(e, "listen on", address)),
        // Also EAGAIN: a queue of connections that is full has somebody behind it.
        Ok(()) | Err(Errno::AGAIN) => Err(Error::new(ErrorKind::InUse, "listen on", address)),
        Err(e) => Err(fail(e)),
    }
}

fn bind_unix(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux makes the socket file with the mode of the socket itself, so it is never open to others, not even briefly.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Sets an accepted connection up for speed. The limits are the administrator's, so a refusal does no harm.
fn tune(socket: &OwnedFd, is_tcp: bool) {
    if is_tcp {
        let _ = sockopt::set_tcp_nodelay(socket, true);
        let _ = sockopt::set_socket_keepalive(socket, true);
    } else {
        // The forced kind goes past net.core.wmem_max, with the privilege for it.
        let _ = sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER_BYTES)
            .or_else(|_| sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER_BYTES));
        let _ = sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER_BYTES);
    }
}

/// An accepted connection that no reactor has yet: it can be sent to the thread that is to serve it.
#[derive(Debug)]
pub struct Accepted {
    socket: OwnedFd,
}

impl Accepted {
    /// Hands the connection to the current thread's reactor.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn into_split(self) -> io::Result<(StreamReader, StreamWriter)> {
        stream::split(self.socket)
    }

    /// The peer, as a log names it: its IP address, or `unix`.
    #[must_use]
    pub fn peer(&self) -> String {
        let unix = || "unix".to_owned();
        match getsockname(&self.socket).map(|a| a.address_family()) {
            Ok(AddressFamily::UNIX) | Err(_) => unix(),
            Ok(_) => rustix::net::getpeername(&self.socket)
                .ok()
                .flatten()
                .and_then(|a| SocketAddr::try_from(a).ok())
                .map_or_else(unix, |a| a.to_string()),
        }
    }
}

impl From<OwnedFd> for Accepted {
    /// Takes over a connected stream socket, such as one that a service manager passed.
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}
