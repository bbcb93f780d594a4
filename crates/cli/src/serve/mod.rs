//! `nitro serve`: opens what is configured, serves it, and closes it in order.

mod connections;
mod identity;
mod latch;
mod notify;
mod open;
mod place;
mod plan;
mod reactors;
mod signature;
mod sockets;
mod store;

pub(crate) use place::{CONTROL_SUFFIX, runtime_folder};
pub(crate) use plan::available_ram_bytes;

use crate::config::{Config, TlsMode};
use crate::error::Error;
use crate::export::{ServedCache, VolumeExport};
use connections::{Connections, Drain};
use futures_util::future::{Either, select};
use nitro_device::Reactor;
use nitro_device::runtime::{Shutdown, wait_for_shutdown};
use nitro_engine::port::Device;
use nitro_nbd::{ServerOptions, TlsFiles, TlsPolicy};
use place::Places;
use reactors::Reactors;
use sockets::Sockets;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long clients may take to leave when the server ends.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Clients served at a time unless configured.
const CONNECTIONS_MAX: usize = 256;
/// Reactor threads at most unless configured.
const THREADS_DEFAULT_MAX: usize = 4;

/// What is served: shared by all threads.
pub(crate) struct Served {
    pub(crate) started: Instant,
    pub(crate) caches: BTreeMap<String, Arc<ServedCache>>,
    /// With the name of each one's cache.
    pub(crate) volumes: Vec<(String, Arc<VolumeExport>)>,
    pub(crate) connections: Connections,
    pub(crate) uris: Vec<String>,
}

/// Serves until a signal ends it.
pub(crate) fn run(config: Config) -> Result<(), Error> {
    let places = Places::choose(&config)?;
    let tls = tls_policy(&config)?;
    let reactor = Reactor::new().map_err(|e| Error::with_sources("reactor", &e))?;
    if !reactor.is_io_uring() {
        tracing::warn!("io_uring is not available here; requests go through slower helper threads");
    }
    reactor.block_on(async {
        let opened = open::open(&config).await?;
        let sockets = Sockets::bind(&places, opened.volumes.iter().map(|(_, v)| v.name.as_str()))?;
        let connections_max = config.server.max_connections.unwrap_or(CONNECTIONS_MAX);
        let served = Arc::new(Served {
            started: Instant::now(),
            caches: opened.caches,
            volumes: opened.volumes,
            connections: Connections::new(connections_max),
            uris: sockets.uris.clone(),
        });
        let options = ServerOptions { tls, ..ServerOptions::default() };
        let threads = config.server.threads.unwrap_or_else(default_threads);
        let reactors = Reactors::start(&served, options, threads)?;
        serve(&served, sockets, &reactors).await?;
        close(&served, reactors).await
    })
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_DEFAULT_MAX)
}

fn tls_policy(config: &Config) -> Result<TlsPolicy, Error> {
    let server = &config.server;
    let (Some(certificate), Some(key)) = (server.tls_cert.clone(), server.tls_key.clone()) else {
        return Ok(TlsPolicy::Disabled);
    };
    let files = TlsFiles { certificate, key, client_authority: server.tls_client_ca.clone() };
    let loaded = files.load().map_err(|e| {
        Error::with_sources("TLS", &e).or("certificate and key must be PEM files that this user can read")
    })?;
    Ok(match server.tls {
        TlsMode::Off => TlsPolicy::Disabled,
        TlsMode::On => TlsPolicy::Optional(loaded),
        TlsMode::Required => TlsPolicy::Required(loaded),
    })
}

/// Accepts clients until a signal arrives.
async fn serve(served: &Arc<Served>, sockets: Sockets, reactors: &Reactors) -> Result<(), Error> {
    let stop = std::pin::pin!(wait_for_shutdown());
    let accepting = std::pin::pin!(async {
        announce(&served.uris);
        sockets.accept(served, reactors).await;
    });
    // The signals are polled first, and so are heeded by the time that the server is announced.
    match select(stop, accepting).await {
        Either::Left((Ok(signal), _)) => {
            let name = if signal == Shutdown::Terminate { "SIGTERM" } else { "SIGINT" };
            tracing::info!("{name}: finishing what clients have asked for");
            Ok(())
        }
        Either::Left((Err(error), _)) => Err(Error::new("signals", error)),
        Either::Right(((), _)) => Ok(()),
    }
}

/// Says that clients can connect: one line on standard output, and a message to systemd.
fn announce(uris: &[String]) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; the server goes on all the same.
    let _ = writeln!(out, "ready {}", uris.join(" ")).and_then(|()| out.flush());
    notify::ready();
}

/// Lets clients finish, empties the insertion queues, and makes the origins durable.
async fn close(served: &Served, reactors: Reactors) -> Result<(), Error> {
    notify::stopping();
    if served.connections.drain(DRAIN_MAX).await == Drain::Cut {
        tracing::warn!("some clients did not let go within {} s and were cut off", DRAIN_MAX.as_secs());
    }
    served.caches.values().for_each(|cache| cache.close());
    reactors.join().await?;
    let mut result = Ok(());
    for (_, export) in served.volumes.iter().filter(|(_, export)| !export.volume.read_only()) {
        if let Err(error) = export.volume.origin().flush().await {
            let what = format!("volume {}: the last flush of its origin", export.name);
            result = Err(Error::with_sources(what, &error).or("check the origin before using it again"));
        }
    }
    result
}
