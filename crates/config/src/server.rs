//! `[server]`

use super::Span;
use super::access::{SocketMode, access};
use super::etcd::EtcdUrl;
use super::iscsi::IscsiConfig;
use super::otlp::OtlpUrl;
use super::settings::{FIRST, settings};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::net::{Access, ListenAddress, TcpLimits};
use nitro_shares::Policy;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::net::ToSocketAddrs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

settings! {
    /// The server: where it listens and what it allows.
    Server: ServerConfig {
        /// Address for clients: unix:PATH or tcp:HOST:PORT for NBD; iscsi:HOST:PORT for iSCSI; vhost:PATH, or vhost:FOLDER/
        /// with a socket NAME.sock for each volume, for virtual machines (vhost-user-blk); ublk: for a block device of this
        /// machine for each volume; fuse:MOUNTPOINT for a directory tree (origin files:DIR), alone; repeatable [default: a socket under $XDG_RUNTIME_DIR or /tmp]
        #[arg(help_heading = FIRST, long, value_name = "ADDRESS")]
        #[serde(default)]
        listen: Vec<Address> = List, Restart;
        /// Let other users than the server's use a mounted directory tree; needs root, or user_allow_other in
        /// /etc/fuse.conf
        #[arg(long)]
        #[serde(default)]
        allow_other: bool = Switch, Restart;
        /// The control socket for commands such as nitro status [default: in the folder of the NBD socket]
        #[arg(help_heading = FIRST, long, value_name = "PATH")]
        control: Option<PathBuf> = Path, Restart;
        /// Permissions of the unix sockets for NBD clients, in octal digits [default: 0600, with --socket-group 0660]
        #[arg(long, value_name = "MODE")]
        socket_mode: Option<SocketMode> = Text, Restart, "0600".."0777";
        /// Group of the unix sockets for NBD clients, by name or number, such as libvirt-qemu [default: the server's]
        #[arg(long, value_name = "GROUP")]
        socket_group: Option<String> = Text, Restart;
        /// Permissions of the control socket, in octal digits; its users may run all commands [default: 0600, with
        /// --control-group 0660]
        #[arg(long, value_name = "MODE")]
        control_mode: Option<SocketMode> = Text, Restart, "0600".."0777";
        /// Group of the control socket, by name or number [default: the server's]
        #[arg(long, value_name = "GROUP")]
        control_group: Option<String> = Text, Restart;
        /// Serve metrics for Prometheus, and a web page, over HTTP: HOST:PORT, such as 127.0.0.1:9470, or unix:PATH.
        /// Everyone who can reach the address can read names, sizes and counters, but cannot change anything without the
        /// token of --http-token-file [default: not served]
        #[arg(help_heading = FIRST, long, value_name = "ADDRESS")]
        http: Option<HttpAddress> = Text, Restart;
        /// Permissions of the unix socket for HTTP [default: 0600, with --http-group 0660]
        #[arg(long, value_name = "MODE")]
        http_mode: Option<SocketMode> = Text, Restart, "0600".."0777";
        /// Group of the unix socket for HTTP, by name or number [default: the server's]
        #[arg(long, value_name = "GROUP")]
        http_group: Option<String> = Text, Restart;
        /// File with the token that allows actions over HTTP: flush a volume, switch its mode, pause filling. One line
        /// of at least 16 characters; only its owner may have access to the file [default: HTTP cannot change anything]
        #[arg(long, value_name = "FILE")]
        http_token_file: Option<PathBuf> = Path, Restart;
        /// Send spans of clients' requests to an OpenTelemetry collector by OTLP over HTTP: http://HOST:PORT, such as
        /// http://127.0.0.1:4318. They name volumes, offsets and lengths, have no data, and are not encrypted [default: not
        /// sent]
        #[arg(long, value_name = "URL")]
        otlp: Option<OtlpUrl> = Text, Restart;
        /// One of this number of requests, at random, becomes a span; requires --otlp [default: 1000]
        #[arg(long, value_name = "N")]
        otlp_sample: Option<NonZeroU32> = Number, Restart, "1".."1000000";
        /// Record the requests of clients in a new Parquet file: times, addresses and fingerprints of contents, but no data
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf> = Path, Restart;
        /// Threads that serve clients [default: the machine's cores, at most 4]
        #[arg(long, value_name = "N")]
        threads: Option<usize> = Number, Restart, "1".."256";
        /// Threads of low priority that hash and compress what enters the caches; they are started with the server
        /// [default: the machine's cores less one, at least 1]
        #[arg(long, value_name = "N")]
        insert_threads: Option<usize> = Number, Restart, "1".."256";
        /// Bring the origins up to date before the server ends; otherwise dirty data stay in the cache, where they are
        /// safe [default: true]
        #[arg(long = "no-destage-on-exit", num_args = 0, default_missing_value = "false",
              help = "End without destage: dirty data stay in the cache, where they are safe, and the server ends sooner")]
        destage_on_exit: Option<bool> = Switch, Live;
        /// Maximum number of clients at a time [default: 256]
        #[arg(long, value_name = "N")]
        max_connections: Option<usize> = Number, Live, "1".."65536";
        /// Maximum number of clients of one process or remote host at a time [default: seven eighths of --max-connections]
        #[arg(long, value_name = "N")]
        max_connections_per_peer: Option<usize> = Number, Live, "1".."65536";
        /// RAM for the data of all clients' requests; requests beyond it wait [default: 256M]
        #[arg(long, value_name = "SIZE")]
        request_memory: Option<Size> = Size, Restart, "64M".."";
        /// How long a client may take to choose an export [default: 30s]
        #[arg(long, value_name = "TIME")]
        handshake_timeout: Option<Span> = Time, Live, "1s".."168h";
        /// Idle time after which a TCP client is probed; 0: the system's default [default: 60s]
        #[arg(long, value_name = "TIME")]
        tcp_keepalive: Option<Span> = Time, Restart, "0".."168h";
        /// How long data sent to a TCP client may stay unacknowledged; 0: the system's default [default: 2m]
        #[arg(long, value_name = "TIME")]
        tcp_user_timeout: Option<Span> = Time, Restart, "0".."168h";
        /// Maximum time in microseconds for which an idle queue of a virtual machine is polled before the server waits for
        /// a notification by the guest: lower latency, but the processor is never idle; 0: no polling [default: 0]
        #[arg(long, value_name = "MICROSECONDS")]
        vhost_busy_poll_us: Option<u32> = Number, Restart, "0".."10000";
        /// Percentage of a store's disk that the volumes served from it have while backups or restores use it; 0: no
        /// shares, requests are served as they come [default: 20]
        #[arg(long, value_name = "PCT")]
        random_share: Option<u8> = Percent, Live, "0".."90";
        /// Percentage of a store's disk that collections have while clients use it [default: 10]
        #[arg(long, value_name = "PCT")]
        background_share: Option<u8> = Percent, Live, "1".."50";
        /// Whether clients may or must use TLS [default: off]
        #[arg(long, value_enum)]
        tls: Option<TlsMode> = Text, Restart;
        /// The server's certificate chain (PEM)
        #[arg(long, value_name = "FILE")]
        tls_cert: Option<PathBuf> = Path, Restart;
        /// The certificate's key (PEM)
        #[arg(long, value_name = "FILE")]
        tls_key: Option<PathBuf> = Path, Restart;
        /// Serve only clients with a certificate of these authorities (PEM)
        #[arg(long, value_name = "FILE")]
        tls_client_ca: Option<PathBuf> = Path, Restart;
        /// Folder of marks, mounted by all hosts of which one serves these volumes and another takes them over: it tells which host
        /// served a volume last. Without its mark there, a volume is neither served nor written to
        /// (docs/guide/takeover.md) [default: no other host serves them]
        #[arg(long, value_name = "FOLDER")]
        takeover: Option<PathBuf> = Path, Restart;
        /// URL of an etcd server, of version 3.4 or later, that decides which host serves the volumes with cluster = true:
        /// http://HOST:PORT or https://HOST:PORT; repeatable (docs/guide/takeover.md) [default: no etcd]
        #[arg(long, value_name = "URL")]
        #[serde(default)]
        etcd: Vec<EtcdUrl> = List, Restart;
        /// What the names of all keys in etcd begin with; the hosts that take volumes over from one another have the same
        /// [default: /nitro]
        #[arg(long, value_name = "TEXT")]
        etcd_prefix: Option<String> = Text, Restart;
        /// The name of this host in etcd, which no other host has [default: the machine's host name]
        #[arg(long, value_name = "NAME")]
        host: Option<String> = Text, Restart;
        /// How long etcd waits for a host that is not heard of before other hosts take its volumes over; the host itself
        /// stops serving them a fifth of that time before [default: 5s]
        #[arg(long, value_name = "TIME")]
        lease: Option<Span> = Time, Restart, "2s".."10m";
        /// Certificates of the authorities of which one has certified the etcd servers (PEM) [default: those of the system]
        #[arg(long, value_name = "FILE")]
        etcd_ca: Option<PathBuf> = Path, Restart;
        /// This host's certificate for etcd (PEM); with --etcd-key [default: none]
        #[arg(long, value_name = "FILE")]
        etcd_cert: Option<PathBuf> = Path, Restart;
        /// The key of --etcd-cert (PEM)
        #[arg(long, value_name = "FILE")]
        etcd_key: Option<PathBuf> = Path, Restart;
        /// The user of etcd as whom this host logs in; with --etcd-password-file [default: none]
        #[arg(long, value_name = "NAME")]
        etcd_user: Option<String> = Text, Restart;
        /// The file with the password of --etcd-user
        #[arg(long, value_name = "FILE")]
        etcd_password_file: Option<PathBuf> = Path, Restart;
        /// Section [server.iscsi] with initiators, addresses, chap, mutual_chap, state, groups and markup;
        /// docs/guide/iscsi.md describes them [default: any initiator]
        #[arg(skip)]
        #[serde(default)]
        iscsi: IscsiConfig = Section, Restart;
    }
}

