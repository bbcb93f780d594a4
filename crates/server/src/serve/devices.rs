//! The files or block devices of a cache: opened, created, and put together.

use super::device::CacheDevice;
use super::store::{self, Store};
use crate::device_error::device_error;
use nitro_config::{CacheConfig, CacheStore};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::{AnyDevice, ErrorKind, FileDevice, FileOptions};
use nitro_engine::Flash;
use nitro_files::FileId;
use nitro_port::Device;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The devices of a cache, opened.
pub(super) struct Stores {
    /// Each with its position in the list of paths.
    opened: Vec<(usize, FileDevice)>,
    paths: Vec<PathBuf>,
    /// Bytes of each device to use: as many as the smallest has.
    pub(super) size_bytes: u64,
    /// Whether they hold a cache.
    pub(super) holds_cache: bool,
}

/// Opens the devices of a cache, and creates files that do not exist. If one of several holds a cache already, the others
/// are not created, but missing.
pub(super) fn open(paths: &[PathBuf], config: &CacheConfig) -> Result<Stores, Error> {
    check_different(paths)?;
    if is_striped_cache(paths, config) {
        return open_existing(paths);
    }
    let config = of_each(paths, config);
    let mut stores = Stores { opened: Vec::new(), paths: paths.to_vec(), size_bytes: u64::MAX, holds_cache: false };
    for (position, path) in paths.iter().enumerate() {
        let Store { device, size_bytes, holds_cache } = store::open(&name_of(path), path, &config)?;
        stores.size_bytes = stores.size_bytes.min(size_bytes);
        stores.holds_cache |= holds_cache;
        stores.opened.push((position, device));
    }
    Ok(stores)
}

/// What a start would do with the devices of a cache.
pub(super) enum Found {
    /// It would make a cache of so many bytes of each; these do not exist yet.
    Created { size_bytes: u64, absent: Vec<PathBuf> },
    /// They hold a cache; these are missing.
    There { missing: Vec<PathBuf> },
}

/// Checks what [`open`] checks. Nothing is created, locked or opened for writing.
pub(super) fn look(paths: &[PathBuf], config: &CacheConfig) -> Result<Found, Error> {
    check_different(paths)?;
    if is_striped_cache(paths, config) {
        let missing = paths.iter().filter(|path| !path.exists()).cloned().collect();
        for path in paths.iter().filter(|path| path.exists()) {
            store::check_access(&name_of(path), path)?;
        }
        return Ok(Found::There { missing });
    }
    let config = of_each(paths, config);
    let (mut least, mut absent, mut is_cache) = (u64::MAX, Vec::new(), false);
    for path in paths {
        let size_bytes = match store::look(&name_of(path), path, &config)? {
            store::Found::Created(size_bytes) => {
                absent.push(path.clone());
                size_bytes
            }
            store::Found::There { size_bytes, holds_cache } => {
                is_cache |= holds_cache;
                size_bytes
            }
        };
        least = least.min(size_bytes);
    }
    Ok(match is_cache {
        true => Found::There { missing: Vec::new() },
        false => Found::Created { size_bytes: least, absent },
    })
}

/// Whether one of several devices holds a cache: then those that do not exist are missing, and not created.
fn is_striped_cache(paths: &[PathBuf], config: &CacheConfig) -> bool {
    paths.len() > 1 && !config.format && paths.iter().any(|path| store::holds_cache(path))
}

/// The configuration of each of the devices: its part of the size.
fn of_each(paths: &[PathBuf], config: &CacheConfig) -> CacheConfig {
    let size = config.size.map(|size| Size(size.0 / paths.len().max(1) as u64));
    CacheConfig { size, ..config.clone() }
}

fn name_of(path: &std::path::Path) -> String {
    format!("cache {}", path.display())
}

/// Refuses a list that leads to one file or device twice.
fn check_different(paths: &[PathBuf]) -> Result<(), Error> {
    for (at, path) in paths.iter().enumerate() {
        let Ok(identity) = FileId::of(path) else { continue };
        if let Some(other) = paths[..at].iter().find(|other| store::is_same(other, identity)) {
            return Err(Error::new(name_of(path), format_args!("is the same device as {}", other.display()))
                .or("list each device of the cache once"));
        }
    }
    Ok(())
}

fn open_existing(paths: &[PathBuf]) -> Result<Stores, Error> {
    let mut stores = Stores { opened: Vec::new(), paths: paths.to_vec(), size_bytes: u64::MAX, holds_cache: true };
    for (position, path) in paths.iter().enumerate() {
        let what = name_of(path);
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::warn!("{what}: it is missing: the other devices of the cache are used without it");
                continue;
            }
            Err(error) => return Err(Error::new(what, error).or("check the path and its folders' permissions")),
            Ok(found) if found.is_dir() => return Err(Error::new(what, "it is a directory").or("name a device")),
            Ok(_) => store::check_permission(&what, path)?,
        }
        match FileOptions::new(path).open() {
            Ok(device) => {
                stores.size_bytes = stores.size_bytes.min(device.geometry().size_bytes);
                stores.opened.push((position, device));
            }
            // A device that is gone, or broken.
            Err(error) if error.kind == ErrorKind::Io => {
                tracing::warn!("{what}: {error}: the other devices of the cache are used without it");
            }
            Err(error) => return Err(device_error(&what, &error)),
        }
    }
    Ok(stores)
}

