//! The served caches and volumes, shared by all threads.

use super::busy::{Load, Seen};
use super::cluster::Standing;
use super::connections::Connections;
use super::files::MountState;
use super::in_force::InForce;
use super::jobs::Jobs;
use super::need::Limits;
use super::open::Caches;
use super::place::Offer;
use super::settings::Values;
use super::sockets::uri;
use super::ublk::BlockDevices;
use super::vhost::vhost_uri;
use super::workers::VolumeWorkers;
use crate::export::VolumeExport;
use crate::peers::Attempts;
use crate::record::Recorder;
use crate::spans::Spans;
use event_listener::Event;
use nitro_config::{Address, Protocol, VhostAddress, VolumeConfig, check_unit};
use nitro_console::error::Error;
use nitro_device::CompioClock;
use nitro_frontend::UnitIdentity;
use nitro_trace::ObjectName;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What observes the requests of clients.
pub(super) struct Observers {
    pub(super) recorder: Option<Recorder>,
    pub(super) spans: Option<Spans>,
}

/// How clients authenticate, from the start of the server on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Authentication {
    /// NBD clients must use TLS.
    pub(super) needs_tls: bool,
    /// NBD clients with TLS have certificates.
    pub(super) has_certificates: bool,
    /// Initiators must log in with an account.
    pub(super) needs_chap: bool,
}

pub struct Served {
    pub started: Instant,
    pub caches: Caches,
    /// Volumes by name. Volumes may be added and removed at run time.
    pub volumes: RwLock<Vec<Arc<VolumeExport>>>,
    pub connections: Connections,
    /// Secrets that clients give.
    pub(crate) attempts: Attempts,
    /// The loads of the threads that serve clients, once they run.
    pub(super) loads: OnceLock<Vec<Arc<Load>>>,
    /// The limits of its RAM.
    pub(super) limits: Limits,
    offers: Vec<Offer>,
    vhost: Vec<VhostAddress>,
    /// Volumes are offered as block devices of this machine.
    pub(super) is_on_ublk: bool,
    /// The block devices.
    pub block_devices: BlockDevices,
    /// The mount of a tree of files.
    pub(super) mount: MountState,
    /// A volume was added.
    pub(super) grown: Event,
    pub(super) authentication: Authentication,
    pub(super) workers: VolumeWorkers,
    /// The recorder of clients' requests.
    pub recorder: Option<Recorder>,
    /// The export of spans of clients' requests.
    pub(crate) spans: Option<Spans>,
    /// Operations on stores.
    pub(crate) jobs: Jobs,
    /// The configuration.
    pub in_force: InForce,
    /// Requests for actions over HTTP that had a wrong token.
    pub http_wrong_tokens: AtomicU64,
    /// What this host is among those that take volumes over from one another.
    pub(crate) standing: Option<Standing>,
    /// Origins are brought up to date before the server ends.
    pub(super) destage_on_exit: AtomicBool,
}

impl Served {
    pub(super) fn new(
        caches: Caches,
        volumes: Vec<Arc<VolumeExport>>,
        (offers, authentication): (Vec<Offer>, Authentication),
        vhost: Vec<VhostAddress>,
        connections: Connections,
        limits: Limits,
        observers: Observers,
    ) -> Result<Self, Error> {
        let workers = VolumeWorkers::start()?;
        let served = Self {
            started: Instant::now(),
            caches,
            volumes: RwLock::default(),
            connections,
            attempts: Attempts::new(CompioClock::new()),
            loads: OnceLock::new(),
            limits,
            offers,
            vhost,
            is_on_ublk: false,
            block_devices: BlockDevices::default(),
            mount: MountState::default(),
            grown: Event::new(),
            authentication,
            workers,
            recorder: observers.recorder,
            spans: observers.spans,
            jobs: Jobs::default(),
            in_force: InForce::new(None, Values::new())?,
            http_wrong_tokens: AtomicU64::new(0),
            standing: None,
            destage_on_exit: AtomicBool::new(true),
        };
        volumes.into_iter().for_each(|export| served.take(export));
        Ok(served)
    }

