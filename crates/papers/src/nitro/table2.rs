//! Table 2: IOPS and read response time in front of a deduplicating (COS) and a plain (TPS) origin, warm and cold.

use super::judges::{n10, n11, n12, n14, n15};
use super::plan::{DIRTY_PERCENT, Fiu, Kind, MARKS, WARM_NS};
use super::{Cell, Outcomes, Plan, Varied, Work};
use crate::report::{Bars, Chart, Section, Table, shown};
use crate::report::{Verdict, percent_more, percents};
use nitro_sim::timing::{Cos, Disks, Load, Origin, Timing};
use nitro_sim::{Measures, Pace};
use nitro_sim::{Settings, Variant, Warmup};

/// Requests in progress for an upper bound of what a system can do.
pub const SATURATED: u32 = 256;
/// The number of halvings of the range in which the highest sustained rate lies.
const HALVINGS: u32 = 5;
/// A rate is sustained if requests end at this share of it.
pub const SUSTAINED_SHARE: f64 = 0.98;
/// The share of the highest sustained rate at which a system is measured, as in the paper (§6.2): "∼95% of the system
/// resources".
pub const LOAD_SHARE: f64 = 0.95;
/// Requests in progress while a cache in front of the store itself is warmed.
pub const DEPTH: u32 = 32;
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

    /// The paper's disks (§5.3): eleven in RAID-5, or two shelves in RAID-6. Sizes are scaled with the trace.
    fn timing(self, scale: f64, load: Load) -> Timing {
        let scaled = |bytes: u64| (bytes as f64 * scale) as u64;
        let (usual, cos) = (Timing::default(), Cos::default());
        let (origin, disks) = match self.cos {
            true => {
                let cos = Cos { recipe_cache_bytes: scaled(cos.recipe_cache_bytes), ..cos };
                (Origin::Cos(cos), Disks::cos())
            }
            false => (Origin::Tps, usual.disks),
        };
        let disks = Disks { disk_bytes: scaled(disks.disk_bytes), ..disks };
        Timing { load, origin, disks, nvram_bytes: scaled(usual.nvram_bytes), ssd_times: SSD_TIMES, ..usual }
    }

    fn cell(self, plan: &Plan, fiu: Fiu, kind: Kind, load: Load) -> Cell {
        let (scale, seed) = (plan.scale(fiu), plan.seed);
        let cell = plan.cell(fiu, 2.0, kind);
        // The NVRAM is that of the timing.
        let mut settings = Settings { staging_bytes: 0, recipes: self.cos && kind.dedup, ..cell.settings };
        settings.timing = Some(self.timing(scale, load));
        if kind.variant != Variant::None {
            settings.write_back = Some(MARKS);
        }
        let from_ns = if self.warm { 0 } else { WARM_NS };
        if !self.warm {
            settings.warmup = Warmup::None;
        }
        Cell {
            work: Work::Fiu { fiu, scale, seed, from_ns, steady: true, records: false, varied: Varied::NONE },
            settings,
        }
    }

    /// The run for an upper bound of what the system can do.
    fn saturated(self, plan: &Plan, fiu: Fiu, kind: Kind) -> Cell {
        self.cell(plan, fiu, kind, Load::Closed(SATURATED))
    }

    /// The next run that is needed to find the highest rate of requests that the system sustains in open loop, or the run
    /// at a share of that rate, which is reported; `None` before the upper bound is known.
    fn search(self, plan: &Plan, fiu: Fiu, kind: Kind, outcomes: &Outcomes) -> Option<Search> {
        let bound = outcomes.measures(&self.saturated(plan, fiu, kind))?;
        let iops = bound.pace.as_ref()?.iops;
        // The speed at which the trace has that rate.
        let speed = iops * (bound.end_s - bound.begin_s) / (bound.reads + bound.writes) as f64;
        if !speed.is_finite() {
            return None;
        }
        let at = |share: f64| self.cell(plan, fiu, kind, Load::Open(speed * share));
        let sustains = |share: f64, cell: &Cell| {
            let pace = outcomes.measures(cell)?.pace.as_ref()?;
            Some(pace.iops >= SUSTAINED_SHARE * iops * share)
        };
        let share = match highest(|share| sustains(share, &at(share))) {
            Ok(share) => share,
            Err(share) => return Some(Search::Probe(at(share))),
        };
        Some(Search::Found { cell: at(LOAD_SHARE * share), iops_max: iops * share })
    }
}

