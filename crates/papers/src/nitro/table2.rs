//! Table 2: IOPS and read response time in front of a deduplicating (COS) and a plain (TPS) origin, warm and cold.

use super::judges::{n10, n11, n12, n14, n15};
use super::plan::{Fiu, Kind, WARM_NS};
use super::{Cell, Outcomes, Plan, Work};
use crate::report::{Bars, Chart, Section, Table};
use crate::report::{Verdict, percent_more, percents};
use nitro_cache::destage::Watermarks;
use nitro_sim::Pace;
use nitro_sim::timing::{Cos, Disks, Load, Origin, Raid, Timing};
use nitro_sim::{Settings, Variant, Warmup};

/// Requests in progress, so that the system is saturated (the paper: 95 % of its resources).
pub const DEPTH: u32 = 32;
/// The watermark of write-back, in percent: an assumption.
pub const DIRTY_PERCENT: u8 = 50;
/// Destage as in the server, apart from the watermark.
const MARKS: Watermarks = Watermarks { max_percent: DIRTY_PERCENT, ..Watermarks::USUAL };
/// The SSD's size divided by the cache's: the paper's caches of 1.4 to 10 GB used a part of an SSD of 256 GB.
pub const SSD_TIMES: u8 = 16;
/// The variant without an SSD, the reference of all comparisons.
const NONE: Kind = Kind::new(Variant::None, false, false);

/// A system of the paper, warm or cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct System {
    cos: bool,
    warm: bool,
}

impl System {
    const ALL: [Self; 4] = [
        Self { cos: true, warm: true },
        Self { cos: true, warm: false },
        Self { cos: false, warm: true },
        Self { cos: false, warm: false },
    ];

    const fn name(self) -> &'static str {
        match (self.cos, self.warm) {
            (true, true) => "COS, warm",
            (true, false) => "COS, cold",
            (false, true) => "TPS, warm",
            (false, false) => "TPS, cold",
        }
    }

    /// The disks (§5.3): two shelves of 7200 rpm disks in RAID-6, or eleven disks in RAID-5. Sizes are scaled with the
    /// trace.
    fn timing(self, scale: f64) -> Timing {
        let scaled = |bytes: u64| (bytes as f64 * scale) as u64;
        let (usual, cos) = (Timing::default(), Cos::default());
        let (origin, disks) = match self.cos {
            true => {
                let cos = Cos { recipe_cache_bytes: scaled(cos.recipe_cache_bytes), ..cos };
                (Origin::Cos(cos), Disks { spindles: 23, raid: Raid::Raid6, ..usual.disks })
            }
            false => (Origin::Tps, usual.disks),
        };
        let disks = Disks { disk_bytes: scaled(disks.disk_bytes), ..disks };
        Timing {
            load: Load::Closed(DEPTH),
            origin,
            disks,
            nvram_bytes: scaled(usual.nvram_bytes),
            ssd_times: SSD_TIMES,
            ..usual
        }
    }

    fn cell(self, plan: &Plan, fiu: Fiu, kind: Kind) -> Cell {
        let mut cell = plan.cell(fiu, 2.0, kind);
        cell.settings =
            Settings { timing: Some(self.timing(plan.scale(fiu))), recipes: self.cos && kind.dedup, ..cell.settings };
        if kind.variant != Variant::None {
            cell.settings.write_back = Some(MARKS);
        }
        if !self.warm {
            cell.settings.warmup = Warmup::None;
            cell.work = Work::Fiu { fiu, scale: plan.scale(fiu), seed: plan.seed, from_ns: WARM_NS };
        }
        cell
    }
}

fn kinds() -> impl Iterator<Item = Kind> {
    Kind::WEUS.into_iter().chain([Kind::EXTENTS[1]])
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for system in System::ALL {
        for fiu in Fiu::ALL {
            cells.extend(kinds().chain([NONE]).map(|kind| system.cell(plan, fiu, kind)));
        }
    }
    cells
}

struct Paces<'a> {
    plan: &'a Plan,
    outcomes: &'a Outcomes,
    system: System,
}

