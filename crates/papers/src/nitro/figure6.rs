//! Figure 6: the wear of the SSD.

use super::judges::{N9, Wear, n8, n9};
use super::plan::{BUFFER, Fiu, Kind, MODES, Mode};
use super::{Cell, Outcomes, Plan};
use crate::report::{Bars, Chart, Section, Table, shown};
use crate::report::{Part, Verdict, percent_more, percents, reason};
use nitro_sim::Variant;

const VARIANTS: [(Variant, &str); 6] = [
    (Variant::Weu, "WEU-LRU"),
    (Variant::WeuLruMod, "WEU-LRU-mod"),
    (Variant::WeuLruTrim, "WEU-LRU-TRIM"),
    (Variant::ExtentLruMod, "extent-LRU-mod"),
    (Variant::ExtentLruTrim, "extent-LRU-TRIM"),
    (Variant::Naive, "naive extents"),
];

/// All variants run without compression, which extents do not support, and without deduplication, so that only the
/// layout differs.
fn cell(plan: &Plan, mode: Mode, fiu: Fiu, variant: Variant) -> Cell {
    plan.cell_in(mode, fiu, 2.0, Kind::new(variant, false, false))
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    let of =
        |fiu| Mode::ALL.into_iter().flat_map(move |mode| variants(mode).map(move |(v, _)| cell(plan, mode, fiu, v)));
    Fiu::ALL.into_iter().flat_map(of).collect()
}

/// The variants that a mode has: where the SSD chooses what is evicted, dirty or not, there is no write-back.
fn variants(mode: Mode) -> impl Iterator<Item = (Variant, &'static str)> {
    VARIANTS.into_iter().filter(move |(variant, _)| mode == Mode::Through || *variant != Variant::WeuLruMod)
}

struct Erasures<'a> {
    plan: &'a Plan,
    outcomes: &'a Outcomes,
    mode: Mode,
}

impl Erasures<'_> {
    /// Erasures, relative to WEU-LRU.
    fn of(&self, fiu: Fiu, variant: Variant) -> Option<f64> {
        let erasures = |variant| {
            let cell = cell(self.plan, self.mode, fiu, variant);
            self.outcomes.measures(&cell).map(|found| found.erasures as f64)
        };
        let plain = erasures(Variant::Weu).filter(|plain| *plain > 0.0)?;
        Some(erasures(variant)? / plain)
    }

    fn all(&self, variant: Variant) -> Vec<f64> {
        Fiu::ALL.into_iter().filter_map(|fiu| self.of(fiu, variant)).collect()
    }

    fn table(&self, title: &str) -> Table {
        let mut table = Table::new(title, &["", "WebVM", "Homes", "Mail"]);
        for (variant, name) in variants(self.mode) {
            let cells = Fiu::ALL.map(|fiu| shown(self.of(fiu, variant), 2));
            table.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
        }
        table
    }
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let [erasures, back] = Mode::ALL.map(|mode| Erasures { plan, outcomes, mode });
    let heights = |variant| Fiu::ALL.map(|fiu| erasures.of(fiu, variant)).to_vec();
    let title = "Erasures relative to WEU-LRU";
    Section {
        id: "figure-6",
        title: "Figure 6: erasures by variant".into(),
        text: format!(
            "All variants run without deduplication and compression, with a cache of 2 %. WEU-LRU and naive extents \
               use an SSD with hybrid mapping, 7 % over-provisioning and 10 % log blocks; WEU-LRU-TRIM also trims \
               evicted units; the other extent variants use page mapping; WEU-LRU-mod uses an SSD that has no reserve \
               and chooses the units to evict; it has no write-back, so that N8 and N9 have no verdict \
               there. {BUFFER} {MODES}"
        ),
        charts: vec![Chart::Bars(Bars {
            title: title.into(),
            y_label: "times WEU-LRU's".into(),
            log_y: true,
            groups: Fiu::ALL.map(|fiu| fiu.name().to_owned()).to_vec(),
            bars: VARIANTS.into_iter().map(|(variant, name)| (name.to_owned(), heights(variant))).collect(),
        })],
        tables: vec![erasures.table(title), back.table("Write-back: erasures relative to WEU-LRU")],
        verdicts: verdicts(plan, outcomes),
    }
}

fn verdicts(plan: &Plan, outcomes: &Outcomes) -> Vec<Verdict> {
    let erasures = Erasures { plan, outcomes, mode: Mode::Through };
    let extents: Vec<_> =
        [Variant::ExtentLruMod, Variant::ExtentLruTrim].into_iter().flat_map(|variant| erasures.all(variant)).collect();
    let units: Vec<_> =
        [Variant::WeuLruMod, Variant::WeuLruTrim].into_iter().flat_map(|variant| erasures.all(variant)).collect();
    let naive = erasures.all(Variant::Naive);
    let units_percent: Vec<_> = units.iter().map(|times| (times - 1.0) * 100.0).collect();
    let wear = |fiu| {
        let of = |variant| erasures.of(fiu, variant);
        Some(Wear {
            units: [of(Variant::WeuLruMod)?, of(Variant::WeuLruTrim)?],
            extents: [of(Variant::ExtentLruMod)?, of(Variant::ExtentLruTrim)?],
            naive: of(Variant::Naive)?,
        })
    };
    let holds = n8(&Fiu::all_of(wear));
    let times = |all: &[f64]| {
        let all: Vec<_> = all.iter().map(|times| format!("{times:.2}")).collect();
        if all.is_empty() { "–".to_owned() } else { all.join(", ") }
    };
    let found = format!(
        "extent-LRU-mod and -TRIM {} ×; WEU-LRU-mod and -TRIM {}; naive {} ×",
        times(&extents),
        percents(&units_percent),
        times(&naive)
    );
    let hits = |fiu, variant| Some(outcomes.measures(&cell(plan, Mode::Through, fiu, variant))?.read_hit_ratio);
    let gain = |fiu| Some(percent_more(hits(fiu, Variant::WeuLruMod)?, hits(fiu, Variant::Weu)?));
    let gains: Vec<_> = Fiu::all_of(gain);
    vec![
        Verdict::new("N8", found, holds).because(
            "the cost of a unit is exact: one erasure of each of its blocks. The cost of extents depends on how many \
             extents of a block are still cached when the block is collected, and so on the trace. A log block of \
             naive extents is merged with at most as many data blocks as it has pages, which limits its cost to a few \
             times this number",
        ),
        Verdict::new("N9", percents(&gains), n9(&gains)).because(&reason(
            &[Part::new("hits", &Fiu::NAMES, &gains, N9)],
            "The modified SSD gains by its capacity, which is 17 % larger; the effect on hits depends on reuse",
        )),
    ]
}
