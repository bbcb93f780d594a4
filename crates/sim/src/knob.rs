//! The settings of a simulation by name, for the command line and the axes of a sweep.

use crate::timing::{Cos, Disks, Load, Origin, Raid, Timing};
use crate::{Settings, Warmup};
use nitro_cache::destage::Watermarks;
use nitro_console::size::Size;
use std::str::FromStr;

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// Bytes of the cache.
    Size,
    /// The organisation of the cache.
    Variant,
    /// Whether duplicates are stored once.
    Dedup,
    /// Whether extents are stored compressed.
    Compress,
    /// Bytes of an extent.
    ExtentSize,
    /// Bytes of a write-evict unit.
    WeuSize,
    /// Percentage of the cached extents whose fingerprints are kept.
    FingerprintIndex,
    /// What the indexes keep in RAM.
    Index,
    /// The policy of admission.
    Admission,
    /// The policy of eviction.
    Eviction,
    /// RAM of staging, in bytes.
    Staging,
    /// Bytes that may be written to the SSD for each byte requested.
    WriteBudget,
    /// Whether the origin supplies fingerprints.
    Recipes,
    /// The handling of writes of a part of an extent that is not cached.
    PartialWrites,
    /// Which written content is cached.
    WritePolicy,
    /// Write-through or write-back.
    Mode,
    /// Percentage of the cache that may be dirty before destage starts.
    DirtyStart,
    /// Percentage of the cache that may be dirty before writes wait.
    DirtyMax,
    /// The age from which on dirty data are destaged.
    DirtyAge,
    /// The number of writes between two flushes of a client.
    FlushEvery,
    /// The policy of destage.
    Destage,
    /// Whether requests without another class are classified by their pattern.
    Patterns,
    /// Bytes of the RAM cache.
    Ram,
    /// Consecutive bytes from which on a stream of reads bypasses the cache.
    Sequential,
    /// The mean compression ratio, for traces without compressed sizes.
    Compression,
    /// The beginning of the trace that is not measured.
    Warmup,
    /// The periods for which results are also reported separately.
    Period,
    /// The way in which requests are issued.
    Load,
    /// The kind of the origin.
    Origin,
    /// The origin's disks.
    Disks,
    /// Bytes of the NVRAM.
    Nvram,
    /// The seed of hashes and random ratios.
    Seed,
}

const NAMES: [(&str, Knob); 32] = [
    ("size", Knob::Size),
    ("variant", Knob::Variant),
    ("dedup", Knob::Dedup),
    ("compression", Knob::Compress),
    ("extent-size", Knob::ExtentSize),
    ("weu-size", Knob::WeuSize),
    ("fingerprint-index-ratio", Knob::FingerprintIndex),
    ("index", Knob::Index),
    ("admission", Knob::Admission),
    ("eviction", Knob::Eviction),
    ("staging", Knob::Staging),
    ("write-budget", Knob::WriteBudget),
    ("recipes", Knob::Recipes),
    ("partial-writes", Knob::PartialWrites),
    ("write-policy", Knob::WritePolicy),
    ("mode", Knob::Mode),
    ("dirty-start", Knob::DirtyStart),
    ("dirty-max", Knob::DirtyMax),
    ("dirty-age", Knob::DirtyAge),
    ("flush-every", Knob::FlushEvery),
    ("destage", Knob::Destage),
    ("patterns", Knob::Patterns),
    ("ram", Knob::Ram),
    ("sequential-threshold", Knob::Sequential),
    ("compression-ratio", Knob::Compression),
    ("warmup", Knob::Warmup),
    ("period", Knob::Period),
    ("load", Knob::Load),
    ("origin-kind", Knob::Origin),
    ("disks", Knob::Disks),
    ("nvram", Knob::Nvram),
    ("seed", Knob::Seed),
];

impl FromStr for Knob {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let wanted = if name == "cache-size" { "size" } else { name };
        if wanted == "compress" {
            return Err("\"compress\" is called compression now, as in the server: lz4, zstd or none".into());
        }
        NAMES.iter().find(|(known, _)| *known == wanted).map(|(_, knob)| *knob).ok_or_else(|| {
            let names: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("no setting {name:?}; there are: {}", names.join(", "))
        })
    }
}