impl Paces<'_> {
    fn of(&self, fiu: Fiu, kind: Kind) -> Option<&Pace> {
        self.outcomes.measures(&self.system.cell(self.plan, fiu, kind))?.pace.as_ref()
    }

    /// The difference of IOPS to another variant, in percent.
    fn iops(&self, fiu: Fiu, kind: Kind, than: Kind) -> Option<f64> {
        Some(percent_more(self.of(fiu, kind)?.iops, self.of(fiu, than)?.iops))
    }

    /// The difference of the mean read response time to another variant, in percent.
    fn response(&self, fiu: Fiu, kind: Kind, than: Kind) -> Option<f64> {
        let mean = |kind| self.of(fiu, kind).map(|pace| pace.read_response.mean_us);
        Some(percent_more(mean(kind)?, mean(than)?))
    }

    fn all(&self, kinds: &[Kind], of: impl Fn(&Self, Fiu, Kind) -> Option<f64>) -> Vec<f64> {
        Fiu::ALL
            .into_iter()
            .flat_map(|fiu| kinds.iter().filter_map(|kind| of(self, fiu, *kind)).collect::<Vec<_>>())
            .collect()
    }

    fn hits(&self, fiu: Fiu, kind: Kind) -> Option<f64> {
        self.outcomes.measures(&self.system.cell(self.plan, fiu, kind)).map(|found| found.read_hit_ratio)
    }
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let (mut charts, mut tables) = (Vec::new(), Vec::new());
    for system in System::ALL {
        let paces = Paces { plan, outcomes, system };
        let title = format!("{}: relative to no SSD", system.name());
        let mut table = Table::new(
            title.clone() + ", IOPS and mean read response time",
            &["", "WebVM", "", "Homes", "", "Mail", ""],
        );
        for kind in kinds() {
            let one = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), |figure| percents(&[figure]));
            let of = |fiu| [one(paces.iops(fiu, kind, NONE)), one(paces.response(fiu, kind, NONE))];
            let cells = Fiu::ALL.into_iter().flat_map(of);
            table.rows.push(std::iter::once(kind.name()).chain(cells).collect());
        }
        let none = |fiu| paces.of(fiu, NONE);
        let absolute = |fiu| match none(fiu) {
            Some(pace) => [format!("{:.0}/s", pace.iops), format!("{:.1} ms", pace.read_response.mean_us / 1000.0)],
            None => ["–".to_owned(), "–".to_owned()],
        };
        table.rows.push(std::iter::once("no SSD".to_owned()).chain(Fiu::ALL.into_iter().flat_map(absolute)).collect());
        tables.push(table);
        charts.push(Chart::Bars(Bars {
            title,
            y_label: "IOPS, % more".into(),
            log_y: false,
            groups: Fiu::ALL.map(|fiu| fiu.name().to_owned()).to_vec(),
            bars: kinds().map(|kind| (kind.name(), Fiu::ALL.map(|fiu| paces.iops(fiu, kind, NONE)).to_vec())).collect(),
        }));
    }
    Section {
        id: "table-2",
        title: "Table 2: IOPS and read response time, COS and TPS, warm and cold".into(),
        text: format!(
            "{DEPTH} requests are in flight. The cache has 2 % of the size of the file system, on an SSD {SSD_TIMES} \
             times as large as the cache. TPS is eleven 7200 rpm disks in RAID-5. COS is 23 disks in RAID-6 with a \
             model of a deduplicating store: a read costs look-ups and a read of a container, a write costs metadata \
             updates, and recipes let a read find its content in the cache. The paper does not say how writes reach \
             the disks. Since writes become faster with a cold cache, they cannot wait for the disks: write-back is \
             simulated, with at most {DIRTY_PERCENT} % of the cache dirty. Warm: the cache is warmed for 16 days, and \
             five days are measured; cold: the last five days alone. Disks, SSD and processor are modelled; the sizes \
             of NVRAM, recipe cache and disks are scaled with the trace."
        ),
        charts,
        tables,
        verdicts: verdicts(plan, outcomes),
    }
}

