//! The clients: their number and limits, and the course of one connection.

use super::Served;
use crate::export::ExportList;
use crate::peers::{Place, Places};
use crate::socket::{Reader, Writer};
use event_listener::Event;
use futures_util::future::{Either, select};
use nitro_config::{Address, Protocol, ServerConfig};
use nitro_console::error::Error;
use nitro_device::CompioClock;
use nitro_device::net::{Accepted, Peer};
use nitro_port::Clock;
use nitro_port::latch::Latch;
use nitro_port::yielding::attempt_at;
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long clients may take to disconnect when their volume is removed or the server ends.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(10);

/// All clients of the server.
#[derive(Debug)]
pub struct Connections {
    places: Places,
    handshake_max_ms: AtomicU64,
    open: Arc<Count>,
    pub(super) stop: Latch,
    pub(super) cut: Latch,
}

/// The present and the total number of clients.
#[derive(Debug, Default)]
pub struct Count {
    now: AtomicUsize,
    total: AtomicUsize,
    ended: Event,
}

impl Count {
    pub fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    pub fn enter(&self) {
        self.now.fetch_add(1, Ordering::SeqCst);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    pub fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.ended.notify(usize::MAX);
    }

    /// Waits until there are none.
    pub(super) async fn none(&self) {
        attempt_at(&self.ended, || (self.now() == 0).then_some(())).await;
    }

    /// Waits until there are none; calls `cut` to disconnect those that take longer than `time_max`.
    pub(super) async fn drain(&self, time_max: impl Future<Output = ()>, cut: &Latch) -> Drain {
        match select(pin!(self.none()), pin!(time_max)).await {
            Either::Left(_) => Drain::Done,
            Either::Right(_) => {
                cut.set();
                self.none().await;
                Drain::Cut
            }
        }
    }
}

/// The permission to be served; given back when dropped.
#[derive(Debug)]
pub(super) struct Admission {
    open: Arc<Count>,
    place: Place,
}

impl Admission {
    /// Notes that the client has chosen an export: it cannot be dismissed any more.
    pub(super) fn begin(&self) {
        self.place.settle(true);
    }

    /// Set when the client has to disconnect to make room for another client.
    pub(super) fn dismissed(&self) -> &Arc<Latch> {
        &self.place.dismissed
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.open.leave();
    }
}

/// How the clients disconnected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// By themselves, with all their requests answered.
    Done,
    /// Some had to be disconnected.
    Cut,
}

impl Connections {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let connections = Self {
            places: Places::default(),
            handshake_max_ms: AtomicU64::new(0),
            open: Arc::default(),
            stop: Latch::default(),
            cut: Latch::default(),
        };
        connections.set_limits(config);
        connections
    }

    /// Changes how many there may be, and how long they may take to choose an export.
    pub(super) fn set_limits(&self, config: &ServerConfig) {
        self.places.set_limits(config.connections_max(), config.connections_per_peer_max());
        let handshake_ms = u64::try_from(config.handshake_max().as_millis()).unwrap_or(u64::MAX);
        self.handshake_max_ms.store(handshake_ms, Ordering::Relaxed);
    }

    pub(super) fn handshake_max(&self) -> Duration {
        Duration::from_millis(self.handshake_max_ms.load(Ordering::Relaxed))
    }

    /// Clients connected now.
    pub fn now(&self) -> usize {
        self.open.now()
    }

    /// Clients served since the start.
    pub fn total(&self) -> usize {
        self.open.total.load(Ordering::Relaxed)
    }

    /// Admits a client if there is a place for its peer, or if a client that is still in the handshake can be dismissed;
    /// otherwise returns the reason.
    pub(super) fn admit(&self, peer: Peer) -> Result<Admission, &'static str> {
        let place = self.places.admit(peer)?;
        self.open.enter();
        Ok(Admission { open: Arc::clone(&self.open), place })
    }

    pub(super) fn log_cut(&self, peer: &str, why: impl Display) {
        tracing::info!(peer, "a client was dropped: {why}");
    }

    /// Lets all clients finish requests in flight, and disconnects those that take longer than `time_max`.
    pub(super) async fn drain(&self, time_max: impl Future<Output = ()>) -> Drain {
        self.stop.set();
        self.open.drain(time_max, &self.cut).await
    }
}

pub(crate) async fn sleep(duration: Duration) {
    CompioClock::new().sleep(duration).await;
}

