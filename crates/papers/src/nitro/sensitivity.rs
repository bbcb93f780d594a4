//! How the claims that depend on reuse depend on it: N2 to N5 and N10 to N12 on traces whose reuse distances, working sets and
//! write shares are varied, and in front of origins with other costs. What is not published is chosen; this shows what the
//! choices decide.

use super::figure4::{self, Gains, Replay};
use super::judges::{N2, N3, N4_UNITS, N5};
use super::table2::{Compared, compared, saturated_varied};
use super::{Cell, Fiu, Outcomes, Plan, Varied};
use crate::report::{Band, Chart, Holds, Line, Lines, Section, Table, Verdict, percents};

/// The section's identifier.
pub(super) const ID: &str = "sensitivity";
/// Exponents of reuse, from the usual assumption to late returns.
const REUSES: [f64; 4] = [0.0, 1.0, 2.0, 4.0];
const FEW_REUSES: [f64; 2] = [0.0, 4.0];
/// Factors on the published working sets.
const SETS: [f64; 4] = [0.5, 1.0, 2.0, 2.5];
const FEW_SETS: [f64; 2] = [1.0, 2.5];
/// Factors on the published writes for each read.
const WRITES: [f64; 2] = [1.0, 0.25];
/// Dedup ratios of the content before the trace: the usual assumption, and one above the 2.0 of the paper's Figure 1.
const INITIAL: [f64; 2] = [1.2, 3.0];
/// Random disk requests of the origin for each write: the usual assumption, and others.
const WRITE_IOS: [u32; 2] = [2, 6];
/// The traces are smaller than those of the figures, by this factor.
const SMALLER: f64 = 0.5;
/// The claims on hits, and those on times.
const OF_HITS: [&str; 4] = ["N2", "N3", "N4", "N5"];
const OF_TIMES: [&str; 3] = ["N10", "N11", "N12"];

/// Choices, and the verdicts with them.
struct Row {
    varied: Varied,
    /// Disk requests for each write, for claims on times.
    write_ios: Option<u32>,
    /// In the order of the claims.
    verdicts: Vec<Verdict>,
    /// For claims on hits.
    gains: Option<Gains>,
}

fn smaller(plan: &Plan) -> Plan {
    plan.clone().scaled(SMALLER)
}

/// The values of reuse and of working sets.
const fn axes(plan: &Plan) -> (&'static [f64], &'static [f64]) {
    if plan.few_choices { (&FEW_REUSES, &FEW_SETS) } else { (&REUSES, &SETS) }
}

fn of_hits(plan: &Plan) -> Vec<Varied> {
    let (reuses, sets) = axes(plan);
    let places = reuses.iter().flat_map(|reuse| sets.iter().map(move |working_set| (*reuse, *working_set)));
    let all = places.flat_map(|(reuse, working_set)| {
        let with = move |writes| INITIAL.map(|initial_dedup| Varied { reuse, working_set, writes, initial_dedup });
        WRITES.into_iter().flat_map(with)
    });
    all.collect()
}

/// What is varied for times is reuse, writes, content and the origin.
fn of_times(plan: &Plan) -> Vec<(Varied, u32)> {
    let (writes, ios) = if plan.few_choices { (&WRITES[..1], &WRITE_IOS[..1]) } else { (&WRITES[..], &WRITE_IOS[..]) };
    let all = FEW_REUSES.into_iter().flat_map(|reuse| writes.iter().map(move |writes| (reuse, *writes)));
    let varied = all.flat_map(|(reuse, writes)| {
        INITIAL.map(|initial_dedup| Varied { reuse, writes, initial_dedup, ..Varied::NONE })
    });
    varied.flat_map(|varied| ios.iter().map(move |ios| (varied, *ios))).collect()
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    let plan = &smaller(plan);
    let hits = of_hits(plan).into_iter().flat_map(|varied| figure4::cells_of(plan, Replay::Varied(varied)));
    let times = of_times(plan).into_iter().flat_map(|(varied, ios)| {
        let of = move |fiu| compared().map(move |kind| saturated_varied(plan, fiu, kind, varied, ios));
        Fiu::ALL.into_iter().flat_map(of)
    });
    hits.chain(times).collect()
}

