//! `[server]`

use nitro_device::net::ListenAddress;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The server: where it listens and what it allows.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Where NBD clients connect; a unix socket in the user's runtime directory if empty.
    #[serde(default)]
    pub listen: Vec<Address>,
    /// The control socket; beside the NBD socket if not given.
    pub control: Option<PathBuf>,
    /// Reactor threads; at most four of the machine's cores if not given.
    pub threads: Option<usize>,
    /// Clients served at a time; 256 if not given.
    pub max_connections: Option<usize>,
    /// Whether clients may or must use TLS.
    #[serde(default)]
    pub tls: TlsMode,
    /// The server's certificate chain, PEM.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Authorities whose clients alone are served, PEM.
    pub tls_client_ca: Option<PathBuf>,
}

/// Whether clients may or must use TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Plaintext only.
    #[default]
    Off,
    /// As the client likes.
    On,
    /// TLS only.
    Required,
}

/// Where to listen: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(pub ListenAddress);

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    problem: String,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, problem } = self;
        write!(
            f,
            "{text:?} is not an address: {problem}; write unix:PATH or tcp:HOST:PORT, such as tcp:127.0.0.1:10809"
        )
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refuse = |problem: &str| AddressError { text: text.to_owned(), problem: problem.to_owned() };
        match text.split_once(':') {
            Some(("unix", "")) => Err(refuse("the path is missing")),
            Some(("unix", path)) => Ok(Self(ListenAddress::Unix(PathBuf::from(path)))),
            Some(("tcp", host_port)) => resolve(host_port).map_err(|problem| refuse(&problem)),
            _ => Err(refuse("it begins with neither unix: nor tcp:")),
        }
    }
}

/// An address as it is; a name by the system's resolver.
fn resolve(host_port: &str) -> Result<Address, String> {
    if let Ok(address) = host_port.parse::<SocketAddr>() {
        return Ok(Address(ListenAddress::Tcp(address)));
    }
    let port_is_valid =
        host_port.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !port_is_valid {
        return Err("it has no valid port".to_owned());
    }
    let mut found = host_port.to_socket_addrs().map_err(|e| e.to_string())?;
    found.next().map(|a| Address(ListenAddress::Tcp(a))).ok_or_else(|| "the host has no address".to_owned())
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
