//! Listening and accepting.

use super::stream::{self, StreamReader, StreamWriter};
use super::{adopt, credentials};
use crate::error::{Error, ErrorKind};
use crate::linger::patiently;
use crate::runtime::{Lent, adopt_socket};
use compio::driver::op::Accept;
use compio::runtime::submit;
use compio_buf::{BufResult, IntoInner};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, chmod, chownat, fchmod, stat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, getsockname, listen, socket_with, sockopt,
};
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Send buffer of an accepted connection in bytes: a batch of replies is sent with one system call.
const SEND_BUFFER_BYTES: usize = 4 << 20;
/// Receive buffer of an accepted unix connection in bytes. The kernel tunes the buffer of TCP connections itself.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// The address of a listener, or of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A unix socket's path.
    Unix(PathBuf),
    /// An IP address and a port; with port 0, the kernel chooses the port.
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

/// Permissions to connect to a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The socket file's permissions.
    pub mode: u32,
    /// The socket file's group; `None`: the group of the process.
    pub group: Option<u32>,
}

/// The time after which a TCP connection to an unreachable peer is closed. Zero: the kernel's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpLimits {
    /// Idle time after which the peer is probed; the connection is closed after 6 unanswered probes at intervals of 10
    /// s.
    pub keepalive: Duration,
    /// The time that sent data may stay unacknowledged (`TCP_USER_TIMEOUT` of tcp(7)).
    pub user_timeout: Duration,
}

impl Default for TcpLimits {
    /// One minute for `keepalive`, two for `user_timeout`.
    fn default() -> Self {
        Self { keepalive: Duration::from_secs(60), user_timeout: Duration::from_secs(120) }
    }
}

/// The number of probes of an idle connection, and their interval.
const PROBES: u32 = 6;
const PROBES_EVERY: Duration = Duration::from_secs(10);

/// The peer of a connection, for limits by peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A local process, by its user and number.
    Process {
        /// User ID.
        uid: u32,
        /// Process ID; 0 for a process of another PID namespace.
        pid: i32,
    },
    /// A host; with IPv6, the network of 64 bits that it is in.
    Host(IpAddr),
    /// The peer is unknown.
    Unknown,
}

/// A listening socket. Accepts on the reactor that polls it.
pub struct Listener {
    socket: Arc<OwnedFd>,
    address: ListenAddress,
    /// The socket file's device and inode; the file is removed with the listener.
    file: Option<(u64, u64)>,
    tcp: TcpLimits,
}

impl Listener {
    /// Starts to listen. A unix socket is accessible only to its owner (mode 0600), and a stale socket file is
    /// replaced. To be called inside a [`Reactor`](crate::Reactor).
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if another socket listens there, [`ErrorKind::Exists`] if the path is a file of another
    /// kind, or the error of the operating system.
    pub fn bind(address: &ListenAddress) -> Result<Self, Error> {
        let fail = |e: io::Error| Error::from_io(e, "listen on", address);
        let listener = match address {
            ListenAddress::Unix(path) => {
                patiently(|| remove_stale(path, address), |e| e.kind == ErrorKind::InUse)?;
                let socket = bind_unix(path).map_err(|e| fail(e.into()))?;
                let file = stat(path).ok().map(|s| (s.st_dev, s.st_ino));
                Self { socket: Arc::new(socket), address: address.clone(), file, tcp: TcpLimits::default() }
            }
            ListenAddress::Tcp(wanted) => {
                let socket = TcpListener::bind(wanted).map_err(fail)?;
                let address = ListenAddress::Tcp(socket.local_addr().map_err(fail)?);
                Self { socket: Arc::new(socket.into()), address, file: None, tcp: TcpLimits::default() }
            }
        };
        adopt(&listener.socket).map_err(fail)?;
        adopt_socket(&listener.socket);
        Ok(listener)
    }

