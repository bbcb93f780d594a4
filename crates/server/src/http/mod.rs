//! HTTP for operators: metrics, health and a web page on a separate thread with its own runtime; read-only, but for the
//! actions that a token allows, which the main thread carries out. Reactors do no work for it; it takes the same short locks as `nitro status`, for at most a twentieth of the time. The main
//! thread accepts the connections, as for the control socket, and passes them on.

mod action;
mod answer;
mod connection;
mod history;
mod kept;
mod snapshot;
mod token;
mod units;
mod window;

use crate::origins::unix_seconds;
use crate::peers::{Place, Places};
use crate::serve::{Served, pause_accepting};
use action::Jobs;
use answer::Site;
use connection::{CONNECTIONS_MAX, Stream};
use futures_util::future::{Either, join, select};
use history::{HISTORY_BYTES, SAMPLE_EVERY};
use kept::{Kept, SAVE_EVERY};
use nitro_console::error::Error;
use nitro_device::net::{ListenAddress, Listener, Peer};
use rustix::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::{self, LocalSet};

pub(crate) use token::Token;

/// The thread's name. A panic there does not end the server.
pub(crate) const HTTP_THREAD: &str = "nitro-http";
/// RAM of a connection in addition to its answer: its task and its buffers.
const CONNECTION_BYTES: u64 = 64 << 10;
/// A server that ran for less time does not write its history.
const KEPT_MIN: Duration = Duration::from_secs(60);
/// RAM of an answer: its fixed part, and the part for each volume.
const ANSWER_BYTES: u64 = 256 << 10;
const ANSWER_BYTES_A_VOLUME: u64 = 32 << 10;

/// The maximum RAM of HTTP, in bytes.
pub(crate) fn ram_bytes(volumes: usize) -> u64 {
    // Those who read slowly keep answers that are not the newest any more.
    let answer = ANSWER_BYTES + volumes as u64 * ANSWER_BYTES_A_VOLUME;
    // The history, and what is being written of it.
    2 * HISTORY_BYTES
        + window::ram_bytes(volumes)
        + units::RAM_BYTES
        + CONNECTIONS_MAX as u64 * (CONNECTION_BYTES + answer)
}

/// The thread that serves HTTP.
pub(crate) struct Http {
    sockets: mpsc::Sender<(OwnedFd, Peer)>,
    is_tcp: bool,
    stopping: Arc<AtomicBool>,
    jobs: Jobs,
    thread: JoinHandle<()>,
}

impl Http {
    /// Starts the thread, and logs the address. A token allows actions.
    ///
    /// # Errors
    /// The thread or the runtime cannot be created.
    pub(crate) fn start(address: &ListenAddress, token: Option<Token>, served: &Arc<Served>) -> Result<Self, Error> {
        let no_thread = |e: std::io::Error| Error::new("HTTP", e).or("raise the limits of threads and of open files");
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let (sockets, mut arriving) = mpsc::channel::<(OwnedFd, Peer)>(CONNECTIONS_MAX);
        let is_tcp = matches!(address, ListenAddress::Tcp(_));
        let any_host = !is_loopback(address);
        announce(address, any_host && is_tcp, token.is_some());
        let (actions, jobs) = action::ends(token, served);
        let stopping = Arc::new(AtomicBool::new(false));
        let (served, is_stopping) = (Arc::clone(served), Arc::clone(&stopping));
        let kept = Kept::of(&address.to_string());
        let work = move || {
            let site = Rc::new(Site::new(served, is_stopping, any_host, actions, kept.load(unix_seconds())));
            let (begun, tasks) = (Instant::now(), LocalSet::new());
            tasks.block_on(&runtime, async {
                task::spawn_local(sample(Rc::clone(&site)));
                task::spawn_local(keep(Rc::clone(&site), kept.clone()));
                let places = Places::new(CONNECTIONS_MAX, CONNECTIONS_MAX);
                while let Some((socket, peer)) = arriving.recv().await {
                    match places.admit(peer) {
                        Ok(place) => accept(socket, is_tcp, peer, place, &site),
                        Err(reason) => tracing::debug!("refused an HTTP client: {reason}"),
                    }
                }
            });
            // Of a shorter time there is little to tell.
            if begun.elapsed() >= KEPT_MIN {
                site.history_to_keep().iter().for_each(|content| kept.write(content));
            }
        };
        let thread = thread::Builder::new().name(HTTP_THREAD.to_owned()).spawn(work).map_err(no_thread)?;
        Ok(Self { sockets, is_tcp, stopping, jobs, thread })
    }

