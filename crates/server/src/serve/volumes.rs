//! Admission of volumes: registers a volume in its cache, with the mark of its origin, and prepares it for serving.

use super::blocks;
use super::caches::CacheEntry;
use super::compare;
use super::device::OriginDevice;
use super::judge::Verdict;
use super::known_origin::KnownOrigin;
use super::lease::{OriginLease, mode_byte};
use super::owner::Owner;
use super::points;
use crate::export::{Own, Unit, VolumeExport};
use crate::origins::{Fence, Guard, Mark, OpenOrigin, VolumeMark, aside, shared_folder};
use nitro_config::{Mode, VolumeConfig};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_engine::{DedupDomain, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::PointLog;
use nitro_units::ObjectId;
use std::sync::Arc;

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
    let read_only = config.read_only || origin.read_only;
    let block_bytes = blocks::size_of(name, config, &origin)?;
    if let Some(why) = blocks::mismatch(&origin, block_bytes).await {
        tracing::warn!("volume {name}: {why}");
    }
    let before = entry.known(name).map(|(_, known)| known);
    if entry.path.is_some() {
        prepare(entry, name, &origin, &verdict).await?;
    }
    let redo = points::of_volume(name, config, &origin, read_only).await?;
    let parts = remember(entry, name, (mode, config.domain(), read_only), &origin, (&verdict, before)).await?;
    if verdict.unmark {
        lower(origin.fence.clone()).await?;
    }
    if let Some(guard) = parts.guard.as_ref().filter(|_| mode == WriteMode::WriteBack) {
        guard.raise().await?;
    }
    let options = VolumeOptions { object: parts.object, read_only, mode };
    let device = OriginDevice::new(origin.device, parts.lease, parts.owner);
    // After the claim to the origin was made, and before anything is read there.
    let redo = points::bring(name, config, redo, &device).await?;
    let volume = Volume::new(Arc::clone(&entry.cache), device, options);
    if let Some(log) = redo {
        let age = points::age(log.last());
        volume.reach_points(Arc::new(log), config.point_settings(), age);
    }
    if verdict.compare {
        compare::check(entry, name, &volume, verdict.may_discard).await?;
    }
    volume.set_dirty_share(config.dirty_share());
    volume.set_class(config.class());
    volume.set_write_policy(config.write_policy.unwrap_or_default());
    let own = Own { guard: parts.guard, identity: origin.identity, unit: parts.unit, block_bytes };
    VolumeExport::new(name, config, volume, entry, own)
}

/// The parts of a volume besides its origin.
struct Parts {
    guard: Option<Arc<Guard>>,
    lease: Option<OriginLease>,
    owner: Option<Arc<Owner>>,
    object: ObjectId,
    unit: Unit,
}

/// Removes an origin's marks.
async fn lower(fence: Fence) -> Result<(), Error> {
    aside(move || fence.lower()).await?
}

/// Drops void data.
async fn prepare(entry: &CacheEntry, name: &str, origin: &OpenOrigin, verdict: &Verdict) -> Result<(), Error> {
    let fail = |e| Error::with_sources(format_args!("cache {}", entry.name), &e).or("check the cache device");
    let Some((object, known)) = entry.known(name) else { return Ok(()) };
    if verdict.drop_clean.is_some() {
        return entry.cache.drop_clean(object).await.map_err(fail);
    }
    let Some(change) = &verdict.void else { return Ok(()) };
    let dirty_bytes = entry.dirty_bytes(object, &known);
    if dirty_bytes > 0 {
        tracing::warn!("volume {name}: {change}: {} of dirty data are discarded", Size(dirty_bytes));
        entry.discard(object, &known).await?;
        return lower(origin.fence.clone()).await;
    }
    tracing::info!("volume {name}: {change}: what is cached of its origin is dropped");
    entry.cache.forget_volume(object).await.map_err(fail)
}

