//! Origins in deduplicating stores: `cos:STORE#OBJECT` or `cos:STORE#OBJECT@SNAPSHOT`. Volumes of one store share it.

use crate::config::Emulation;
use crate::cos::{CosStore, device_path, failed, open_device};
use nitro_console::error::Error;
use nitro_cos::{Settings, Store, Volume};
use nitro_device::{AnyDevice, CompioClock, HddDevice};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};

/// What such origins begin with.
const PREFIX: &str = "cos:";

/// An object of a store, as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosOrigin {
    /// The store's path.
    pub store: PathBuf,
    /// The object's name.
    pub object: String,
}

impl CosOrigin {
    /// `None`: it is a file or a device.
    pub fn of(origin: &Path) -> Result<Option<Self>, Error> {
        let Some(text) = origin.to_str().and_then(|text| text.strip_prefix(PREFIX)) else { return Ok(None) };
        match text.rsplit_once('#') {
            Some((store, object)) if !store.is_empty() && !object.is_empty() => {
                Ok(Some(Self { store: store.into(), object: object.to_owned() }))
            }
            _ => Err(Error::new(format_args!("origin {}", origin.display()), "it names no object of a store")
                .or("write cos:STORE#OBJECT, or cos:STORE#OBJECT@SNAPSHOT")),
        }
    }

    /// The same, wherever the program that is told of it was started.
    pub fn absolute(&self) -> std::io::Result<PathBuf> {
        let store = std::path::absolute(&self.store)?;
        Ok(format!("{PREFIX}{}#{}", store.display(), self.object).into())
    }

    /// Where a mark of unwritten data is made: beside the store's file, by the object's name.
    pub fn mark_place(&self) -> PathBuf {
        let mut place = device_path(&self.store).into_os_string();
        place.push("-");
        // An object's name may look like a path.
        place.push(self.object.replace('%', "%25").replace('/', "%2F"));
        place.into()
    }
}

type Opened = (Weak<CosStore>, Option<Emulation>);

/// Stores that are open.
static OPEN: LazyLock<futures_util::lock::Mutex<HashMap<PathBuf, Opened>>> = LazyLock::new(Default::default);

/// Opens an object, and its store if it is not open yet.
pub(super) async fn open(origin: &CosOrigin, emulate_disk: Option<Emulation>) -> Result<Volume<AnyDevice>, Error> {
    let path = real(&origin.store);
    let mut stores = OPEN.lock().await;
    let store = match stores.get(&path).and_then(|(store, emulation)| Some((store.upgrade()?, *emulation))) {
        Some((store, emulation)) if emulation == emulate_disk => store,
        Some(_) => {
            let why = "volumes of one store have the same disk beneath";
            return Err(Error::new(origin.store.display(), why).or("give all of them the same emulate_disk"));
        }
        None => {
            let device = match (open_device(&origin.store)?, emulate_disk) {
                (AnyDevice::File(file), Some(disk)) => HddDevice::new(file, CompioClock::new(), disk.model()).into(),
                (device, _) => device,
            };
            let store = Store::open(Arc::new(device), Settings::default()).await;
            let store = Arc::new(store.map_err(|e| failed(&origin.store, &e))?);
            stores.insert(path, (Arc::downgrade(&store), emulate_disk));
            store
        }
    };
    store.open_volume(&origin.object).map_err(|e| {
        let names: Vec<String> = store.list().into_iter().map(|o| o.name).take(20).collect();
        failed(&origin.store, &e).or(format_args!("there is: {}", names.join(", ")))
    })
}

fn real(store: &Path) -> PathBuf {
    let path = device_path(store);
    path.canonicalize().unwrap_or(path)
}

/// The store of that name, if it is open.
pub(super) async fn find(store: &Path) -> Option<Arc<CosStore>> {
    OPEN.lock().await.get(&real(store)).and_then(|(store, _)| store.upgrade())
}

/// The stores that are open, and the most RAM that each takes, in bytes. Empty while a store is being opened.
pub(super) fn ram_needs() -> Vec<(PathBuf, u64)> {
    let Some(stores) = OPEN.try_lock() else { return Vec::new() };
    let need = |(path, (store, _)): (&PathBuf, &Opened)| Some((path.clone(), store.upgrade()?.ram_need_bytes()));
    stores.iter().filter_map(need).collect()
}

/// Tells whether origins are of the store of that name.
pub(super) fn same_store(store: &Path) -> impl Fn(&CosOrigin) -> bool + 'static {
    let wanted = real(store);
    move |origin| real(&origin.store) == wanted
}

/// Closes the stores that are open: everything is durable, and the next start has little to do.
pub(super) async fn close_all() -> Result<(), Error> {
    let open: Vec<_> = OPEN.lock().await.drain().collect();
    for (path, (store, _)) in open {
        if let Some(store) = store.upgrade() {
            store.close().await.map_err(|e| failed(&path, &e))?;
        }
    }
    Ok(())
}
