//! Taking volumes in: whether an origin may be served with what its cache knows of it, and having the cache know it.

use super::aside::aside;
use super::caches::CacheEntry;
use super::cos_origin::{self, CosOrigin};
use super::device::{Beneath, OriginDevice};
use super::fence::{Fence, Found, Guard};
use super::heart::{Heart, Seen, mode_byte};
use super::mark::Mark;
use super::stamp::{Look, Stamp};
use super::store;
use crate::config::{Mode, VolumeConfig};
use crate::export::VolumeExport;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::{AnyDevice, CompioClock, FileOptions, HddDevice};
use nitro_engine::{DedupDomain, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::Device;
use nitro_units::ObjectId;
use std::fs;
use std::io;
use std::sync::Arc;

/// Volumes that a cache can know: its journal has room for so many.
const VOLUMES_MAX: usize = 64;

/// An origin that is open, and locked against others.
pub(super) struct Origin {
    device: Beneath,
    seen: Seen,
    look: Look,
    fence: Fence,
}

/// Opens a volume's origin.
pub(super) async fn open_origin(name: &str, config: &VolumeConfig) -> Result<Origin, Error> {
    match CosOrigin::of(&config.origin)? {
        // Boxed: what opens a store is deep, and few volumes are in one.
        Some(object) => Box::pin(open_object(name, config, &object)).await,
        None => open_file(name, config).await,
    }
}

/// Opens an object of a store.
async fn open_object(name: &str, config: &VolumeConfig, origin: &CosOrigin) -> Result<Origin, Error> {
    let what = format!("origin {}", config.origin.display());
    let object = cos_origin::open(origin, config.emulate_disk).await.map_err(|e| e.within(&what))?;
    if object.is_read_only() && !config.read_only {
        let why = "it is a snapshot or a stream, which cannot be changed";
        return Err(Error::new(what, why).or("serve it read-only, or make a clone: nitro cos clone"));
    }
    let size_bytes = object.size_bytes();
    if size_bytes == 0 {
        return Err(Error::new(what, "it is empty"));
    }
    let seen = Seen::Object(object.clone());
    let look = seen.look(size_bytes).map_err(|e| Error::new(&what, e))?;
    let fence = Fence::at(&config.origin, &origin.mark_place());
    nitro_console::output::note!("volume {name}: {} at {}", Size(size_bytes), config.origin.display());
    Ok(Origin { device: Beneath::Object(object), seen, look, fence })
}

/// Opens a file or a block device.
async fn open_file(name: &str, config: &VolumeConfig) -> Result<Origin, Error> {
    let path = &config.origin;
    let what = format!("origin {}", path.display());
    let found = fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::new(&what, "it does not exist")
            .or(format_args!("check the path, or make one: truncate -s 10G {}", path.display())),
        _ => Error::new(&what, e).or("check the path and its folders' permissions"),
    })?;
    if found.is_dir() {
        return Err(Error::new(what, "it is a directory").or("name a file or a block device"));
    }
    let device = FileOptions::new(path).read_only(config.read_only).open().map_err(|e| match &e.source {
        Some(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            let way_out = "run as a user who may use it, change its permissions, or give --read-only";
            Error::new(&what, source).or(way_out)
        }
        _ => store::device_error(&what, &e),
    })?;
    let size_bytes = device.geometry().size_bytes;
    if size_bytes == 0 {
        let way_out = format!("give it a size first: truncate -s 10G {}", path.display());
        return Err(Error::new(what, "it is empty").or(way_out));
    }
    // Looked at again, now that nobody else may change it.
    let fail = |e| Error::new(&what, e).or("check the path and its folders' permissions");
    let look = Look::new(&fs::metadata(path).map_err(fail)?, size_bytes);
    let at = path.clone();
    let fence = aside(move || Fence::of(&at)).await?.map_err(fail)?;
    nitro_console::output::note!("volume {name}: {} at {}", Size(size_bytes), path.display());
    let device: AnyDevice = match config.emulate_disk {
        Some(disk) => HddDevice::new(device, CompioClock::new(), disk.model()).into(),
        None => device.into(),
    };
    let seen = Seen::File(path.clone());
    Ok(Origin { device: Beneath::Device(Box::new(device)), seen, look, fence })
}

/// What is to be done before an origin is served.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Others have changed it: what is cached of it is void, dirty data included.
    void: Option<String>,
    /// It bears a mark that is to be removed.
    unmark: bool,
}

