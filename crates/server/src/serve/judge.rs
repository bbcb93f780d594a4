//! Whether an origin may be served with what a cache holds of it: the one place that decides. It compares what the origin is
//! recognised by and its marks ([`KnownOrigin`]), then its size and times, which are hints.

use super::caches::CacheEntry;
use super::known_origin::{Finding, KnownOrigin};
use crate::origins::{Change, Found, Mark, NamedOrigin, OpenOrigin, Stamp, VolumeMark, aside};
use nitro_config::{Config, Mode, VolumeConfig};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_engine::{VolumeEntry, WriteMode};

/// Maximum number of volumes in a cache: its journal has room for so many.
const VOLUMES_MAX: usize = 64;

/// What the operator allows that is refused otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowed {
    /// To lose dirty data.
    pub(super) discard_dirty: bool,
    /// To take the origin for the one that the cache knows, and to write its dirty data there.
    pub(super) accept_origin: bool,
}

impl Allowed {
    /// What the configuration of a start allows for a volume.
    pub(super) fn by(config: &Config, volume: &str) -> Self {
        Self {
            discard_dirty: config.force_discard_dirty,
            accept_origin: config.accept_origins.iter().any(|name| name == volume),
        }
    }
}

/// The actions before an origin is served.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// It is another one, or another program has changed it: its cached data are void, including dirty data.
    pub(super) void: Option<String>,
    /// It may have been changed: its clean cached data are void.
    pub(super) drop_clean: Option<String>,
    /// It has a mark that has to be removed.
    pub(super) unmark: bool,
    /// Its cached data have to be compared with it.
    pub(super) compare: bool,
    /// Where the comparison finds another origin, its dirty data are void, too.
    pub(super) may_discard: bool,
    /// The mark of the cache that served it last.
    pub(super) mark: Option<VolumeMark>,
}

/// Refuses a mode, or consistent points, that are not for an origin, before it is opened.
pub(super) fn check_mode(origin: &dyn NamedOrigin, config: &VolumeConfig, mode: Mode) -> Result<(), Error> {
    if let Some(why) = origin.lacks_points().filter(|_| config.points) {
        return Err(Error::new(format_args!("origin {}", config.origin.display()), why).or("leave out points"));
    }
    match origin.needs_write_back() {
        Some(why) if !config.read_only && WriteMode::from(mode) != WriteMode::WriteBack => {
            let what = format!("origin {}", config.origin.display());
            Err(Error::new(what, why)
                .or("use a cache with mode = \"write-back\" (--mode write-back), best with a write log"))
        }
        _ => Ok(()),
    }
}

/// Checks the mark of an origin whose owner etcd decides, or decided.
fn check_owner(
    name: &str,
    what: &str,
    config: &VolumeConfig,
    origin: &OpenOrigin,
    mark: &VolumeMark,
) -> Result<(), Error> {
    let accept = format!("if no other host serves it any more, --accept-origin {name}");
    match origin.marks.claim() {
        Some(claim) => {
            if let Some(why) = claim.is_foreign(mark) {
                return Err(Error::new(what, why)
                    .or(format_args!("name that cluster's servers as etcd; {accept}: etcd was set up anew")));
            }
            if let Some(why) = claim.is_after(mark) {
                return Err(Error::new(what, why)
                    .or(format_args!("see which host serves it; {accept}: etcd was restored from a backup")));
            }
        }
        None if mark.fence > 0 && !config.cluster && !config.read_only => {
            let why =
                format!("etcd (cluster {}) decides which host serves it, and this server does not ask", mark.etcd);
            return Err(Error::new(what, why).or(format_args!("set etcd, and cluster = true for the volume; {accept}")));
        }
        None => {}
    }
    Ok(())
}

/// Checks whether an origin may be served. Changes nothing.
pub(super) async fn judge(
    entry: &CacheEntry,
    name: &str,
    config: &VolumeConfig,
    (origin, mode): (&OpenOrigin, Mode),
    allowed: Allowed,
) -> Result<Verdict, Error> {
    let what = format!("origin {}", config.origin.display());
    if origin.read_only && !config.read_only && WriteMode::from(mode) == WriteMode::WriteBack {
        let why = "it can only be read, and the volume is in write-back";
        return Err(Error::new(what, why).or("make it writable, or serve it read-only (read_only = true, --read-only)"));
    }
    let way_out = "serve a smaller file or device, or use larger extents (--extent-size, with --format)";
    entry.cache.check_origin_size(origin.look.size_bytes).map_err(|e| Error::new(&what, e).or(way_out))?;
    let marks = origin.marks.clone();
    let mark = aside(move || marks.find()).await?;
    if let Some(mark) = mark.as_ref().filter(|_| !allowed.accept_origin) {
        check_owner(name, &what, config, origin, mark)?;
    }
    let Marked { unmark, is_ours } = judge_marks(entry, name, &what, origin, allowed.discard_dirty).await?;
    let Some((object, known)) = entry.known(name) else {
        if entry.cache.volumes().len() >= VOLUMES_MAX {
            let why = format!("cache {} knows {VOLUMES_MAX} volumes, which is the maximum", entry.name);
            return Err(Error::new(what, why).or("remove one: nitro volume remove NAME"));
        }
        return Ok(Verdict { unmark, mark, ..Verdict::default() });
    };
    let dirty = Size(entry.dirty_bytes(object, &known));
    let found = Evidence { known: &known, mark: mark.as_ref(), is_marked: is_ours, dirty };
    let mut verdict = judge_contents(entry, &what, origin, &found, allowed)?;
    if (config.read_only || origin.read_only) && dirty.0 > 0 && verdict.void.is_none() {
        let why = format!("cache {} holds {dirty} of dirty data of it, which have to be written to it", entry.name);
        return Err(Error::new(what, why).or("serve it without read-only first"));
    }
    (verdict.unmark, verdict.mark) = (unmark, mark);
    Ok(verdict)
}

