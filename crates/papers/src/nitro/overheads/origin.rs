//! The origins of the boots: a plain file, or an object of a store in a file; each with the latency of a disk, or as
//! fast as the file.

use super::failed;
use crate::kind::Kind;
use crate::nitro::synthetic::Storm;
use nitro_console::error::Error;
use nitro_cos::{Plan, Settings, Store, StoreOptions};
use nitro_device::hdd::HddModel;
use nitro_device::{AnyDevice, CompioClock, FileOptions, HddDevice};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const OBJECT: &str = "machines";
/// Room in a store for its index, its journal and containers that are being filled, in bytes.
const ROOM_BYTES: u64 = 256 << 20;

/// The files of the measurement, which are removed on drop.
pub(super) struct Files {
    pub(super) origin: PathBuf,
    pub(super) store: PathBuf,
    /// The contents of the origin, stored consecutively.
    pub(super) plain: PathBuf,
    pub(super) caches: Vec<PathBuf>,
}

impl Files {
    pub(super) fn new(folder: &Path) -> Self {
        let file = |name: &str| folder.join(format!("figure-8-{name}.img"));
        let caches = (0..Kind::ALL.len()).map(|n| file(&format!("cache-{n}"))).collect();
        let files = Self { origin: file("origin"), store: file("store"), plain: file("plain"), caches };
        files.remove();
        files
    }

    fn remove(&self) {
        for path in self.caches.iter().chain([&self.origin, &self.store, &self.plain]) {
            // An error means that the file did not exist.
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Whether the latency of a disk is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Disk,
    File,
}

/// The device below an origin, with counters.
pub(super) type Beneath = Arc<AnyDevice>;

/// The number of requests of an emulated disk.
pub(super) fn requests(beneath: &Beneath) -> u64 {
    match &**beneath {
        AnyDevice::Hdd(disk) => disk.stats().requests,
        _ => 0,
    }
}

/// An origin of one kind: a plain file, or an object of a store.
pub(super) trait Bed: nitro_port::Origin + Clone {
    /// Creates an origin with the contents that the machines read.
    async fn make(files: &Files, storm: &Storm) -> Result<(), Error>;

    /// Opens the origin; none of its data are in RAM.
    async fn open(files: &Files, pace: Pace) -> Result<(Self, Beneath), Error>;
}

fn opened(options: &FileOptions, pace: Pace) -> Result<Beneath, Error> {
    let file = options.open().map_err(|e| failed(&e))?;
    Ok(Arc::new(match pace {
        Pace::Disk => AnyDevice::from(HddDevice::new(file, CompioClock::new(), HddModel::rpm_7200())),
        Pace::File => AnyDevice::from(file),
    }))
}

impl Bed for Arc<AnyDevice> {
    async fn make(files: &Files, storm: &Storm) -> Result<(), Error> {
        // The file is sparse: most of the volume is never read.
        fs::File::create_new(&files.origin)
            .and_then(|file| file.set_len(storm.volume_bytes))
            .map_err(|e| failed(&e))?;
        let origin = FileOptions::new(&files.origin).open().map_err(|e| failed(&e))?;
        storm.lay_out(&origin).await.map_err(|e| failed(&e))
    }

    async fn open(files: &Files, pace: Pace) -> Result<(Self, Beneath), Error> {
        let device = opened(&FileOptions::new(&files.origin).read_only(true), pace)?;
        Ok((Arc::clone(&device), device))
    }
}

impl Bed for nitro_cos::Volume<AnyDevice> {
    async fn make(files: &Files, storm: &Storm) -> Result<(), Error> {
        let size_bytes = storm.bytes() + ROOM_BYTES;
        let options = StoreOptions { size_bytes, ..StoreOptions::default() };
        let plan = Plan::new(&options, 0x5EED, 1).map_err(|e| failed(&e))?;
        let file = FileOptions::new(&files.store).create(size_bytes).map_err(|e| failed(&e))?;
        let store = Store::create(Arc::new(AnyDevice::from(file)), &plan, Settings::default()).await;
        let store = Arc::new(store.map_err(|e| failed(&e))?);
        store.create_volume(OBJECT, storm.volume_bytes, None, 0).await.map_err(|e| failed(&e))?;
        let volume = store.open_volume(OBJECT).await.map_err(|e| failed(&e))?;
        storm.lay_out(&volume).await.map_err(|e| failed(&e))?;
        store.close().await.map_err(|e| failed(&e))
    }

    async fn open(files: &Files, pace: Pace) -> Result<(Self, Beneath), Error> {
        let device = opened(&FileOptions::new(&files.store), pace)?;
        let store = Store::open(Arc::clone(&device), Settings::default()).await.map_err(|e| failed(&e))?;
        let volume = Arc::new(store).open_volume(OBJECT).await.map_err(|e| failed(&e))?;
        Ok((volume, device))
    }
}
