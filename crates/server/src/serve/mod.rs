//! `nitro serve`: opens what is configured, serves it, and closes it in order.

mod caches;
mod classes;
mod connections;
mod detect;
mod device;
mod file_id;
mod flash_index;
mod iscsi;
mod latch;
mod lease;
mod log;
mod need;
mod notify;
mod open;
mod operate;
mod outlive;
mod overlay;
mod panics;
mod place;
mod plan;
mod reactors;
mod resize;
mod scan;
mod served;
mod shutdown;
mod signature;
mod sockets;
mod store;
mod volumes;
mod witness;
mod workers;

pub use caches::{CacheEntry, create_alone, look_at, open_to_look};
pub(crate) use connections::Count;
pub use detect::VolumeDetector;
pub(crate) use device::{CacheDevice, OriginDevice};
pub(crate) use flash_index::{FlashIndexStatus, plan as index_plan};
pub(crate) use latch::Latch;
pub(crate) use lease::mode_of_byte;
pub use log::open_to_look as open_log_to_look;
pub(crate) use need::need as ram_need;
pub(crate) use place::{CONTROL_SUFFIX, SYSTEM_FOLDER, runtime_folder};
pub use plan::available_ram_bytes;
pub use scan::Scan;
pub(crate) use served::Served;

use crate::config::{Config, TlsMode};
use crate::control::server as control;
use crate::origins;
use crate::record::Recorder;
use crate::signals::{Signals, Urgency};
use connections::{Connections, Options, sleep};
use futures_util::future::{Either, join, select};
use nitro_console::error::Error;
use nitro_device::{Reactor, spawn_local};
use nitro_nbd::{RequestMemory, ServerOptions, TlsFiles, TlsPolicy};
use open::Prepared;
use place::Places;
use reactors::Reactors;
use sockets::Sockets;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use workers::CacheWorkers;

/// Reactor threads at most unless configured.
const THREADS_DEFAULT_MAX: usize = 4;

/// Serves until a signal ends it.
pub fn run(config: Config) -> Result<(), Error> {
    nitro_device::limit_allocator();
    panics::abort_on_panic();
    let signals = Signals::handle()?;
    let places = Places::choose(&config)?;
    let tls = tls_policy(&config)?;
    let reactor = Reactor::new().map_err(|e| Error::with_sources("reactor", &e))?;
    if !reactor.is_io_uring() {
        tracing::warn!("io_uring is not available here; requests go through slower helper threads");
    }
    reactor.block_on(async {
        // Nothing is served yet: what is given up here is what a crash would leave.
        let prepared = match select(pin!(signals.wait(Urgency::InOrder)), pin!(open::prepare(&config))).await {
            Either::Left((name, _)) => {
                tracing::info!("{name}: the server ends before it has served anything");
                return Ok(());
            }
            Either::Right((prepared, _)) => prepared?,
        };
        let sockets = Sockets::bind(&places, config.server.tcp_limits())?;
        let caches: Vec<_> = prepared.caches.values().map(|entry| entry.uuid).collect();
        let workers = CacheWorkers::start(&prepared.caches)?;
        let served = serve_all(&config, prepared, sockets, tls, signals).await;
        // Whatever happened, what the caches have been told becomes durable.
        let finished = workers.finish();
        let closed = Box::pin(origins::close_all()).await;
        let ended = served.and(finished).and(closed);
        if ended.is_ok() {
            caches.into_iter().for_each(outlive::forget);
        }
        ended
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
    // Whoever can read the key can pose as the server.
    if std::fs::metadata(&key).is_ok_and(|found| found.mode() & 0o007 != 0) {
        tracing::warn!("TLS: the key {0} is open to every user of this machine; chmod o= {0}", key.display());
    }
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

async fn serve_all(
    config: &Config,
    mut prepared: Prepared,
    mut sockets: Sockets,
    tls: TlsPolicy,
    signals: &Signals,
) -> Result<(), Error> {
    let recorder = config.server.record.as_deref().map(Recorder::start).transpose()?;
    let volumes = prepared.admit(config).await?;
    let connections = Connections::new(&config.server);
    let request_bytes = config.server.request_memory_bytes();
    let memory = Arc::new(RequestMemory::new(request_bytes, config.server.connections_max()));
    spawn_local(tick(Arc::clone(&memory)));
    let addresses = sockets.addresses();
    let needs_tls = matches!(tls, TlsPolicy::Required(_));
    let iscsi = iscsi::options(&config.server.iscsi, &memory)?;
    let needs_chap = !iscsi.access.accounts.is_empty();
    sockets::warn_of(&addresses, needs_tls, needs_chap);
    let options = Options { nbd: ServerOptions { memory, tls, ..ServerOptions::default() }, iscsi };
    let threads = config.server.threads.unwrap_or_else(default_threads);
    let limits = need::Limits { threads, connections: config.server.connections_max(), request_bytes };
    let served = Served::new(prepared.caches, volumes, (addresses, needs_tls), connections, limits, recorder)?;
    let served = Arc::new(served);
    need::announce(&served);
    let reactors = Reactors::start(&served, options, threads)?;
    accept(&served, &sockets, &reactors, signals).await;
    notify::stopping();
    sockets.close();
    // The control socket goes on answering: destage may take its time.
    let answering = pin!(control::serve(&sockets.control, &served));
    let leaving = pin!(shutdown::leave(&served, reactors, config.server.destage_on_exit.unwrap_or(true), signals));
    let left = match select(leaving, answering).await {
        Either::Left((result, _)) => result,
        Either::Right(((), leaving)) => leaving.await,
    };
    let recorded = served.recorder.as_ref().map_or(Ok(()), Recorder::finish);
    left.and(recorded)
}

/// Has requests that wait for memory know how time goes by.
async fn tick(memory: Arc<RequestMemory>) {
    loop {
        sleep(Duration::from_secs(1)).await;
        memory.tick();
    }
}

/// Accepts clients until a signal arrives.
async fn accept(served: &Arc<Served>, sockets: &Sockets, reactors: &Reactors, signals: &Signals) {
    let stop = pin!(signals.wait(Urgency::InOrder));
    let accepting = pin!(async {
        announce(&served.uris());
        join(sockets.accept(served, reactors), control::serve(&sockets.control, served)).await;
    });
    if let Either::Left((name, _)) = select(stop, accepting).await {
        tracing::info!("{name}: finishing what clients have asked for");
    }
}

/// Says that clients can connect: one line on standard output, and a message to systemd.
fn announce(uris: &[String]) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; the server goes on all the same.
    let _ = writeln!(out, "ready {}", uris.join(" ")).and_then(|()| out.flush());
    notify::ready();
}