    /// Adds a volume to the served ones.
    pub(super) fn take(&self, export: Arc<VolumeExport>) {
        if let Some(recorder) = &self.recorder {
            let extent_bytes = export.volume.cache().settings().manager.extent_bytes;
            // A volume is taken once.
            let _ = export.recorder.set(recorder.follow(recorded_name(&export), extent_bytes));
        }
        if let Some(spans) = &self.spans {
            let _ = export.spans.set(spans.follow(&export.name));
        }
        self.workers.tend(&export);
        self.volumes.write().push(export);
        self.grown.notify(usize::MAX);
    }

    /// Numbers of threads that serve clients, and of those of insertion.
    pub(crate) fn threads(&self) -> (usize, usize) {
        (self.limits.threads, self.limits.insert_threads)
    }

    /// The loads of the threads that serve clients.
    pub(crate) fn loads(&self) -> Vec<Seen> {
        self.loads.get().into_iter().flatten().map(|load| load.seen()).collect()
    }

    /// A volume by its name.
    pub fn volume(&self, name: &str) -> Option<Arc<VolumeExport>> {
        self.volumes.read().iter().find(|export| export.name == name).cloned()
    }

    /// All present volumes.
    pub fn all(&self) -> Vec<Arc<VolumeExport>> {
        self.volumes.read().clone()
    }

    /// One URI for each export and address on which it is offered, `vhost:PATH` for each socket of virtual machines, and
    /// `ublk:PATH` for each block device, and `fuse:PATH` for a mount.
    pub fn uris(&self) -> Vec<String> {
        let volumes = self.all();
        let of = |offer| volumes.iter().filter_map(move |export| self.uri(offer, export));
        let vhost = |address| volumes.iter().filter_map(move |export| uri_of_vhost(address, export));
        let blocks = volumes.iter().filter_map(|export| self.block_devices.path(&export.name));
        let blocks = blocks.map(|path| format!("{}{path}", Address::Ublk));
        self.offers
            .iter()
            .flat_map(of)
            .chain(self.vhost.iter().flat_map(vhost))
            .chain(blocks)
            .chain(self.mount.uri())
            .collect()
    }

    /// The URIs of one export. A socket for a single volume belongs to the first volume.
    pub fn uris_of(&self, export: &VolumeExport) -> Vec<String> {
        let folders = self.vhost.iter().filter(|address| matches!(address, VhostAddress::Folder(_)));
        let vhost = folders.filter_map(|address| uri_of_vhost(address, export));
        self.offers.iter().filter_map(|offer| self.uri(offer, export)).chain(vhost).collect()
    }

    fn uri(&self, offer: &Offer, export: &VolumeExport) -> Option<String> {
        export.is_offered_on(&offer.given).then(|| uri(offer, &export.names, self.authentication.needs_tls))
    }

    /// Checks the names and numbers of a volume that is to be served beside the present ones.
    pub(super) fn check_unit(&self, unit: &UnitIdentity) -> Result<(), Error> {
        let volumes = self.all();
        let is_target = self.offers.iter().any(|offer| offer.protocol == Protocol::Iscsi);
        check_unit(unit, volumes.iter().map(|export| &*export.names), is_target)
    }

    /// Checks that no command adds or removes a volume about which etcd decides.
    pub(super) fn check_alone(&self, name: &str, config: Option<&VolumeConfig>) -> Result<(), Error> {
        let is_shared = self.standing.as_ref().is_some_and(|standing| standing.volumes.iter().any(|own| own == name));
        if !is_shared && config.is_none_or(|config| !config.cluster) {
            return Ok(());
        }
        Err(Error::new(format_args!("volume {name}"), "etcd decides which host serves it")
            .or("change the configuration file, and start the server again; to serve it elsewhere, stop this server"))
    }

    /// Whether virtual machines are served.
    pub(super) fn has_vhost(&self) -> bool {
        !self.vhost.is_empty()
    }
}

fn uri_of_vhost(address: &VhostAddress, export: &VolumeExport) -> Option<String> {
    export.is_offered_on(&Address::Vhost(address.clone())).then(|| vhost_uri(address, &export.name))
}

/// The name of a volume in a recording, by which it is the same disk in other recordings.
fn recorded_name(export: &VolumeExport) -> ObjectName {
    ObjectName::of_volume(&export.unit.uuid.to_string(), &export.name)
}