/// The state of the search for the highest rate.
enum Search {
    /// A run whose outcome is not known yet.
    Probe(Cell),
    /// The run that is reported, and the highest rate.
    Found { cell: Cell, iops_max: f64 },
}

/// The highest share of the upper bound that is sustained, as a multiple of 1 / 2^[`HALVINGS`]; the least one if none is.
/// The error is a share of which it must be known first.
fn highest(sustains: impl Fn(f64) -> Option<bool>) -> Result<f64, f64> {
    let is_sustained = |share: f64| sustains(share).ok_or(share);
    if is_sustained(1.0)? {
        return Ok(1.0);
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        *if is_sustained(middle)? { &mut low } else { &mut high } = middle;
    }
    Ok(if low > 0.0 { low } else { high })
}

fn kinds() -> impl Iterator<Item = Kind> {
    Kind::WEUS.into_iter().chain([Kind::EXTENTS[1]])
}

/// Every system, trace and variant.
fn all() -> impl Iterator<Item = (System, Fiu, Kind)> {
    let traces = System::ALL.into_iter().flat_map(|system| Fiu::ALL.map(|fiu| (system, fiu)));
    traces.flat_map(|(system, fiu)| kinds().chain([NONE]).map(move |kind| (system, fiu, kind)))
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    all().map(|(system, fiu, kind)| system.saturated(plan, fiu, kind)).collect()
}

/// The runs that follow from the outcomes of earlier ones.
pub(super) fn then(plan: &Plan, outcomes: &Outcomes) -> Vec<Cell> {
    let next = |(system, fiu, kind): (System, Fiu, Kind)| match system.search(plan, fiu, kind, outcomes)? {
        Search::Probe(cell) | Search::Found { cell, .. } => Some(cell),
    };
    all().filter_map(next).collect()
}

struct Paces<'a> {
    plan: &'a Plan,
    outcomes: &'a Outcomes,
    system: System,
}

impl Paces<'_> {
    fn measures(&self, fiu: Fiu, kind: Kind) -> Option<&Measures> {
        match self.system.search(self.plan, fiu, kind, self.outcomes)? {
            Search::Found { cell, .. } => self.outcomes.measures(&cell),
            Search::Probe(_) => None,
        }
    }

    /// The highest rate that the system sustains.
    fn most(&self, fiu: Fiu, kind: Kind) -> Option<f64> {
        match self.system.search(self.plan, fiu, kind, self.outcomes)? {
            Search::Found { iops_max, .. } => Some(iops_max),
            Search::Probe(_) => None,
        }
    }

    fn of(&self, fiu: Fiu, kind: Kind) -> Option<&Pace> {
        self.measures(fiu, kind)?.pace.as_ref()
    }

    fn iops(&self, fiu: Fiu, kind: Kind, than: Kind) -> Option<f64> {
        Compared(&|fiu, kind| self.of(fiu, kind)).iops(fiu, kind, than)
    }

    fn response(&self, fiu: Fiu, kind: Kind, than: Kind) -> Option<f64> {
        Compared(&|fiu, kind| self.of(fiu, kind)).response(fiu, kind, than)
    }

    fn all(&self, kinds: &[Kind], of: impl Fn(&Self, Fiu, Kind) -> Option<f64>) -> Vec<f64> {
        by_trace(kinds, |fiu, kind| of(self, fiu, kind))
    }

    /// The distribution of response times, and the use of the disks.
    fn responses(&self) -> Table {
        let columns = [
            "trace",
            "variant",
            "highest rate",
            "IOPS",
            "mean",
            "median",
            "90 %",
            "99 %",
            "99.9 %",
            "writes, 99 %",
            "disks busy",
        ];
        let title = format!("{}: response times of reads and writes, ms", self.system.name());
        let mut table = Table::new(title, &columns);
        for fiu in Fiu::ALL {
            for kind in kinds().chain([NONE]) {
                let Some(pace) = self.of(fiu, kind) else { continue };
                let name = if kind == NONE { "no SSD".to_owned() } else { kind.name() };
                let ms = |us: f64| format!("{:.1}", us / 1000.0);
                let read = &pace.read_response;
                let times = [read.mean_us, read.p50_us, read.p90_us, read.p99_us, read.p999_us];
                let most = shown(self.most(fiu, kind), 0);
                let mut row = vec![fiu.name().to_owned(), name, most, format!("{:.0}", pace.iops)];
                row.extend(times.map(ms));
                row.extend([ms(pace.write_response.p99_us), format!("{:.0} %", pace.disks_busy * 100.0)]);
                table.rows.push(row);
            }
        }
        table
    }

    fn hits(&self, fiu: Fiu, kind: Kind) -> Option<f64> {
        self.measures(fiu, kind).map(|found| found.read_hit_ratio)
    }
}