/// What is known of an origin that the cache has contents of.
struct Evidence<'a> {
    known: &'a VolumeEntry,
    mark: Option<&'a VolumeMark>,
    /// It has the mark of unwritten data of this cache.
    is_marked: bool,
    dirty: Size,
}

/// Whether the cached contents of an origin are still its own.
fn judge_contents(
    entry: &CacheEntry,
    what: &str,
    origin: &OpenOrigin,
    found: &Evidence<'_>,
    allowed: Allowed,
) -> Result<Verdict, Error> {
    let Evidence { known, mark, is_marked, dirty } = *found;
    let identity = KnownOrigin::decode(&known.identity);
    let finding = identity.as_ref().map_or(Finding::AsLeft, |identity| identity.examine(&origin.id, mark, entry.uuid));
    let change = Stamp::decode(known.stamp).change(known.origin_bytes, origin.look);
    let (is_proven, compare) = (finding == Finding::AsLeft && identity.is_some(), finding == Finding::Unproven);
    let doubt = match finding {
        Finding::OlderCache(why) if !allowed.discard_dirty && (dirty.0 > 0 || is_marked) => {
            let way_out = "serve it with the newer copy of the cache, which has its newest data, or give \
                           --force-discard-dirty to use it as it is and lose those data";
            return Err(Error::new(what, format_args!("cache {}: {why}", entry.name)).or(way_out));
        }
        // No option writes them: they would come over what the origin has got since.
        Finding::Succeeded(why) if !allowed.discard_dirty && dirty.0 > 0 => {
            let why = format!("cache {} holds {dirty} of dirty data of this volume, and {why}", entry.name);
            return Err(Error::new(what, why).or(
                "they are older than what the origin has got since, and are never written to it: nitro cache salvage extracts \
                 them; --force-discard-dirty uses the origin as it is and loses them",
            ));
        }
        Finding::Changed(why) | Finding::OlderCache(why) | Finding::Succeeded(why) => Some(why),
        Finding::AsLeft | Finding::Unproven => match change {
            // Times are hints: clocks are set, and writes are delayed. What is proven otherwise counts more.
            Some(Change::Time(why)) if dirty.0 > 0 && is_proven => {
                tracing::warn!("{what}: {why}: what is cached of it and not dirty is dropped");
                return Ok(Verdict { drop_clean: Some(why), ..Verdict::default() });
            }
            Some(change) => Some(change.why()),
            // Dirty data are written only to an origin that bears a mark of this cache.
            None if dirty.0 > 0 && identity.is_some() && mark.is_none() && !is_marked => {
                Some("it does not bear the mark of this cache".to_owned())
            }
            None => None,
        },
    };
    let Some(why) = doubt else {
        if compare && allowed.accept_origin {
            let why = "its origin is accepted, and not compared".to_owned();
            return Ok(Verdict { drop_clean: Some(why), ..Verdict::default() });
        }
        return Ok(Verdict { compare, may_discard: allowed.discard_dirty, ..Verdict::default() });
    };
    if dirty.0 == 0 || allowed.discard_dirty {
        return Ok(Verdict { void: Some(why), ..Verdict::default() });
    }
    if allowed.accept_origin && origin.look.size_bytes == known.origin_bytes {
        tracing::warn!(
            "{what}: {why}; it is accepted, and gets the {dirty} of dirty data that cache {} holds",
            entry.name
        );
        return Ok(Verdict { drop_clean: Some(why), ..Verdict::default() });
    }
    Err(not_its_own(what, entry, &known.name, dirty, &why))
}

/// The refusal of an origin that the dirty data of a volume may not belong to, with the ways out.
pub(super) fn not_its_own(what: &str, entry: &CacheEntry, volume: &str, dirty: Size, why: &str) -> Error {
    let why = format!("cache {} holds {dirty} of dirty data of this volume, and {why}", entry.name);
    Error::new(what, why).or(format_args!(
        "make the origin available that the data belong to; if it is this one, give --accept-origin {volume}; \
         nitro cache salvage extracts the data; --force-discard-dirty uses the origin as it is and loses them"
    ))
}

/// The marks of unwritten data on an origin.
struct Marked {
    /// They have to be removed.
    unmark: bool,
    /// One is of this cache, and of the volume.
    is_ours: bool,
}

/// Refuses an origin whose newest data may be elsewhere.
async fn judge_marks(
    entry: &CacheEntry,
    name: &str,
    what: &str,
    origin: &OpenOrigin,
    discard_dirty: bool,
) -> Result<Marked, Error> {
    let fence = origin.fence.clone();
    let found = match aside(move || fence.find()).await? {
        Ok(found) => found,
        Err(_) if discard_dirty => return Ok(Marked { unmark: true, is_ours: false }),
        Err(error) => return Err(error),
    };
    let mut marked = Marked { unmark: false, is_ours: false };
    for found in found {
        let is_of_it = !found.is_of_another_file && found.mark.volume == name;
        marked.is_ours |= is_of_it && entry.path.is_some() && found.mark.cache_uuid == entry.uuid.to_string();
        marked.unmark |= judge_mark(entry, name, what, found, discard_dirty)?;
    }
    Ok(marked)
}

/// Whether a mark on an origin has to be removed.
fn judge_mark(entry: &CacheEntry, name: &str, what: &str, found: Found, discard_dirty: bool) -> Result<bool, Error> {
    let Mark { cache_uuid, cache_path, volume, since, .. } = found.mark;
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
