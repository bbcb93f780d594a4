//! The clients: how many there are, and one connection from its beginning to its end.

use super::Served;
use super::latch::Latch;
use crate::export::ExportList;
use bytes::Bytes;
use event_listener::Event;
use futures_util::future::{Either, select};
use nitro_device::CompioClock;
use nitro_device::net::{Accepted, StreamReader, StreamWriter};
use nitro_engine::buf::BufMut;
use nitro_engine::port::Clock;
use nitro_nbd::transport::{ReadHalf, WriteHalf};
use nitro_nbd::{NbdError, ServerOptions};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a client may take to choose an export.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

/// All clients of the server.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    open: Arc<Count>,
    stop: Latch,
    cut: Latch,
}

/// How many there are, and were.
#[derive(Debug, Default)]
pub(crate) struct Count {
    now: AtomicUsize,
    total: AtomicUsize,
    ended: Event,
}

impl Count {
    pub(crate) fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    pub(crate) fn enter(&self) {
        self.now.fetch_add(1, Ordering::SeqCst);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.ended.notify(usize::MAX);
    }

    /// Ends when there are none.
    pub(super) async fn none(&self) {
        loop {
            let ended = self.ended.listen();
            if self.now() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Waits until there are none; has those `cut` off that take longer than `time_max`.
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
pub(super) struct Admission(Arc<Count>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// How the clients left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// By themselves, all their requests answered.
    Done,
    /// Some had to be cut off.
    Cut,
}

impl Connections {
    pub(super) fn new(max: usize) -> Self {
        Self { max, open: Arc::default(), stop: Latch::default(), cut: Latch::default() }
    }

    /// Clients connected now.
    pub(crate) fn now(&self) -> usize {
        self.open.now()
    }

    /// Clients served since the start.
    pub(crate) fn total(&self) -> usize {
        self.open.total.load(Ordering::Relaxed)
    }

    /// Lets one more in, if there is room. Only one thread accepts, so the count cannot change in between but
    /// downwards.
    pub(super) fn admit(&self) -> Option<Admission> {
        if self.now() >= self.max {
            return None;
        }
        self.open.enter();
        Some(Admission(Arc::clone(&self.open)))
    }

    /// Has all clients finish what is in flight, and cuts off those that take longer than `time_max`.
    pub(super) async fn drain(&self, time_max: impl Future<Output = ()>) -> Drain {
        self.stop.set();
        self.open.drain(time_max, &self.cut).await
    }
}

pub(super) async fn sleep(duration: Duration) {
    CompioClock::new().sleep(duration).await;
}

/// Serves one client on the current thread.
pub(super) async fn serve(client: Accepted, served: Arc<Served>, options: Arc<ServerOptions>) {
    let peer = client.peer();
    let (reader, writer) = match client.into_split() {
        Ok(halves) => halves,
        Err(error) => return tracing::warn!(peer, "cannot set a connection up: {error}"),
    };
    let list = ExportList::new(&served);
    let connections = &served.connections;
    let stop = async {
        select(pin!(connections.stop.wait()), pin!(list.wait(|export| &export.gone))).await;
    };
    let serving = nitro_nbd::serve(Reader(reader), Writer(writer), &list, &options, stop);
    let dawdling = async {
        sleep(HANDSHAKE_MAX).await;
        if list.is_opened() {
            std::future::pending::<()>().await;
        }
    };
    let (all_cut, this_cut) = (pin!(connections.cut.wait()), pin!(list.wait(|export| &export.cut)));
    match select(pin!(serving), select(select(all_cut, this_cut), pin!(dawdling))).await {
        Either::Left((result, _)) => log(&peer, result),
        Either::Right(_) => tracing::info!(peer, "cut a client off"),
    }
}

fn log(peer: &str, result: Result<nitro_nbd::ConnectionSummary, NbdError>) {
    match result {
        Ok(summary) => {
            let nitro_nbd::ConnectionSummary { end, export, tls, requests, bytes_read, bytes_written } = summary;
            tracing::debug!(peer, ?end, export, tls, requests, bytes_read, bytes_written, "a client left");
        }
        Err(error) => tracing::info!(peer, "a client was dropped: {}", crate::Error::with_sources("NBD", &error)),
    }
}

/// A socket as the NBD server wants it.
struct Reader(StreamReader);
/// A socket as the NBD server wants it.
struct Writer(StreamWriter);

impl ReadHalf for Reader {
    async fn read(&mut self, buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        self.0.read(buf, start).await
    }
}

impl WriteHalf for Writer {
    async fn write_all(&mut self, pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        self.0.write_all(pieces).await
    }

    async fn shutdown(&mut self) {
        // The client may be gone already.
        let _ = self.0.shutdown();
    }
}
