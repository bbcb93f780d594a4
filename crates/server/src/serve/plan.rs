//! The space and RAM of a cache, reported before the start.

use super::flash_index;
use super::limits;
use crate::export::ServedCache;
use nitro_cache::IndexKind;
use nitro_cache::settings::WEU_COUNT_MIN;
use nitro_config::{CacheConfig, FLASH_INDEX_RATIO, FingerprintIndexName, IndexPlan, SHA1_REFUSED};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_engine::format::superblock::{SUPERBLOCK_BYTES, Superblock};
use nitro_engine::{Discard, EngineSettings};
use nitro_port::codec::FingerprintHash;
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// The assumed reduction by compression, for the estimate of RAM.
const REDUCTION: f64 = 2.0;
const DUPLICATES: f64 = 0.5;

/// The engine's settings for a cache that takes `size_bytes` of each of its devices, checked.
pub(super) fn settings(what: &str, config: &CacheConfig, size_bytes: u64) -> Result<EngineSettings, Error> {
    // The journal grows with the cache, and so is at least large enough for what it leaves.
    let devices = config.path.paths().len().max(1) as u64;
    let whole = config.engine_settings(size_bytes.saturating_mul(devices));
    let (overhead, weu_bytes) = (ServedCache::overhead_bytes(&whole), u64::from(whole.manager.weu_bytes));
    let cache_bytes = match size_bytes.saturating_sub(overhead) {
        cache_bytes if devices == 1 => cache_bytes,
        // As many units on each.
        each => each / weu_bytes * weu_bytes * devices,
    };
    let mut settings = config.engine_settings(cache_bytes);
    settings.discard = discard(config, &settings);
    settings.manager.check().map_err(|error| {
        // The manager knows only of the space for WEUs.
        let is_size = error.name == "cache_size";
        let (value, nearest) =
            if is_size { (size_bytes, whole_size(config, error.nearest)) } else { (error.value, error.nearest) };
        let reason = if is_size && nearest > size_bytes {
            format!("is too small for write-evict units of {}", Size(settings.manager.weu_bytes.into()))
        } else {
            error.reason
        };
        Error::new(what, format_args!("{} = {value} {reason}", error.name))
            .or(format_args!("the nearest valid value is {nearest}"))
    })?;
    let least = WEU_COUNT_MIN * devices;
    if devices > 1 && u64::from(settings.manager.weu_count()) < least {
        let why = format!(
            "{} on each of {devices} devices are too small for {WEU_COUNT_MIN} write-evict units",
            Size(size_bytes)
        );
        let size = Size((overhead + WEU_COUNT_MIN * weu_bytes) * devices);
        return Err(Error::new(what, why).or(format_args!("give at least {size} in all, or fewer devices")));
    }
    IndexPlan::of(config, &settings).map_err(|e| flash_index::refused(what, &e))?;
    Ok(settings)
}

/// Whether evicted units are discarded. By itself only on block devices: a file that gives space back may not get it again.
fn discard(config: &CacheConfig, settings: &EngineSettings) -> Discard {
    let is_block = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let by_itself = config.discard.is_none() && config.path.paths().iter().all(is_block);
    if by_itself { Discard::IfCheap } else { settings.discard }
}

/// The size of a device whose write-evict units have `cache_bytes`.
fn whole_size(config: &CacheConfig, cache_bytes: u64) -> u64 {
    let mut size_bytes = cache_bytes;
    loop {
        let larger = cache_bytes + ServedCache::overhead_bytes(&config.engine_settings(size_bytes));
        if larger <= size_bytes {
            return size_bytes;
        }
        size_bytes = larger;
    }
}

