//! `nitro serve`: opens the configured caches and volumes, serves them, and closes them in order.

mod activation;
mod blocks;
mod busy;
mod caches;
mod classes;
mod cluster;
mod compare;
mod connections;
mod detect;
mod device;
mod devices;
mod errand;
mod files;
mod flash_index;
mod grow;
mod in_force;
mod iscsi;
mod jobs;
mod judge;
mod known_origin;
mod lease;
mod limits;
mod log;
mod need;
mod notify;
mod open;
mod operate;
mod outlive;
mod overlay;
mod owner;
mod panics;
mod pins;
mod place;
mod plan;
mod points;
mod reactors;
mod rehearse;
mod reload;
mod resize;
mod scan;
mod served;
mod settings;
mod shutdown;
mod signature;
mod sockets;
mod store;
mod takeover;
mod ublk;
mod upgrade;
mod vhost;
mod volumes;
mod warm;
mod witness;
mod workers;

pub(crate) use busy::Seen;
pub use caches::{CacheEntry, create_alone, look_at, open_to_look};
pub(crate) use connections::{Count, pause_accepting};
pub use detect::VolumeDetector;
pub(crate) use device::{CacheDevice, OriginDevice};
pub use devices::{open_devices_to_look, title};
pub(crate) use flash_index::FlashIndexStatus;
pub use in_force::Source;
pub(crate) use jobs::{Begun, Operation};
pub(crate) use lease::mode_of_byte;
pub use log::open_to_look as open_log_to_look;
pub(crate) use need::need as ram_need;
pub(crate) use place::{CONTROL_SUFFIX, SYSTEM_FOLDER, runtime_folder};
pub use plan::available_ram_bytes;
pub use rehearse::{Rehearsal, rehearse};
pub use scan::Scan;
pub(crate) use served::Served;
use served::{Authentication, Observers};
pub use settings::Values;
pub(crate) use sockets::host_name;
pub use takeover::{Loss, take_over};
pub(crate) use ublk::{attach, detach};
pub use upgrade::{Upgraded, upgrade};

use crate::control::server as control;
use crate::http::{Http, Token};
use crate::origins;
use crate::record::Recorder;
use crate::spans::Spans;
use cluster::Cluster;
use connections::{Connections, Options, sleep};
use errand::Errand;
use futures_util::future::{Either, join, join3, join4, select};
use in_force::InForce;
use nitro_config::{Address, Config, ServerConfig, TlsMode};
use nitro_console::error::Error;
use nitro_console::logging;
use nitro_console::signals::{Signals, Urgency};
use nitro_device::{Reactor, spawn_local};
use nitro_nbd::{RequestMemory, ServerOptions, TlsFiles, TlsPolicy};
use open::Prepared;
use place::Places;
use reactors::Reactors;
use sockets::Sockets;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workers::CacheWorkers;

/// Default of the maximum number of reactor threads.
const THREADS_DEFAULT_MAX: usize = 4;

/// Serves until a signal arrives or `command` has ended. `source` is the source of the configuration, if it is a file;
/// `given` is what options of the command line set. Returns the exit code: that of the command, otherwise 0.
pub fn run(config: Config, source: Option<Source>, given: Values, command: Option<&str>) -> Result<u8, Error> {
    let errand = command.map(Errand::new);
    serve_for(config, InForce::new(source, given)?, errand.as_ref())?;
    Ok(errand.map_or(0, |errand| errand.code()))
}

