//! Pinned ranges of volumes, which stay in the cache: `nitro pin`.

use super::caches::CacheEntry;
use super::served::Served;
use crate::control::part_of_volume;
use crate::control::protocol::{Outcome, Pin};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_engine::PinError;
use std::ops::Range;

impl CacheEntry {
    fn extent_bytes(&self) -> u64 {
        u64::from(self.cache.settings().manager.extent_bytes)
    }

    /// The pinned ranges in the cache.
    pub fn pins(&self) -> Vec<Pin> {
        let extent_bytes = self.extent_bytes();
        let of_volume = |(object, known): (_, nitro_engine::VolumeEntry)| {
            let ranges = self.cache.pins(object);
            ranges.into_iter().map(move |Range { start, end }| Pin {
                volume: known.name.clone(),
                offset: start * extent_bytes,
                length: (end - start) * extent_bytes,
            })
        };
        self.cache.volumes().into_iter().flat_map(of_volume).collect()
    }
}

impl Served {
    /// Pins bytes of a volume, or unpins them: whole extents, all to the volume's end without a length.
    ///
    /// # Errors
    /// There is no such volume, the range is outside of it, or there is no room for so many pins; then nothing has
    /// changed.
    pub(crate) async fn pin(
        &self,
        volume: &str,
        offset: u64,
        length: Option<u64>,
        pinned: bool,
    ) -> Result<Outcome, Error> {
        let export = self.cached(volume)?;
        let entry = &export.entry;
        let extent_bytes = entry.extent_bytes();
        let what = format!("volume {volume}");
        let Range { end, .. } = part_of_volume(volume, export.volume.size_bytes(), offset, length)?;
        let capacity_bytes = u64::from(entry.cache.settings().manager.weu_bytes) * entry.cache.status().manager.weus;
        if pinned && end - offset > capacity_bytes {
            let why = format!(
                "{} cannot be pinned, since cache {} has only {}",
                Size(end - offset),
                entry.name,
                Size(capacity_bytes)
            );
            return Err(Error::new(what, why).or("pin a part of it: nitro pin VOLUME OFFSET LENGTH"));
        }
        let extents = offset / extent_bytes..end.div_ceil(extent_bytes);
        let Some((object, _)) = entry.known(volume) else {
            return Err(Error::new(what, format_args!("cache {} does not know it", entry.name)));
        };
        entry.cache.pin(object, extents, pinned).await.map_err(|error| match error {
            PinError::Journal(error) => Error::with_sources(&what, &error).or("check the cache device"),
            error => Error::new(&what, error).or("nitro pins lists what is pinned"),
        })?;
        let (all, cached) = entry.cache.pinned_extents();
        let message = format!(
            "{what}: {} from {offset} {}; cache {} has {} of {} that are pinned",
            Size(end - offset),
            if pinned { "stay in the cache as soon as they are cached" } else { "are not pinned any more" },
            entry.name,
            Size(cached * extent_bytes),
            Size(all * extent_bytes),
        );
        Ok(Outcome { message, dirty_bytes: export.dirty_bytes(), ..Outcome::default() })
    }
}