fn rows(plan: &Plan, outcomes: &Outcomes) -> [Vec<Row>; 2] {
    let hits = of_hits(plan).into_iter().map(|varied| {
        let replay = Replay::Varied(varied);
        let verdicts = figure4::verdicts(plan, outcomes, replay);
        Row { varied, write_ios: None, verdicts, gains: Some(Gains::of(plan, outcomes, replay)) }
    });
    let times = of_times(plan).into_iter().map(|(varied, ios)| {
        let pace = |fiu, kind| {
            outcomes.measures(&saturated_varied(plan, fiu, kind, varied, ios)).and_then(|found| found.pace.as_ref())
        };
        Row { varied, write_ios: Some(ios), verdicts: Compared(&pace).verdicts().into(), gains: None }
    });
    [hits.collect(), times.collect()]
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let plan = &smaller(plan);
    let [hits, times] = rows(plan, outcomes);
    Section {
        id: ID,
        title: "What the assumptions decide".into(),
        text: format!(
            "The published figures of the traces leave reuse distances open, and sources disagree on others. Here they are chosen: \
             *reuse* 0 is the assumption of the other figures (the logarithm of a distance is uniformly distributed), and more \
             means later returns; *content before* is the dedup ratio of what the file system held before the trace (1.2 in the other \
             figures); factors of 1 are the published working set and writes for each read. Claims on hits are judged \
             with a cache of 2 % in write-through, as in Figure 4. Claims on IOPS are judged with 256 requests in progress instead \
             of 95 % of the highest rate, with {} or {} random disk requests of the origin for each write, and the published \
             working set. The traces have {SMALLER} times the size of those of the figures. The verdicts of this report are those of \
             the other sections, with the published figures and reuse 0.",
            WRITE_IOS[0], WRITE_IOS[1]
        ),
        charts: axes(plan).1.iter().map(|working_set| chart(plan, outcomes, *working_set)).collect(),
        tables: vec![
            summary(&[(&OF_HITS, &hits), (&OF_TIMES, &times)]),
            alone(&hits),
            choices("Hits, by choice", &OF_HITS, &hits),
            choices("IOPS and response times, by choice", &OF_TIMES, &times),
            figures(&hits),
        ],
        verdicts: Vec::new(),
    }
}

/// The gain of (D, C) by reuse.
fn chart(plan: &Plan, outcomes: &Outcomes, working_set: f64) -> Chart {
    let of = |n: usize| {
        axes(plan).0.iter().filter_map(move |reuse| {
            let varied = Varied { reuse: *reuse, working_set, ..Varied::NONE };
            Some((*reuse, *Gains::of(plan, outcomes, Replay::Varied(varied)).both.get(n)?))
        })
    };
    let line = |(n, name): (usize, &&str)| Line { name: (*name).to_owned(), points: of(n).collect() };
    Chart::Lines(Lines {
        title: format!("Gain of hits by (D, C), working set × {working_set}"),
        x_label: "reuse: later returns to the right".into(),
        y_label: "% over (ND, NC)".into(),
        log_x: false,
        log_y: false,
        y_min: 0.0,
        lines: Fiu::NAMES.iter().enumerate().map(line).collect(),
        events: Vec::new(),
    })
}

/// For each claim, in how many choices it holds; and whether all do with one choice.
fn summary(parts: &[(&[&str], &Vec<Row>)]) -> Table {
    let columns =
        ["claim", "choices", "holds", "holds in direction", "does not", "with the published working set and writes"];
    let mut table = Table::new("Where each claim holds", &columns);
    for (claims, rows) in parts {
        for (n, id) in claims.iter().enumerate() {
            table.rows.push(counted(id, rows, &|row| row.verdicts.get(n).map(|verdict| verdict.holds)));
        }
        let all = |row: &Row| row.verdicts.iter().map(|verdict| verdict.holds).reduce(Holds::and);
        table.rows.push(counted(&format!("{} at once", claims.join(", ")), rows, &all));
    }
    table
}

fn counted(name: &str, rows: &[Row], of: &dyn Fn(&Row) -> Option<Holds>) -> Vec<String> {
    let judged: Vec<(Varied, Holds)> = rows.iter().filter_map(|row| Some((row.varied, of(row)?))).collect();
    let count = |holds| judged.iter().filter(|(_, other)| *other == holds).count().to_string();
    let published = judged.iter().filter(|(varied, _)| varied.working_set == 1.0 && varied.writes == 1.0);
    let best = published.map(|(_, holds)| *holds).min_by_key(|holds| *holds as u8);
    let mut row = vec![name.to_owned(), judged.len().to_string()];
    row.extend([Holds::Holds, Holds::InDirection, Holds::DoesNot].map(count));
    row.push(best.map_or("–", Holds::words).to_owned());
    row
}