fn serve_for(config: Config, in_force: InForce, errand: Option<&Errand>) -> Result<(), Error> {
    nitro_device::limit_allocator();
    panics::abort_on_panic();
    ublk::become_flusher();
    let signals = Signals::handle()?;
    // Whoever closes a terminal wants what runs in it to end.
    if in_force.source.is_some() && !std::io::stdin().is_terminal() {
        signals.reload_on_hang_up();
    }
    let mount = files::check(&config)?;
    limits::check(&config)?;
    limits::raise_files(&config, threads(&config.server) + insert_threads(&config.server));
    let places = Places::choose(&config)?;
    let secrets = Secrets::read(&config)?;
    let reactor = Reactor::new().map_err(|e| Error::with_sources("reactor", &e))?;
    if !reactor.is_io_uring() {
        tracing::warn!("io_uring is not available; requests use slower helper threads");
    }
    origins::start_threads()?;
    config.server.takeover.as_deref().map_or(Ok(()), origins::share_marks)?;
    reactor.block_on(async {
        origins::share(config.server.shares()).await;
        let preparing = async {
            let prepared = open::prepare(&config).await?;
            Ok((prepared, Cluster::join(&config).await?))
        };
        // Nothing is served yet: what is given up here is what a crash would leave.
        let (prepared, cluster) = match select(pin!(signals.wait(Urgency::InOrder)), pin!(preparing)).await {
            Either::Left((name, _)) => {
                tracing::info!("{name}: the server ends before it serves volumes");
                return Ok(());
            }
            Either::Right((Ok(prepared), _)) => prepared,
            Either::Right((Err(error), _)) => {
                // What was opened for it is locked until it is closed.
                let _ = Box::pin(origins::close_all()).await;
                return Err(error);
            }
        };
        let sockets = Sockets::bind(&places, &config.volumes, config.server.tcp_limits())?;
        let caches: Vec<_> = prepared.caches.values().map(|entry| entry.uuid).collect();
        outlive::clean();
        spawn_local(outlive::renew(caches.clone()));
        let workers = CacheWorkers::start(&prepared.caches, insert_threads(&config.server))?;
        let until = ServedUntil { signals, errand };
        let serving = serve_all(&config, in_force, (prepared, cluster), (sockets, mount), secrets, until);
        let served = Box::pin(serving).await;
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

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of threads that serve clients.
fn threads(server: &ServerConfig) -> usize {
    server.threads.unwrap_or_else(|| cores().min(THREADS_DEFAULT_MAX))
}

/// The number of threads of insertion: one core is left to clients.
fn insert_threads(server: &ServerConfig) -> usize {
    server.insert_threads.unwrap_or_else(|| cores().saturating_sub(1).max(1))
}

/// What proves the server to clients, and clients to the server.
struct Secrets {
    tls: TlsPolicy,
    token: Option<Token>,
}

impl Secrets {
    fn read(config: &Config) -> Result<Self, Error> {
        let token = config.server.http_token_file.as_deref().map(Token::read).transpose()?;
        Ok(Self { tls: tls_policy(config)?, token })
    }
}

fn tls_policy(config: &Config) -> Result<TlsPolicy, Error> {
    let server = &config.server;
    let (Some(certificate), Some(key)) = (server.tls_cert.clone(), server.tls_key.clone()) else {
        return Ok(TlsPolicy::Disabled);
    };
    // Whoever can read the key can pose as the server.
    if std::fs::metadata(&key).is_ok_and(|found| found.mode() & 0o007 != 0) {
        tracing::warn!("TLS: every user of this machine can read the key {0}; chmod o= {0}", key.display());
    }
    let files = TlsFiles { certificate, key, client_authority: server.tls_client_ca.clone() };
    let loaded = files.load().map_err(|e| {
        Error::with_sources("TLS", &e).or("certificate and key must be PEM files that this user can read")
    })?;
    Ok(match server.tls.unwrap_or_default() {
        TlsMode::Off => TlsPolicy::Disabled,
        TlsMode::On => TlsPolicy::Optional(loaded),
        TlsMode::Required => TlsPolicy::Required(loaded),
    })
}

/// What ends the server: a signal, or the end of the command that it serves.
#[derive(Clone, Copy)]
struct ServedUntil<'a> {
    signals: &'a Signals,
    errand: Option<&'a Errand>,
}

async fn serve_all(
    config: &Config,
    in_force: InForce,
    (mut prepared, mut cluster): (Prepared, Option<Cluster>),
    (mut sockets, mount): (Sockets, Option<files::Mount>),
    Secrets { tls, token }: Secrets,
    end: ServedUntil<'_>,
) -> Result<(), Error> {
    let observers = observers(&config.server)?;
    let volumes = prepared.admit().await?;
    let connections = Connections::new(&config.server);
    let request_bytes = config.server.request_memory_bytes();
    let memory = Arc::new(RequestMemory::new(request_bytes, config.server.connections_max()));
    spawn_local(tick(Arc::clone(&memory)));
    let (offers, vhost) = (sockets.offers(), sockets.vhost_addresses());
    let iscsi = iscsi::options(config, &memory)?;
    let authentication = Authentication {
        needs_tls: matches!(tls, TlsPolicy::Required(_)),
        has_certificates: config.server.tls_client_ca.is_some(),
        needs_chap: !iscsi.access.accounts.is_empty(),
    };
    sockets::warn_of(&offers, authentication);
    let options =
        Options { nbd: ServerOptions { memory: Arc::clone(&memory), tls, ..ServerOptions::default() }, iscsi };
    let threads = threads(&config.server);
    let connections_max = config.server.connections_max();
    let limits = need::Limits {
        threads,
        insert_threads: insert_threads(&config.server),
        connections: connections_max,
        request_bytes,
        http: sockets.http.is_some(),
        spans: observers.spans.is_some(),
    };
    let offers = (offers, authentication);
    let mut served = Served::new(prepared.caches, volumes, offers, vhost, connections, limits, observers)?;
    served.in_force = in_force;
    served.is_on_ublk = config.server.listen.contains(&Address::Ublk);
    served.mount.wanted = mount;
    served.standing = cluster.as_ref().map(|cluster| cluster.standing.clone());
    served.destage_on_exit = AtomicBool::new(config.server.destage_on_exit.unwrap_or(true));
    let served = Arc::new(served);
    need::announce(&served)?;
    served.apply_sizes();
    let reactors = Reactors::start(&served, options, config.server.busy_poll_max(), threads)?;
    served.block_devices.open(reactors.host(), &memory);
    let http = sockets.http.as_ref().map(|listener| Http::start(listener.address(), token, &served)).transpose()?;
    let accepted = accept(&served, &sockets, &reactors, (http.as_ref(), cluster.as_mut()), end).await;
    // What cannot be served any more is not brought up to date, either.
    let fenced = accepted?;
    if fenced.is_some() {
        served.destage_on_exit.store(false, Ordering::SeqCst);
    }
    cluster.iter().for_each(Cluster::leaving);
    notify::stopping();
    sockets.close();
    http.iter().for_each(Http::stopping);
    // The control socket and HTTP go on answering: destage may take its time.
    let left = {
        let answering =
            pin!(join(control::serve(&sockets.control, &served), accept_http(&sockets, http.as_ref(), &served)));
        let leaving = pin!(shutdown::leave(&served, reactors, end.signals));
        match select(leaving, answering).await {
            Either::Left((result, _)) => result,
            Either::Right((_, leaving)) => leaving.await,
        }
    };
    // Nothing is on its way to an origin any more: others may take over at once. Otherwise when the lease ends.
    if let Some(cluster) = cluster.filter(|_| left.is_ok()) {
        cluster.leave();
    }
    http.map_or(Ok(()), Http::finish)?;
    served.spans.iter().for_each(Spans::finish);
    let recorded = served.recorder.as_ref().map_or(Ok(()), Recorder::finish);
    fenced.map_or(left, Err).and(recorded)
}

/// Starts what observes the requests of clients.
fn observers(server: &ServerConfig) -> Result<Observers, Error> {
    let recorder = server.record.as_deref().map(Recorder::start).transpose()?;
    let spans = server.otlp.as_ref().map(|to| Spans::start(to, server.otlp_sample())).transpose()?;
    Ok(Observers { recorder, spans })
}

/// Advances the time for requests that wait for memory.
async fn tick(memory: Arc<RequestMemory>) {
    loop {
        sleep(Duration::from_secs(1)).await;
        memory.tick();
    }
}

/// Passes HTTP clients to the HTTP thread, and carries out their actions, as long as it is polled.
async fn accept_http(sockets: &Sockets, http: Option<&Http>, served: &Arc<Served>) {
    match (&sockets.http, http) {
        (Some(listener), Some(http)) => http.serve(listener, served).await,
        _ => std::future::pending().await,
    }
}

/// Accepts clients until a signal arrives, the command has ended, or this host may not serve any more: then it returns why.
async fn accept(
    served: &Arc<Served>,
    sockets: &Sockets,
    reactors: &Reactors,
    (http, cluster): (Option<&Http>, Option<&mut Cluster>),
    end: ServedUntil<'_>,
) -> Result<Option<Error>, Error> {
    let ServedUntil { signals, errand } = end;
    let stop = pin!(signals.wait(Urgency::InOrder));
    let reloading = async {
        loop {
            signals.reload().await;
            notify::reloading();
            if let Err(error) = served.reload().await {
                tracing::error!("{error}");
            }
            notify::ready();
        }
    };
    let accepting = pin!(async {
        ublk::begin(served).await?;
        files::begin(served, reactors.host()).await?;
        let uris = served.uris();
        announce(&uris);
        errand.map_or(Ok(()), |errand| errand.start(&uris))?;
        let (accept, control) = (sockets.accept(served, reactors), control::serve(&sockets.control, served));
        join4(
            accept,
            control,
            accept_http(sockets, http, served),
            join3(reloading, reactors.watch(), ublk::follow(served)),
        )
        .await;
        Ok(None)
    });
    let fenced = async {
        match cluster {
            Some(cluster) => cluster.follow(served).await,
            None => std::future::pending().await,
        }
    };
    let done = pin!(async {
        let done = async {
            match errand {
                Some(errand) => errand.done().await,
                None => std::future::pending().await,
            }
        };
        match select(select(pin!(done), pin!(served.mount.over.wait())), pin!(fenced)).await {
            Either::Left(_) => None,
            Either::Right((why, _)) => Some(why),
        }
    });
    match select(select(stop, done), accepting).await {
        Either::Left((Either::Left((name, _)), _)) => {
            tracing::info!("{name}: finishing the requests of clients");
            Ok(None)
        }
        Either::Left((Either::Right((fenced, _)), _)) => Ok(fenced),
        Either::Right((failed, _)) => failed,
    }
}

/// Announces that clients can connect: one line on standard output, and a message to systemd.
fn announce(uris: &[String]) {
    logging::limit();
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; the server goes on all the same.
    let _ = writeln!(out, "ready {}", uris.join(" ")).and_then(|()| out.flush());
    notify::ready();
}
