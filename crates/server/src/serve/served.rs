//! The served caches and volumes, shared by all threads.

use super::connections::Connections;
use super::in_force::InForce;
use super::need::Limits;
use super::open::Caches;
use super::sockets::uri;
use super::vhost::vhost_uri;
use super::workers::VolumeWorkers;
use crate::config::{Protocol, VhostAddress};
use crate::export::VolumeExport;
use crate::record::Recorder;
use crate::spans::Spans;
use event_listener::Event;
use nitro_console::error::Error;
use nitro_device::net::ListenAddress;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// What observes the requests of clients.
pub(super) struct Observers {
    pub(super) recorder: Option<Recorder>,
    pub(super) spans: Option<Spans>,
}

pub struct Served {
    pub started: Instant,
    pub caches: Caches,
    /// Volumes by name. Volumes may be added and removed at run time.
    pub volumes: RwLock<Vec<Arc<VolumeExport>>>,
    pub connections: Connections,
    /// The limits of its RAM.
    pub(super) limits: Limits,
    addresses: Vec<(Protocol, ListenAddress)>,
    vhost: Vec<VhostAddress>,
    /// A volume was added.
    pub(super) grown: Event,
    /// Whether clients must use TLS.
    needs_tls: bool,
    pub(super) workers: VolumeWorkers,
    /// The recorder of clients' requests.
    pub recorder: Option<Recorder>,
    /// The export of spans of clients' requests.
    pub(crate) spans: Option<Spans>,
    /// The configuration.
    pub in_force: InForce,
    /// Requests for actions over HTTP that had a wrong token.
    pub http_wrong_tokens: AtomicU64,
    /// Origins are brought up to date before the server ends.
    pub(super) destage_on_exit: AtomicBool,
}

impl Served {
    pub(super) fn new(
        caches: Caches,
        volumes: Vec<Arc<VolumeExport>>,
        (addresses, needs_tls): (Vec<(Protocol, ListenAddress)>, bool),
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
            limits,
            addresses,
            vhost,
            grown: Event::new(),
            needs_tls,
            workers,
            recorder: observers.recorder,
            spans: observers.spans,
            in_force: InForce::new(None)?,
            http_wrong_tokens: AtomicU64::new(0),
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
            let _ = export.recorder.set(recorder.follow(&export.name, extent_bytes));
        }
        if let Some(spans) = &self.spans {
            let _ = export.spans.set(spans.follow(&export.name));
        }
        self.workers.tend(&export);
        self.volumes.write().push(export);
        self.grown.notify(usize::MAX);
    }

    /// A volume by its name.
    pub fn volume(&self, name: &str) -> Option<Arc<VolumeExport>> {
        self.volumes.read().iter().find(|export| export.name == name).cloned()
    }

    /// All present volumes.
    pub fn all(&self) -> Vec<Arc<VolumeExport>> {
        self.volumes.read().clone()
    }

    /// One URI for each address and export, and `vhost:PATH` for each socket of virtual machines.
    pub fn uris(&self) -> Vec<String> {
        let volumes = self.all();
        let of = |address| volumes.iter().map(move |export| uri(address, &export.name, self.needs_tls));
        let vhost = |address| volumes.iter().map(move |export| vhost_uri(address, &export.name));
        self.addresses.iter().flat_map(of).chain(self.vhost.iter().flat_map(vhost)).collect()
    }

    /// The URIs of one export. A socket for a single volume belongs to the first volume.
    pub fn uris_of(&self, name: &str) -> Vec<String> {
        let folders = self.vhost.iter().filter(|address| matches!(address, VhostAddress::Folder(_)));
        let vhost = folders.map(|address| vhost_uri(address, name));
        self.addresses.iter().map(|address| uri(address, name, self.needs_tls)).chain(vhost).collect()
    }
}
