//! §6.3, "Reducing writes to SSD".

use super::judges::{N21, N21_HOMES, n21, n21_is_decided, n21_order_may_hold};
use super::plan::{BUFFER, Fiu, Kind};
use super::traces::Published;
use super::{Cell, Outcomes, Plan};
use crate::report::{Bars, Chart, Section, Table, shown};
use crate::report::{Part, Verdict, percent_more, percents, reason};
use nitro_trace::content::Compressibility;

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    Fiu::ALL.into_iter().flat_map(|fiu| Kind::WEUS.map(|kind| plan.cell(fiu, 2.0, kind))).collect()
}

/// Bytes written to the SSD, relative to WEU (ND, NC), as a difference in percent.
fn change(plan: &Plan, outcomes: &Outcomes, fiu: Fiu, kind: Kind) -> Option<f64> {
    let written = |kind| outcomes.measures(&plan.cell(fiu, 2.0, kind)).map(|found| found.ssd_bytes_written as f64);
    Some(percent_more(written(kind)?, written(Kind::WEUS[3])?))
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let change = |fiu, kind| change(plan, outcomes, fiu, kind);
    let title = "SSD writes relative to WEU (ND, NC), %";
    let mut table = Table::new(title, &["", "WebVM", "Homes", "Mail"]);
    for kind in &Kind::WEUS[..3] {
        let cells = Fiu::ALL.map(|fiu| shown(change(fiu, *kind), 1));
        table.rows.push(std::iter::once(kind.name()).chain(cells).collect());
    }
    let saved = |kind| Fiu::ALL.map(|fiu| change(fiu, kind).map(|more| -more)).to_vec();
    Section {
        id: "ssd-writes",
        title: "§6.3: writes to the SSD".into(),
        text: format!(
            "Bytes that the cache writes to the SSD in the five measured days, with a cache of 2 %, in write-through. {BUFFER}"
        ),
        charts: vec![Chart::Bars(Bars {
            title: "Writes to the SSD saved".into(),
            y_label: "% fewer bytes than WEU (ND, NC)".into(),
            log_y: false,
            groups: Fiu::ALL.map(|fiu| fiu.name().to_owned()).to_vec(),
            bars: Kind::WEUS[..3].iter().map(|kind| (kind.name(), saved(*kind))).collect(),
        })],
        tables: vec![table],
        verdicts: vec![verdict(&change)],
    }
}

fn verdict(change: &dyn Fn(Fiu, Kind) -> Option<f64>) -> Verdict {
    let [dc, d, c, _] = Kind::WEUS;
    let all = |kind| Fiu::all_of(|fiu| change(fiu, kind));
    let (both, dedup, compressed) = (all(dc), all(d), all(c));
    let found = format!(
        "WebVM, Homes, Mail: (D, NC) {}; (ND, C) {}; (D, C) {}",
        percents(&dedup),
        percents(&compressed),
        percents(&both)
    );
    let verdict = Verdict::new("N21", found, n21(&both, &dedup, &compressed));
    // By compression, a share of the bytes that follows from the mean ratio; the paper's caches have 2 %.
    let compression = 1.0 - 1.0 / Compressibility::default().mean;
    let may = [Fiu::WebVm, Fiu::Mail].map(|fiu| {
        let Published { volume_gb, blocks, .. } = Published::of(fiu);
        n21_order_may_hold(blocks.per_unique(), blocks.unique_bytes(), volume_gb * 1e9 * 0.02, compression)
    });
    if n21_is_decided(may, &both, &dedup, &compressed) {
        return verdict.explained_by_trace(
            "in one day of Mail, 11.1 blocks are written for each unique one, and what is unique (7.7 GB) fits in the \
             cache (10 GB): deduplication saves up to 91 % of the writes, compression by 2 : 1 a half, so that \
             compression cannot save more",
            "Mail's counts of all 21 days, or the trace itself",
        );
    }
    let at = |figures: &[f64], n: usize| figures.get(n).copied().unwrap_or(0.0);
    let of_two = |figures| Part { what: "", figures: [0, 2].map(|n| (Fiu::NAMES[n], at(figures, n), N21)).into() };
    let parts = [
        Part { what: "(D, NC)", ..of_two(&dedup) },
        Part { what: "(D, NC)", figures: vec![(Fiu::NAMES[1], at(&dedup, 1), N21_HOMES)] },
        Part { what: "(ND, C)", ..of_two(&compressed) },
    ];
    let more: Vec<_> =
        [0, 2].into_iter().filter(|n| at(&compressed, *n) >= at(&dedup, *n)).map(|n| Fiu::NAMES[n]).collect();
    let order = match more.as_slice() {
        [] => String::new(),
        names => format!("In {}, compression does not save more than deduplication. ", names.join(" and ")),
    };
    verdict.because(&reason(
        &parts,
        &(order
            + "What deduplication saves is the share of writes whose content is still cached; compression by 2 : 1 saves half \
               of the bytes, except for extents that are overwritten in RAM"),
    ))
}