impl Stores {
    fn looked_at(paths: &[PathBuf], opened: Vec<(usize, FileDevice)>) -> Self {
        let size_bytes = opened.iter().map(|(_, device)| device.geometry().size_bytes).min().unwrap_or(0);
        Self { opened, paths: paths.to_vec(), size_bytes, holds_cache: true }
    }

    /// The devices, in the order of the list.
    pub(super) fn all(self) -> Vec<CacheDevice> {
        self.opened.into_iter().map(|(_, device)| CacheDevice::from(AnyDevice::from(device))).collect()
    }

    /// Puts the devices of an existing cache together. With `look`, writes stay in RAM. Returns also the paths by the
    /// number of the device; those of missing devices are guessed.
    pub(super) async fn assemble(self, what: &str, look: bool) -> Result<(Flash<CacheDevice>, Vec<PathBuf>), Error> {
        let Self { opened, paths, .. } = self;
        let (positions, devices): (Vec<usize>, Vec<FileDevice>) = opened.into_iter().unzip();
        let of =
            |device| if look { CacheDevice::looked_at(device) } else { CacheDevice::from(AnyDevice::from(device)) };
        let flash = put_together(what, &paths, &positions, devices.into_iter().map(of).collect()).await?;
        for (position, why) in flash.left_out() {
            let path = positions.get(*position).and_then(|position| paths.get(*position));
            let path = path.map_or_else(String::new, |path| path.display().to_string());
            tracing::warn!("{what}: {path} is not used ({why}): what the device held is read from the origins");
        }
        let (given, lost) = (paths.len() as u32, flash.lost_before().count_ones());
        let count = flash.devices();
        if !look && given != count && given + lost != count {
            let why = format!("the cache has {count} devices, and the list has {given}");
            return Err(
                Error::new(what, why).or("list all of its devices, in any order, also one that is broken or gone")
            );
        }
        let by_number: Vec<Option<usize>> =
            (0..count).map(|number| Some(*positions.get(flash.position(number)?)?)).collect();
        let mut others = (0..paths.len()).filter(|position| !by_number.contains(&Some(*position)));
        let paths = by_number.iter().map(|position| {
            let position = position.or_else(|| others.next());
            position.and_then(|position| paths.get(position)).cloned().unwrap_or_default()
        });
        let paths = paths.collect();
        Ok((flash, paths))
    }
}

async fn put_together<F: Device>(
    what: &str,
    paths: &[PathBuf],
    positions: &[usize],
    devices: Vec<F>,
) -> Result<Flash<F>, Error> {
    Flash::assemble(devices).await.map_err(|error| match &error {
        nitro_engine::Error::Devices { device: Some(device), why } => {
            let path = positions.get(*device).and_then(|position| paths.get(*position));
            let what = path.map_or_else(|| what.to_owned(), |path| name_of(path));
            Error::new(what, why).or("list the devices of one cache")
        }
        _ => Error::with_sources(what, &error)
            .or("nitro cache fsck lists the damage, nitro cache salvage extracts dirty data"),
    })
}

/// What to call a cache on these devices in a message.
#[must_use]
pub fn title(paths: &[PathBuf]) -> String {
    format!("cache {}", CacheStore::Paths(paths.to_vec()).shown())
}

/// Opens the devices of a stopped cache for reading. Devices of a cache that are not given count as missing.
///
/// # Errors
/// A server uses a device, one cannot be read, or they are not those of one cache.
pub async fn open_devices_to_look(paths: &[PathBuf]) -> Result<Flash<FileDevice>, Error> {
    let (positions, devices): (Vec<_>, Vec<_>) = open_stopped(paths)?.opened.into_iter().unzip();
    put_together(&title(paths), paths, &positions, devices).await
}

/// As [`open_devices_to_look`], for a cache that is opened without changes to its devices.
pub(super) fn open_stopped(paths: &[PathBuf]) -> Result<Stores, Error> {
    check_different(paths)?;
    let devices: Vec<FileDevice> = paths.iter().map(|path| super::open_to_look(path)).collect::<Result<_, _>>()?;
    // Of several, one may have been overwritten: the others are a cache.
    let mut foreign = paths.iter().map_while(|path| store::not_a_cache(&name_of(path), path));
    if let Some(error) = foreign.next().filter(|_| foreign.count() + 1 == paths.len()) {
        return Err(error);
    }
    Ok(Stores::looked_at(paths, devices.into_iter().enumerate().collect()))
}

/// Opens those devices of a cache that exist for reading. `None`: a server uses one.
pub(super) fn open_unused(paths: &[PathBuf]) -> Result<Option<Stores>, Error> {
    let mut opened = Vec::new();
    for (position, path) in paths.iter().enumerate().filter(|(_, path)| path.exists()) {
        match FileOptions::new(path).read_only(true).open() {
            Ok(device) => opened.push((position, device)),
            Err(error) if error.kind == ErrorKind::InUse => return Ok(None),
            Err(error) => return Err(device_error(&name_of(path), &error)),
        }
    }
    Ok(Some(Stores::looked_at(paths, opened)))
}
