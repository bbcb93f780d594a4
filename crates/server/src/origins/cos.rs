//! Objects of deduplicating stores: `cos:STORE#OBJECT` or `cos:STORE#OBJECT@SNAPSHOT`. Volumes of one store share it.

use super::collector::Collector;
use super::{Backing, Fence, Identity, Look, NamedOrigin, OpenOrigin, Scheme, VolumeMarks};
use crate::cos::ssd::{self, SsdConfig};
use crate::cos::{CosStore, StoreDevice, device_path, failed, open_device, shared, try_open_device};
use futures_util::future::{FutureExt, LocalBoxFuture};
use nitro_config::{Emulation, VolumeConfig};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::{Settings, SsdSource, Store, Volume};
use nitro_device::{AnyDevice, CompioClock, HddDevice};
use nitro_port::{Means, StorageId};
use nitro_shares::Policy;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};

/// The prefix of such origins.
const PREFIX: &str = "cos:";

/// The scheme `cos`.
pub struct Cos;

/// An object of a store, as named in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosOrigin {
    /// The store's path.
    pub store: PathBuf,
    /// The object's name.
    pub object: String,
}

impl CosOrigin {
    /// Parses an origin; `None`: it is a file or a device.
    pub fn of(origin: &Path) -> Result<Option<Self>, Error> {
        let Some(text) = origin.to_str().and_then(|text| text.strip_prefix(PREFIX)) else { return Ok(None) };
        Self::parse(text).map(Some).map_err(|e| e.within(format_args!("origin {}", origin.display())))
    }

    /// Parses the text behind the scheme.
    fn parse(text: &str) -> Result<Self, Error> {
        match text.rsplit_once('#') {
            Some((store, object)) if !store.is_empty() && !object.is_empty() => {
                Ok(Self { store: store.into(), object: object.to_owned() })
            }
            _ => Err(Error::new(format_args!("{PREFIX}{text}"), "it names no object of a store")
                .or("write cos:STORE#OBJECT, or cos:STORE#OBJECT@SNAPSHOT")),
        }
    }

    /// The path of the object's mark: in the store's folder, with the object's name.
    pub fn mark_place(&self) -> PathBuf {
        let mut place = device_path(&self.store).into_os_string();
        place.push("-");
        // An object's name may look like a path.
        place.push(self.object.replace('%', "%25").replace('/', "%2F"));
        place.into()
    }
}

impl Scheme for Cos {
    fn name(&self) -> &'static str {
        "cos"
    }

    fn form(&self) -> &'static str {
        "cos:STORE#OBJECT"
    }

    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error> {
        Ok(Box::new(CosOrigin::parse(rest)?))
    }
}

impl NamedOrigin for CosOrigin {
    fn absolute(&self) -> io::Result<PathBuf> {
        let store = std::path::absolute(&self.store)?;
        Ok(format!("{PREFIX}{}#{}", store.display(), self.object).into())
    }

    fn volume_name(&self) -> String {
        self.object.clone()
    }

    fn host_path(&self) -> Option<&Path> {
        Some(&self.store)
    }

    fn is_host(&self) -> bool {
        false
    }

    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>> {
        async move {
            let origin = self.open_for(config).await?;
            let size = Size(origin.look.size_bytes);
            nitro_console::output::note!("volume {volume}: {size} at {}", config.origin.display());
            Ok(origin)
        }
        .boxed_local()
    }

    /// A store is opened as `nitro cos list` opens it, since only the store knows its objects.
    fn look<'a>(
        &'a self,
        _: &'a str,
        config: &'a VolumeConfig,
    ) -> LocalBoxFuture<'a, Result<Option<OpenOrigin>, Error>> {
        async move {
            let is_open = find(&self.store).await.is_some();
            let within = |e: Error| e.within(format_args!("origin {}", config.origin.display()));
            if !is_open && try_open_device(&self.store).map_err(within)?.is_none() {
                return Ok(None);
            }
            self.open_for(config).await.map(Some)
        }
        .boxed_local()
    }
}

