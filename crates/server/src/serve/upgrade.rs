//! The format version of a cache that no server uses.

use super::caches::{look_at, open_to_look};
use super::store;
use nitro_console::error::Error;
use nitro_engine::format::FORMAT_VERSION_FEATURES;
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use nitro_port::Device;
use serde::Serialize;
use std::path::Path;

/// What [`upgrade`] found and did.
#[derive(Debug, Serialize)]
pub struct Upgraded {
    /// The path of the cache.
    pub path: String,
    /// The cache's UUID.
    pub uuid: String,
    /// The format version that the cache had.
    pub version_before: u32,
    /// The format version that it has now.
    pub version: u32,
    /// All format versions that this program writes.
    pub versions_written: [u32; 1],
    /// The cache was rewritten; otherwise its next start writes it in a version of `versions_written`.
    pub upgraded: bool,
}

/// Tells the format version of a cache that no server uses, and checks that it can be opened. Nothing is rewritten: each start
/// writes the superblocks, in the version that this program writes.
///
/// # Errors
/// The cache has another version, a server uses it, or it cannot be opened.
pub async fn upgrade(path: &Path) -> Result<Upgraded, Error> {
    let what = format!("cache {}", path.display());
    let version_before = version(&what, path).await?;
    let uuid = look_at(&[path.to_owned()]).await?.uuid;
    Ok(Upgraded {
        path: path.display().to_string(),
        uuid: uuid.to_string(),
        version_before,
        version: version_before,
        versions_written: [FORMAT_VERSION_FEATURES],
        upgraded: false,
    })
}

/// The version of a cache's superblocks. A whole copy of another version outranks one that this program knows.
async fn version(what: &str, path: &Path) -> Result<u32, Error> {
    let device = open_to_look(path)?;
    let (mut known, mut refused) = (None, None);
    for offset in superblock_offsets(device.geometry().size_bytes) {
        // A copy that cannot be read is one that is damaged.
        let Ok(bytes) = device.read(offset, SUPERBLOCK_BYTES).await else { continue };
        match Superblock::decode(&bytes) {
            Ok(_) => known = known.or(Superblock::version(&bytes).ok()),
            Err(error) if error.is_unknown() => {
                refused = refused.filter(|(_, is_whole)| *is_whole);
                refused = refused.or(Some((error, Superblock::version(&bytes).is_ok())));
            }
            Err(_) => {}
        }
    }
    match (known, refused) {
        (Some(version), None | Some((_, false))) => Ok(version),
        (_, Some((error, _))) => Err(Error::new(what, error)
            .or("a cache cannot be taken back to an older version: use the nitro that made it, or a later one")),
        (None, None) => Err(store::not_a_cache(what, path).unwrap_or_else(|| {
            Error::new(what, "both of its superblocks are damaged").or("nitro cache fsck lists the damage")
        })),
    }
}
