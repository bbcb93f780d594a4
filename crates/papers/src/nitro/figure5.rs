//! Figure 5: a fingerprint index that holds only a part of the cached fingerprints.

use super::judges::{Partial, n7};
use super::plan::{BUFFER, Fiu, Kind, MODES, Mode};
use super::{Cell, Outcomes, Plan};
use crate::report::{Chart, Line, Lines, Section, Table, shown};
use crate::report::{Verdict, judged, percent_more, percents};
use nitro_sim::Outcome;
use nitro_sim::{Settings, Variant};

/// Fingerprint index ratios, in percent.
const RATIOS: [u8; 5] = [100, 75, 50, 25, 0];

fn cell(plan: &Plan, mode: Mode, fiu: Fiu, percent: u8) -> Cell {
    // A ratio of 0 % is no deduplication.
    let kind = Kind::new(Variant::Weu, percent > 0, false);
    let mut cell = plan.cell_in(mode, fiu, 2.0, kind);
    if percent > 0 {
        cell.settings = Settings { fingerprint_index_percent: percent, ..cell.settings };
    }
    cell
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    let of = |fiu| Mode::ALL.into_iter().flat_map(move |mode| RATIOS.map(|percent| cell(plan, mode, fiu, percent)));
    Fiu::ALL.into_iter().flat_map(of).collect()
}

/// RAM of the indexes, without the list of the buffer, which does not depend on the ratio.
fn index_bytes(outcome: &Outcome) -> f64 {
    (outcome.ram_bytes - outcome.staging_ram_bytes) as f64
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let found = |fiu, percent| outcomes.outcome(&cell(plan, Mode::Through, fiu, percent));
    let lines = |of: &dyn Fn(&Outcome) -> f64| -> Vec<Line> {
        let point = |fiu, percent| Some((f64::from(percent), of(found(fiu, percent)?)));
        let line = |fiu: Fiu| Line {
            name: fiu.name().into(),
            points: RATIOS.into_iter().rev().filter_map(|percent| point(fiu, percent)).collect(),
        };
        Fiu::ALL.into_iter().map(line).collect()
    };
    let chart = |title: &str, y_label: &str, y_min, lines| {
        let (title, x_label, y_label) = (title.into(), "fingerprint index ratio, %".into(), y_label.into());
        Chart::Lines(Lines { title, x_label, y_label, log_x: false, log_y: false, y_min, lines, events: Vec::new() })
    };
    let mut table = Table::new("RAM of the indexes relative to 100 %", &["ratio", "WebVM", "Homes", "Mail"]);
    for percent in RATIOS {
        let ram = |fiu| Some(percent_more(index_bytes(found(fiu, percent)?), index_bytes(found(fiu, 100)?)));
        let cells = Fiu::ALL.map(|fiu| ram(fiu).map_or_else(|| "–".into(), |ram| percents(&[ram])));
        table.rows.push(std::iter::once(format!("{percent} %")).chain(cells).collect());
    }
    Section {
        id: "figure-5",
        title: "Figure 5: fingerprint index ratio".into(),
        text: format!(
            "WEU (D, NC) with a cache of 2 % of the file system. The index keeps the fingerprints of this percentage of \
             the extents that fit into the cache; 0 % means no deduplication and no recipes. {BUFFER} {MODES}"
        ),
        charts: vec![
            chart("Read-hit ratio", "read hits, %", 0.0, lines(&|outcome| outcome.measured.read_hit_ratio * 100.0)),
            chart("Deduplication ratio", "ratio", 1.0, lines(&|outcome| outcome.measured.dedup_ratio)),
        ],
        tables: vec![
            table,
            in_write_back(plan, outcomes),
            judged("Write-back: verdicts", &[verdict(plan, outcomes, Mode::Back)]),
        ],
        verdicts: vec![verdict(plan, outcomes, Mode::Through)],
    }
}

/// Read hits and dedup ratios in write-back.
fn in_write_back(plan: &Plan, outcomes: &Outcomes) -> Table {
    let title = "Write-back: read-hit ratio, %, and deduplication ratio";
    let mut table = Table::new(title, &["ratio", "WebVM", "", "Homes", "", "Mail", ""]);
    for percent in RATIOS {
        let figures = |fiu| {
            let found = outcomes.measures(&cell(plan, Mode::Back, fiu, percent));
            [shown(found.map(|f| f.read_hit_ratio * 100.0), 1), shown(found.map(|f| f.dedup_ratio), 2)]
        };
        table
            .rows
            .push(std::iter::once(format!("{percent} %")).chain(Fiu::ALL.into_iter().flat_map(figures)).collect());
    }
    table
}

fn verdict(plan: &Plan, outcomes: &Outcomes, mode: Mode) -> Verdict {
    let found = |fiu, percent| outcomes.outcome(&cell(plan, mode, fiu, percent));
    let partial = |fiu| {
        let all = found(fiu, 100)?;
        let parts = [found(fiu, 75)?, found(fiu, 50)?];
        Some(Partial {
            ram: parts.map(|part| percent_more(index_bytes(part), index_bytes(all))),
            hits: parts.map(|part| percent_more(part.measured.read_hit_ratio, all.measured.read_hit_ratio)),
            ratios: [all, parts[0], parts[1]].map(|outcome| outcome.measured.dedup_ratio),
        })
    };
    let traces: Vec<Partial> = Fiu::ALL.into_iter().filter_map(partial).collect();
    let uncached = found(Fiu::Mail, 100).zip(found(Fiu::Mail, 50)).map_or(0.0, |(all, half)| {
        (all.measured.cached_extents as f64 - half.measured.cached_extents as f64) / plan.scale(Fiu::Mail)
    });
    let told = format!(
        "at 75 and 50 %, by trace: RAM {}; read hits {}; dedup ratios at 100, 75 and 50 %: {}; Mail at 50 %: {uncached:.0} fewer \
         extents cached, scaled to the published size",
        percents(&traces.iter().flat_map(|trace| trace.ram).collect::<Vec<_>>()),
        percents(&traces.iter().flat_map(|trace| trace.hits).collect::<Vec<_>>()),
        traces.iter().map(|trace| trace.ratios.map(|r| format!("{r:.2}")).join(" ")).collect::<Vec<_>>().join(", "),
    );
    let why = "a fingerprint takes 23 bytes of RAM here, in addition to 7 to 19 bytes for the rest of an extent; the \
               paper's takes 29. Which fingerprints a partial index keeps matters less if a trace repeats recent \
               content, as the synthetic traces do";
    Verdict::new("N7", told, n7(&traces, uncached)).because(why)
}
