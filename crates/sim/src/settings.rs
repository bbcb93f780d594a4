//! The settings of a simulation.

use crate::Error;
use crate::model;
use crate::policies::PolicyKind;
use crate::timing::Timing;
use nitro_cache::IndexKind;
use nitro_cache::admission::{AdmissionKind, WritePolicy};
use nitro_cache::class::Classes;
use nitro_cache::destage::{DestageKind, Watermarks};
use nitro_cache::eviction::EvictionKind;
use nitro_cache::partial::PartialWrites;
use nitro_cache::pattern::StreamSettings;
use nitro_cache::ram::READAHEAD_RAM_BYTES;
use nitro_cache::settings::{EXTENT_BYTES, FINGERPRINT_INDEX_RATIO, WEU_BYTES};
use nitro_trace::content::Compressibility;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The organisation of the cache: Nitro, and the caches that the paper compares it with (§4, §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Variant {
    /// Nitro: write-evict units on a standard SSD with hybrid mapping.
    #[default]
    Weu,
    /// WEU-LRU-mod: Nitro on a modified SSD, which chooses the evicted units and has no reserve.
    WeuLruMod,
    /// WEU-LRU-TRIM: Nitro with a trim of each evicted unit.
    WeuLruTrim,
    /// Extents in separate places on a page-mapped SSD, replaced individually in LRU order among `ways` places (0:
    /// all).
    Extent {
        /// The places that an extent can have, which must divide the number of places; 1 is direct-mapped.
        ways: u32,
    },
    /// Extent-LRU-mod: FlashTier with LRU. The page-mapped SSD knows which extents are cached, and has the minimum
    /// reserve.
    ExtentLruMod,
    /// Extent-LRU-TRIM: extents on a page-mapped SSD, with a trim of each evicted extent.
    ExtentLruTrim,
    /// Extents on an SSD with hybrid mapping, without trims.
    Naive,
    /// A plain policy over extents, without deduplication, compression and SSD.
    Policy(PolicyKind),
    /// Extents in the order of their classes, without deduplication, compression and SSD: the extent that was used longest
    /// ago of the lowest rank is evicted first. It shows what eviction by bands of whole units costs.
    Ordered {
        /// The rank is the class's priority (its band); otherwise each class has a rank of its own: among files, the larger
        /// ones have the lower rank.
        by_band: bool,
    },
    /// Belady's optimum over extents.
    Belady,
    /// No cache: the origin alone.
    None,
}

impl Variant {
    /// The variants by name: those without a parameter, and common values of those with one.
    const NAMED: [(&'static str, Self); 20] = [
        ("weu", Self::Weu),
        ("weu-lru-mod", Self::WeuLruMod),
        ("weu-lru-trim", Self::WeuLruTrim),
        ("extent", Self::Extent { ways: 0 }),
        ("direct-mapped", Self::Extent { ways: 1 }),
        ("extent-lru-mod", Self::ExtentLruMod),
        ("extent-lru-trim", Self::ExtentLruTrim),
        ("naive", Self::Naive),
        ("lru", Self::Policy(PolicyKind::Lru)),
        ("slru", Self::Policy(PolicyKind::Slru)),
        ("mru", Self::Policy(PolicyKind::Mru)),
        ("fifo", Self::Policy(PolicyKind::Fifo)),
        ("clock", Self::Policy(PolicyKind::Clock)),
        ("arc", Self::Policy(PolicyKind::Arc)),
        ("s3-fifo", Self::Policy(PolicyKind::S3Fifo)),
        ("class-order", Self::Ordered { by_band: false }),
        ("band-order", Self::Ordered { by_band: true }),
        ("belady", Self::Belady),
        ("none", Self::None),
        ("fully-associative", Self::Extent { ways: 0 }),
    ];

    /// Whether extents are packed into write-evict units.
    #[must_use]
    pub const fn has_weus(self) -> bool {
        matches!(self, Self::Weu | Self::WeuLruMod | Self::WeuLruTrim)
    }

    /// Whether extents are on an SSD; otherwise only their hits are counted.
    #[must_use]
    pub const fn is_on_ssd(self) -> bool {
        self.has_weus() || self.has_places()
    }

    /// Whether eviction follows the priorities of classes.
    #[must_use]
    pub const fn has_class_policies(self) -> bool {
        matches!(self, Self::Weu | Self::WeuLruTrim | Self::Ordered { .. })
    }

    /// Whether extents may wait in RAM before they are written to the SSD.
    #[must_use]
    pub const fn has_staging(self) -> bool {
        self.has_weus() || (self.has_places() && !matches!(self, Self::Extent { ways: 1.. }))
    }

    /// Whether extents have separate places on an SSD.
    #[must_use]
    pub const fn has_places(self) -> bool {
        matches!(self, Self::Extent { .. } | Self::ExtentLruMod | Self::ExtentLruTrim | Self::Naive)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, Self::NAMED.iter().find(|(_, variant)| variant == self)) {
            (_, Some((name, _))) => f.write_str(name),
            (Self::Extent { ways }, None) => write!(f, "{ways}-way"),
            (_, None) => f.write_str("none"),
        }
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some((_, variant)) = Self::NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(*variant);
        }
        if let Some(ways) = name.strip_suffix("-way").and_then(|ways| ways.parse().ok()).filter(|ways| *ways > 0) {
            return Ok(Self::Extent { ways });
        }
        let names: Vec<_> = Self::NAMED.iter().map(|(name, _)| *name).collect();
        Err(format!(
            "no variant {name:?}; there are: {}, and N-way for any N from 1 on, such as 4-way",
            names.join(", ")
        ))
    }
}