/// An object records the time of its last change; its last flush made the record durable.
impl Identity for Volume<StoreDevice> {
    fn look(&self, size_bytes: u64) -> io::Result<Look> {
        Ok(Look { size_bytes, mtime_ns: Some(self.modified_ns()) })
    }

    fn look_durably(&self, size_bytes: u64) -> io::Result<Look> {
        self.look(size_bytes)
    }
}

impl CosOrigin {
    async fn open_for(&self, config: &VolumeConfig) -> Result<OpenOrigin, Error> {
        let what = format!("origin {}", config.origin.display());
        let object = open(self, config).await.map_err(|e| e.within(&what))?;
        if object.is_read_only() && !config.read_only {
            let why = "it is a snapshot or a stream, which cannot be changed";
            return Err(Error::new(what, why).or("serve it read-only, or make a clone: nitro cos clone"));
        }
        let size_bytes = object.size_bytes();
        if size_bytes == 0 {
            return Err(Error::new(what, "it is empty"));
        }
        let identity = Arc::new(object.clone());
        let look = identity.look(size_bytes).map_err(|e| Error::new(&what, e))?;
        let fence = Fence::at(&config.origin, &self.mark_place());
        let (store, number) = object.identity();
        let mut id = StorageId::default();
        id.add(Means::Object, &[&store.to_le_bytes(), &number.to_le_bytes()]);
        let marks = VolumeMarks::of(&id);
        let read_only = object.is_read_only();
        Ok(OpenOrigin { device: Backing::Object(object), identity, id, look, fence, marks, read_only })
    }
}

/// An open store.
struct Opened {
    store: Weak<CosStore>,
    collector: Option<Collector>,
    /// What its volumes have to agree on.
    emulate_disk: Option<Emulation>,
    settings: Settings,
}

impl Opened {
    /// The store, if volumes of it are open.
    fn store(&self) -> Option<Arc<CosStore>> {
        self.store.upgrade()
    }
}

/// Stores that are open.
static OPEN: LazyLock<futures_util::lock::Mutex<HashMap<PathBuf, Opened>>> = LazyLock::new(Default::default);

/// The shares of the disks' time of stores that a server opens; `None`: they are not shared.
static SHARES: Mutex<Option<Policy>> = Mutex::new(None);

/// Sets the shares of the disks' time, for open stores and for those that will be opened.
pub(crate) async fn share(policy: Option<Policy>) {
    let stores = OPEN.lock().await;
    *SHARES.lock() = policy;
    stores.values().filter_map(Opened::store).for_each(|store| store.device().set_policy(policy));
}

/// Opens an object, and its store if that is not open yet.
async fn open(origin: &CosOrigin, config: &VolumeConfig) -> Result<Volume<StoreDevice>, Error> {
    let emulate_disk = config.emulate_disk;
    let path = real(&origin.store);
    let settings = config.store_settings();
    let mut stores = OPEN.lock().await;
    let opened = stores.get(&path).and_then(|opened| Some((opened.store()?, opened)));
    let store = match opened {
        Some((_, others)) if others.emulate_disk != emulate_disk => {
            let why = "the volumes of a store must have the same emulated disk";
            return Err(Error::new(origin.store.display(), why).or("give all of them the same emulate_disk"));
        }
        Some((_, others)) if others.settings != settings => {
            let why = "the volumes of a store must have the same store_options";
            return Err(Error::new(origin.store.display(), why).or("give all of them the same store_options"));
        }
        Some((store, _)) => store,
        None => {
            // A collection that was under way when the last volume was removed may still have the device open.
            stores.remove(&path).and_then(|closed| closed.collector).into_iter().for_each(Collector::stop);
            let device = match (open_device(&origin.store)?, emulate_disk) {
                (AnyDevice::File(file), Some(disk)) => HddDevice::new(file, CompioClock::new(), disk.model()).into(),
                (device, _) => device,
            };
            let ssd = ssd_of(origin, config);
            let device = shared(device, *SHARES.lock());
            let store = Store::open_with_ssd(device, settings, ssd).await;
            let store = Arc::new(store.map_err(|e| failed(&origin.store, &e))?);
            store.learn_read_costs(CompioClock::new());
            let collector = Collector::start(&origin.store, &store)?;
            stores.insert(path, Opened { store: Arc::downgrade(&store), collector, emulate_disk, settings });
            store
        }
    };
    match store.open_volume(&origin.object).await {
        Err(error @ nitro_cos::Error::NoObject(_)) => {
            let objects = store.list().await.unwrap_or_default();
            let names: Vec<String> = objects.into_iter().map(|o| o.name).take(20).collect();
            Err(failed(&origin.store, &error).or(format_args!("there is: {}", names.join(", "))))
        }
        opened => opened.map(Volume::served).map_err(|e| failed(&origin.store, &e)),
    }
}

