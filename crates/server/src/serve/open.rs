//! Opens the configured caches and origins. All errors are found before anything is changed.

use super::blocks;
use super::caches::{self, CacheEntry};
use super::cluster;
use super::judge::{self, Allowed, Verdict};
use super::store;
use super::ublk::own;
use super::volumes;
use crate::export::VolumeExport;
use crate::origins::{OpenOrigin, origin_of};
use nitro_config::{CacheConfig, Config};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_files::FileId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The caches of a server, by name.
pub type Caches = BTreeMap<String, Arc<CacheEntry>>;

/// All configured caches and volumes, opened and checked.
pub(super) struct Prepared {
    pub(super) caches: Caches,
    /// What was opened.
    config: Config,
    /// In the order of the configuration.
    origins: Vec<(OpenOrigin, Verdict)>,
}

/// Opens origins first: a cache is created or formatted only if all other checks succeed. Volumes about which etcd decides are not
/// opened.
pub(super) async fn prepare(all: &Config) -> Result<Prepared, Error> {
    check_identities(all)?;
    let (config, _) = cluster::part(all);
    let mut opened = Vec::new();
    for (name, volume) in &config.volumes {
        let origin = origin_of(&volume.origin)?;
        judge::check_mode(origin.as_ref(), volume, config.mode_of(name))?;
        let origin = origin.open(name, volume).await?;
        blocks::size_of(name, volume, &origin)?;
        opened.push(origin);
    }
    let mut caches = Caches::new();
    for (name, cache) in &config.caches {
        let entry = caches::open(name, cache, Some(all), config.force_discard_dirty).await?;
        caches.insert(name.clone(), Arc::new(entry));
    }
    let mut origins = Vec::new();
    for ((name, volume), origin) in config.volumes.iter().zip(opened) {
        let entry = cache_of(&config, &caches, name)?;
        let allowed = Allowed::by(&config, name);
        let verdict = judge::judge(entry, name, volume, (&origin, config.mode_of(name)), allowed).await?;
        origins.push((origin, verdict));
    }
    caches.values().for_each(|entry| warn_of_others(all, entry));
    Ok(Prepared { caches, config, origins })
}

impl Prepared {
    /// Registers the volumes in their caches, whose workers run already.
    pub(super) async fn admit(&mut self) -> Result<Vec<Arc<VolumeExport>>, Error> {
        let mut exports: Vec<Arc<VolumeExport>> = Vec::new();
        let config = &self.config;
        for ((name, volume), (origin, verdict)) in config.volumes.iter().zip(std::mem::take(&mut self.origins)) {
            let entry = cache_of(config, &self.caches, name)?;
            let mode = config.mode_of(name);
            match volumes::admit(entry, name, volume, mode, origin, verdict).await {
                Ok(export) => exports.push(Arc::new(export)),
                Err(error) => {
                    for export in &exports {
                        withdraw(export).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(exports)
    }
}

/// Removes a volume's mark, if the server does not start.
async fn withdraw(export: &Arc<VolumeExport>) {
    if let Some(guard) = &export.guard {
        guard.release();
    }
    if let Err(error) = export.unmark().await {
        tracing::warn!("{error}");
    }
}

fn cache_of<'a>(config: &Config, caches: &'a Caches, volume: &str) -> Result<&'a Arc<CacheEntry>, Error> {
    let name = config.cache_of(volume)?;
    caches.get(name).ok_or_else(|| Error::new(format_args!("cache {name}"), "it is not open"))
}

/// Warns of dirty data of volumes that are not configured: these data stay in the cache.
fn warn_of_others(config: &Config, entry: &CacheEntry) {
    let is_served =
        |name: &str| config.volumes.contains_key(name) && config.cache_of(name).is_ok_and(|cache| cache == entry.name);
    for (object, known) in entry.cache.volumes() {
        let dirty_bytes = if is_served(&known.name) { 0 } else { entry.dirty_bytes(object, &known) };
        if dirty_bytes > 0 {
            tracing::warn!(
                "cache {} holds {} ({} extents) of dirty data of volume {:?}, which is not served: they stay; serve it to \
                 bring its origin up to date",
                entry.name,
                Size(dirty_bytes),
                dirty_bytes / u64::from(entry.cache.settings().manager.extent_bytes),
                known.name,
            );
        }
    }
}

/// Refuses a configuration that uses one file or device twice, or one on a block device of the server's own.
pub(super) fn check_identities(config: &Config) -> Result<(), Error> {
    let mut seen: Vec<(FileId, String, bool)> = Vec::new();
    let mut objects: BTreeMap<PathBuf, (&String, bool)> = BTreeMap::new();
    for path in config.caches.values().flat_map(paths_of) {
        own::refuse(path)?;
    }
    for (name, volume) in &config.volumes {
        let origin = origin_of(&volume.origin)?;
        if let Some(path) = origin.host_path() {
            own::refuse(path)?;
        }
        let file = origin.host_path().filter(|_| origin.is_host()).and_then(|path| FileId::of(path).ok());
        let Some(identity) = file else {
            // An object of a store, an export of a server, or what will be found missing.
            let absolute = origin.absolute().map_err(|e| Error::new(volume.origin.display(), e))?;
            let other = objects.insert(absolute, (name, volume.read_only));
            if let Some((other, _)) = other.filter(|(_, read_only)| !(*read_only && volume.read_only)) {
                return Err(served_twice(&volume.origin, other, name));
            }
            continue;
        };
        let other = seen.iter().find(|(found, _, read_only)| *found == identity && !(*read_only && volume.read_only));
        if let Some((_, other, _)) = other {
            return Err(served_twice(&volume.origin, other, name));
        }
        for (cache, path) in config.caches.iter().flat_map(|(cache, c)| paths_of(c).map(move |path| (cache, path))) {
            if store::is_same(path, identity) {
                let what = format!("origin {}", volume.origin.display());
                return Err(Error::new(what, format_args!("is the same as the cache {cache:?}, or its write log"))
                    .or("use different files: the cache would overwrite the volume"));
            }
        }
        seen.push((identity, name.clone(), volume.read_only));
    }
    Ok(())
}

fn served_twice(origin: &Path, one: &str, other: &str) -> Error {
    let why = format!("is served twice, as {one:?} and {other:?}");
    Error::new(format_args!("origin {}", origin.display()), why).or("serve it under one name, or all of them read-only")
}

/// The paths to which a cache writes.
fn paths_of(cache: &CacheConfig) -> impl Iterator<Item = &Path> {
    cache.path.paths().iter().map(PathBuf::as_path).chain(cache.write_log.as_deref())
}
