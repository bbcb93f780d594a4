//! Sockets to NBD servers.

use super::uri::Target;
use crate::origins::aside;
use crate::socket::{Reader, Writer};
use nitro_device::net::{ListenAddress, TcpLimits, connect_to};
use nitro_nbd::client::Connect;
use std::io;
use std::net::ToSocketAddrs;
use std::time::Duration;

/// A host that does not acknowledge for this time is given up: its requests wait for a new connection.
const LIMITS: TcpLimits = TcpLimits { keepalive: Duration::from_secs(15), user_timeout: Duration::from_secs(30) };

/// Connects to one server.
pub(super) struct Connector(pub(super) Target);

impl Connect for Connector {
    type Read = Reader;
    type Write = Writer;

    async fn connect(&self) -> io::Result<(Reader, Writer)> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in addresses(&self.0).await? {
            match connect_to(&address, LIMITS).await {
                Ok((reader, writer)) => return Ok((Reader(reader), Writer(writer))),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// The addresses of a server, resolved anew for each connection.
async fn addresses(target: &Target) -> io::Result<Vec<ListenAddress>> {
    match target {
        Target::Unix(path) => Ok(vec![ListenAddress::Unix(path.clone())]),
        Target::Tcp { host, port } => {
            let (host, port) = (host.clone(), *port);
            let resolved = aside(move || (host.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>));
            let found = resolved.await.map_err(io::Error::other)??;
            Ok(found.into_iter().map(ListenAddress::Tcp).collect())
        }
    }
}
