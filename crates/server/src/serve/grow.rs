//! Origins that grow while they are served.

use super::Served;
use crate::control::protocol::Outcome;
use crate::origins::aside;
use nitro_console::error::Error;
use nitro_console::size::Size;
use std::sync::Arc;

impl Served {
    /// Makes a volume as large as its origin. Virtual machines and iSCSI initiators
    /// are informed; NBD clients see it when they connect again.
    ///
    /// # Errors
    /// The origin cannot grow while it is served, has become smaller, or is too large for the cache.
    pub async fn grow(self: &Arc<Self>, name: &str) -> Result<Outcome, Error> {
        let export = self.named(name)?;
        let _turn = super::operate::Turn::take(&export)?;
        let what = format!("volume {name}");
        let before = export.volume.size_bytes();
        export.check_name().await?;
        let (identity, emulated) = (Arc::clone(&export.identity), export.emulate_disk);
        let Some(device) = aside(move || identity.open_again(emulated)).await?? else {
            let why = "only files, block devices and images of clusters grow while they are served";
            return Err(Error::new(what, why)
                .or("an object: copy it to a larger one (nitro cos); an NBD export: restart the server"));
        };
        let size_bytes = nitro_port::Device::geometry(&device).size_bytes;
        if size_bytes < before {
            let why = format!("its origin had {before} bytes and has {size_bytes}");
            return Err(Error::new(what, why).or("restore the part that was cut off"));
        }
        if size_bytes == before {
            let message = format!("{what}: its origin still has {}", Size(before));
            return Ok(Outcome { message, dirty_bytes: export.dirty_bytes(), ..Outcome::default() });
        }
        if export.block_bytes > 512 && size_bytes % u64::from(export.block_bytes) != 0 {
            let why = format!("its origin has {size_bytes} bytes, no multiple of its blocks of {}", export.block_bytes);
            return Err(Error::new(what, why).or("give it a whole number of blocks"));
        }
        let fail = |e: nitro_engine::Error| Error::with_sources(&what, &e).or("see nitro status");
        export.entry.cache.check_origin_size(size_bytes).map_err(fail)?;
        export.volume.origin().replace(device);
        // First what the cache has of the old end is void, then the registry has the new size, then clients do.
        let growing = export.volume.begin_growing(size_bytes).await.map_err(fail)?;
        if let Some(lease) = export.volume.origin().lease() {
            lease.grow(size_bytes).await?;
            export.entry.cache.sync().await.map_err(fail)?;
        }
        growing.finish();
        export.resized.notify(usize::MAX);
        let message = format!(
            "{what}: {} from now on, {} before; NBD clients see it when they connect again",
            Size(size_bytes),
            Size(before)
        );
        tracing::info!("{message}");
        Ok(Outcome { message, dirty_bytes: export.dirty_bytes(), ..Outcome::default() })
    }
}