/// In each trace alone: with how many choices its gain is within a quarter of the paper's, and with which first.
fn alone(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Choices with which a trace alone has the paper's gain",
        &[
            "trace",
            "N2: (D, C)",
            "N3: compression",
            "N4: deduplication of units",
            "N5: extents over units",
            "all four",
            "such a choice",
        ],
    );
    for (n, name) in Fiu::NAMES.into_iter().enumerate() {
        let has = |gains: &Gains| {
            let at = |figures: &[f64], band: Band| figures.get(n).is_some_and(|figure| band.has(*figure));
            [at(&gains.both, N2[n]), at(&gains.compressed, N3), at(&gains.dedup, N4_UNITS), at(&gains.finer, N5)]
        };
        let all: Vec<_> = rows.iter().filter_map(|row| Some((row.varied, has(row.gains.as_ref()?)))).collect();
        let mut cells = vec![name.to_owned()];
        cells.extend((0..4).map(|part| all.iter().filter(|(_, has)| has[part]).count().to_string()));
        let whole: Vec<_> = all.iter().filter(|(_, has)| has.iter().all(|has| *has)).collect();
        cells.push(whole.len().to_string());
        cells.push(whole.first().map_or_else(|| "–".to_owned(), |(varied, _)| varied.to_string()));
        table.rows.push(cells);
    }
    table
}

fn choice(row: &Row) -> Vec<String> {
    let Varied { reuse, working_set, writes, initial_dedup } = row.varied;
    let ios = row.write_ios.map(|ios| ios.to_string());
    [reuse, working_set, writes, initial_dedup].map(|factor| factor.to_string()).into_iter().chain(ios).collect()
}

/// The verdicts by choice.
fn choices(title: &str, claims: &[&str], rows: &[Row]) -> Table {
    let mut table = Table::new(title, &["reuse", "working set ×", "writes ×", "content before"]);
    table.columns.extend(rows.iter().find_map(|row| row.write_ios).map(|_| "disk requests for a write".to_owned()));
    table.columns.extend(claims.iter().map(|id| (*id).to_owned()));
    for row in rows {
        let words = row.verdicts.iter().map(|verdict| verdict.holds.words().to_owned());
        table.rows.push(choice(row).into_iter().chain(words).collect());
    }
    table
}

/// The figures of N2 by choice.
fn figures(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Gains of hits by choice, WebVM, Homes and Mail (the paper: (D, C) +25, +14, +20 %)",
        &[
            "reuse",
            "working set ×",
            "writes ×",
            "content before",
            "N2: (D, C)",
            "N3: compression",
            "N5: extents over units",
        ],
    );
    for row in rows {
        let found =
            [0, 1, 3].map(|n| row.verdicts.get(n).map_or_else(|| percents(&[]), |verdict| verdict.found.clone()));
        table.rows.push(choice(row).into_iter().chain(found).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_counted_by_verdict_and_the_published_ones_apart() {
        let row = |writes, holds: [Holds; 2]| Row {
            varied: Varied { writes, ..Varied::NONE },
            write_ios: None,
            gains: None,
            verdicts: holds.map(|holds| Verdict::new("N2", "", holds)).into(),
        };
        let rows = vec![
            row(1.0, [Holds::InDirection, Holds::DoesNot]),
            row(0.25, [Holds::Holds, Holds::Holds]),
            row(1.0, [Holds::DoesNot, Holds::Holds]),
        ];
        let table = summary(&[(&["N2", "N3"], &rows)]);
        assert_eq!(table.rows[0][1..], ["3", "1", "1", "1", "holds in direction"]);
        assert_eq!(table.rows[1][1..], ["3", "2", "0", "1", "holds"]);
        assert_eq!(table.rows[2], ["N2, N3 at once", "3", "1", "0", "2", "does not hold"]);
    }

    #[test]
    fn every_choice_can_be_simulated() {
        let plan = Plan::quick(1);
        for cell in cells(&plan) {
            assert!(cell.settings.check().is_ok() && cell.work.open().is_ok(), "{cell:?}");
        }
        assert!(section(&plan, &Outcomes::default()).tables[0].rows.iter().all(|row| row[5] != "holds"));
    }
}
