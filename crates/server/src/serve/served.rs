//! What is served: shared by all threads.

use super::connections::Connections;
use super::need::Limits;
use super::open::Caches;
use super::sockets::uri;
use super::workers::VolumeWorkers;
use crate::config::Protocol;
use crate::export::VolumeExport;
use crate::record::Recorder;
use nitro_console::error::Error;
use nitro_device::net::ListenAddress;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Instant;

pub struct Served {
    pub started: Instant,
    pub caches: Caches,
    /// By name. More may come, and some go, while it is served.
    pub volumes: RwLock<Vec<Arc<VolumeExport>>>,
    pub connections: Connections,
    /// What bounds its RAM.
    pub(super) limits: Limits,
    addresses: Vec<(Protocol, ListenAddress)>,
    /// Whether clients must use TLS.
    needs_tls: bool,
    pub(super) workers: VolumeWorkers,
    /// What clients ask for is recorded there.
    pub recorder: Option<Recorder>,
}

impl Served {
    pub(super) fn new(
        caches: Caches,
        volumes: Vec<Arc<VolumeExport>>,
        (addresses, needs_tls): (Vec<(Protocol, ListenAddress)>, bool),
        connections: Connections,
        limits: Limits,
        recorder: Option<Recorder>,
    ) -> Result<Self, Error> {
        let workers = VolumeWorkers::start()?;
        let served = Self {
            started: Instant::now(),
            caches,
            volumes: RwLock::default(),
            connections,
            limits,
            addresses,
            needs_tls,
            workers,
            recorder,
        };
        volumes.into_iter().for_each(|export| served.take(export));
        Ok(served)
    }

    /// Serves a volume from now on.
    pub(super) fn take(&self, export: Arc<VolumeExport>) {
        if let Some(recorder) = &self.recorder {
            let extent_bytes = export.volume.cache().settings().manager.extent_bytes;
            // A volume is taken once.
            let _ = export.recorder.set(recorder.follow(&export.name, extent_bytes));
        }
        self.workers.tend(&export);
        self.volumes.write().push(export);
    }

    /// A volume by its name.
    pub fn volume(&self, name: &str) -> Option<Arc<VolumeExport>> {
        self.volumes.read().iter().find(|export| export.name == name).cloned()
    }

    /// All volumes as they are now.
    pub fn all(&self) -> Vec<Arc<VolumeExport>> {
        self.volumes.read().clone()
    }

    /// One URI for each address and export.
    pub fn uris(&self) -> Vec<String> {
        let volumes = self.all();
        let pairs = self.addresses.iter().flat_map(|address| volumes.iter().map(move |export| (address, export)));
        pairs.map(|(address, export)| uri(address, &export.name, self.needs_tls)).collect()
    }

    /// The URIs of one export.
    pub fn uris_of(&self, name: &str) -> Vec<String> {
        self.addresses.iter().map(|address| uri(address, name, self.needs_tls)).collect()
    }
}
