//! How large the evaluation is made.

use super::{Cell, Work};
use nitro_sim::{PartialWrites, Settings, Variant, Warmup};
use nitro_trace::synth::FiuLike;

const SECOND_NS: u64 = 1_000_000_000;
/// Warm-up of the paper's runs (§6.2): 16 of the 21 days.
pub const WARM_DAYS: u64 = 16;
/// Nanoseconds of the warm-up.
pub const WARM_NS: u64 = WARM_DAYS * 86_400 * SECOND_NS;

/// One of the paper's file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fiu {
    /// A virtual machine with two web servers.
    WebVm,
    /// Home directories.
    Homes,
    /// A mail server.
    Mail,
}

impl Fiu {
    /// All three, in the paper's order.
    pub const ALL: [Self; 3] = [Self::WebVm, Self::Homes, Self::Mail];

    /// The paper's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebVm => "WebVM",
            Self::Homes => "Homes",
            Self::Mail => "Mail",
        }
    }

    /// A trace like it.
    #[must_use]
    pub const fn like(self, scale: f64, seed: u64) -> FiuLike {
        match self {
            Self::WebVm => FiuLike::web_vm(scale, seed),
            Self::Homes => FiuLike::homes(scale, seed),
            Self::Mail => FiuLike::mail(scale, seed),
        }
    }
}

/// What is simulated, and how large.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Size of each of [`Fiu::ALL`] beside the published one; caches are scaled along.
    pub scales: [f64; 3],
    /// Values of each axis of Figure 7.
    pub grid: Vec<u32>,
    /// Bytes of Figure 7's cache.
    pub grid_cache_bytes: u64,
    /// Bytes of a write-evict unit.
    pub weu_bytes: u32,
    /// Another seed makes other traces.
    pub seed: u64,
}

impl Plan {
    /// Minutes: the traces at a tenth of their size and less, Mail's 460 million blocks at a 250th.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            scales: [0.1, 0.04, 0.004],
            grid: vec![1, 2, 3, 4, 5, 8, 10],
            grid_cache_bytes: 32 << 20,
            weu_bytes: 512 << 10,
            seed,
        }
    }

    /// About an hour: the traces at their published size, but Mail, of which one place in 16 is taken, as SHARDS samples (Waldspurger et
    /// al., FAST 2015): caches are scaled along.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            scales: [1.0, 1.0, 1.0 / 16.0],
            grid: (1..=10).collect(),
            grid_cache_bytes: 256 << 20,
            weu_bytes: 2 << 20,
            seed,
        }
    }

    /// The same with other traces: so many times as large.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { scales: self.scales.map(|scale| scale * factor), ..self }
    }

    /// Size beside the published one.
    #[must_use]
    pub fn scale(&self, fiu: Fiu) -> f64 {
        self.scales[Fiu::ALL.iter().position(|other| *other == fiu).unwrap_or(0)]
    }

    /// The trace.
    #[must_use]
    pub fn work(&self, fiu: Fiu) -> Work {
        Work::Fiu { fiu, scale: self.scale(fiu), seed: self.seed, from_ns: 0 }
    }

    /// A cache of so many percent of the file system, in whole write-evict units.
    #[must_use]
    pub fn cache_bytes(&self, fiu: Fiu, percent: f64) -> u64 {
        let volume_bytes = fiu.like(self.scale(fiu), self.seed).volume_bytes * self.scale(fiu);
        let units = (volume_bytes * percent / 100.0 / f64::from(self.weu_bytes)).round() as u64;
        units.max(nitro_cache::settings::WEU_COUNT_MIN) * u64::from(self.weu_bytes)
    }

    /// The paper's defaults for a trace: extents of 8 KiB, a warm-up of 16 days; parts of extents are completed from the
    /// origin when they are written.
    #[must_use]
    pub fn settings(&self, fiu: Fiu, percent: f64) -> Settings {
        Settings {
            weu_bytes: self.weu_bytes,
            partial_writes: PartialWrites::Fetch,
            warmup: Warmup::Time(WARM_NS),
            ..Settings::new(self.cache_bytes(fiu, percent))
        }
    }

    /// A run of a trace with a cache of so many percent of the file system, before an origin with recipes: as in the paper's Figure 4,
    /// whose read hits are those of its COS (§6.2).
    #[must_use]
    pub fn cell(&self, fiu: Fiu, percent: f64, kind: Kind) -> Cell {
        let settings = kind.apply(self.settings(fiu, percent));
        Cell { work: self.work(fiu), settings: Settings { recipes: kind.dedup, ..settings } }
    }
}

/// A variant with (D) or without (ND) deduplication, with (C) or without (NC) compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// How the SSD is used.
    pub variant: Variant,
    /// D.
    pub dedup: bool,
    /// C.
    pub compress: bool,
}

impl Kind {
    /// One of them.
    pub const fn new(variant: Variant, dedup: bool, compress: bool) -> Self {
        Self { variant, dedup, compress }
    }

    /// Nitro's four.
    pub const WEUS: [Self; 4] = [
        Self::new(Variant::Weu, true, true),
        Self::new(Variant::Weu, true, false),
        Self::new(Variant::Weu, false, true),
        Self::new(Variant::Weu, false, false),
    ];
    /// Extents, which cannot be compressed.
    pub const EXTENTS: [Self; 2] =
        [Self::new(Variant::Extent { ways: 0 }, true, false), Self::new(Variant::Extent { ways: 0 }, false, false)];

    /// The paper's notation.
    #[must_use]
    pub fn name(self) -> String {
        let what = match self.variant {
            Variant::Weu => "WEU".to_owned(),
            Variant::Extent { .. } => "Extent".to_owned(),
            other => other.to_string(),
        };
        let dedup = if self.dedup { "D" } else { "ND" };
        let compress = if self.compress { "C" } else { "NC" };
        format!("{what} ({dedup}, {compress})")
    }

    /// The settings with it.
    #[must_use]
    pub const fn apply(self, settings: Settings) -> Settings {
        Settings { variant: self.variant, dedup: self.dedup, compress: self.compress, ..settings }
    }
}
