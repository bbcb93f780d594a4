//! The listening sockets.

use super::Served;
use super::activation::Activated;
use super::connections::{Admission, pause_accepting};
use super::place::{Offer, Places};
use super::reactors::Reactors;
use super::served::Authentication;
use super::vhost::VhostSockets;
use futures_util::future::{join, join_all};
use nitro_config::{Protocol, VhostAddress, VolumeConfig};
use nitro_console::error::Error;
use nitro_device::ErrorKind;
use nitro_device::net::{Accepted, Access, ListenAddress, Listener, TcpLimits};
use nitro_frontend::UnitIdentity;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

pub(super) struct Sockets {
    clients: Vec<(Offer, Listener)>,
    vhost: VhostSockets,
    pub(super) control: Listener,
    pub(super) http: Option<Listener>,
}

impl Sockets {
    pub(super) fn bind(
        places: &Places,
        volumes: &BTreeMap<String, VolumeConfig>,
        tcp: TcpLimits,
    ) -> Result<Self, Error> {
        let Activated { nbd: passed, control: passed_control } = Activated::take()?;
        let listen = |offer: &Offer| {
            bind(&offer.address, places.listen_access).map(|listener| (offer.clone(), listener.with_tcp(tcp)))
        };
        let clients = match passed.is_empty() {
            true => places.listen.iter().map(listen).collect::<Result<Vec<_>, _>>()?,
            // What the unit says is what the service's administrator wants.
            false => passed
                .into_iter()
                .map(|listener| (Offer::of_nbd(listener.address().clone()), listener.with_tcp(tcp)))
                .collect(),
        };
        let vhost = VhostSockets::bind(places, volumes)?;
        let control = match passed_control {
            Some(control) => control,
            None => bind(&ListenAddress::Unix(places.control.clone()), places.control_access)?,
        };
        let http = places.http.as_ref().map(|address| bind(address, places.http_access)).transpose()?;
        Ok(Self { clients, vhost, control, http: http.map(|listener| listener.with_tcp(tcp)) })
    }

    /// The addresses for clients, with the ports that the kernel chose.
    pub(super) fn offers(&self) -> Vec<Offer> {
        let bound =
            |(offer, listener): &(Offer, Listener)| Offer { address: listener.address().clone(), ..offer.clone() };
        self.clients.iter().map(bound).collect()
    }

    /// The addresses for virtual machines.
    pub(super) fn vhost_addresses(&self) -> Vec<VhostAddress> {
        self.vhost.addresses.clone()
    }

    /// Passes clients to the reactors, as long as it is polled.
    pub(super) async fn accept(&self, served: &Served, reactors: &Reactors) {
        let each = self.clients.iter().map(|(offer, listener)| {
            let assign = |client, admission| reactors.assign(offer.protocol, &offer.given, client, admission);
            accept(listener, served, assign)
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
    loop {
        match listener.accept().await {
            Ok(client) => match served.connections.admit(client.peer_identity()) {
                Ok(admission) => assign(client, admission),
                Err(reason) => tracing::warn!(peer = client.peer(), "refused a client: {reason}"),
            },
            Err(error) => {
                tracing::warn!("cannot accept a client on {}: {error}", listener.address());
                pause_accepting().await;
            }
        }
    }
}

pub(super) fn bind(address: &ListenAddress, access: Access) -> Result<Listener, Error> {
    let listener = Listener::bind(address).map_err(|e| refused(address, &e))?;
    listener.open_to(access).map_err(|e| {
        Error::with_sources(format_args!("socket {address}"), &e)
            .or("name a group that the server's user is a member of")
    })?;
    Ok(listener)
}

/// Checks what [`bind`] would refuse, and creates nothing.
pub(super) fn check(address: &ListenAddress) -> Result<(), Error> {
    Listener::check(address).map_err(|e| refused(address, &e))
}

fn refused(address: &ListenAddress, error: &nitro_device::Error) -> Error {
    let way_out = match error.kind {
        ErrorKind::InUse => "another server answers there: stop it, or use another address",
        ErrorKind::Exists => "the file there is not a socket: remove it, or use another path",
        _ => "use another address",
    };
    Error::with_sources(format_args!("socket {address}"), error).or(way_out)
}

/// Warns of addresses that other machines can reach without authentication.
pub(super) fn warn_of(offers: &[Offer], Authentication { needs_tls, needs_chap, .. }: Authentication) {
    for Offer { protocol, address, .. } in offers {
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
pub(super) fn uri(Offer { protocol, address, .. }: &Offer, unit: &UnitIdentity, needs_tls: bool) -> String {
    if let (Protocol::Iscsi, ListenAddress::Tcp(address)) = (protocol, address) {
        return format!("iscsi://{}/{}/0", reachable(address), escape(unit.target.as_bytes()));
    }
    let export = escape(unit.disk.as_bytes());
    let scheme = if needs_tls { "nbds" } else { "nbd" };
    match address {
        ListenAddress::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{scheme}+unix:///{export}?socket={}", escape(path.as_os_str().as_bytes()))
        }
        ListenAddress::Tcp(address) => format!("{scheme}://{}/{export}", reachable(address)),
    }
}

/// The name of this machine, as the kernel has it.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// An address to which clients can connect: the wildcard address is replaced.
fn reachable(address: &SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("{}:{}", escape(host_name().as_bytes()), address.port())
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
        let uri = |protocol, address: &ListenAddress, name: &str, needs_tls| {
            let offer = Offer { protocol, ..Offer::of_nbd(address.clone()) };
            super::uri(&offer, &UnitIdentity::of(&[], name), needs_tls)
        };
        let unix = ListenAddress::Unix("/run/a b/n.sock".into());
        assert_eq!(uri(Protocol::Nbd, &unix, "vm 1", false), "nbd+unix:///vm%201?socket=/run/a%20b/n.sock");
        let tcp = ListenAddress::Tcp("[::1]:10809".parse().unwrap());
        assert_eq!(uri(Protocol::Nbd, &tcp, "vm", false), "nbd://[::1]:10809/vm");
        assert_eq!(uri(Protocol::Nbd, &tcp, "vm", true), "nbds://[::1]:10809/vm");
        assert_eq!(uri(Protocol::Nbd, &unix, "vm", true), "nbds+unix:///vm?socket=/run/a%20b/n.sock");
        assert_eq!(uri(Protocol::Iscsi, &tcp, "VM", false), "iscsi://[::1]:10809/iqn.2026-11.nitro:vm/0");
        let everywhere = uri(Protocol::Nbd, &ListenAddress::Tcp("0.0.0.0:10809".parse().unwrap()), "vm", false);
        assert!(!everywhere.contains("0.0.0.0") && everywhere.ends_with(":10809/vm"), "{everywhere}");
    }
}
