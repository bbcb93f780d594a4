//! The size of the evaluation.

use super::{Cell, Found, Varied, Work};
use nitro_cache::destage::Watermarks;
use nitro_sim::{PartialWrites, Settings, Variant, Warmup};
use nitro_trace::synth::FiuLike;

const SECOND_NS: u64 = 1_000_000_000;
/// The warm-up of the paper's runs (§6.2): 16 of the 21 days.
pub const WARM_DAYS: u64 = 16;
/// The NVRAM of the paper's COS system (§5.3), in which writes are buffered before they are passed to the cache (§3.2).
const NVRAM_BYTES: f64 = 960.0 * 1_048_576.0;
/// What reports say about the buffer.
pub(super) const BUFFER: &str = "Before they are packed or written, extents wait in a buffer with the size of the paper's \
                                 NVRAM (960 MiB, §5.3, scaled with the trace), in which some are overwritten: on a write, \
                                 \"extents are buffered in NVRAM and passed to the CacheManager for asynchronous SSD \
                                 caching\" (§3). Extents that were read pass through it, too, as in the server.";
/// What reports say about modes.
pub(super) const MODES: &str = "The paper supports write-through and write-back (§3.1) and does not say in which mode it \
                                simulates. The verdicts are those of write-through; the tables named \"write-back\" have \
                                the same figures, and the verdicts that they would have, with at most 50 % of the cache \
                                dirty and without a buffer: in write-back, dirty extents do not wait in the server's \
                                buffer, neither before units nor before extents.";
/// The watermark of write-back, in percent: an assumption.
pub const DIRTY_PERCENT: u8 = 50;
/// Destage as in the server, apart from the watermark.
pub(super) const MARKS: Watermarks = Watermarks { max_percent: DIRTY_PERCENT, ..Watermarks::USUAL };
/// The warm-up in nanoseconds.
pub const WARM_NS: u64 = WARM_DAYS * 86_400 * SECOND_NS;

/// The file systems of the paper's traces.
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
    /// Their names.
    pub const NAMES: [&str; 3] = [Self::WebVm.name(), Self::Homes.name(), Self::Mail.name()];

    /// A figure of each trace, in the paper's order. Empty if one is not known: a claim on all traces is not judged by some.
    pub(super) fn all_of<T>(of: impl FnMut(Self) -> Option<T>) -> Vec<T> {
        Self::ALL.into_iter().map(of).collect::<Option<_>>().unwrap_or_default()
    }

    /// The name in the paper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WebVm => "WebVM",
            Self::Homes => "Homes",
            Self::Mail => "Mail",
        }
    }

    /// A trace with the published figures of this one.
    #[must_use]
    pub const fn like(self, scale: f64, seed: u64) -> FiuLike {
        match self {
            Self::WebVm => FiuLike::web_vm(scale, seed),
            Self::Homes => FiuLike::homes(scale, seed),
            Self::Mail => FiuLike::mail(scale, seed),
        }
    }
}

/// How writes reach the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// At once.
    Through,
    /// Later: they are dirty in the cache.
    Back,
}

impl Mode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Through, Self::Back];

    /// The name at the beginning of a title.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Through => "Write-through",
            Self::Back => "Write-back",
        }
    }
}

/// The size of the simulations.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The size of each trace of [`Fiu::ALL`], relative to the published one; caches are scaled with it.
    pub scales: [f64; 3],
    /// The values of both axes of Figure 7.
    pub grid: Vec<u32>,
    /// Bytes of Figure 7's cache.
    pub grid_cache_bytes: u64,
    /// Bytes of a write-evict unit.
    pub weu_bytes: u32,
    /// Whether the study of assumptions has few choices.
    pub few_choices: bool,
    /// The seed of the traces.
    pub seed: u64,
    /// Recorded traces, if a folder was given.
    pub recorded: Option<Found>,
}