impl Knob {
    /// The name in sweeps.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, knob)| *knob == self).map_or("", |(name, _)| name)
    }

    /// The option of `nitro-lab sim` that sets it.
    #[must_use]
    pub fn option(self) -> String {
        format!("--{}", self.long())
    }

    /// The name of that option.
    #[must_use]
    pub fn long(self) -> &'static str {
        if self == Self::Size { "cache-size" } else { self.name() }
    }

    /// Whether the values are sizes.
    #[must_use]
    pub const fn is_size(self) -> bool {
        matches!(
            self,
            Self::Size | Self::ExtentSize | Self::WeuSize | Self::Staging | Self::Ram | Self::Sequential | Self::Nvram
        )
    }

    /// Sets the setting from its text.
    ///
    /// # Errors
    /// The values that are valid.
    pub fn set(self, settings: &mut Settings, text: &str) -> Result<(), String> {
        match self {
            Self::Size => settings.cache_bytes = size(text)?,
            Self::Variant => settings.variant = text.parse()?,
            Self::Dedup => settings.dedup = switch(text)?,
            Self::Compress => {
                settings.compress = match text {
                    // The sizes are the trace's, or assumed: it does not matter which of the two made them.
                    "lz4" | "zstd" => true,
                    "none" => false,
                    _ => return Err("must be lz4, zstd or none".into()),
                }
            }
            Self::ExtentSize => settings.extent_bytes = small_size(text)?,
            Self::WeuSize => settings.weu_bytes = small_size(text)?,
            Self::FingerprintIndex => settings.fingerprint_index_percent = number(text)?,
            Self::Index => settings.index = text.parse()?,
            Self::Admission => settings.admission = text.parse()?,
            Self::Eviction => settings.eviction = text.parse()?,
            Self::Staging => settings.staging_bytes = size(text)?,
            Self::WriteBudget => settings.write_budget = Some(number(text)?),
            Self::Recipes => settings.recipes = switch(text)?,
            Self::PartialWrites => settings.partial_writes = text.parse()?,
            Self::WritePolicy => settings.write_policy = text.parse()?,
            Self::Mode => {
                settings.write_back = match text {
                    "write-through" => None,
                    "write-back" => Some(settings.write_back.unwrap_or(Watermarks::USUAL)),
                    _ => return Err("must be write-through or write-back".into()),
                }
            }
            Self::DirtyStart => marks(settings)?.start_percent = number(text)?,
            Self::DirtyMax => marks(settings)?.max_percent = number(text)?,
            Self::DirtyAge => {
                // As in the server, a bare number is one of seconds.
                let seconds: u64 = text.parse().or_else(|_| span_ns(text).map(|ns| ns / 1_000_000_000))?;
                marks(settings)?.age_seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            }
            Self::FlushEvery => {
                marks(settings)?;
                settings.flush_every = number(text)?;
            }
            Self::Destage => settings.destage = text.parse()?,
            Self::Patterns => settings.patterns = switch(text)?,
            Self::Ram => settings.ram_bytes = size(text)?,
            Self::Sequential => settings.sequential_bytes = size(text)?,
            Self::Compression => settings.compression_mean = number(text)?,
            Self::Warmup => {
                settings.warmup = match text.parse() {
                    Ok(0) => Warmup::None,
                    Ok(requests) => Warmup::Requests(requests),
                    Err(_) => Warmup::Time(span_ns(text)?),
                }
            }
            Self::Period => settings.period_ns = span_ns(text)?,
            Self::Seed => settings.seed = number(text)?,
            Self::Load | Self::Origin | Self::Disks | Self::Nvram => {
                return self.set_timing(settings.timing.get_or_insert_default(), text);
            }
        }
        Ok(())
    }

    fn set_timing(self, timing: &mut Timing, text: &str) -> Result<(), String> {
        match self {
            Self::Load => timing.load = load(text)?,
            Self::Origin => {
                timing.origin = match text {
                    "tps" => Origin::Tps,
                    "cos" => Origin::Cos(Cos::default()),
                    _ => return Err("must be tps or cos".into()),
                }
            }
            Self::Disks => timing.disks = disks(text)?,
            _ => timing.nvram_bytes = size(text)?,
        }
        Ok(())
    }
}