impl Serialize for Variant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Variant {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The part of the trace that fills the cache and is not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// Everything is measured.
    #[default]
    None,
    /// Requests before this time of the trace, in nanoseconds.
    Time(u64),
    /// This number of requests.
    Requests(u64),
}

fn readahead_ram_bytes() -> u64 {
    READAHEAD_RAM_BYTES
}

/// All settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes that a standard SSD offers to the cache. [`Variant::WeuLruMod`] and [`Variant::ExtentLruMod`] also use the
    /// reserve of such an SSD (Nitro §5.3).
    pub cache_bytes: u64,
    /// The unit of caching, in bytes.
    pub extent_bytes: u32,
    /// Bytes of a write-evict unit.
    pub weu_bytes: u32,
    /// Deduplication (D, else ND).
    pub dedup: bool,
    /// Compression (C, else NC); for variants with write-evict units only.
    pub compress: bool,
    /// The share of the cached extents whose fingerprints are kept, in percent.
    pub fingerprint_index_percent: u8,
    /// The policy of admission; the variants with separate places have two-level selection only, and others have none.
    pub admission: AdmissionKind,
    /// What the indexes keep in RAM, for variants with write-evict units.
    #[serde(default)]
    pub index: IndexKind,
    /// The policy of eviction, for variants with write-evict units.
    pub eviction: EvictionKind,
    /// RAM of staging in bytes, for variants with write-evict units and fully associative ones of extents.
    pub staging_bytes: u64,
    /// Bytes that may be written to the SSD for each byte requested, for variants with write-evict units; `None`: no
    /// bound.
    pub write_budget: Option<f64>,
    /// See [`Variant`].
    pub variant: Variant,
    /// Whether the origin supplies fingerprints without data (a recipe cache, Nitro §3): a read that misses the file
    /// index is looked up by content.
    pub recipes: bool,
    /// How a write of a part of an extent that is not cached is treated, in write-through.
    pub partial_writes: PartialWrites,
    /// Which written content is cached.
    pub write_policy: WritePolicy,
    /// What a read misses does not enter the cache: only writes allocate (Differentiated Storage Services, Table 2).
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub only_writes_allocate: bool,
    /// Write-back: written data stay dirty in the cache and are destaged by these watermarks. `None`: write-through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back: Option<Watermarks>,
    /// Write-back: the number of writes after which a client flushes, besides the flushes of the trace. A flush fills
    /// whole blocks of the SSD, so compressed extents fill units sooner. Units of replaced content are kept until the
    /// next flush or destage. 0: only the flushes of the trace; if it has none, each write is durable at once, and
    /// takes only its own bytes.
    #[serde(default)]
    pub flush_every: u32,
    /// Write-back without timing: the number of requests that arrive before written extents are inserted, in a server
    /// whose insertion lags behind. Extents that wait are served from RAM, and those that are overwritten are not
    /// inserted. A read that misses, a flush or a trim ends the wait. 0 or 1, or if each write is durable at once: no
    /// extent waits.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub insertion_lag: u32,
    /// The policy of destage, in write-back.
    #[serde(default)]
    pub destage: DestageKind,
    /// The policies of classes, for variants with [class policies](Variant::has_class_policies) only.
    #[serde(default, skip_serializing_if = "Classes::are_usual")]
    pub classes: Classes,
    /// Classify requests that have no other class by their pattern, for variants with
    /// [class policies](Variant::has_class_policies) only.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub patterns: bool,
    /// RAM for whole extents in front of the SSD in bytes; 0: none. This and the next settings are for variants on an
    /// SSD.
    #[serde(default)]
    pub ram_bytes: u64,
    /// The number of consecutive bytes from which on a stream of reads is sequential: it is read ahead, and bypasses
    /// the SSD until it is read a second time. 0: no stream is.
    pub sequential_bytes: u64,
    /// RAM for extents of sequential streams, in bytes.
    #[serde(default = "readahead_ram_bytes")]
    pub readahead_ram_bytes: u64,
    /// The mean of the normally distributed compression ratio, for traces without compressed sizes.
    pub compression_mean: f64,
    /// The variance of the compression ratio.
    pub compression_variance: f64,
    /// See [`Warmup`].
    pub warmup: Warmup,
    /// The length of the periods after the warm-up that are also measured separately, in nanoseconds; 0: one period.
    pub period_ns: u64,
    /// Devices and load, if timing is modelled.
    pub timing: Option<Timing>,
    /// The seed of hashes and random values.
    pub seed: u64,
}