fn verdicts(plan: &Plan, outcomes: &Outcomes) -> Vec<Verdict> {
    const WHY: &str = "the gain in IOPS depends on how often the synthetic traces overwrite data, how much data may be \
                       dirty, and what writes cost in the modelled origin, all of which are assumed. The number of \
                       requests in flight is constant: if writes are acknowledged by the cache, more of these requests \
                       are reads, and reads that miss wait for one another at the disks, most of all if few reads hit, \
                       as with Mail. If the disks have the least to do, as with WebVM, the modelled SSD's writes delay \
                       its reads";
    const EXTENTS_WHY: &str = "extents that are replaced one by one hit more often (N5), which gains more IOPS than \
                               small writes cost on the modelled SSD, of which a small part is in use (N13)";
    const SAVED_WHY: &str = "content that the cache knows saves the modelled COS look-ups and an append, but no \
                             metadata updates; the traces determine how much content is known, and how much more fits \
                             if it is compressed";
    let paces = |cos, warm| Paces { plan, outcomes, system: System { cos, warm } };
    let warm = paces(true, true);
    let [dc, d, c, plain] = Kind::WEUS;
    let extent = Kind::EXTENTS[1];
    let iops = warm.all(&Kind::WEUS, |paces, fiu, kind| paces.iops(fiu, kind, NONE));
    let response = warm.all(&Kind::WEUS, |paces, fiu, kind| paces.response(fiu, kind, NONE));
    let homes = warm.iops(Fiu::Homes, dc, NONE);
    let dedup_first = warm.all(&[d], |paces, fiu, kind| paces.iops(fiu, kind, c));
    let over_extents = warm.all(&[dc], |paces, fiu, kind| paces.iops(fiu, kind, extent));
    let response_over = warm.all(&[dc], |paces, fiu, kind| paces.response(fiu, kind, extent));
    let extents_iops = warm.all(&[extent], |paces, fiu, kind| paces.iops(fiu, kind, plain));
    let extents_response = warm.all(&[extent], |paces, fiu, kind| paces.response(fiu, kind, plain));
    let n12 = n12([&over_extents, &response_over], [&extents_iops, &extents_response]);
    let cold = paces(true, false);
    let cold_iops = cold.all(&Kind::WEUS, |paces, fiu, kind| paces.iops(fiu, kind, NONE));
    let cold_response = cold.all(&Kind::WEUS, |paces, fiu, kind| paces.response(fiu, kind, NONE));
    let tps = paces(false, true);
    let tps_iops = tps.all(&Kind::WEUS, |paces, fiu, kind| paces.iops(fiu, kind, NONE));
    let tps_response = tps.all(&Kind::WEUS, |paces, fiu, kind| paces.response(fiu, kind, NONE));
    let fewer: Vec<_> = Fiu::ALL
        .into_iter()
        .flat_map(|fiu| [dc, d].map(|kind| Some(percent_more(tps.hits(fiu, kind)?, warm.hits(fiu, kind)?))))
        .flatten()
        .collect();
    let n15 = n15(&tps_iops, &tps_response, &fewer);
    vec![
        judge_warm(&iops, &response, homes).because(WHY),
        judge_dedup_first(&dedup_first).because(SAVED_WHY),
        Verdict::new(
            "N12",
            format!(
                "(D, C): IOPS {}, response {}; extents: IOPS {}, response {}",
                percents(&over_extents),
                percents(&response_over),
                percents(&extents_iops),
                percents(&extents_response)
            ),
            n12,
        )
        .because(EXTENTS_WHY),
        judge_cold(&cold_iops, &cold_response).because(WHY),
        Verdict::new(
            "N15",
            format!("{}; read hits relative to COS {}", ranges(&tps_iops, &tps_response), percents(&fewer)),
            n15,
        )
        .because(WHY),
    ]
}

/// N10: the gain of a warm cache in front of a deduplicating origin. IOPS and response times of all variants and
/// traces, as differences in percent to those without an SSD; and the IOPS of Homes with (D, C).
#[must_use]
pub fn judge_warm(iops: &[f64], response: &[f64], homes: Option<f64>) -> Verdict {
    let found = format!(
        "{}; Homes (D, C) {}",
        ranges(iops, response),
        homes.map_or_else(|| "–".into(), |homes| percents(&[homes]))
    );
    Verdict::new("N10", found, n10(iops, response, homes))
}

/// N11, from the IOPS of (D, NC) as differences in percent to those of (ND, C), by trace.
#[must_use]
pub fn judge_dedup_first(more: &[f64]) -> Verdict {
    Verdict::new("N11", percents(more), n11(more))
}

/// N14, from the same figures as N10, with a cold cache.
#[must_use]
pub fn judge_cold(iops: &[f64], response: &[f64]) -> Verdict {
    Verdict::new("N14", ranges(iops, response), n14(iops, response))
}

/// The least and the greatest of each.
fn ranges(iops: &[f64], response: &[f64]) -> String {
    let [(fewest, most), (shortest, longest)] =
        [iops, response].map(|figures| (extreme(figures, f64::min), extreme(figures, f64::max)));
    format!("IOPS {fewest} to {most}; response {shortest} to {longest}")
}

fn extreme(figures: &[f64], of: fn(f64, f64) -> f64) -> String {
    figures.iter().copied().reduce(of).map_or_else(|| "–".to_owned(), |figure| percents(&[figure]))
}
