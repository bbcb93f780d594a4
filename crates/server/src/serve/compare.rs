//! Compares cached contents with an origin that is recognised by nothing that lasts, such as a virtual disk without a serial number:
//! the disks of a machine may have changed places. Finds another disk; not one that differs in few places.

use super::caches::CacheEntry;
use super::connections::sleep;
use super::judge::not_its_own;
use crate::export::ServedVolume;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_port::Device;
use std::time::Duration;

/// Extents to compare.
const EXTENTS: usize = 64;
/// How often to check whether the cache has been read completely.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Compares clean cached extents of a volume with its origin, before it is served. If one differs, clean data are dropped, and
/// dirty ones too if `may_discard`.
///
/// # Errors
/// One differs, and the cache has dirty data of the volume; or the origin cannot be read.
pub(super) async fn check(
    entry: &CacheEntry,
    name: &str,
    volume: &ServedVolume,
    may_discard: bool,
) -> Result<(), Error> {
    while entry.cache.is_restoring() {
        sleep(LOOK_EVERY).await;
    }
    let Some((object, _)) = entry.known(name) else { return Ok(()) };
    let extents = entry.cache.clean_extents(object, EXTENTS).await;
    let extent_bytes = u64::from(entry.cache.settings().manager.extent_bytes);
    let what = format!("volume {name}");
    let mut compared = 0;
    for index in &extents {
        let offset = index.0.saturating_mul(extent_bytes);
        let len = extent_bytes.min(volume.size_bytes().saturating_sub(offset));
        if len == 0 {
            continue;
        }
        let cached =
            volume.read(offset, len).await.map_err(|e| Error::with_sources(&what, &e).or("check the cache device"))?;
        let origin = volume.origin().read(offset, len as usize).await;
        let origin = origin.map_err(|e| Error::new(&what, e).or("check its origin"))?;
        compared += 1;
        if cached.concat() == origin {
            continue;
        }
        let why =
            format!("its origin differs from the cached content at offset {offset}: it is another one, or was changed");
        let dirty_bytes = volume.dirty_extents() * extent_bytes;
        if dirty_bytes > 0 && !may_discard {
            return Err(not_its_own(&what, entry, name, Size(dirty_bytes), &why));
        }
        let with_dirty =
            if dirty_bytes > 0 { format!(", with {} of dirty data", Size(dirty_bytes)) } else { String::new() };
        tracing::warn!("{what}: {why}; what is cached of it{with_dirty} is dropped");
        let fail = |e| Error::with_sources(format_args!("cache {}", entry.name), &e).or("check the cache device");
        if dirty_bytes > 0 {
            volume.discard_dirty().await.map_err(fail)?;
        }
        return entry.cache.drop_clean(object).await.map_err(fail);
    }
    tracing::info!("{what}: its origin has no identity that lasts; {compared} cached extents are the same there");
    Ok(())
}