/// A figure of each trace and variant, trace by trace; empty if one is not known.
fn by_trace(kinds: &[Kind], of: impl Fn(Fiu, Kind) -> Option<f64>) -> Vec<f64> {
    Fiu::all_of(|fiu| kinds.iter().map(|kind| of(fiu, *kind)).collect::<Option<Vec<_>>>()).concat()
}

/// Comparisons of variants in front of a deduplicating origin, by the pace of each.
pub(super) struct Compared<'a>(pub(super) &'a dyn Fn(Fiu, Kind) -> Option<&'a Pace>);

impl Compared<'_> {
    /// The difference of IOPS to another variant, in percent.
    fn iops(&self, fiu: Fiu, kind: Kind, than: Kind) -> Option<f64> {
        Some(percent_more(self.0(fiu, kind)?.iops, self.0(fiu, than)?.iops))
    }

    /// The difference of the mean read response time to another variant, in percent.
    fn response(&self, fiu: Fiu, kind: Kind, than: Kind) -> Option<f64> {
        let mean = |kind| self.0(fiu, kind).map(|pace| pace.read_response.mean_us);
        Some(percent_more(mean(kind)?, mean(than)?))
    }

    /// The verdicts on N10, N11 and N12, without reasons.
    pub(super) fn verdicts(&self) -> [Verdict; 3] {
        let [dc, d, c, plain] = Kind::WEUS;
        let extent = Kind::EXTENTS[1];
        let iops = |kinds: &[Kind], than| by_trace(kinds, |fiu, kind| self.iops(fiu, kind, than));
        let response = |kinds: &[Kind], than| by_trace(kinds, |fiu, kind| self.response(fiu, kind, than));
        let over = [iops(&[dc], extent), response(&[dc], extent)];
        let extents = [iops(&[extent], plain), response(&[extent], plain)];
        let found = format!(
            "(D, C): IOPS {}, response {}; extents: IOPS {}, response {}",
            percents(&over[0]),
            percents(&over[1]),
            percents(&extents[0]),
            percents(&extents[1])
        );
        [
            judge_warm(&iops(&Kind::WEUS, NONE), &response(&Kind::WEUS, NONE), self.iops(Fiu::Homes, dc, NONE)),
            judge_dedup_first(&iops(&[d], c)),
            Verdict::new("N12", found, n12([&over[0], &over[1]], [&extents[0], &extents[1]])),
        ]
    }
}

/// All variants of Table 2, and the system without an SSD.
pub(super) fn compared() -> impl Iterator<Item = Kind> {
    kinds().chain([NONE])
}

