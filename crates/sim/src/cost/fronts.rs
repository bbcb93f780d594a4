//! The costs of disks alone, with LRU and with Nitro, compared.

use super::{Cost, Hdd, Prices};
use crate::knob::Knob;
use crate::plan::adapt;
use crate::timing::Timing;
use crate::{Outcome, Settings, Variant};
use nitro_cache::admission::AdmissionKind;
use nitro_cache::class::Classes;
use nitro_cache::eviction::EvictionKind;
use serde::Serialize;

/// The cache in front of the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Front {
    /// No cache.
    None,
    /// A cache of single extents with LRU replacement, without deduplication and compression.
    Lru,
    /// Nitro without policies of classes.
    Nitro,
    /// Nitro with policies of classes.
    Classes,
}

impl Front {
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lru => "lru",
            Self::Nitro => "nitro",
            Self::Classes => "classes",
        }
    }

    /// The settings of a simulation with this cache.
    fn settings(self, base: &Settings, cache_bytes: u64, asked: impl Fn(Knob) -> bool) -> Settings {
        let mut settings = Settings { cache_bytes, ..*base };
        match self {
            Self::None => {
                settings.cache_bytes = 0;
                settings.variant = Variant::None;
            }
            Self::Lru => settings.variant = Variant::Extent { ways: 0 },
            Self::Nitro => settings.classes = Classes::default(),
            Self::Classes => {}
        }
        // All have the same RAM in front of them: it has no price.
        adapt(&mut settings, |knob| matches!(knob, Knob::Ram | Knob::Sequential) || asked(knob));
        if settings.variant.has_weus() {
            return settings;
        }
        let (admission, eviction) = (AdmissionKind::All, EvictionKind::Lru);
        let plain = Settings { dedup: false, compress: false, recipes: false, admission, eviction, ..settings };
        Settings { staging_bytes: 0, write_budget: None, ..plain }
    }
}

/// A row of the result.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    /// The month of the prices, if their table names it.
    pub date: Option<&'a str>,
    /// The name of the disks.
    pub hdd: &'a str,
    /// The cache in front of them.
    pub cache: Front,
    /// The size of the cache in bytes; 0: no cache.
    pub cache_bytes: u64,
    /// The share of reads that the cache served, 0 to 1.
    pub read_hit_ratio: f64,
    /// Reads and writes per second.
    pub iops: f64,
    /// The cost of both.
    #[serde(flatten)]
    pub cost: Cost,
    /// The relative saving per MB and I/O per second over the disks alone, 0 to 1; negative if the cost is higher.
    pub saving_over_none: f64,
    /// The same over LRU with a cache of the same size; `None` for the disks alone.
    pub saving_over_lru: Option<f64>,
}

/// The simulations of a comparison.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The disks and the cache of each point.
    fronts: Vec<(&'a Hdd, Front)>,
    /// The points: the settings to simulate.
    pub points: Vec<Settings>,
}

impl<'a> Plan<'a> {
    /// The simulations of each kind of disks, alone and with caches of `sizes`. Settings that are not in `asked` are
    /// adapted to each cache.
    #[must_use]
    pub fn new(
        prices: &'a Prices,
        base: &Settings,
        timing: Timing,
        sizes: &[u64],
        asked: impl Fn(Knob) -> bool,
    ) -> Self {
        let fronts = [Front::Lru, Front::Nitro, Front::Classes];
        let fronts = &fronts[..if base.classes.are_usual() { 2 } else { 3 }];
        let mut plan = Self { fronts: Vec::new(), points: Vec::new() };
        for hdd in &prices.hdds {
            let timing = Timing { disks: hdd.disks(), ssd: prices.ssd.speed, ..timing };
            let base = Settings { timing: Some(timing), ..*base };
            let cached = sizes.iter().flat_map(|size| fronts.iter().map(|front| (*front, *size)));
            for (front, size) in std::iter::once((Front::None, 0)).chain(cached) {
                plan.fronts.push((hdd, front));
                plan.points.push(front.settings(&base, size, &asked));
            }
        }
        plan
    }
}

/// A row for each point of a plan, in its order.
#[must_use]
pub fn rows<'a>(prices: &'a Prices, plan: &Plan<'a>, outcomes: &[Outcome]) -> Vec<Row<'a>> {
    let (mut rows, mut alone, mut lru): (Vec<Row<'a>>, f64, f64) = (Vec::new(), 0.0, 0.0);
    for ((hdd, front), outcome) in plan.fronts.iter().zip(outcomes) {
        let iops = outcome.measured.pace.as_ref().map_or(0.0, |pace| pace.iops);
        let cost = prices.cost(hdd, outcome.settings.cache_bytes, iops);
        // Disks alone come first, and LRU comes before the other caches of its size.
        match front {
            Front::None => alone = cost.price_per_mb_iops,
            Front::Lru => lru = cost.price_per_mb_iops,
            Front::Nitro | Front::Classes => {}
        }
        rows.push(Row {
            date: prices.date.as_deref(),
            hdd: &hdd.name,
            cache: *front,
            cache_bytes: outcome.settings.cache_bytes,
            read_hit_ratio: outcome.measured.read_hit_ratio,
            iops,
            cost,
            saving_over_none: 1.0 - cost.price_per_mb_iops / alone,
            saving_over_lru: (*front != Front::None).then_some(1.0 - cost.price_per_mb_iops / lru),
        });
    }
    rows
}
