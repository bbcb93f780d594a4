//! The clients: how many there are, and one connection from its beginning to its end.

use super::Served;
use super::latch::Latch;
use crate::export::{ExportList, VolumeExport};
use bytes::Bytes;
use event_listener::Event;
use futures_util::future::{Either, select};
use nitro_device::CompioClock;
use nitro_device::net::{Accepted, StreamReader, StreamWriter};
use nitro_engine::buf::BufMut;
use nitro_engine::port::Clock;
use nitro_nbd::transport::{ReadHalf, WriteHalf};
use nitro_nbd::{NbdError, ServerOptions};
use std::cell::Cell;
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

#[derive(Debug, Default)]
struct Count {
    now: AtomicUsize,
    total: AtomicUsize,
    ended: Event,
}

/// The permission to be served; given back when dropped.
#[derive(Debug)]
pub(super) struct Admission(Arc<Count>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify(usize::MAX);
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
        self.open.now.load(Ordering::SeqCst)
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
        self.open.now.fetch_add(1, Ordering::SeqCst);
        self.open.total.fetch_add(1, Ordering::Relaxed);
        Some(Admission(Arc::clone(&self.open)))
    }

    /// Has all clients finish what is in flight, and cuts off those that take longer than `time_max`.
    pub(super) async fn drain(&self, time_max: Duration) -> Drain {
        self.stop.set();
        match select(pin!(self.empty()), pin!(sleep(time_max))).await {
            Either::Left(_) => Drain::Done,
            Either::Right(_) => {
                self.cut.set();
                self.empty().await;
                Drain::Cut
            }
        }
    }

    async fn empty(&self) {
        loop {
            let ended = self.open.ended.listen();
            if self.now() == 0 {
                return;
            }
            ended.await;
        }
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
    let exports: Vec<Arc<VolumeExport>> = served.volumes.iter().map(|(_, export)| Arc::clone(export)).collect();
    let list = ExportList { exports: &exports, opened: Cell::new(false) };
    let connections = &served.connections;
    let serving = nitro_nbd::serve(Reader(reader), Writer(writer), &list, &options, connections.stop.wait());
    let dawdling = async {
        sleep(HANDSHAKE_MAX).await;
        if list.opened.get() {
            std::future::pending::<()>().await;
        }
    };
    let (cut, dawdling) = (pin!(connections.cut.wait()), pin!(dawdling));
    match select(pin!(serving), select(cut, dawdling)).await {
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
