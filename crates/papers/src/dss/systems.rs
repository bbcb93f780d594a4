//! The systems that are compared, on the disks of a table of prices.

use super::trace::PHASE_NS;
use nitro_cache::class::Classes;
use nitro_cache::destage::Watermarks;
use nitro_sim::cost::{Hdd, Prices};
use nitro_sim::policies::PolicyKind;
use nitro_sim::timing::{Cpu, Load, Timing};
use nitro_sim::{Settings, Variant};

/// The unit of caching in bytes: half of the files have no more.
pub(super) const EXTENT_BYTES: u32 = 4096;
/// Bytes of a unit: the smallest, because the caches are small.
const WEU_BYTES: u32 = 512 << 10;
/// The cache in parts of the data (the paper: 100 GB for 1 TB).
pub(super) const CACHE_PART: u64 = 10;
/// Bytes of the paper's file set, and of its cache.
const PAPER_DATA_BYTES: f64 = 1e12;
pub(super) const PAPER_CACHE_BYTES: u64 = 100_000_000_000;
/// The round trip of a request between client and iSCSI target, with the work of both (assumed).
const ROUND_TRIP_NS: u64 = 200_000;
/// Requests in progress: the paper's test suite is a script (assumed).
pub(super) const DEPTH: u32 = 1;
/// The number of writes that the client has in progress (assumed; a disk's queue has 32).
const WRITES: u64 = 32;
/// When dirty data are written back: at most 90 % of the cache are dirty, so that less than 15 % can be clean.
const WATERMARKS: Watermarks = Watermarks { max_percent: 90, ..Watermarks::USUAL };

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// The disks alone.
    None,
    /// LRU, as the paper's baseline.
    Lru,
    /// Segmented LRU (the paper's Table 1).
    Slru,
    /// Most recently used (the paper's Table 1).
    Mru,
    /// Nitro with the classes' policies of the preset `dss`.
    Dss,
}

impl System {
    pub(super) const ALL: [Self; 5] = [Self::None, Self::Lru, Self::Slru, Self::Mru, Self::Dss];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "no cache",
            Self::Lru => "LRU",
            Self::Slru => "SLRU",
            Self::Mru => "MRU",
            Self::Dss => "Nitro, classes",
        }
    }

    const fn variant(self) -> Variant {
        match self {
            Self::None => Variant::None,
            Self::Lru => Variant::Policy(PolicyKind::Lru),
            Self::Slru => Variant::Policy(PolicyKind::Slru),
            Self::Mru => Variant::Policy(PolicyKind::Mru),
            Self::Dss => Variant::Weu,
        }
    }
}

/// What all simulations of a trace have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bed<'a> {
    pub(super) prices: &'a Prices,
    /// The policies of the preset `dss`.
    pub(super) classes: &'a Classes,
    /// Bytes of the file set.
    pub(super) data_bytes: u64,
    /// Bytes of the largest write.
    pub(super) write_bytes: u64,
    /// Requests in progress, apart from writes.
    pub(super) depth: u32,
}

impl Bed<'_> {
    pub(super) const fn cache_bytes(&self) -> u64 {
        self.data_bytes / CACHE_PART
    }

    /// The settings of a cache without timing: write-back, only writes allocate, no deduplication, no compression, no RAM.
    pub(super) fn untimed(&self, variant: Variant) -> Settings {
        let cache_bytes = self.cache_bytes();
        let usual = Settings::new(if variant == Variant::None { 0 } else { cache_bytes });
        let classes = if variant.has_class_policies() { *self.classes } else { Classes::default() };
        Settings {
            variant,
            classes,
            extent_bytes: EXTENT_BYTES,
            weu_bytes: WEU_BYTES,
            dedup: false,
            compress: false,
            write_back: Some(WATERMARKS),
            only_writes_allocate: true,
            period_ns: PHASE_NS,
            ..usual
        }
    }

    /// The settings of a system on disks of which the data take the same part as the paper's 1 TB.
    pub(super) fn settings(&self, system: System, hdd: &Hdd) -> Settings {
        let mut disks = hdd.disks();
        let scale = self.data_bytes as f64 / PAPER_DATA_BYTES;
        disks.disk_bytes = ((disks.disk_bytes as f64 * scale) as u64).max(disks.stripe_bytes * 16);
        let timing = Timing {
            load: Load::Closed(self.depth),
            disks,
            // A write is acknowledged once it is among those in progress.
            nvram_bytes: WRITES * self.write_bytes,
            ssd: self.prices.ssd.speed,
            ssd_is_idle: true,
            cpu: Cpu { request_ns: ROUND_TRIP_NS, ..Cpu::default() },
            ..Timing::default()
        };
        Settings { timing: Some(timing), ..self.untimed(system.variant()) }
    }
}
