//! The threads that serve clients.

use super::Served;
use super::busy::{ClientGuard, Load, least_busy};
use super::connections::{self, Admission, Options, sleep};
use super::notify;
use super::vhost;
use super::workers::ended;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_channel::oneshot;
use futures_util::future::{Either, LocalBoxFuture, join_all, select};
use futures_util::{FutureExt, StreamExt};
use nitro_config::{Address, Protocol};
use nitro_console::error::Error;
use nitro_device::guarded::Guard;
use nitro_device::net::Accepted;
use nitro_device::{ReactorThread, event, spawn_local, spawn_thread};
use nitro_vhost::{Host, Incarnation, LocalTask, MmapRegion};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A task on its way to its thread.
type Job = Box<dyn FnOnce(Arc<Served>, Arc<Options>) -> LocalBoxFuture<'static, ()> + Send>;

/// The task queue of a thread that serves clients.
#[derive(Debug)]
struct Desk {
    load: Arc<Load>,
    assign: UnboundedSender<Job>,
}

impl Desk {
    /// Asks the thread for an answer, if it still runs.
    fn ask(&self) -> Option<oneshot::Receiver<()>> {
        let (answer, answered) = oneshot::channel();
        let answering = async {
            // Who asked may have given up.
            let _ = answer.send(());
        };
        self.assign.unbounded_send(Box::new(move |_, _| answering.boxed_local())).ok().map(|()| answered)
    }
}

/// All of them.
pub(super) struct Reactors {
    threads: Vec<ReactorThread<()>>,
    desks: Arc<Vec<Desk>>,
    busy_poll_max: Duration,
    incarnation: Incarnation,
}

impl Reactors {
    /// Starts the threads. `busy_poll_max`: how long a virtual machine's queue is polled before the thread waits for a
    /// notification.
    pub(super) fn start(
        served: &Arc<Served>,
        options: Options,
        busy_poll_max: Duration,
        threads: usize,
    ) -> Result<Self, Error> {
        let fail = |e: nitro_device::Error| Error::with_sources("threads", &e).or("use fewer with --threads");
        let options = Arc::new(options);
        let servers = (0..threads)
            .map(|index| start_server(index, served, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(fail)?;
        let (threads, desks): (Vec<_>, Vec<Desk>) = servers.into_iter().unzip();
        // They are started once.
        let _ = served.loads.set(desks.iter().map(|desk| Arc::clone(&desk.load)).collect());
        Ok(Self { threads, desks: Arc::new(desks), busy_poll_max, incarnation: Incarnation::new() })
    }

    /// Assigns a client of NBD or iSCSI to the least busy thread.
    pub(super) fn assign(&self, protocol: Protocol, socket: &Arc<Address>, client: Accepted, admission: Admission) {
        let listener = (protocol, Arc::clone(socket));
        self.hand_over(|_, guard| {
            Box::new(move |served, options| {
                let serving = async move {
                    connections::serve(listener, client, &admission, &served, &options).await;
                    drop((admission, guard));
                };
                serving.boxed_local()
            })
        });
    }

    /// Assigns a virtual machine, which uses the volume `name`, to the least busy thread. Its first queue runs there.
    pub(super) fn assign_vhost(&self, client: Accepted, admission: Admission, name: String) {
        self.hand_over(|first, guard| {
            let host = QueueHost { desks: Arc::downgrade(&self.desks), first };
            let settings = vhost::Settings { busy_poll_max: self.busy_poll_max, incarnation: self.incarnation };
            Box::new(move |served, options| {
                let serving = async move {
                    vhost::serve(client, admission, &served, &options.nbd, &host, name, settings).await;
                    drop(guard);
                };
                serving.boxed_local()
            })
        });
    }

    /// Runs the queues of block devices.
    pub(super) fn host(&self) -> QueueHost {
        QueueHost { desks: Arc::downgrade(&self.desks), first: 0 }
    }

    fn hand_over(&self, job: impl FnOnce(usize, ClientGuard) -> Job) {
        let loads: Vec<_> = self.desks.iter().map(|desk| desk.load.seen()).collect();
        let Some((index, desk)) = least_busy(&loads).and_then(|index| Some((index, self.desks.get(index)?))) else {
            return;
        };
        let guard = desk.load.enter();
        if desk.assign.unbounded_send(job(index, guard)).is_err() {
            tracing::error!("a reactor thread has ended; a client is refused");
        }
    }

    /// Notifies systemd that the service is alive as long as all threads answer, if a watchdog is configured.
    pub(super) async fn watch(&self) {
        let Some(every) = notify::watchdog_every() else { return };
        loop {
            let asked: Vec<_> = self.desks.iter().filter_map(Desk::ask).collect();
            let (asked_all, answers) = (asked.len() == self.desks.len(), join_all(asked));
            match select(pin!(answers), pin!(sleep(every))).await {
                Either::Left((answers, _)) if asked_all && answers.iter().all(Result::is_ok) => notify::alive(),
                _ => tracing::error!(
                    "some threads that serve clients do not answer: the watchdog of systemd is not notified"
                ),
            }
            sleep(every).await;
        }
    }

    /// Waits for all threads, whose clients have disconnected.
    pub(super) fn join(self) -> Result<(), Error> {
        drop(self.desks);
        self.threads.into_iter().try_for_each(ended)
    }
}

/// Runs the queues of a virtual machine or of block devices on the threads that serve clients, from the first of them on.
#[derive(Debug, Clone)]
pub(super) struct QueueHost {
    desks: Weak<Vec<Desk>>,
    first: usize,
}

impl Host for QueueHost {
    fn spawn(&self, queue: usize, task: LocalTask) -> bool {
        let Some(desks) = self.desks.upgrade().filter(|desks| !desks.is_empty()) else { return false };
        let desk = &desks[(self.first + queue) % desks.len()];
        desk.assign.unbounded_send(Box::new(move |_, _| task())).is_ok()
    }

    fn wait(&self, counter: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>> {
        event::wait(counter)
    }

    fn ring(&self, counter: &Arc<OwnedFd>) -> impl Future<Output = io::Result<()>> {
        event::ring(counter)
    }

    fn guard(&self, map: &Arc<MmapRegion>, lost: &Arc<AtomicBool>) -> io::Result<nitro_vhost::Guard> {
        Ok(Arc::new(Guard::new(map, lost)?))
    }
}

fn start_server(
    index: usize,
    served: &Arc<Served>,
    options: &Arc<Options>,
) -> Result<(ReactorThread<()>, Desk), nitro_device::Error> {
    let (assign, mut assigned) = unbounded::<Job>();
    let (served, options) = (Arc::clone(served), Arc::clone(options));
    let load = Arc::new(Load::new());
    let measured = Arc::clone(&load);
    let thread = spawn_thread(&format!("nitro-io-{index}"), move || async move {
        spawn_local(async move { measured.measure().await });
        while let Some(job) = assigned.next().await {
            spawn_local(job(Arc::clone(&served), Arc::clone(&options)));
        }
    })?;
    Ok((thread, Desk { load, assign }))
}
