//! What a cache will take, told before anything starts.

use crate::config::CacheConfig;
use crate::error::Error;
use crate::export::ServedCache;
use crate::size::Size;
use nitro_engine::EngineSettings;
use std::fs;

/// How much data is taken to shrink by compression, and how many duplicates each extent to have, in the estimate of RAM.
const REDUCTION: f64 = 2.0;
const DUPLICATES: f64 = 0.5;

/// The engine's settings for a cache of `size_bytes` in all, checked.
pub(super) fn settings(what: &str, config: &CacheConfig, size_bytes: u64) -> Result<EngineSettings, Error> {
    let overhead = ServedCache::overhead_bytes(&config.engine_settings(0));
    let settings = config.engine_settings(size_bytes.saturating_sub(overhead));
    settings.manager.check().map_err(|error| {
        // The manager knows only of the space for WEUs.
        let is_size = error.name == "cache_size";
        let (value, nearest) =
            if is_size { (size_bytes, error.nearest + overhead) } else { (error.value, error.nearest) };
        let reason = if is_size && nearest > size_bytes {
            format!("is too small for write-evict units of {}", Size(settings.manager.weu_bytes.into()))
        } else {
            error.reason
        };
        Error::new(what, format_args!("{} = {value} {reason}", error.name))
            .or(format_args!("the nearest valid value is {nearest}"))
    })?;
    Ok(settings)
}

/// Prints a cache's geometry and the RAM it needs, and warns if the machine has not got that.
pub(super) fn announce(name: &str, settings: &EngineSettings) {
    let manager = &settings.manager;
    let need = settings.ram_bytes(REDUCTION, DUPLICATES);
    let onoff = |on| if on { "on" } else { "off" };
    eprintln!(
        "cache {name}: {} in {} write-evict units of {}, extents of {}; deduplication {}, compression {}",
        Size(manager.cache_bytes),
        manager.weu_count(),
        Size(manager.weu_bytes.into()),
        Size(manager.extent_bytes.into()),
        onoff(manager.dedup),
        format!("{:?}", settings.compression).to_lowercase(),
    );
    eprintln!(
        "cache {name}: needs {} of RAM when full of data that compresses 2:1 with every third extent a duplicate \
         (indexes {}, RAM cache {}, buffers the rest)",
        Size(need),
        Size(indexes(settings)),
        Size(settings.ram_cache_bytes),
    );
    if let Some(available) = available_ram_bytes().filter(|&available| available < need) {
        let (need, available) = (Size(need), Size(available));
        tracing::warn!(
            "cache {name} may come to need {need} of RAM, and {available} are available: a smaller cache, larger \
             extents, a lower fingerprint index ratio or a smaller RAM cache take less"
        );
    }
}

fn indexes(settings: &EngineSettings) -> u64 {
    let unique = settings.manager.extents_raw() as f64 * REDUCTION;
    settings.manager.index_ram_bytes(unique as u64, (unique * DUPLICATES) as u64)
}

/// What the kernel holds to be available (proc(5)).
pub(crate) fn available_ram_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}
