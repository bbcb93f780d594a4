//! The listening sockets.

use super::Served;
use super::activation::Activated;
use super::connections::{Admission, pause_accepting};
use super::place::Places;
use super::reactors::Reactors;
use super::vhost::VhostSockets;
use crate::config::{Protocol, VhostAddress};
use futures_util::future::{join, join_all};
use nitro_console::error::Error;
use nitro_console::logging::Repeats;
use nitro_device::ErrorKind;
use nitro_device::net::{Accepted, Access, ListenAddress, Listener, TcpLimits};
use std::fmt::Write;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

pub(super) struct Sockets {
    clients: Vec<(Protocol, Listener)>,
    vhost: VhostSockets,
    pub(super) control: Listener,
    pub(super) http: Option<Listener>,
}

impl Sockets {
    pub(super) fn bind<'a>(
        places: &Places,
        volumes: impl Iterator<Item = &'a str>,
        tcp: TcpLimits,
    ) -> Result<Self, Error> {
        let Activated { nbd: passed, control: passed_control } = Activated::take()?;
        let listen = |(protocol, address): &(Protocol, ListenAddress)| {
            bind(address, places.listen_access).map(|listener| (*protocol, listener.with_tcp(tcp)))
        };
        let clients = match passed.is_empty() {
            true => places.listen.iter().map(listen).collect::<Result<Vec<_>, _>>()?,
            // What the unit says is what the service's administrator wants.
            false => passed.into_iter().map(|listener| (Protocol::Nbd, listener.with_tcp(tcp))).collect(),
        };
        let vhost = VhostSockets::bind(places, volumes)?;
        let control = match passed_control {
            Some(control) => control,
            None => bind(&ListenAddress::Unix(places.control.clone()), places.control_access)?,
        };
        let http = places.http.as_ref().map(|address| bind(address, places.http_access)).transpose()?;
        Ok(Self { clients, vhost, control, http: http.map(|listener| listener.with_tcp(tcp)) })
    }

    /// The addresses for clients.
    pub(super) fn addresses(&self) -> Vec<(Protocol, ListenAddress)> {
        self.clients.iter().map(|(protocol, listener)| (*protocol, listener.address().clone())).collect()
    }

    /// The addresses for virtual machines.
    pub(super) fn vhost_addresses(&self) -> Vec<VhostAddress> {
        self.vhost.addresses.clone()
    }

    /// Passes clients to the reactors, as long as it is polled.
    pub(super) async fn accept(&self, served: &Served, reactors: &Reactors) {
        let each = self.clients.iter().map(|(protocol, listener)| {
            accept(listener, served, |client, admission| reactors.assign(*protocol, client, admission))
        });
        join(join_all(each), self.vhost.accept(served, reactors)).await;
    }

    /// Closes the sockets for clients; the control socket stays open.
    pub(super) fn close(&mut self) {
        self.clients.clear();
        self.vhost.close();
    }
}

/// Passes the clients of a listener to a thread, by `assign`.
pub(super) async fn accept(listener: &Listener, served: &Served, assign: impl Fn(Accepted, Admission)) {
    let refused = Repeats::default();
    loop {
        match listener.accept().await {
            Ok(client) => match served.connections.admit(client.peer_identity()) {
                Ok(admission) => assign(client, admission),
                Err(reason) => {
                    if let Some(left_out) = refused.next() {
                        tracing::warn!(peer = client.peer(), "refused a client: {reason}{left_out}");
                    }
                }
            },
            Err(error) => {
                tracing::warn!("cannot accept a client on {}: {error}", listener.address());
                pause_accepting().await;
            }
        }
    }
}