/// The engine's settings for an existing cache, on a device of `device_bytes`: sizes and hash are those with which it
/// was created; the configuration may not set different ones.
pub(super) fn existing(
    what: &str,
    config: &CacheConfig,
    superblock: &Superblock,
    device_bytes: u64,
) -> Result<EngineSettings, Error> {
    let differs = |name: &str, wanted: &dyn Display, has: &dyn Display| {
        Error::new(what, format_args!("it was made with {name} = {has}, not {wanted}"))
            .or(format_args!("leave {name} out to use it as it is"))
    };
    let sizes = [
        ("extent_size", config.extent_size, superblock.extent_bytes),
        ("weu_size", config.weu_size, superblock.weu_bytes),
    ];
    for (name, wanted, has) in sizes {
        if let Some(wanted) = wanted.filter(|wanted| wanted.0 != u64::from(has)) {
            return Err(differs(name, &wanted, &Size(has.into())));
        }
    }
    let wanted = config.fingerprint.map(FingerprintHash::from);
    if let (Some(wanted), Some(has)) = (wanted, superblock.fingerprints.filter(|has| Some(*has) != wanted)) {
        let name = |hash| format!("{hash:?}").to_lowercase();
        return Err(differs("fingerprint", &name(wanted), &name(has)));
    }
    if config.fingerprint_index.is_some_and(FingerprintIndexName::is_on_flash) && superblock.index.is_none() {
        return Err(differs("fingerprint_index", &"one on the SSD", &"ram"));
    }
    if config.dedup == Some(true) && superblock.fingerprints.is_none() {
        return Err(differs("dedup", &"on", &"off"));
    }
    let cache_bytes = u64::from(superblock.weu_count) * u64::from(superblock.weu_bytes);
    let end = superblock.data_end() + SUPERBLOCK_BYTES as u64;
    if end > device_bytes {
        let why = format!("it had {} and was cut to {}", Size(end), Size(device_bytes));
        return Err(Error::new(what, why)
            .or("restore the device's size; nitro cache salvage extracts the remaining dirty data"));
    }
    let mut settings = config.engine_settings(cache_bytes);
    settings.discard = discard(config, &settings);
    settings.manager.extent_bytes = superblock.extent_bytes;
    settings.manager.weu_bytes = superblock.weu_bytes;
    settings.manager.dedup = config.dedup.unwrap_or(superblock.fingerprints.is_some());
    settings.fingerprint_hash = superblock.fingerprints.unwrap_or(settings.fingerprint_hash);
    settings.index_bytes = superblock.index.map_or(0, |area| area.len);
    if superblock.index.is_some() && config.fingerprint_index.is_none() && settings.manager.index == IndexKind::Exact {
        settings.manager.fingerprint_index_percent = config.fingerprint_index_ratio.unwrap_or(FLASH_INDEX_RATIO);
    }
    settings.manager.check().map_err(|e| Error::new(what, e).or("leave such settings out to use it as it is"))?;
    Ok(settings)
}

/// Checks that a cache may be served, and not only be examined.
pub(super) fn check_served(what: &str, settings: &EngineSettings) -> Result<(), Error> {
    match settings.fingerprint_hash {
        FingerprintHash::Blake3 => Ok(()),
        FingerprintHash::Sha1 => {
            let why = format!("it was made with fingerprint = sha1: {SHA1_REFUSED}");
            Err(Error::new(what, why).or("nitro cache salvage extracts its dirty data, if there are some"))
        }
    }
}

/// The configured size, in bytes, if it is not that of the cache on a device, of which a small remainder may be unused. The cache gets
/// that size once it is served.
pub(super) fn other_size(config: &CacheConfig, settings: &EngineSettings, superblock: &Superblock) -> Option<u64> {
    let wanted = config.size?.0;
    let devices = u64::from(superblock.place.devices);
    let others = superblock.data_offset + SUPERBLOCK_BYTES as u64;
    let end = superblock.data_end() + SUPERBLOCK_BYTES as u64 + others * (devices - 1);
    let slack = (ServedCache::overhead_bytes(settings) + u64::from(settings.manager.weu_bytes)) * devices;
    let is_it = wanted >= end && wanted - end <= slack;
    (!is_it).then_some(wanted)
}

/// Prints a cache's geometry.
pub(super) fn announce(name: &str, settings: &EngineSettings) {
    let manager = &settings.manager;
    let onoff = |on| if on { "on" } else { "off" };
    nitro_console::output::note!(
        "cache {name}: {} in {} write-evict units of {}, extents of {}; deduplication {}, compression {}",
        Size(manager.cache_bytes),
        manager.weu_count(),
        Size(manager.weu_bytes.into()),
        Size(manager.extent_bytes.into()),
        onoff(manager.dedup),
        format!("{:?}", settings.compression).to_lowercase(),
    );
    let usual = |settings: &EngineSettings| Size(settings.usual_index_bytes(REDUCTION, DUPLICATES));
    let other = settings.with_other_index();
    nitro_console::output::note!(
        "cache {name}: indexes take {} of RAM when it is full of data that compresses 2:1 with every third extent a duplicate; with \
         index = \"{}\", {}",
        usual(settings),
        other.manager.index,
        usual(&other),
    );
}

/// Refuses a cache that needs more RAM than a limit of the process allows, before any of it is taken.
pub(super) fn check_limits(settings: &EngineSettings) -> Result<(), Error> {
    let parts = settings.ram_parts(settings.manager.cache_bytes);
    limits::check_ram(parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add))
}

/// RAM that is available according to the kernel (proc(5)).
pub fn available_ram_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}
