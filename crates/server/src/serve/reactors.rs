//! The threads that serve clients.

use super::Served;
use super::connections::{self, Admission, sleep};
use super::notify;
use super::workers::ended;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_channel::oneshot;
use futures_util::StreamExt;
use futures_util::future::{Either, join_all, select};
use nitro_console::error::Error;
use nitro_device::net::Accepted;
use nitro_device::{ReactorThread, spawn_local, spawn_thread};
use nitro_nbd::ServerOptions;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a thread is given to do.
enum Task {
    Serve(Assigned),
    /// Say that it is alive.
    Answer(oneshot::Sender<()>),
}

/// A client on its way to its thread.
struct Assigned {
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
    assign: UnboundedSender<Task>,
}

impl Server {
    /// Has the thread answer, if it still runs.
    fn ask(&self) -> Option<oneshot::Receiver<()>> {
        let (answer, answered) = oneshot::channel();
        self.assign.unbounded_send(Task::Answer(answer)).ok().map(|()| answered)
    }
}

/// All of them.
pub(super) struct Reactors {
    servers: Vec<Server>,
}

impl Reactors {
    pub(super) fn start(served: &Arc<Served>, options: ServerOptions, threads: usize) -> Result<Self, Error> {
        let fail = |e: nitro_device::Error| Error::with_sources("threads", &e).or("use fewer with --threads");
        let options = Arc::new(options);
        let servers = (0..threads)
            .map(|index| start_server(index, served, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(fail)?;
        Ok(Self { servers })
    }

    /// Hands a client to the thread that has the fewest.
    pub(super) fn assign(&self, client: Accepted, admission: Admission) {
        let Some(server) = self.servers.iter().min_by_key(|server| server.clients.load(Ordering::Relaxed)) else {
            return;
        };
        server.clients.fetch_add(1, Ordering::Relaxed);
        let guard = ClientGuard(Arc::clone(&server.clients));
        if server.assign.unbounded_send(Task::Serve(Assigned { client, admission, guard })).is_err() {
            tracing::error!("a reactor thread has ended; a client is turned away");
        }
    }

    /// Tells systemd that the service is alive, for as long as all threads answer, if it wants to know.
    pub(super) async fn watch(&self) {
        let Some(every) = notify::watchdog_every() else { return };
        loop {
            let asked: Vec<_> = self.servers.iter().filter_map(Server::ask).collect();
            let (asked_all, answers) = (asked.len() == self.servers.len(), join_all(asked));
            match select(pin!(answers), pin!(sleep(every))).await {
                Either::Left((answers, _)) if asked_all && answers.iter().all(Result::is_ok) => notify::alive(),
                _ => tracing::error!("not all threads that serve clients answer: systemd is not told that all is well"),
            }
            sleep(every).await;
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

fn start_server(
    index: usize,
    served: &Arc<Served>,
    options: &Arc<ServerOptions>,
) -> Result<Server, nitro_device::Error> {
    let (assign, mut assigned) = unbounded::<Task>();
    let (served, options) = (Arc::clone(served), Arc::clone(options));
    let thread = spawn_thread(&format!("nitro-io-{index}"), move || async move {
        while let Some(task) = assigned.next().await {
            let Assigned { client, admission, guard } = match task {
                Task::Serve(assigned) => assigned,
                Task::Answer(answer) => {
                    // Nobody may be waiting any more.
                    let _ = answer.send(());
                    continue;
                }
            };
            let (served, options) = (Arc::clone(&served), Arc::clone(&options));
            spawn_local(async move {
                connections::serve(client, &admission, &served, &options).await;
                drop((admission, guard));
            });
        }
    })?;
    Ok(Server { thread, clients: Arc::default(), assign })
}