/// Pauses after a client that could not be accepted or passed on, such as for lack of file descriptors.
pub(crate) async fn pause_accepting() {
    sleep(Duration::from_millis(100)).await;
}

/// How clients are served, by protocol.
pub(super) struct Options {
    pub(super) nbd: nitro_nbd::ServerOptions,
    pub(super) iscsi: nitro_iscsi::ServerOptions,
}

/// Serves one client on the current thread.
pub(super) async fn serve(
    (protocol, socket): (Protocol, Arc<Address>),
    client: Accepted,
    admission: &Admission,
    served: &Served,
    options: &Options,
) {
    let (peer, identity) = (client.peer(), client.peer_identity());
    let ends =
        nitro_iscsi::Ends { peer: client.peer_address().map(|address| address.ip()), portal: client.local_address() };
    let (reader, writer) = match client.into_split() {
        Ok(halves) => halves,
        Err(error) => return served.connections.log_cut(&peer, format_args!("cannot set its connection up: {error}")),
    };
    let list = ExportList::new(served, identity, Some(socket), || admission.begin());
    let connections = &served.connections;
    let stop = async {
        select(pin!(connections.stop.wait()), pin!(list.wait(|export| &export.gone))).await;
    };
    let (reader, writer) = (Reader(reader), Writer(writer));
    let serving = async {
        match protocol {
            Protocol::Nbd => Box::pin(serve_nbd(reader, writer, &list, &options.nbd, stop, &peer)).await,
            Protocol::Iscsi => Box::pin(serve_iscsi(reader, writer, ends, &list, &options.iscsi, stop, &peer)).await,
        }
    };
    // Of the whole handshake, with TLS: whatever was sent of it.
    let dawdling = async {
        select(pin!(sleep(connections.handshake_max())), pin!(admission.dismissed().wait())).await;
        if list.has_begun() {
            std::future::pending::<()>().await;
        }
    };
    let (all_cut, this_cut) = (pin!(connections.cut.wait()), pin!(list.wait(|export| &export.cut)));
    match select(pin!(serving), select(select(all_cut, this_cut), pin!(dawdling))).await {
        Either::Left((Ok(()), _)) => {}
        Either::Left((Err(error), _)) => connections.log_cut(&peer, error),
        Either::Right(_) if !list.has_begun() => connections.log_cut(&peer, "it did not choose an export"),
        Either::Right(_) => connections.log_cut(&peer, "it did not disconnect in time"),
    }
}

async fn serve_nbd(
    reader: Reader,
    writer: Writer,
    list: &ExportList<'_>,
    options: &nitro_nbd::ServerOptions,
    stop: impl Future<Output = ()>,
    peer: &str,
) -> Result<(), Error> {
    let served = nitro_nbd::serve(reader, writer, list, options, stop).await;
    let nitro_nbd::ConnectionSummary { end, export, tls, requests, bytes_read, bytes_written } =
        served.map_err(|error| Error::with_sources("NBD", &error))?;
    tracing::debug!(peer, ?end, export, tls, requests, bytes_read, bytes_written, "a client disconnected");
    Ok(())
}

async fn serve_iscsi(
    reader: Reader,
    writer: Writer,
    ends: nitro_iscsi::Ends,
    list: &ExportList<'_>,
    options: &nitro_iscsi::ServerOptions,
    stop: impl Future<Output = ()>,
    peer: &str,
) -> Result<(), Error> {
    let served = nitro_iscsi::serve(reader, writer, ends, list, options, stop).await;
    let nitro_iscsi::ConnectionSummary { end, initiator, target, commands, bytes_read, bytes_written } =
        served.map_err(|error| Error::with_sources("iSCSI", &error))?;
    tracing::debug!(peer, ?end, initiator, target, commands, bytes_read, bytes_written, "an initiator disconnected");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(max: usize, per_peer_max: usize) -> Connections {
        let config = ServerConfig {
            max_connections: Some(max),
            max_connections_per_peer: Some(per_peer_max),
            ..ServerConfig::default()
        };
        Connections::new(&config)
    }

    fn process(pid: i32) -> Peer {
        Peer::Process { uid: 7, pid }
    }

    #[test]
    fn a_dismissed_client_counts_until_it_has_left() {
        let connections = connections(2, 2);
        let stalled = [1, 2].map(|pid| connections.admit(process(pid)).unwrap());
        let _next = connections.admit(process(3)).unwrap();
        assert!(stalled[0].dismissed().is_set() && connections.now() == 3);
        drop(stalled);
        assert_eq!(connections.now(), 1);
    }
}