/// The SSD with which a store is opened: that of the volume's configuration, or the one attached to the store. Chunks
/// are kept there only if this is configured, since the volume's cache has them. If the SSD cannot be opened, the store
/// opens without it: the disk has all data.
fn ssd_of(origin: &CosOrigin, config: &VolumeConfig) -> Option<SsdSource> {
    let opened = match &config.ssd {
        Some(path) => {
            let usual = SsdConfig { data: config.ssd_data, ..SsdConfig::usual(path.clone()) };
            usual.prepare(config.ssd_size.filter(|_| !path.exists()), false).map(Some)
        }
        None => ssd::configured(&origin.store).and_then(|attached| {
            let attached = attached.map(|ssd| SsdConfig { data: config.ssd_data && ssd.data, ..ssd });
            attached.map(|ssd| ssd.open()).transpose()
        }),
    };
    opened.unwrap_or_else(|error| {
        tracing::warn!("store {}: opened without its SSD: {error}", origin.store.display());
        None
    })
}

/// The device of a store, by a path that is the same for all names of the store.
pub(crate) fn real(store: &Path) -> PathBuf {
    let path = device_path(store);
    path.canonicalize().unwrap_or(path)
}

/// The store at a path, if it is open.
pub(crate) async fn find(store: &Path) -> Option<Arc<CosStore>> {
    OPEN.lock().await.get(&real(store)).and_then(Opened::store)
}

/// The error of a store that is not open.
pub(crate) fn not_open(store: &Path) -> Error {
    Error::new(format_args!("store {}", store.display()), "this server does not have it open")
        .or("name the server that has with --control")
}

/// The open stores, by path. Empty while a store is being opened.
pub(crate) fn open_stores() -> Vec<(PathBuf, Arc<CosStore>)> {
    let Some(stores) = OPEN.try_lock() else { return Vec::new() };
    let mut open: Vec<_> = stores.iter().filter_map(|(path, opened)| Some((path.clone(), opened.store()?))).collect();
    open.sort_by(|one, other| one.0.cmp(&other.0));
    open
}

/// Returns a function that tells whether an origin belongs to the store at a path.
pub(crate) fn same_store(store: &Path) -> impl Fn(&CosOrigin) -> bool + 'static {
    let wanted = real(store);
    move |origin| real(&origin.store) == wanted
}

/// Closes the open stores: everything becomes durable, and the next start is fast.
pub(super) async fn close_all() -> Result<(), Error> {
    let open: Vec<_> = OPEN.lock().await.drain().collect();
    for (path, Opened { store, collector, .. }) in open {
        collector.into_iter().for_each(Collector::stop);
        if let Some(store) = store.upgrade() {
            store.close().await.map_err(|e| failed(&path, &e))?;
        }
    }
    Ok(())
}