impl Settings {
    /// The paper's defaults (Table 1) for a cache of `cache_bytes`: WEU (D, C), LRU, extents of 8 KiB, no timing.
    #[must_use]
    pub fn new(cache_bytes: u64) -> Self {
        let Compressibility { mean, variance, seed } = Compressibility::default();
        Self {
            cache_bytes,
            extent_bytes: EXTENT_BYTES.default as u32,
            weu_bytes: WEU_BYTES.default as u32,
            dedup: true,
            compress: true,
            fingerprint_index_percent: FINGERPRINT_INDEX_RATIO.default as u8,
            admission: AdmissionKind::All,
            index: IndexKind::default(),
            eviction: EvictionKind::Lru,
            staging_bytes: 0,
            write_budget: None,
            variant: Variant::Weu,
            recipes: false,
            partial_writes: PartialWrites::default(),
            write_policy: WritePolicy::default(),
            only_writes_allocate: false,
            write_back: None,
            flush_every: 0,
            insertion_lag: 0,
            destage: DestageKind::default(),
            classes: Classes::default(),
            patterns: false,
            ram_bytes: 0,
            sequential_bytes: 0,
            readahead_ram_bytes: READAHEAD_RAM_BYTES,
            compression_mean: mean,
            compression_variance: variance,
            warmup: Warmup::None,
            period_ns: 0,
            timing: None,
            seed,
        }
    }

    /// The settings of the cache manager.
    #[must_use]
    pub fn manager(&self) -> nitro_cache::Settings {
        nitro_cache::Settings {
            extent_bytes: self.extent_bytes,
            weu_bytes: self.weu_bytes,
            dedup: self.dedup,
            fingerprint_index_percent: self.fingerprint_index_percent,
            admission: self.admission,
            index: self.index,
            eviction: self.eviction,
            destage: self.destage,
            classes: self.classes,
            patterns: self.patterns,
            what_if: false,
            streams: self.streams(),
            seed: self.seed,
            ..nitro_cache::Settings::new(self.cache_bytes)
        }
    }

    /// The settings of sequential streams and read-ahead.
    pub(crate) fn streams(&self) -> StreamSettings {
        StreamSettings { threshold_bytes: self.sequential_bytes, ..StreamSettings::default() }
    }

    pub(crate) fn compressibility(&self) -> Compressibility {
        Compressibility { mean: self.compression_mean, variance: self.compression_variance, seed: self.seed }
    }