pub(super) fn bind(address: &ListenAddress, access: Access) -> Result<Listener, Error> {
    let listener = Listener::bind(address).map_err(|e| {
        let way_out = match e.kind {
            ErrorKind::InUse => "another server answers there: stop it, or use another address",
            ErrorKind::Exists => "the file there is not a socket: remove it, or use another path",
            _ => "use another address",
        };
        Error::with_sources(format_args!("socket {address}"), &e).or(way_out)
    })?;
    listener.open_to(access).map_err(|e| {
        Error::with_sources(format_args!("socket {address}"), &e)
            .or("name a group that the server's user is a member of")
    })?;
    Ok(listener)
}

/// Warns of addresses that other machines can reach without authentication.
pub(super) fn warn_of(addresses: &[(Protocol, ListenAddress)], needs_tls: bool, needs_chap: bool) {
    for (protocol, address) in addresses {
        if let (Protocol::Iscsi, ListenAddress::Tcp(host)) = (protocol, address) {
            if !host.ip().is_loopback() && !needs_chap {
                tracing::warn!(
                    "{address}: every host that reaches this address can read and write the volumes over iSCSI; \
                     set chap and addresses in [server.iscsi], or listen on 127.0.0.1"
                );
            }
            continue;
        }
        if let ListenAddress::Tcp(host) = address
            && !host.ip().is_loopback()
            && !needs_tls
        {
            tracing::warn!(
                "{address}: every host that reaches this address can read and write the volumes; \
                 give --tls required with --tls-client-ca, or listen on 127.0.0.1 or a unix socket"
            );
        }
    }
}

/// The NBD URI of an export (doc/uri.md of the NBD project), or the URL of an iSCSI target as libiscsi and QEMU have
/// it; `needs_tls`: the server requires TLS.
pub(super) fn uri((protocol, address): &(Protocol, ListenAddress), export: &str, needs_tls: bool) -> String {
    let export = escape(export.as_bytes());
    if let (Protocol::Iscsi, ListenAddress::Tcp(address)) = (protocol, address) {
        return format!("iscsi://{}/{}{export}/0", reachable(address), nitro_iscsi::TARGET_PREFIX);
    }
    let scheme = if needs_tls { "nbds" } else { "nbd" };
    match address {
        ListenAddress::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{scheme}+unix:///{export}?socket={}", escape(path.as_os_str().as_bytes()))
        }
        ListenAddress::Tcp(address) => format!("{scheme}://{}/{export}", reachable(address)),
    }
}

/// An address to which clients can connect: the wildcard address is replaced.
fn reachable(address: &SocketAddr) -> String {
    if address.ip().is_unspecified() {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{}:{}", escape(name.as_bytes()), address.port())
    } else {
        address.to_string()
    }
}

/// Percent-encodes bytes that are not allowed in a URI's query (RFC 3986 §3.4).
fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte) {
            out.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_those_that_clients_understand() {
        let unix = ListenAddress::Unix("/run/a b/n.sock".into());
        assert_eq!(uri(&(Protocol::Nbd, unix.clone()), "vm 1", false), "nbd+unix:///vm%201?socket=/run/a%20b/n.sock");
        let tcp = ListenAddress::Tcp("[::1]:10809".parse().unwrap());
        assert_eq!(uri(&(Protocol::Nbd, tcp.clone()), "vm", false), "nbd://[::1]:10809/vm");
        assert_eq!(uri(&(Protocol::Nbd, tcp.clone()), "vm", true), "nbds://[::1]:10809/vm");
        assert_eq!(uri(&(Protocol::Nbd, unix.clone()), "vm", true), "nbds+unix:///vm?socket=/run/a%20b/n.sock");
        assert_eq!(uri(&(Protocol::Iscsi, tcp), "vm", false), "iscsi://[::1]:10809/iqn.2026-11.nitro:vm/0");
        let everywhere = uri(&(Protocol::Nbd, ListenAddress::Tcp("0.0.0.0:10809".parse().unwrap())), "vm", false);
        assert!(!everywhere.contains("0.0.0.0") && everywhere.ends_with(":10809/vm"), "{everywhere}");
    }
}