    /// Passes connections on, and carries out actions, as long as it is polled.
    pub(crate) async fn serve(&self, listener: &Listener, served: &Arc<Served>) {
        join(self.accept(listener), self.jobs.run(served)).await;
    }

    async fn accept(&self, listener: &Listener) {
        // Ends when the thread has ended.
        while let Ok(room) = self.sockets.reserve().await {
            match listener.accept().await {
                Ok(client) => {
                    let peer = client.peer_identity();
                    room.send((client.into(), peer));
                }
                Err(error) => {
                    tracing::warn!("cannot accept an HTTP client: {error}");
                    pause_accepting().await;
                }
            }
        }
        std::future::pending().await
    }

    /// Notes that the server is not ready any more.
    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Closes all connections and ends the thread.
    ///
    /// # Errors
    /// The thread had panicked.
    pub(crate) fn finish(self) -> Result<(), Error> {
        drop(self.sockets);
        if self.thread.join().is_err() {
            tracing::warn!(
                "the thread that served {} has panicked",
                if self.is_tcp { "HTTP" } else { "HTTP's socket" }
            );
        }
        Ok(())
    }
}

/// Whether only clients on this machine can connect.
fn is_loopback(address: &ListenAddress) -> bool {
    matches!(address, ListenAddress::Tcp(address) if address.ip().is_loopback())
}

/// Logs the address of the page, and warns if other machines can see it.
fn announce(address: &ListenAddress, is_open: bool, has_token: bool) {
    let place = match address {
        ListenAddress::Tcp(address) => format!("http://{address}/"),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    };
    tracing::info!("page and metrics: {place}");
    if is_open {
        tracing::warn!(
            "{place}: every host that reaches this address can read names, sizes and counters, without a password or \
             TLS; give --http 127.0.0.1:PORT or unix:PATH, and use a proxy that authenticates its clients"
        );
        if has_token {
            tracing::warn!("{place}: the token for actions crosses the network unencrypted; use a proxy with TLS");
        }
    }
}

/// Serves a connection until it ends, or until its place is given to another one.
fn accept(socket: OwnedFd, is_tcp: bool, peer: Peer, place: Place, site: &Rc<Site>) {
    let stream = match Stream::new(socket, is_tcp) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!("an HTTP client was dropped: {error}");
            return;
        }
    };
    let site = Rc::clone(site);
    task::spawn_local(async move {
        match select(pin!(stream.serve(&site, peer)), pin!(place.dismissed.wait())).await {
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(error), _)) => tracing::debug!("an HTTP client was dropped: {error}"),
            Either::Right(_) => tracing::debug!("an HTTP client made room for another one"),
        }
    });
}

/// Writes the history to the disk from time to time.
async fn keep(site: Rc<Site>, kept: Kept) {
    loop {
        tokio::time::sleep(SAVE_EVERY).await;
        let (content, kept) = (site.history_to_keep(), kept.clone());
        // A folder that does not answer must not stop this thread.
        let write = task::spawn_blocking(move || content.iter().for_each(|content| kept.write(content)));
        if write.await.is_err() {
            return;
        }
    }
}

/// Keeps the history.
async fn sample(site: Rc<Site>) {
    let mut ticks = tokio::time::interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        site.sample();
    }
}
