//! `[server]`

use super::Span;
use super::access::{SocketMode, access};
use super::iscsi::IscsiConfig;
use super::otlp::OtlpUrl;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::net::{Access, ListenAddress, TcpLimits};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::net::ToSocketAddrs;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The server: where it listens and what it allows.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Addresses for clients; if empty, a unix socket for NBD in the user's runtime directory.
    #[serde(default)]
    pub listen: Vec<Address>,
    /// The control socket; default: in the folder of the NBD socket.
    pub control: Option<PathBuf>,
    /// Permissions of the NBD clients' unix sockets; default: 0600, 0660 with a group.
    pub socket_mode: Option<SocketMode>,
    /// The group of the NBD clients' unix sockets, by name or number.
    pub socket_group: Option<String>,
    /// Permissions of the control socket, whose users may run all commands; default: 0600, 0660 with a group.
    pub control_mode: Option<SocketMode>,
    /// The group of the control socket, by name or number.
    pub control_group: Option<String>,
    /// The address for metrics and the web page over HTTP; default: not served.
    pub http: Option<HttpAddress>,
    /// Permissions of HTTP's unix socket; default: 0600, 0660 with a group.
    pub http_mode: Option<SocketMode>,
    /// The group of HTTP's unix socket, by name or number.
    pub http_group: Option<String>,
    /// A file with the token that allows actions over HTTP; default: HTTP cannot change anything.
    pub http_token_file: Option<PathBuf>,
    /// The collector that spans of requests are sent to; default: none are sent.
    pub otlp: Option<OtlpUrl>,
    /// The number of requests of which one becomes a span; default: 1000.
    pub otlp_sample: Option<NonZeroU32>,
    /// Number of reactor threads; default: the machine's cores, at most four.
    pub threads: Option<usize>,
    /// Maximum number of clients at a time; default: 256.
    pub max_connections: Option<usize>,
    /// Maximum number of clients of one process or remote host at a time; default: seven eighths of `max_connections`.
    pub max_connections_per_peer: Option<usize>,
    /// RAM for the data of all clients' requests; default: 256 MiB, more if there may be more than 1024 clients.
    pub request_memory: Option<Size>,
    /// Time that a client may take to choose an export, TLS included; default: 30 s.
    pub handshake_timeout: Option<Span>,
    /// Idle time after which a TCP client is probed; 0: the system's default; default: a minute.
    pub tcp_keepalive: Option<Span>,
    /// Time that data sent to a TCP client may stay unacknowledged; 0: the system's default; default: two minutes.
    pub tcp_user_timeout: Option<Span>,
    /// Maximum microseconds for which a virtual machine's queue is polled before the server waits for a notification;
    /// default: 0, no polling.
    pub vhost_busy_poll_us: Option<u32>,
    /// Bring the origins up to date before the server ends; default: true.
    pub destage_on_exit: Option<bool>,
    /// A new file in which the requests of clients are recorded, without data.
    pub record: Option<PathBuf>,
    /// Whether clients may or must use TLS.
    #[serde(default)]
    pub tls: TlsMode,
    /// The server's certificate chain, PEM.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Certificate authorities, PEM: only clients with their certificates are served.
    pub tls_client_ca: Option<PathBuf>,
    /// `[server.iscsi]`
    #[serde(default)]
    pub iscsi: IscsiConfig,
}

/// Default of the maximum number of clients.
const CONNECTIONS_MAX: usize = 256;
/// Default memory for requests, and the minimum for each possible client.
const REQUEST_MEMORY_BYTES: u64 = 256 << 20;
const REQUEST_MEMORY_A_CLIENT: u64 = 256 << 10;
/// Default of the time for a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);
/// Default of the number of requests of which one becomes a span.
const OTLP_SAMPLE: NonZeroU32 = NonZeroU32::new(1000).expect("it is not 0");

impl ServerConfig {
    /// Maximum number of clients at a time.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.max_connections.unwrap_or(CONNECTIONS_MAX)
    }

    /// Maximum number of clients of one peer at a time. The default leaves some for other peers.
    #[must_use]
    pub fn connections_per_peer_max(&self) -> usize {
        let max = self.connections_max();
        self.max_connections_per_peer.unwrap_or(max - max / 8)
    }

    /// Bytes of RAM for the data of all clients' requests.
    #[must_use]
    pub fn request_memory_bytes(&self) -> u64 {
        let wanted = REQUEST_MEMORY_A_CLIENT.saturating_mul(self.connections_max() as u64);
        self.request_memory.map_or(REQUEST_MEMORY_BYTES.max(wanted), |size| size.0)
    }

    /// Who may connect to the NBD clients' unix sockets.
    ///
    /// # Errors
    /// There is no such group.
    pub fn socket_access(&self) -> Result<Access, Error> {
        access(self.socket_mode, self.socket_group.as_deref(), "socket_group")
    }

    /// Who may connect to the control socket.
    ///
    /// # Errors
    /// There is no such group.
    pub fn control_access(&self) -> Result<Access, Error> {
        access(self.control_mode, self.control_group.as_deref(), "control_group")
    }

    /// Who may connect to HTTP's unix socket.
    ///
    /// # Errors
    /// There is no such group.
    pub fn http_access(&self) -> Result<Access, Error> {
        access(self.http_mode, self.http_group.as_deref(), "http_group")
    }

    /// The number of requests of which one becomes a span.
    #[must_use]
    pub fn otlp_sample(&self) -> NonZeroU32 {
        self.otlp_sample.unwrap_or(OTLP_SAMPLE)
    }

    /// Time that a client may take to choose an export.
    #[must_use]
    pub fn handshake_max(&self) -> Duration {
        self.handshake_timeout.map_or(HANDSHAKE_MAX, |span| span.0)
    }

    /// How long a virtual machine's queue is polled before the server waits for a notification.
    #[must_use]
    pub fn busy_poll_max(&self) -> Duration {
        Duration::from_micros(self.vhost_busy_poll_us.unwrap_or(0).into())
    }

    /// The time limits after which an unreachable TCP client is disconnected.
    #[must_use]
    pub fn tcp_limits(&self) -> TcpLimits {
        let default = TcpLimits::default();
        TcpLimits {
            keepalive: self.tcp_keepalive.map_or(default.keepalive, |span| span.0),
            user_timeout: self.tcp_user_timeout.map_or(default.user_timeout, |span| span.0),
        }
    }
}