async fn remember(
    entry: &CacheEntry,
    name: &str,
    (mode, domain, read_only): (WriteMode, DedupDomain, bool),
    origin: &OpenOrigin,
    (verdict, before): (&Verdict, Option<VolumeEntry>),
) -> Result<Parts, Error> {
    let known = before.as_ref().and_then(|before| KnownOrigin::decode(&before.identity));
    let token = (!read_only).then(VolumeMark::new_token);
    let mut next = KnownOrigin::next(known.as_ref(), &origin.id, verdict.mark.as_ref(), entry.uuid, token);
    // Initiators know the volumes of earlier programs by what was made of their names.
    next.is_named |= known.is_none() && before.is_some();
    if known.is_some_and(|known| known.unit != next.unit) {
        tracing::warn!(
            "volume {name}: its origin is another one than before: iSCSI initiators find another target with another serial \
             number; iscsi_name and serial set them"
        );
    }
    let unit = Unit { uuid: next.unit, is_named: next.is_named };
    if entry.path.is_none() {
        // A cache that served the origin before must not believe its contents.
        let is_shared = shared_folder().is_some() || origin.marks.claim().is_some();
        let is_marked = (verdict.mark.is_some() || is_shared) && !read_only;
        let mark = next.mark(entry.uuid);
        let token = mark.token;
        let has_mark = is_marked && set_mark(name, origin, mark).await?;
        let owner = if has_mark { Owner::new(name, &origin.marks, token) } else { None };
        return Ok(Parts { guard: None, lease: None, owner, object: ObjectId(0), unit });
    }
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
        identity: next.encode(),
    };
    let started = OriginLease::start(&entry.cache, Arc::clone(&origin.identity), look, known);
    let (lease, object) = started
        .ok_or_else(|| fail(&"its journal has no room for another volume: remove one that is not needed any more"))?;
    if before.is_some_and(|before| before.domain != domain) {
        entry.cache.part_domains().await;
    }
    entry.cache.sync().await.map_err(|e| fail(&e))?;
    let mut owner = None;
    if !read_only {
        let mark = next.mark(entry.uuid);
        let token = mark.token;
        let has_mark = set_mark(name, origin, mark).await?;
        owner = Owner::new(name, &origin.marks, token);
        // It is durable with the next commit; until then, the mark may also have the number before.
        lease.set_known(next.marked(has_mark), origin.marks.clone());
    }
    let path = entry.path.as_deref().unwrap_or(std::path::Path::new(""));
    let guard = Guard::new(origin.fence.clone(), Mark::new(entry.uuid, path, name, &origin.id));
    Ok(Parts { guard: Some(guard), lease: Some(lease), owner, object, unit })
}

/// Makes the mark of the cache that serves an origin. Returns whether the origin has it.
///
/// # Errors
/// It has none although other hosts may take the volume over.
async fn set_mark(name: &str, origin: &OpenOrigin, mark: VolumeMark) -> Result<bool, Error> {
    let marks = origin.marks.clone();
    let marked = aside(move || marks.set(&mark)).await?;
    if shared_folder().is_some() || origin.marks.claim().is_some() {
        let fail = |why: &dyn std::fmt::Display| match shared_folder() {
            Some(folder) => {
                let why = format!("volume {name} cannot have its mark there: {why}");
                Error::new(format_args!("takeover {}", folder.display()), why)
                    .or("make the folder, which all hosts share, writable for this server")
            }
            None => Error::new(format_args!("volume {name}"), format_args!("its origin cannot have its mark: {why}"))
                .or("give this server the right to write it"),
        };
        return match marked {
            Ok(true) => Ok(true),
            Ok(false) => Err(fail(&"nothing distinguishes its origin from others")),
            Err(error) => Err(fail(&error)),
        };
    }
    match marked {
        Ok(has_mark) => Ok(has_mark),
        Err(error) => {
            tracing::warn!(
                "volume {name}: {error}: its origin has no mark of the cache that serves it: use it with this cache alone"
            );
            Ok(false)
        }
    }
}
