//! What a start with a configuration would find: every check of the server up to opening for writing, by the same functions.

use super::caches::{self, CacheEntry};
use super::cluster::Cluster;
use super::judge::{self, Allowed};
use super::place::Places;
use super::{Secrets, blocks, files, iscsi, limits, open, sockets, ublk};
use crate::origins::{self, OpenOrigin, aside, origin_of};
use nitro_config::{Address, Config, VolumeConfig};
use nitro_console::error::Error;
use nitro_device::Reactor;
use std::collections::BTreeMap;

/// What a start would find.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// The reasons for which it would be refused.
    pub errors: Vec<Error>,
    /// What an operator should know: what would be created, changed or not examined.
    pub notes: Vec<String>,
}

impl Rehearsal {
    fn take<T>(&mut self, checked: Result<T, Error>) -> Option<T> {
        checked.map_err(|error| self.errors.push(error)).ok()
    }
}

/// Checks what a start checks, and changes nothing. What a server uses at the moment is not examined further, and noted.
/// `sockets_passed`: the server will not open its addresses, since systemd does.
///
/// # Errors
/// The checks themselves cannot run.
pub fn rehearse(config: &Config, sockets_passed: bool) -> Result<Rehearsal, Error> {
    let reactor = Reactor::new().map_err(|e| Error::with_sources("reactor", &e))?;
    origins::start_threads()?;
    reactor.block_on(async {
        let found = Box::pin(examine(config, sockets_passed)).await;
        // Stores that were opened to look objects up.
        origins::close_all().await?;
        Ok(found)
    })
}

async fn examine(config: &Config, sockets_passed: bool) -> Rehearsal {
    let mut found = Rehearsal::default();
    found.take(limits::check(config));
    let places = found.take(Places::plan(config));
    let is_running = places.as_ref().is_some_and(Places::has_server);
    // The server that runs has the sockets.
    let opens = !is_running && !sockets_passed;
    for address in places.iter().filter(|_| opens).flat_map(|places| places.addresses(config.volumes.keys())) {
        found.take(sockets::check(&address));
    }
    if config.server.listen.contains(&Address::Ublk) {
        found.take(aside(ublk::check).await.and_then(|checked| checked));
    }
    found.take(config.server.takeover.as_deref().map_or(Ok(()), origins::share_marks));
    let mount = config.clone();
    if !is_running {
        found.take(aside(move || files::check(&mount)).await.and_then(|checked| checked));
    }
    found.take(Secrets::read(config));
    found.take(Cluster::rehearse(config).await);
    if let Some((_, _, warnings)) = found.take(iscsi::checked(config)) {
        found.notes.extend(warnings);
    }
    if let Some(path) = config.server.record.as_deref().filter(|path| path.exists() && !is_running) {
        found.errors.push(crate::record::exists(path));
    }
    found.take(open::check_identities(config));
    let mut entries = BTreeMap::new();
    for (name, cache) in &config.caches {
        let looked = caches::rehearse(name, cache, config.force_discard_dirty).await;
        if let Some(looked) = found.take(looked) {
            found.notes.extend(looked.notes.iter().map(|note| format!("cache.{name}: {note}")));
            entries.insert(name.as_str(), looked.entry);
        }
    }
    for (name, volume) in &config.volumes {
        let cache = config.cache_of(name).ok().and_then(|cache| entries.get(cache)?.clone());
        match examine_volume(config, name, volume, cache.as_deref()).await {
            Ok(note) => found.notes.extend(note.map(|note| format!("volume.{name}: {note}"))),
            Err(error) => found.errors.push(error),
        }
    }
    found
}

/// Examines the origin of a volume, and judges it if its cache could be examined. Returns a note.
async fn examine_volume(
    config: &Config,
    name: &str,
    volume: &VolumeConfig,
    cache: Option<&CacheEntry>,
) -> Result<Option<String>, Error> {
    let named = origin_of(&volume.origin)?;
    judge::check_mode(named.as_ref(), volume, config.mode_of(name))?;
    let origin: Option<OpenOrigin> = named.look(name, volume).await?;
    let Some(origin) = origin else {
        return Ok(Some(format!("{} is in use: it is not examined", volume.origin.display())));
    };
    let block_bytes = blocks::size_of(name, volume, &origin)?;
    if let Some(entry) = cache {
        judge::judge(entry, name, volume, (&origin, config.mode_of(name)), Allowed::by(config, name)).await?;
    }
    Ok(blocks::mismatch(&origin, block_bytes).await)
}
