//! Admission of volumes: checks whether an origin may be served with its cached data, and registers the volume in the
//! cache.

use super::caches::CacheEntry;
use super::device::OriginDevice;
use super::lease::{OriginLease, mode_byte};
use crate::config::{Mode, VolumeConfig};
use crate::export::VolumeExport;
use crate::origins::{Fence, Found, Guard, Mark, OpenOrigin, Stamp, aside};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_engine::{DedupDomain, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_units::ObjectId;
use std::sync::Arc;

/// Maximum number of volumes in a cache: its journal has room for so many.
const VOLUMES_MAX: usize = 64;

/// The actions before an origin is served.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Another program has changed it: its cached data are void, including dirty data.
    void: Option<String>,
    /// It has a mark that has to be removed.
    unmark: bool,
}

/// Checks whether an origin may be served. Changes nothing.
pub(super) async fn judge(
    entry: &CacheEntry,
    name: &str,
    config: &VolumeConfig,
    origin: &OpenOrigin,
    discard_dirty: bool,
) -> Result<Verdict, Error> {
    let what = format!("origin {}", config.origin.display());
    let way_out = "serve a smaller file or device, or use larger extents (--extent-size, with --format)";
    entry.cache.check_origin_size(origin.look.size_bytes).map_err(|e| Error::new(&what, e).or(way_out))?;
    let unmark = judge_marks(entry, name, &what, origin, discard_dirty).await?;
    let Some((object, known)) = entry.known(name) else {
        if entry.cache.volumes().len() >= VOLUMES_MAX {
            let why = format!("cache {} knows {VOLUMES_MAX} volumes, which is the maximum", entry.name);
            return Err(Error::new(what, why).or("remove one: nitro volume remove NAME"));
        }
        return Ok(Verdict { void: None, unmark });
    };
    let dirty = Size(entry.dirty_bytes(object, &known));
    let void = Stamp::decode(known.stamp).change(known.origin_bytes, origin.look);
    if let Some(change) = void.as_ref().filter(|_| dirty.0 > 0 && !discard_dirty) {
        let why = format!(
            "cache {} holds {dirty} of dirty data of it, and another program has changed it: {change}",
            entry.name
        );
        let way_out =
            "restore its former content, or give --force-discard-dirty to use it as it is and lose those data";
        return Err(Error::new(what, why).or(way_out));
    }
    if config.read_only && dirty.0 > 0 && void.is_none() {
        let why = format!("cache {} holds {dirty} of dirty data of it, which have to be written to it", entry.name);
        return Err(Error::new(what, why).or("serve it without read-only first"));
    }
    Ok(Verdict { void, unmark })
}

/// Whether the marks on an origin have to be removed.
async fn judge_marks(
    entry: &CacheEntry,
    name: &str,
    what: &str,
    origin: &OpenOrigin,
    discard_dirty: bool,
) -> Result<bool, Error> {
    let fence = origin.fence.clone();
    let found = match aside(move || fence.find()).await? {
        Ok(found) => found,
        Err(_) if discard_dirty => return Ok(true),
        Err(error) => return Err(error),
    };
    let mut unmark = false;
    for found in found {
        unmark |= judge_mark(entry, name, what, found, discard_dirty)?;
    }
    Ok(unmark)
}

/// Whether a mark on an origin has to be removed.
fn judge_mark(entry: &CacheEntry, name: &str, what: &str, found: Found, discard_dirty: bool) -> Result<bool, Error> {
    let Mark { cache_uuid, cache_path, volume, since, file: _ } = found.mark;
    let is_here = entry.path.is_some() && cache_uuid == entry.uuid.to_string();
    let elsewhere = || entry.known(&volume).is_some_and(|(object, known)| entry.dirty_bytes(object, &known) > 0);
    let why = if !is_here {
        let of = if found.is_of_another_file {
            "the newest data of the file that it is a copy of"
        } else {
            "its newest data"
        };
        format!("since {since} {of} may be in the cache {cache_path} ({cache_uuid}), as volume {volume:?}")
    } else if volume != name && elsewhere() {
        format!("since {since} its newest data are in this cache as volume {volume:?}, not {name:?}")
    } else {
        return Ok(false);
    };
    if discard_dirty {
        tracing::warn!("{what}: {why}; they are discarded");
        return Ok(true);
    }
    let way_out = format!(
        "serve it with that cache, as that volume, or give --force-discard-dirty to use it as it is and lose those data \
         (the mark is {})",
        found.place
    );
    Err(Error::new(what, why).or(way_out))
}