    /// Checks what [`bind`](Self::bind) would refuse. No file is created or removed; a TCP port is taken for a moment.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn check(address: &ListenAddress) -> Result<(), Error> {
        match address {
            ListenAddress::Unix(path) => is_stale(path, address).map(drop),
            ListenAddress::Tcp(wanted) => {
                TcpListener::bind(wanted).map(drop).map_err(|e| Error::from_io(e, "listen on", address))
            }
        }
    }

    /// Adopts a socket that listens already; its file is not removed with it.
    pub(super) fn adopted(socket: OwnedFd, address: ListenAddress) -> io::Result<Self> {
        let listener = Self { socket: Arc::new(socket), address, file: None, tcp: TcpLimits::default() };
        adopt(&listener.socket)?;
        adopt_socket(&listener.socket);
        Ok(listener)
    }

    /// The address, with the port that the kernel chose.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Sets the limits of connections that are accepted from now on.
    #[must_use]
    pub fn with_tcp(mut self, tcp: TcpLimits) -> Self {
        self.tcp = tcp;
        self
    }

    /// Lets other users connect to a unix socket; TCP sockets have no such permissions.
    ///
    /// # Errors
    /// The error of the operating system, such as for a group of which this user is not a member.
    pub fn open_to(&self, access: Access) -> Result<(), Error> {
        let ListenAddress::Unix(path) = &self.address else { return Ok(()) };
        let group = access.group.map(Gid::from_raw);
        // The group is set first: until the mode is changed, only the owner can connect.
        let opened = group.map_or(Ok(()), |group| chownat(CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW));
        opened
            .and_then(|()| chmod(path, Mode::from_raw_mode(access.mode)))
            .map_err(|e| Error::from_io(e, "let others connect to", &self.address))
    }

    /// Waits for the next connection. A failure concerns one connection, or lasts until file descriptors are free
    /// again.
    ///
    /// # Errors
    /// The error of the operating system.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let BufResult(result, op) = submit(Accept::new(Lent::new(&self.socket))).await;
        result?;
        let (socket, _) = op.into_inner();
        let socket = OwnedFd::from(socket);
        match self.address {
            ListenAddress::Tcp(_) => tune_tcp(&socket, self.tcp),
            ListenAddress::Unix(_) => tune_unix(&socket),
        }
        Ok(Accepted { socket })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let (ListenAddress::Unix(path), Some(file)) = (&self.address, self.file)
            && stat(path).is_ok_and(|s| (s.st_dev, s.st_ino) == file)
        {
            // If this fails, the next listener on the path removes the file.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a stale socket file.
fn remove_stale(path: &Path, address: &ListenAddress) -> Result<(), Error> {
    match is_stale(path, address)? {
        true => fs::remove_file(path).map_err(|e| Error::from_io(e, "listen on", address)),
        false => Ok(()),
    }
}

/// Whether there is a socket at which no process listens. An error: there is something else.
fn is_stale(path: &Path, address: &ListenAddress) -> Result<bool, Error> {
    let Ok(found) = stat(path) else { return Ok(false) };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(Error::new(ErrorKind::Exists, "listen on", address));
    }
    let fail = |e: Errno| Error::from_io(e, "listen on", address);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(fail)?;
    match connect(&probe, &SocketAddrUnix::new(path).map_err(fail)?) {
        Err(Errno::CONNREFUSED) => Ok(true),
        // EAGAIN means that the queue of connections is full, so a process listens.
        Ok(()) | Err(Errno::AGAIN) => Err(Error::new(ErrorKind::InUse, "listen on", address)),
        Err(e) => Err(fail(e)),
    }
}

fn bind_unix(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Linux creates the socket file with the mode of the socket itself, so it is never accessible to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Sets the buffers of a connection. The maximum sizes are set by the administrator, so errors are ignored.
pub(super) fn tune_unix(socket: &OwnedFd) {
    // The forced variant exceeds net.core.wmem_max, if the process has the privilege.
    let _ = sockopt::set_socket_send_buffer_size_force(socket, SEND_BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, SEND_BUFFER_BYTES));
    let _ = sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER_BYTES);
}

pub(super) fn tune_tcp(socket: &OwnedFd, limits: TcpLimits) {
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    if !limits.keepalive.is_zero() {
        let _ = sockopt::set_tcp_keepidle(socket, limits.keepalive);
        let _ = sockopt::set_tcp_keepintvl(socket, PROBES_EVERY);
        let _ = sockopt::set_tcp_keepcnt(socket, PROBES);
    }
    if !limits.user_timeout.is_zero() {
        let millis = u32::try_from(limits.user_timeout.as_millis()).unwrap_or(u32::MAX);
        let _ = sockopt::set_tcp_user_timeout(socket, millis);
    }
}

/// An accepted connection without a reactor; it can be sent to the thread that is to serve it.
#[derive(Debug)]
pub struct Accepted {
    socket: OwnedFd,
}

impl Accepted {
    /// Attaches the connection to the current thread's reactor.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn into_split(self) -> io::Result<(StreamReader, StreamWriter)> {
        stream::split(Arc::new(self.socket))
    }

    /// The peer, for limits by peer.
    #[must_use]
    pub fn peer_identity(&self) -> Peer {
        if let Some(SocketAddr::V6(address)) = self.peer_address()
            && address.ip().to_ipv4_mapped().is_none()
        {
            let network = u128::from(*address.ip()) >> 64 << 64;
            return Peer::Host(Ipv6Addr::from(network).into());
        }
        match (self.peer_address(), credentials::peer(&self.socket)) {
            (Some(address), _) => Peer::Host(address.ip().to_canonical()),
            (None, Ok((uid, pid))) => Peer::Process { uid, pid },
            (None, Err(_)) => Peer::Unknown,
        }
    }

    /// The local address of the connection; `None` for a unix socket.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(getsockname(&self.socket).ok()?).ok()
    }

    /// The peer's address; `None` if it has none.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let address = rustix::net::getpeername(&self.socket).ok().flatten()?;
        SocketAddr::try_from(address).ok()
    }

    /// The peer's name for logs: its IP address and port, or `unix`.
    #[must_use]
    pub fn peer(&self) -> String {
        let unix = || "unix".to_owned();
        match getsockname(&self.socket).map(|a| a.address_family()) {
            Ok(AddressFamily::UNIX) | Err(_) => unix(),
            Ok(_) => self.peer_address().map_or_else(unix, |a| a.to_string()),
        }
    }
}

impl AsFd for Accepted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Accepted> for OwnedFd {
    /// Takes the socket out, for another runtime.
    fn from(accepted: Accepted) -> Self {
        accepted.socket
    }
}

impl From<OwnedFd> for Accepted {
    /// Takes over a connected stream socket, such as one that a service manager passed.
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}