/// A run with as many requests in progress as the system can use, on a varied trace in front of a deduplicating origin whose
/// writes take `write_ios` random disk requests for metadata.
pub(super) fn saturated_varied(plan: &Plan, fiu: Fiu, kind: Kind, varied: Varied, write_ios: u32) -> Cell {
    let mut cell = System { cos: true, warm: true }.saturated(plan, fiu, kind);
    if let Work::Fiu { varied: of_work, .. } = &mut cell.work {
        *of_work = varied;
    }
    if let Some(Timing { origin: Origin::Cos(cos), .. }) = &mut cell.settings.timing {
        cos.write_ios = write_ios;
    }
    cell
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
        tables.push(paces.responses());
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
            "Requests arrive in open loop, whether or not earlier ones have ended, at {:.0} % of the highest rate that each \
             system sustains, as in the paper, which replays the traces \"at an accelerated speed to use ∼95% of the system \
             resources\" (§6.2). That rate is searched in halves below the rate with {SATURATED} requests in flight: at a \
             rate that is sustained, requests end at {:.0} % of it or more. Intervals between requests are exponentially \
             distributed, at the same rate all day: with the generated traces' assumed daily rhythm, 95 % in the mean \
             would be more than a system can do every afternoon. The measured days begin when all requests of the \
             warm-up have ended. The cache has 2 % of the size of the file system, on an SSD {SSD_TIMES} times as large \
             as the cache. TPS is eleven 7200 rpm disks in RAID-5. COS is two arrays of 10 and 13 disks in RAID-6, of \
             which 19 hold data (§5.3: shelves of 12 and 15 with two spare disks each), with a model of a deduplicating \
             store: a read costs look-ups and a read of a container, a write costs metadata updates, and recipes let a \
             read find its content in the cache. The paper does not say whether Table 2 is write-through or write-back. \
             Its prototype writes dirty extents to the disks when they are evicted (§4), and a cold cache raises its \
             IOPS, so write-back is simulated, with at most {DIRTY_PERCENT} % of the cache dirty: the paper gives no \
             watermark. Warm: the cache is warmed for 16 days, and five days are measured; cold: the last five days \
             alone. Disks, SSD and processor are modelled; the sizes of NVRAM, recipe cache and disks are scaled with \
             the trace.",
            LOAD_SHARE * 100.0,
            SUSTAINED_SHARE * 100.0
        ),
        charts,
        tables,
        verdicts: verdicts(plan, outcomes),
    }
}

fn verdicts(plan: &Plan, outcomes: &Outcomes) -> Vec<Verdict> {
    const WHY: &str = "the gain in IOPS depends on how often the synthetic traces overwrite data, how much data may be \
                       dirty, and what writes cost in the modelled origin, all of which are assumed. Without an SSD, \
                       writes are in NVRAM until the disks have them. Response times are those of queues at 95 % of \
                       different rates";
    const EXTENTS_WHY: &str = "extents that are replaced one by one hit more often (N5), which gains more IOPS than \
                               small writes cost on the modelled SSD, of which a small part is in use (N13)";
    const SAVED_WHY: &str = "content that the cache knows saves the modelled COS look-ups and an append, but no \
                             metadata updates; the traces determine how much content is known, and how much more fits \
                             if it is compressed";
    let paces = |cos, warm| Paces { plan, outcomes, system: System { cos, warm } };
    let warm = paces(true, true);
    let [dc, d, ..] = Kind::WEUS;
    let [n10, n11, n12] = Compared(&|fiu, kind| warm.of(fiu, kind)).verdicts();
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
        n10.because(WHY),
        n11.because(SAVED_WHY),
        n12.because(EXTENTS_WHY),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn the_highest_sustained_share_is_found_step_by_step() {
        for most in [0.04, 0.3, 0.33, 0.97, 1.0, 3.0] {
            let known = RefCell::new(Vec::new());
            let mut steps = 0;
            let found = loop {
                let of = |share: f64| known.borrow().contains(&share).then_some(share <= most);
                match highest(of) {
                    Ok(share) => break share,
                    Err(next) => known.borrow_mut().push(next),
                }
                steps += 1;
            };
            assert!(steps <= HALVINGS + 1 && found <= most, "{found} of {most} in {steps}");
            assert!(found > most.min(1.0) - 1.0 / 32.0, "{found} of {most}");
        }
        // Nothing is sustained: the least share, whose run shows it.
        assert_eq!(highest(|_| Some(false)), Ok(1.0 / 32.0));
    }
}