/// Registers a volume in the cache, and prepares it for serving. Needs the cache's workers.
pub(super) async fn admit(
    entry: &Arc<CacheEntry>,
    name: &str,
    config: &VolumeConfig,
    mode: Mode,
    origin: OpenOrigin,
    verdict: Verdict,
) -> Result<VolumeExport, Error> {
    let mode = WriteMode::from(mode);
    let mut export = Parts { guard: None, lease: None, object: ObjectId(0) };
    if entry.path.is_some() {
        prepare(entry, name, &origin, &verdict).await?;
        export = remember(entry, name, (mode, config.domain()), &origin).await?;
    }
    if verdict.unmark {
        lower(origin.fence.clone()).await?;
    }
    if let Some(guard) = export.guard.as_ref().filter(|_| mode == WriteMode::WriteBack) {
        guard.raise().await?;
    }
    let options = VolumeOptions { object: export.object, read_only: config.read_only, mode };
    let device = OriginDevice::new(origin.device, export.lease);
    let volume = Volume::new(Arc::clone(&entry.cache), device, options);
    volume.set_dirty_share(config.dirty_share());
    volume.set_class(config.class());
    volume.set_write_policy(config.write_policy.unwrap_or_default());
    VolumeExport::new(name, config, volume, entry, export.guard)
}

/// The parts of a volume besides its origin.
struct Parts {
    guard: Option<Arc<Guard>>,
    lease: Option<OriginLease>,
    object: ObjectId,
}

/// Removes an origin's marks.
async fn lower(fence: Fence) -> Result<(), Error> {
    aside(move || fence.lower()).await?
}

/// Drops void data.
async fn prepare(entry: &CacheEntry, name: &str, origin: &OpenOrigin, verdict: &Verdict) -> Result<(), Error> {
    let (Some(change), Some((object, known))) = (&verdict.void, entry.known(name)) else { return Ok(()) };
    let dirty_bytes = entry.dirty_bytes(object, &known);
    if dirty_bytes > 0 {
        tracing::warn!("volume {name}: {change}: {} of dirty data are discarded", Size(dirty_bytes));
        entry.discard(object, &known).await?;
        return lower(origin.fence.clone()).await;
    }
    tracing::info!("volume {name}: another program has changed its origin ({change}): its cached data are dropped");
    let fail = |e| Error::with_sources(format_args!("cache {}", entry.name), &e).or("check the cache device");
    entry.cache.forget_volume(object).await.map_err(fail)
}

async fn remember(
    entry: &CacheEntry,
    name: &str,
    (mode, domain): (WriteMode, DedupDomain),
    origin: &OpenOrigin,
) -> Result<Parts, Error> {
    let fail =
        |why: &dyn std::fmt::Display| Error::new(format_args!("cache {}", entry.name), why).or("check the device");
    let (look, identity) = (origin.look, Arc::clone(&origin.identity));
    // Where it cannot be made durable what was seen, only a crash of the origin's file system may cost what is cached.
    let _ = aside(move || identity.look_durably(look.size_bytes)).await?;
    let known = VolumeEntry {
        name: name.to_owned(),
        origin_bytes: look.size_bytes,
        stamp: Default::default(),
        mode: mode_byte(mode),
        domain,
    };
    let started = OriginLease::start(&entry.cache, Arc::clone(&origin.identity), look, known);
    let (lease, object) = started
        .ok_or_else(|| fail(&"its journal has no room for another volume: remove one that is not needed any more"))?;
    entry.cache.sync().await.map_err(|e| fail(&e))?;
    let path = entry.path.as_deref().unwrap_or(std::path::Path::new(""));
    let guard = Guard::new(origin.fence.clone(), Mark::new(entry.uuid, path, name));
    Ok(Parts { guard: Some(guard), lease: Some(lease), object })
}
