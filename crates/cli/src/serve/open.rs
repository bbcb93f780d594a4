//! Opening what is configured, with every fault named.

use super::identity::Identity;
use super::plan;
use super::store::{self, Store};
use crate::config::{CacheConfig, CacheStore, Config, VolumeConfig};
use crate::error::Error;
use crate::export::{ServedCache, VolumeExport};
use crate::size::Size;
use nitro_cache::ObjectId;
use nitro_cache::settings::{EXTENT_BYTES, WEU_BYTES, WEU_COUNT_MIN};
use nitro_device::{AnyDevice, CompioClock, FileDevice, FileOptions, HddDevice, RamDevice};
use nitro_engine::port::Device;
use nitro_engine::{Volume, VolumeOptions};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::Arc;

/// Caches, and volumes with the names of their caches.
pub(super) struct Opened {
    pub(super) caches: BTreeMap<String, Arc<ServedCache>>,
    pub(super) volumes: Vec<(String, Arc<VolumeExport>)>,
}

/// Opens origins first: a cache is only created or formatted when everything else is right.
pub(super) async fn open(config: &Config) -> Result<Opened, Error> {
    check_identities(config)?;
    let mut origins = Vec::new();
    for (name, volume) in &config.volumes {
        origins.push(open_origin(name, volume)?);
    }
    let mut caches = BTreeMap::new();
    for (name, cache) in &config.caches {
        caches.insert(name.clone(), open_cache(name, cache).await?);
    }
    let mut volumes = Vec::new();
    for (number, ((name, volume), origin)) in config.volumes.iter().zip(origins).enumerate() {
        let cache_name = config.cache_of(name)?;
        let Some(cache) = caches.get(cache_name) else { continue };
        // Numbers are unique among all volumes, and so within each cache.
        let object = ObjectId(u16::try_from(number).map_err(|_| Error::new("volumes", "there are more than 65536"))?);
        let options = VolumeOptions { object, read_only: volume.read_only };
        let opened = Volume::new(Arc::clone(cache), origin, options);
        let description = volume.description.clone();
        let export = VolumeExport { name: name.clone(), description, volume: opened };
        volumes.push((cache_name.to_owned(), Arc::new(export)));
    }
    Ok(Opened { caches, volumes })
}

/// Refuses a configuration that uses one file or device twice.
fn check_identities(config: &Config) -> Result<(), Error> {
    let mut seen: Vec<(Identity, String, bool)> = Vec::new();
    for (name, volume) in &config.volumes {
        let Ok(identity) = Identity::of(&volume.origin) else { continue };
        let other = seen.iter().find(|(found, _, read_only)| *found == identity && !(*read_only && volume.read_only));
        if let Some((_, other, _)) = other {
            let what = format!("origin {}", volume.origin.display());
            let why = format!("is served twice, as {other:?} and {name:?}");
            return Err(Error::new(what, why).or("serve it under one name, or all of them read-only"));
        }
        for (cache, path) in config.caches.iter().filter_map(|(cache, c)| Some((cache, path_of(c)?))) {
            if store::is_same(path, identity) {
                let what = format!("origin {}", volume.origin.display());
                return Err(Error::new(what, format_args!("is the same as the cache {cache:?}"))
                    .or("use different files: the cache would overwrite the volume"));
            }
        }
        seen.push((identity, name.clone(), volume.read_only));
    }
    Ok(())
}

fn path_of(cache: &CacheConfig) -> Option<&std::path::Path> {
    match &cache.path {
        CacheStore::Path(path) => Some(path),
        CacheStore::None => None,
    }
}

fn open_origin(name: &str, volume: &VolumeConfig) -> Result<AnyDevice, Error> {
    let what = format!("origin {}", volume.origin.display());
    let found = fs::metadata(&volume.origin).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::new(&what, "it does not exist")
            .or(format_args!("check the path, or make one: truncate -s 10G {}", volume.origin.display())),
        _ => Error::new(&what, e).or("check the path and its folders' permissions"),
    })?;
    if found.is_dir() {
        return Err(Error::new(what, "it is a directory").or("name a file or a block device"));
    }
    let options = FileOptions::new(&volume.origin).read_only(volume.read_only);
    let device: FileDevice = options.open().map_err(|e| match &e.source {
        Some(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            let way_out = "run as a user who may use it, change its permissions, or give --read-only";
            Error::new(&what, source).or(way_out)
        }
        _ => store::device_error(&what, &e),
    })?;
    if device.geometry().size_bytes == 0 {
        let way_out = format!("give it a size first: truncate -s 10G {}", volume.origin.display());
        return Err(Error::new(what, "it is empty").or(way_out));
    }
    eprintln!("volume {name}: {} at {}", Size(device.geometry().size_bytes), volume.origin.display());
    Ok(match volume.emulate_disk {
        Some(disk) => HddDevice::new(device, CompioClock::new(), disk.model()).into(),
        None => device.into(),
    })
}

async fn open_cache(name: &str, config: &CacheConfig) -> Result<Arc<ServedCache>, Error> {
    let CacheStore::Path(path) = &config.path else { return no_cache(name, config) };
    let what = format!("cache {}", path.display());
    if let Some(size) = config.size {
        // Before a file of that size is made.
        plan::settings(&what, config, size.0)?;
    }
    let Store { device, size_bytes } = store::open(&what, path, config)?;
    let mut settings = plan::settings(&what, config, size_bytes)?;
    let random = random().map_err(|e| Error::new("/dev/urandom", e))?;
    settings.manager.seed = random.seed;
    plan::announce(name, &settings);
    ServedCache::format(device.into(), CompioClock::new(), settings, random.uuid, random.epoch)
        .await
        .map_err(|e| Error::with_sources(what, &e).or("check the cache device"))
}

/// The origin alone: no RAM cache, no reading ahead, and the smallest extents, so that little more is read than asked for.
fn no_cache(name: &str, config: &CacheConfig) -> Result<Arc<ServedCache>, Error> {
    let size_bytes = WEU_BYTES.default * WEU_COUNT_MIN;
    let plain = CacheConfig { extent_size: Some(Size(EXTENT_BYTES.min)), ..CacheConfig::new(CacheStore::None) };
    let mut settings = plain.engine_settings(size_bytes);
    settings.manager.streams.threshold_bytes = config.sequential_threshold.map_or(0, |size| size.0);
    settings.ram_cache_bytes = config.ram.map_or(0, |size| size.0);
    eprintln!("cache {name}: none; the origin is served alone");
    ServedCache::pass_through(AnyDevice::from(RamDevice::new(0, 1)), CompioClock::new(), settings)
        .map_err(|e| Error::new(name, e))
}

/// What must differ between any two caches.
struct Random {
    uuid: [u8; 16],
    epoch: u64,
    seed: u64,
}

fn random() -> io::Result<Random> {
    let mut file = File::open("/dev/urandom")?;
    let (mut uuid, mut epoch, mut seed) = ([0; 16], [0; 8], [0; 8]);
    for bytes in [&mut uuid[..], &mut epoch, &mut seed] {
        file.read_exact(bytes)?;
    }
    Ok(Random { uuid, epoch: u64::from_le_bytes(epoch), seed: u64::from_le_bytes(seed) })
}