/// Default of the maximum number of clients.
const CONNECTIONS_MAX: usize = 256;
/// Default memory for requests, and the minimum for each possible client.
const REQUEST_MEMORY_BYTES: u64 = 256 << 20;
const REQUEST_MEMORY_A_CLIENT: u64 = 256 << 10;
/// Default of the time for a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);
/// Default of the time that a lease of etcd lasts.
const LEASE: Duration = Duration::from_secs(5);
/// Default of what the names of keys in etcd begin with.
const ETCD_PREFIX: &str = "/nitro";
/// Default of the number of requests of which one becomes a span.
const OTLP_SAMPLE: NonZeroU32 = NonZeroU32::new(1000).expect("it is not 0");

impl ServerConfig {
    /// The shares of the time of stores' disks; `None`: it is not shared.
    #[must_use]
    pub fn shares(&self) -> Option<Policy> {
        let usual = Policy::default();
        let random_percent = self.random_share.unwrap_or(usual.random_percent);
        let background_percent = self.background_share.unwrap_or(usual.background_percent);
        (random_percent > 0).then_some(Policy { random_percent, background_percent })
    }

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

    /// How long a lease of etcd lasts.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease.map_or(LEASE, |span| span.0)
    }

    /// What the names of keys in etcd begin with.
    #[must_use]
    pub fn etcd_prefix(&self) -> &str {
        self.etcd_prefix.as_deref().unwrap_or(ETCD_PREFIX)
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

/// Where to listen: `unix:PATH` or `tcp:HOST:PORT` for NBD, `iscsi:HOST:PORT`, `vhost:PATH` or `vhost:FOLDER/` for virtual machines,
/// `ublk:` for block devices, `fuse:MOUNTPOINT` for files.
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
    /// A block device of this machine for each volume.
    Ublk,
    /// The directory at which a tree of files is mounted.
    Fuse(PathBuf),
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
            Self::Ublk => f.write_str("ublk:"),
            Self::Fuse(path) => write!(f, "fuse:{}", path.display()),
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
             tcp:127.0.0.1:10809, vhost:PATH or vhost:FOLDER/ for virtual machines, ublk: for block devices, or fuse:MOUNTPOINT for files"
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
            Some(("fuse", "")) => Err(refuse("the mountpoint is missing")),
            Some(("fuse", path)) => Ok(Self::Fuse(PathBuf::from(path))),
            Some(("ublk", "")) => Ok(Self::Ublk),
            Some(("ublk", _)) => Err(refuse("nothing follows ublk:")),
            _ => Err(refuse("it begins with none of unix:, tcp:, iscsi:, vhost:, ublk: and fuse:")),
        }
    }
}

