//! Reads parts of a volume into its cache before clients ask for them: `nitro warm`.

use super::served::Served;
use crate::control::part_of_volume;
use crate::control::protocol::{Outcome, WARM_BYTES_MAX};
use nitro_console::error::Error;
use nitro_console::size::Size;

impl Served {
    /// Reads a part of a volume into its cache: the extents that are not cached yet, whatever the access pattern.
    ///
    /// # Errors
    /// There is no such volume, or it is served without a cache, or its cache is not filled at present; the part lies outside the
    /// volume or is longer than [`WARM_BYTES_MAX`]; the origin fails.
    pub(crate) async fn warm(&self, name: &str, offset: u64, length: u64) -> Result<Outcome, Error> {
        let export = self.cached(name)?;
        let what = format!("volume {name}");
        let volume = &export.volume;
        if !volume.is_attached() {
            return Err(Error::new(what, "it is detached from its cache").or("attach it: nitro cache attach"));
        }
        if volume.fill_paused() {
            let remedy = format!("resume that: nitro volume set {name} --pause-fill off");
            return Err(Error::new(what, "reads do not fill its cache at present").or(remedy));
        }
        part_of_volume(name, volume.size_bytes(), offset, Some(length))?;
        if length > WARM_BYTES_MAX {
            let why = format!("{} is more than the maximum of {} per command", Size(length), Size(WARM_BYTES_MAX));
            return Err(Error::new(what, why).or("warm it in parts"));
        }
        volume.warm(offset, length).await.map_err(|e| Error::with_sources(&what, &e).or("check the origin"))?;
        let message = format!("{what}: {} from {offset} are cached or on their way into the cache", Size(length));
        Ok(Outcome { message, dirty_bytes: export.dirty_bytes(), ..Outcome::default() })
    }
}