    /// Checks the settings, without allocating anything.
    ///
    /// # Errors
    /// The first setting that is out of bounds or contradicts another.
    pub fn check(&self) -> Result<(), Error> {
        EXTENT_BYTES.check(self.extent_bytes.into())?;
        if self.variant.has_weus() {
            self.manager().check()?;
            let dirty_percent = self.write_back.map_or(0, |marks| marks.max_percent);
            let checked = self.manager().check_classes(&self.classes, dirty_percent, 0);
            checked.map_err(|error| Error::setting(error.to_string()))?;
        } else if self.cache_bytes < u64::from(self.extent_bytes) && self.variant != Variant::None {
            return Err(Error::setting("the cache is smaller than an extent"));
        }
        FINGERPRINT_INDEX_RATIO.check(self.fingerprint_index_percent.into())?;
        if self.dedup && matches!(self.variant, Variant::Extent { ways: 1.. }) {
            return Err(Error::setting(
                "deduplication needs a fully associative cache; switch it off for direct-mapped and N-way ones",
            ));
        }
        if let Variant::Extent { ways: ways @ 1.. } = self.variant {
            model::check_ways(self.cache_bytes / u64::from(self.extent_bytes), ways)?;
        }
        if !(1.0..=100.0).contains(&self.compression_mean) || !(0.0..=100.0).contains(&self.compression_variance) {
            return Err(Error::setting("the compression ratio's mean is from 1 to 100, its variance from 0 to 100"));
        }
        let is_paper =
            self.eviction == EvictionKind::Lru && self.write_budget.is_none() && self.index == IndexKind::Exact;
        if !self.variant.has_weus() && !is_paper {
            return Err(Error::setting(
                "policies of eviction, write budgets and lean indexes are for the variants with write-evict units",
            ));
        }
        self.check_admission()?;
        if self.staging_bytes > 0 && !self.variant.has_staging() {
            return Err(Error::setting(
                "staging is for the variants with write-evict units, and fully associative ones of extents on an SSD",
            ));
        }
        if !self.classes.are_usual() && !self.variant.has_class_policies() {
            return Err(Error::setting(
                "policies of classes are for the variants weu, weu-lru-trim, class-order and band-order",
            ));
        }
        if self.patterns && !(self.variant.has_weus() && self.variant.has_class_policies()) {
            return Err(Error::setting("patterns give classes in the variants weu and weu-lru-trim"));
        }
        if self.write_budget.is_some_and(|ratio| !(ratio > 0.0 && ratio.is_finite())) {
            return Err(Error::setting("the write budget is bytes written for each byte requested, such as 0.25"));
        }
        if self.variant == Variant::WeuLruMod && self.eviction != EvictionKind::Lru {
            return Err(Error::setting("with weu-lru-mod the SSD chooses what is evicted"));
        }
        self.check_write_back()?;
        if (self.ram_bytes > 0 || self.sequential_bytes > 0) && !self.variant.is_on_ssd() {
            return Err(Error::setting(
                "RAM in front of the SSD and sequential streams are for the variants on an SSD",
            ));
        }
        if self.recipes && !self.dedup {
            return Err(Error::setting("recipes are of use only with deduplication"));
        }
        self.timing.as_ref().map_or(Ok(()), Timing::check)
    }

    fn check_admission(&self) -> Result<(), Error> {
        match self.admission {
            _ if self.variant.has_weus() => Ok(()),
            AdmissionKind::All => Ok(()),
            AdmissionKind::TwoLevel | AdmissionKind::TwoLevelStatic if self.variant.has_places() => {
                match self.write_back {
                    None => Ok(()),
                    Some(_) => Err(Error::setting(
                        "two-level selection of single extents is for write-through: in write-back, what is written must be \
                         admitted",
                    )),
                }
            }
            admission if self.variant.has_places() => Err(Error::setting(format!(
                "{admission} is for the variants with write-evict units; {} has all, two-level and two-level-static",
                self.variant
            ))),
            _ => Err(Error::setting(format!("{} has no policies of admission: it admits everything", self.variant))),
        }
    }

    fn check_write_back(&self) -> Result<(), Error> {
        if self.insertion_lag > 1 && (self.write_back.is_none() || self.timing.is_some()) {
            return Err(Error::setting("insertion lags behind in write-back without timing only"));
        }
        let Some(Watermarks { start_percent, max_percent, .. }) = self.write_back else { return Ok(()) };
        if !(1..=90).contains(&max_percent) || start_percent >= max_percent {
            return Err(Error::setting(
                "destage starts below the share of the cache that may be dirty, which is 1 to 90 percent",
            ));
        }
        if self.write_policy != WritePolicy::default() {
            return Err(Error::setting(
                "in write-back all that is written is cached: write policies are for write-through",
            ));
        }
        if self.variant == Variant::WeuLruMod {
            return Err(Error::setting(
                "with weu-lru-mod the SSD chooses what is evicted, dirty or not: it has no write-back",
            ));
        }
        Ok(())
    }
}