impl Plan {
    /// A run of minutes: the traces have at most a tenth of their size, and Mail, with 460 million blocks, a 250th.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            scales: [0.1, 0.04, 0.004],
            grid: vec![1, 2, 3, 4, 5, 8, 10],
            grid_cache_bytes: 32 << 20,
            weu_bytes: 512 << 10,
            few_choices: true,
            seed,
            recorded: None,
        }
    }

    /// A run of about an hour: the traces have their published size, except Mail, whose trace has a 16th of the blocks,
    /// in a 16th of the file system. It is generated at that size, not sampled from a whole trace by hash, but caches
    /// are scaled with it, as SHARDS does (Waldspurger et al., FAST 2015).
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            scales: [1.0, 1.0, 1.0 / 16.0],
            grid: (1..=10).collect(),
            grid_cache_bytes: 256 << 20,
            weu_bytes: 2 << 20,
            few_choices: false,
            seed,
            recorded: None,
        }
    }

    /// The same with traces of `factor` times the size.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { scales: self.scales.map(|scale| scale * factor), ..self }
    }

    /// The size of a trace, relative to the published one.
    #[must_use]
    pub fn scale(&self, fiu: Fiu) -> f64 {
        self.scales[Fiu::ALL.iter().position(|other| *other == fiu).unwrap_or(0)]
    }

    /// The trace of a file system.
    #[must_use]
    pub fn work(&self, fiu: Fiu) -> Work {
        self.varied_work(fiu, Varied::NONE)
    }

    /// The same with other choices than the published figures and the usual assumptions.
    #[must_use]
    pub fn varied_work(&self, fiu: Fiu, varied: Varied) -> Work {
        let (scale, seed) = (self.scale(fiu), self.seed);
        Work::Fiu { fiu, scale, seed, from_ns: 0, steady: false, records: false, varied }
    }

    /// The size of a cache in percent of the file system, in whole write-evict units, in bytes.
    #[must_use]
    pub fn cache_bytes(&self, fiu: Fiu, percent: f64) -> u64 {
        let volume_bytes = fiu.like(self.scale(fiu), self.seed).volume_bytes * self.scale(fiu);
        let units = (volume_bytes * percent / 100.0 / f64::from(self.weu_bytes)).round() as u64;
        units.max(nitro_cache::settings::WEU_COUNT_MIN) * u64::from(self.weu_bytes)
    }

    /// The paper's defaults for a trace: extents of 8 KiB and a warm-up of 16 days. Partly written extents are
    /// completed from the origin. Extents wait in a buffer of the size of the paper's NVRAM, scaled as caches are, before
    /// they are packed or written.
    #[must_use]
    pub fn settings(&self, fiu: Fiu, percent: f64) -> Settings {
        Settings {
            weu_bytes: self.weu_bytes,
            partial_writes: PartialWrites::Fetch,
            warmup: Warmup::Time(WARM_NS),
            staging_bytes: (NVRAM_BYTES * self.scale(fiu)) as u64,
            ..Settings::new(self.cache_bytes(fiu, percent))
        }
    }

    /// A run of a trace with a cache of `percent` of the file system, in front of an origin with recipes, as in the
    /// paper's Figure 4: its read hits are those of COS (§6.2).
    #[must_use]
    pub fn cell(&self, fiu: Fiu, percent: f64, kind: Kind) -> Cell {
        let settings = kind.apply(self.settings(fiu, percent));
        Cell { work: self.work(fiu), settings: Settings { recipes: kind.dedup, ..settings } }
    }

    /// The same record by record, as the traces are published.
    #[must_use]
    pub fn cell_of_records(&self, fiu: Fiu, percent: f64, kind: Kind) -> Cell {
        let (scale, seed) = (self.scale(fiu), self.seed);
        let work = Work::Fiu { fiu, scale, seed, from_ns: 0, steady: false, records: true, varied: Varied::NONE };
        Cell { work, ..self.cell(fiu, percent, kind) }
    }

    /// The same in a mode; in write-back, without a buffer.
    #[must_use]
    pub fn cell_in(&self, mode: Mode, fiu: Fiu, percent: f64, kind: Kind) -> Cell {
        let cell = self.cell(fiu, percent, kind);
        match mode {
            Mode::Through => cell,
            Mode::Back => {
                Cell { settings: Settings { staging_bytes: 0, write_back: Some(MARKS), ..cell.settings }, ..cell }
            }
        }
    }
}

/// A variant with (D) or without (ND) deduplication, and with (C) or without (NC) compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The use of the SSD.
    pub variant: Variant,
    /// Deduplication (D).
    pub dedup: bool,
    /// Compression (C).
    pub compress: bool,
}

impl Kind {
    /// A variant.
    pub const fn new(variant: Variant, dedup: bool, compress: bool) -> Self {
        Self { variant, dedup, compress }
    }

    /// The four variants of Nitro.
    pub const WEUS: [Self; 4] = [
        Self::new(Variant::Weu, true, true),
        Self::new(Variant::Weu, true, false),
        Self::new(Variant::Weu, false, true),
        Self::new(Variant::Weu, false, false),
    ];
    /// Variants that cache extents, which cannot be compressed.
    pub const EXTENTS: [Self; 2] =
        [Self::new(Variant::Extent { ways: 0 }, true, false), Self::new(Variant::Extent { ways: 0 }, false, false)];

    /// The name in the paper's notation.
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

    /// The settings with this variant.
    #[must_use]
    pub const fn apply(self, settings: Settings) -> Settings {
        Settings { variant: self.variant, dedup: self.dedup, compress: self.compress, ..settings }
    }
}
