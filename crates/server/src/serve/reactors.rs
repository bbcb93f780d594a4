//! The threads that serve clients.

use super::Served;
use super::connections::{self, Admission, Options};
use super::workers::ended;
use crate::config::Protocol;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_util::StreamExt;
use nitro_console::error::Error;
use nitro_device::net::Accepted;
use nitro_device::{ReactorThread, spawn_local, spawn_thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A client on its way to its thread.
struct Assigned {
    protocol: Protocol,
    client: Accepted,
    admission: Admission,
    guard: ClientGuard,
}

/// One of a thread's clients; counted until dropped.
struct ClientGuard(Arc<AtomicUsize>);

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread that serves clients.
struct Server {
    thread: ReactorThread<()>,
    clients: Arc<AtomicUsize>,
    assign: UnboundedSender<Assigned>,
}

/// All of them.
pub(super) struct Reactors {
    servers: Vec<Server>,
}

impl Reactors {
    pub(super) fn start(served: &Arc<Served>, options: Options, threads: usize) -> Result<Self, Error> {
        let fail = |e: nitro_device::Error| Error::with_sources("threads", &e).or("use fewer with --threads");
        let options = Arc::new(options);
        let servers = (0..threads)
            .map(|index| start_server(index, served, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(fail)?;
        Ok(Self { servers })
    }

    /// Hands a client to the thread that has the fewest.
    pub(super) fn assign(&self, protocol: Protocol, client: Accepted, admission: Admission) {
        let Some(server) = self.servers.iter().min_by_key(|server| server.clients.load(Ordering::Relaxed)) else {
            return;
        };
        server.clients.fetch_add(1, Ordering::Relaxed);
        let guard = ClientGuard(Arc::clone(&server.clients));
        if server.assign.unbounded_send(Assigned { protocol, client, admission, guard }).is_err() {
            tracing::error!("a reactor thread has ended; a client is turned away");
        }
    }

    /// Waits for all threads; their clients have left.
    pub(super) fn join(self) -> Result<(), Error> {
        self.servers.into_iter().try_for_each(|server| {
            drop(server.assign);
            ended(server.thread)
        })
    }
}

fn start_server(index: usize, served: &Arc<Served>, options: &Arc<Options>) -> Result<Server, nitro_device::Error> {
    let (assign, mut assigned) = unbounded::<Assigned>();
    let (served, options) = (Arc::clone(served), Arc::clone(options));
    let thread = spawn_thread(&format!("nitro-io-{index}"), move || async move {
        while let Some(Assigned { protocol, client, admission, guard }) = assigned.next().await {
            let (served, options) = (Arc::clone(&served), Arc::clone(&options));
            spawn_local(async move {
                connections::serve(protocol, client, &admission, &served, &options).await;
                drop((admission, guard));
            });
        }
    })?;
    Ok(Server { thread, clients: Arc::default(), assign })
}
