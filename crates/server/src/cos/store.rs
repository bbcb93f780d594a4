//! Opening stores.

use nitro_console::error::Error;
use nitro_cos::{Settings, Store};
use nitro_device::{AnyDevice, CompioClock, FileOptions};
use nitro_shares::{Policy, SharedDevice};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The file of a store in a folder.
pub const FILE_NAME: &str = "store.nitro";

/// The device of a store, whose time its work may share.
pub type StoreDevice = SharedDevice<AnyDevice, CompioClock>;

/// The type of the program's stores.
pub type CosStore = Store<StoreDevice>;

/// An error of a store at `path`.
pub fn failed(path: &Path, error: &nitro_cos::Error) -> Error {
    Error::with_sources(path.display(), error)
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The file or device that holds the store at a path.
pub fn device_path(store: &Path) -> PathBuf {
    match fs::metadata(store) {
        Ok(meta) if !meta.is_dir() => store.to_owned(),
        _ => store.join(FILE_NAME),
    }
}

/// Opens the device of a store exclusively. `None`: another program has it open.
pub fn try_open_device(store: &Path) -> Result<Option<AnyDevice>, Error> {
    let path = device_path(store);
    match FileOptions::new(&path).open() {
        Ok(device) => Ok(Some(device.into())),
        Err(e) if e.kind == nitro_device::ErrorKind::InUse => Ok(None),
        Err(e) => {
            let way_out = if path.exists() { "" } else { "make a store there with `nitro cos init`" };
            Err(Error::with_sources(store.display(), &e).or(way_out))
        }
    }
}

/// Opens the device of a store exclusively.
pub fn open_device(store: &Path) -> Result<AnyDevice, Error> {
    let in_use = || Error::new(store.display(), "another program has it open").or("stop that program first");
    try_open_device(store)?.ok_or_else(in_use)
}

/// A store's device, whose time is shared by a policy; `None`: requests pass as they come.
pub fn shared(device: AnyDevice, policy: Option<Policy>) -> Arc<StoreDevice> {
    Arc::new(SharedDevice::new(device, CompioClock::new(), policy))
}

/// Opens the store at `path`.
pub async fn open(path: &Path, settings: Settings) -> Result<Arc<CosStore>, Error> {
    open_on(open_device(path)?, path, settings).await
}

/// Opens the store at `path`, whose device is open.
pub async fn open_on(device: AnyDevice, path: &Path, settings: Settings) -> Result<Arc<CosStore>, Error> {
    // One command has the whole disk.
    let store = Store::open_with_ssd(shared(device, None), settings, super::ssd::source(path))
        .await
        .map_err(|e| failed(path, &e))?;
    store.learn_read_costs(CompioClock::new());
    Ok(Arc::new(store))
}