/// Whether clients may or must use TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Plaintext only.
    #[default]
    Off,
    /// Clients may use TLS.
    On,
    /// TLS only.
    Required,
}

/// The protocol of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// NBD.
    Nbd,
    /// iSCSI.
    Iscsi,
}

/// Where to listen: `unix:PATH` or `tcp:HOST:PORT` for NBD, `iscsi:HOST:PORT`, `vhost:PATH` or `vhost:FOLDER/` for virtual machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A unix socket's path.
    Unix(PathBuf),
    /// A host, by address or name, and a port.
    Tcp(String),
    /// A host and a port, for iSCSI.
    Iscsi(String),
    /// A unix socket for vhost-user-blk.
    Vhost(VhostAddress),
}

/// The address for virtual machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VhostAddress {
    /// A unix socket's path; there is one volume.
    Socket(PathBuf),
    /// A folder in which each volume has a socket, `NAME.sock`.
    Folder(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host_port) => write!(f, "tcp:{host_port}"),
            Self::Iscsi(host_port) => write!(f, "iscsi:{host_port}"),
            Self::Vhost(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for VhostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "vhost:{}", path.display()),
            Self::Folder(path) => write!(f, "vhost:{}/", path.display()),
        }
    }
}

impl VhostAddress {
    /// The socket of a volume.
    #[must_use]
    pub fn socket_of(&self, volume: &str) -> PathBuf {
        match self {
            Self::Socket(path) => path.clone(),
            Self::Folder(folder) => folder.join(format!("{volume}.sock")),
        }
    }
}

/// Where HTTP is served: `HOST:PORT`, `tcp:HOST:PORT` or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress(pub Address);

impl FromStr for HttpAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let is_full = text.starts_with("unix:") || text.starts_with("tcp:");
        let full = if is_full { text.parse() } else { format!("tcp:{text}").parse() };
        full.map(Self).map_err(|error: AddressError| AddressError {
            text: text.to_owned(),
            problem: if is_full { error.problem } else { "it has no host or no valid port, such as 127.0.0.1:9470" },
        })
    }
}

impl<'de> Deserialize<'de> for HttpAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// An invalid address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    problem: &'static str,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, problem } = self;
        write!(
            f,
            "{text:?} is not an address: {problem}; write unix:PATH, tcp:HOST:PORT or iscsi:HOST:PORT, such as \
             tcp:127.0.0.1:10809, or vhost:PATH or vhost:FOLDER/ for virtual machines"
        )
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refuse = |problem| AddressError { text: text.to_owned(), problem };
        match text.split_once(':') {
            Some(("unix", "")) => Err(refuse("the path is missing")),
            Some(("unix", path)) => Ok(Self::Unix(PathBuf::from(path))),
            Some((scheme @ ("tcp" | "iscsi"), host_port)) => match host_port.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    let host_port = host_port.to_owned();
                    Ok(if scheme == "tcp" { Self::Tcp(host_port) } else { Self::Iscsi(host_port) })
                }
                _ => Err(refuse("it has no host or no valid port")),
            },
            Some(("vhost", "")) => Err(refuse("the path is missing")),
            Some(("vhost", path)) => Ok(Self::Vhost(match path.strip_suffix('/') {
                Some("") => VhostAddress::Folder(PathBuf::from("/")),
                Some(folder) => VhostAddress::Folder(PathBuf::from(folder)),
                None => VhostAddress::Socket(PathBuf::from(path)),
            })),
            _ => Err(refuse("it begins with none of unix:, tcp:, iscsi: and vhost:")),
        }
    }
}

impl Address {
    /// The protocol of a TCP or unix address: iSCSI, or otherwise NBD.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        if matches!(self, Self::Iscsi(_)) { Protocol::Iscsi } else { Protocol::Nbd }
    }

    /// The address for clients of NBD or iSCSI; `None`: it is for virtual machines. Resolves a host name, which may
    /// take some time.
    ///
    /// # Errors
    /// The host name is unknown.
    pub fn resolve(&self) -> Result<Option<ListenAddress>, Error> {
        let host_port = match self {
            Self::Unix(path) => return Ok(Some(ListenAddress::Unix(path.clone()))),
            Self::Tcp(host_port) | Self::Iscsi(host_port) => host_port,
            Self::Vhost(_) => return Ok(None),
        };
        let unknown = |why: &dyn fmt::Display| {
            Error::new(format_args!("socket {host_port}"), why).or("give an IP address of this machine")
        };
        let mut found = host_port.to_socket_addrs().map_err(|e| unknown(&e))?;
        found.next().map(|found| Some(ListenAddress::Tcp(found))).ok_or_else(|| unknown(&"the host has no address"))
    }

    /// The address for virtual machines; `None`: it is for NBD or iSCSI.
    #[must_use]
    pub fn vhost(&self) -> Option<&VhostAddress> {
        match self {
            Self::Vhost(address) => Some(address),
            Self::Unix(_) | Self::Tcp(_) | Self::Iscsi(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