/// The watermarks of destage, in write-back.
fn marks(settings: &mut Settings) -> Result<&mut Watermarks, String> {
    settings.write_back.as_mut().ok_or_else(|| "is for --mode write-back".into())
}

fn size(text: &str) -> Result<u64, String> {
    text.parse::<Size>().map(|size| size.0).map_err(|error| error.to_string())
}

fn small_size(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| "must be less than 4G".into())
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off".into()),
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "must be a number".into())
}

/// Parses a duration of the trace: a number with s, m, h or d; in nanoseconds.
fn span_ns(text: &str) -> Result<u64, String> {
    let refuse = || "must be a number with s, m, h or d, such as 16d".to_owned();
    let last = text.chars().last().ok_or_else(refuse)?;
    let unit_s = match last {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86_400.0,
        _ => return Err(refuse()),
    };
    let count: f64 = text[..text.len() - 1].parse().map_err(|_| refuse())?;
    let ns = count * unit_s * 1e9;
    if (0.0..1e18).contains(&ns) { Ok(ns as u64) } else { Err(refuse()) }
}

fn load(text: &str) -> Result<Load, String> {
    let refuse = || "must be closed:N or open:X, such as closed:32 or open:1".to_owned();
    match text.split_once(':') {
        Some(("closed", depth)) => depth.parse().map(Load::Closed).map_err(|_| refuse()),
        Some(("open", speed)) => speed.parse().map(Load::Open).map_err(|_| refuse()),
        _ => Err(refuse()),
    }
}

fn disks(text: &str) -> Result<Disks, String> {
    let refuse = || "must be RPM[:SPINDLES[:raid0|raid5|raid6]], such as 7200:11:raid5".to_owned();
    let mut parts = text.split(':');
    let rpm = parts.next().and_then(|rpm| rpm.parse().ok()).ok_or_else(refuse)?;
    let spindles = parts.next().map_or(Ok(1), |spindles| spindles.parse().map_err(|_| refuse()))?;
    let raid = match parts.next() {
        None | Some("raid0") => Raid::Raid0,
        Some("raid5") => Raid::Raid5,
        Some("raid6") => Raid::Raid6,
        Some(_) => return Err(refuse()),
    };
    if parts.next().is_some() { Err(refuse()) } else { Ok(Disks { rpm, spindles, raid, ..Disks::default() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_others_refused_with_what_they_may_be() {
        let mut settings = Settings::new(1 << 30);
        for (knob, text) in [
            (Knob::Size, "1.5G"),
            (Knob::Variant, "8-way"),
            (Knob::Dedup, "off"),
            (Knob::Warmup, "1.5d"),
            (Knob::Load, "open:2.5"),
            (Knob::Disks, "15000:4:raid6"),
        ] {
            knob.set(&mut settings, text).unwrap();
        }
        assert_eq!((settings.cache_bytes, settings.dedup), (3 << 29, false));
        assert_eq!(settings.warmup, Warmup::Time(129_600_000_000_000));
        let timing = settings.timing.unwrap();
        assert_eq!((timing.load, timing.disks.rpm, timing.disks.raid), (Load::Open(2.5), 15000, Raid::Raid6));
        for (knob, text, hint) in [
            (Knob::Dedup, "yes", "on or off"),
            (Knob::Warmup, "16y", "16d"),
            (Knob::Warmup, "日", "16d"),
            (Knob::Load, "closed", "closed:32"),
            (Knob::Disks, "7200:4:raid7", "raid5"),
            (Knob::Variant, "weus", "weu-lru-mod"),
            (Knob::Eviction, "clock", "lru, fifo"),
            (Knob::Admission, "none", "second-miss"),
        ] {
            let error = knob.set(&mut settings, text).expect_err(text);
            assert!(error.contains(hint), "{error}");
        }
    }
}