impl Address {
    /// The protocol of a TCP or unix address: iSCSI, or otherwise NBD.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        if matches!(self, Self::Iscsi(_)) { Protocol::Iscsi } else { Protocol::Nbd }
    }

    /// The address for clients of NBD or iSCSI; `None`: it is for virtual machines, block devices or files. Resolves a host name, which may
    /// take some time.
    ///
    /// # Errors
    /// The host name is unknown.
    pub fn resolve(&self) -> Result<Option<ListenAddress>, Error> {
        let host_port = match self {
            Self::Unix(path) => return Ok(Some(ListenAddress::Unix(path.clone()))),
            Self::Tcp(host_port) | Self::Iscsi(host_port) => host_port,
            Self::Vhost(_) | Self::Ublk | Self::Fuse(_) => return Ok(None),
        };
        let unknown = |why: &dyn fmt::Display| {
            Error::new(format_args!("socket {host_port}"), why).or("give an IP address of this machine")
        };
        let mut found = host_port.to_socket_addrs().map_err(|e| unknown(&e))?;
        found.next().map(|found| Some(ListenAddress::Tcp(found))).ok_or_else(|| unknown(&"the host has no address"))
    }

    /// The address for virtual machines; `None`: it is for others.
    #[must_use]
    pub fn vhost(&self) -> Option<&VhostAddress> {
        match self {
            Self::Vhost(address) => Some(address),
            Self::Unix(_) | Self::Tcp(_) | Self::Iscsi(_) | Self::Ublk | Self::Fuse(_) => None,
        }
    }

    /// The mountpoint of a tree of files; `None`: it is for others.
    #[must_use]
    pub fn mountpoint(&self) -> Option<&Path> {
        match self {
            Self::Fuse(path) => Some(path),
            Self::Unix(_) | Self::Tcp(_) | Self::Iscsi(_) | Self::Vhost(_) | Self::Ublk => None,
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