/// Whether an origin may be served: nothing has changed yet, whatever the answer.
pub(super) async fn judge(
    entry: &CacheEntry,
    name: &str,
    config: &VolumeConfig,
    origin: &Origin,
    discard_dirty: bool,
) -> Result<Verdict, Error> {
    let what = format!("origin {}", config.origin.display());
    let way_out = "serve a smaller file or device, or use larger extents (--extent-size, with --format)";
    entry.cache.check_origin_size(origin.look.size_bytes).map_err(|e| Error::new(&what, e).or(way_out))?;
    let unmark = judge_marks(entry, name, &what, origin, discard_dirty).await?;
    let Some((object, known)) = entry.known(name) else {
        if entry.cache.volumes().len() >= VOLUMES_MAX {
            let why = format!("cache {} knows {VOLUMES_MAX} volumes, which is as many as it can", entry.name);
            return Err(Error::new(what, why).or("have it forget one: nitro volume remove NAME"));
        }
        return Ok(Verdict { void: None, unmark });
    };
    let dirty = Size(entry.dirty_bytes(object, &known));
    let void = Stamp::decode(known.stamp).change(known.origin_bytes, origin.look);
    if let Some(change) = void.as_ref().filter(|_| dirty.0 > 0 && !discard_dirty) {
        let why =
            format!("cache {} holds {dirty} of dirty data of it, and others have changed it: {change}", entry.name);
        let way_out = "put it back as it was, or give --force-discard-dirty to use it as it is and lose those data";
        return Err(Error::new(what, why).or(way_out));
    }
    if config.read_only && dirty.0 > 0 && void.is_none() {
        let why = format!("cache {} holds {dirty} of dirty data of it, which have to be written to it", entry.name);
        return Err(Error::new(what, why).or("serve it without read-only first"));
    }
    Ok(Verdict { void, unmark })
}

/// Whether the marks on an origin are to be removed.
async fn judge_marks(
    entry: &CacheEntry,
    name: &str,
    what: &str,
    origin: &Origin,
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

/// Whether a mark on an origin is to be removed.
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

/// Has the cache know a volume, and makes it ready to be served. Needs the cache's workers.
pub(super) async fn admit(
    entry: &Arc<CacheEntry>,
    name: &str,
    config: &VolumeConfig,
    mode: Mode,
    origin: Origin,
    verdict: Verdict,
) -> Result<VolumeExport, Error> {
    let mode = WriteMode::from(mode);
    let mut export = Parts { guard: None, heart: None, object: ObjectId(0) };
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
    let device = OriginDevice::new(origin.device, export.heart);
    let volume = Volume::new(Arc::clone(&entry.cache), device, options);
    volume.set_dirty_share(config.dirty_share());
    volume.set_class(config.class());
    Ok(VolumeExport::new(name, config, volume, entry, export.guard))
}

/// What a volume has besides its origin.
struct Parts {
    guard: Option<Arc<Guard>>,
    heart: Option<Heart>,
    object: ObjectId,
}

/// Removes an origin's marks.
async fn lower(fence: Fence) -> Result<(), Error> {
    aside(move || fence.lower()).await?
}

/// Forgets what is void.
async fn prepare(entry: &CacheEntry, name: &str, origin: &Origin, verdict: &Verdict) -> Result<(), Error> {
    let (Some(change), Some((object, known))) = (&verdict.void, entry.known(name)) else { return Ok(()) };
    let dirty_bytes = entry.dirty_bytes(object, &known);
    if dirty_bytes > 0 {
        tracing::warn!("volume {name}: {change}: {} of dirty data are discarded", Size(dirty_bytes));
        entry.discard(object, &known).await?;
        return lower(origin.fence.clone()).await;
    }
    tracing::info!("volume {name}: others have changed its origin ({change}): what was cached of it is forgotten");
    let fail = |e| Error::with_sources(format_args!("cache {}", entry.name), &e).or("check the cache device");
    entry.cache.forget_volume(object).await.map_err(fail)
}

async fn remember(
    entry: &CacheEntry,
    name: &str,
    (mode, domain): (WriteMode, DedupDomain),
    origin: &Origin,
) -> Result<Parts, Error> {
    let fail =
        |why: &dyn std::fmt::Display| Error::new(format_args!("cache {}", entry.name), why).or("check the device");
    let (look, seen) = (origin.look, origin.seen.clone());
    // Where it cannot be made durable what was seen, only a crash of the origin's file system may cost what is cached.
    let _ = aside(move || seen.look_durably(look.size_bytes)).await?;
    let known = VolumeEntry {
        name: name.to_owned(),
        origin_bytes: look.size_bytes,
        stamp: Default::default(),
        mode: mode_byte(mode),
        domain,
    };
    let started = Heart::start(&entry.cache, origin.seen.clone(), look, known);
    let (heart, object) = started
        .ok_or_else(|| fail(&"its journal has no room for another volume: remove one that is not needed any more"))?;
    entry.cache.sync().await.map_err(|e| fail(&e))?;
    let path = entry.path.as_deref().unwrap_or(std::path::Path::new(""));
    let guard = Guard::new(origin.fence.clone(), Mark::new(entry.uuid, path, name));
    Ok(Parts { guard: Some(guard), heart: Some(heart), object })
}
