//! Figure 4: read-hit ratios by variant.

use super::plan::{Fiu, Kind};
use super::{Cell, Outcomes, Plan};
use crate::report::{Band, Holds, Verdict, percent_more, percents};
use crate::report::{Bars, Chart, Section, Table, shown};

/// Sizes of the cache, in percent of the file system.
const PERCENTS: [f64; 2] = [2.0, 5.0];

fn kinds() -> impl Iterator<Item = Kind> {
    Kind::WEUS.into_iter().chain(Kind::EXTENTS)
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (fiu, percent) in Fiu::ALL.into_iter().flat_map(|fiu| PERCENTS.map(|percent| (fiu, percent))) {
        cells.extend(kinds().map(|kind| plan.cell(fiu, percent, kind)));
    }
    cells
}

/// Read-hit ratios, in percent.
struct Hits<'a> {
    plan: &'a Plan,
    outcomes: &'a Outcomes,
    percent: f64,
}

impl Hits<'_> {
    fn of(&self, fiu: Fiu, kind: Kind) -> Option<f64> {
        let cell = self.plan.cell(fiu, self.percent, kind);
        self.outcomes.measures(&cell).map(|measures| measures.read_hit_ratio * 100.0)
    }

    /// How many percent more hits one kind has than another, in each trace.
    fn gains(&self, kind: Kind, than: Kind) -> Vec<f64> {
        let gain = |fiu| Some(percent_more(self.of(fiu, kind)?, self.of(fiu, than)?));
        Fiu::ALL.into_iter().filter_map(gain).collect()
    }
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let (mut charts, mut tables) = (Vec::new(), Vec::new());
    for percent in PERCENTS {
        let hits = Hits { plan, outcomes, percent };
        let title = format!("Read-hit ratio, cache of {percent} % of the file system");
        let bars = kinds().map(|kind| (kind.name(), Fiu::ALL.map(|fiu| hits.of(fiu, kind)).to_vec()));
        let mut table = Table::new(title.clone() + ", %", &["", "WebVM", "Homes", "Mail"]);
        let row =
            |kind: Kind| std::iter::once(kind.name()).chain(Fiu::ALL.map(|fiu| shown(hits.of(fiu, kind), 1))).collect();
        table.rows.extend(kinds().map(row));
        tables.push(table);
        charts.push(Chart::Bars(Bars {
            title,
            y_label: "read hits, %".into(),
            log_y: false,
            groups: Fiu::ALL.map(|fiu| fiu.name().to_owned()).to_vec(),
            bars: bars.collect(),
        }));
    }
    Section {
        id: "figure-4",
        title: "Figure 4: read-hit ratio by variant".into(),
        text: "A read is a hit if all of its extents are cached. 16 of the 21 days warm the cache, five are measured."
            .into(),
        charts,
        tables,
        verdicts: verdicts(plan, outcomes),
    }
}

fn verdicts(plan: &Plan, outcomes: &Outcomes) -> Vec<Verdict> {
    const WHY: &str = "how much a larger effective cache helps depends on reuse distances, which the synthetic traces only \
                       assume: their reads come back by a logarithmic law";
    let hits = Hits { plan, outcomes, percent: 2.0 };
    let [dc, d, c, plain] = Kind::WEUS;
    let [extent_d, extent] = Kind::EXTENTS;
    let both = hits.gains(dc, plain);
    let compressed = hits.gains(c, plain);
    let dedup = hits.gains(d, plain);
    let dedup_extents = hits.gains(extent_d, extent);
    let finer = hits.gains(extent_d, d);
    let more = dedup.iter().zip(&compressed).all(|(dedup, compressed)| dedup > compressed) && !dedup.is_empty();
    let n4 = Band::new(8.0, 19.0).judge(&dedup).and(Band::new(6.0, 17.0).judge(&dedup_extents));
    let n4 = if dedup.is_empty() { Holds::NotMeasured } else { n4.and(Holds::of(more, n4 != Holds::DoesNot)) };
    let found = format!(
        "WEU {}, extents {}; more than compression {}",
        percents(&dedup),
        percents(&dedup_extents),
        if more { "in every trace" } else { "not in every trace" }
    );
    let large = Hits { plan, outcomes, percent: 5.0 };
    let at_five: Vec<_> = Fiu::ALL
        .into_iter()
        .filter_map(|fiu| {
            let best = [d, c, plain].into_iter().filter_map(|kind| large.of(fiu, kind)).fold(0.0, f64::max);
            Some(percent_more(large.of(fiu, dc)?, best))
        })
        .collect();
    let n6 = match at_five.is_empty() {
        true => Holds::NotMeasured,
        // Where all fits, none gains more than another.
        false => Holds::of(at_five.iter().all(|gain| *gain > 0.0), at_five.iter().all(|gain| *gain > -0.5)),
    };
    vec![
        Verdict::new(
            "N2",
            "WEU (D, C) raises the read-hit ratio over WEU (ND, NC) by 25, 14 and 20 % (WebVM, Homes, Mail)",
            percents(&both),
            Band::new(14.0, 25.0).judge(&both),
        )
        .because(WHY),
        Verdict::new("N3", "compression alone: +5–9 %", percents(&compressed), Band::new(5.0, 9.0).judge(&compressed))
            .because(WHY),
        Verdict::new(
            "N4",
            "deduplication alone: WEU +8–19 %, extents +6–17 %; more than compression in every trace",
            found,
            n4,
        )
        .because(WHY),
        Verdict::new(
            "N5",
            "extents (D, NC) beat WEU (D, NC) by only 1–4 % of hit ratio",
            percents(&finer),
            Band::new(1.0, 4.0).judge(&finer),
        )
        .because("an extent that is overwritten leaves a hole in its unit until that is evicted, one by itself keeps its place; in the \
                  synthetic traces much of what is cached is soon overwritten"),
        Verdict::new(
            "N6",
            "at 5 % cache (D, C) still gains most",
            format!("over the best other WEU variant: {}", percents(&at_five)),
            n6,
        )
        .because("at that size all that is read again fits, compressed or not"),
    ]
}
