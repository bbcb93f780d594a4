//! Figure 4: read-hit ratios by variant.

use super::judges::{HEADROOM_MIN, N2, N3, N4_EXTENTS, N4_UNITS, N5, n2, n3, n4, n5, n6};
use super::plan::{BUFFER, Fiu, Kind, MODES, Mode};
use super::{Cell, Outcomes, Plan, Varied};
use crate::report::{Bars, Chart, Section, Table, shown};
use crate::report::{Part, Verdict, judged, percent_more, percents, reason};

/// The sizes of the cache, in percent of the file system.
const PERCENTS: [f64; 2] = [2.0, 5.0];
const RECORDS_PERCENTS: [f64; 1] = [2.0];
/// A size that holds all requested blocks; Mail requests the largest part, 11.5 %.
const ALL_PERCENT: f64 = 25.0;

fn kinds() -> impl Iterator<Item = Kind> {
    Kind::WEUS.into_iter().chain(Kind::EXTENTS)
}

/// The simulations of a replay with a cache of 2 %, from which [`verdicts`] follow.
pub(super) fn cells_of(plan: &Plan, replay: Replay) -> Vec<Cell> {
    Fiu::ALL.into_iter().flat_map(|fiu| kinds().map(move |kind| replay.cell(plan, fiu, 2.0, kind))).collect()
}

/// Differences of read hits in each trace, in percent.
pub(super) struct Gains {
    /// (D, C) over (ND, NC).
    pub(super) both: Vec<f64>,
    /// Compression alone.
    pub(super) compressed: Vec<f64>,
    /// Deduplication alone, of units and of extents.
    pub(super) dedup: Vec<f64>,
    pub(super) dedup_extents: Vec<f64>,
    /// Extents over units, with deduplication.
    pub(super) finer: Vec<f64>,
}

impl Gains {
    /// Those of a cache of 2 %.
    pub(super) fn of(plan: &Plan, outcomes: &Outcomes, replay: Replay) -> Self {
        let hits = Hits { plan, outcomes, replay, percent: 2.0 };
        let [dc, d, c, plain] = Kind::WEUS;
        let [extent_d, extent] = Kind::EXTENTS;
        Self {
            both: hits.gains(dc, plain),
            compressed: hits.gains(c, plain),
            dedup: hits.gains(d, plain),
            dedup_extents: hits.gains(extent_d, extent),
            finer: hits.gains(extent_d, d),
        }
    }
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    let of = |fiu: Fiu, replay: Replay| {
        let sizes = replay.percents().iter().flat_map(|percent| kinds().map(move |kind| (*percent, kind)));
        let all = [(ALL_PERCENT, Kind::WEUS[0])].into_iter().filter(move |_| replay != Replay::Records);
        sizes.chain(all).map(|(percent, kind)| replay.cell(plan, fiu, percent, kind)).collect::<Vec<_>>()
    };
    Fiu::ALL.into_iter().flat_map(|fiu| Replay::ALL.into_iter().flat_map(move |replay| of(fiu, replay))).collect()
}

/// How a trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Replay {
    /// Request by request.
    In(Mode),
    /// Record by record, in write-through.
    Records,
    /// Request by request, in write-through, with other choices than the published figures and the usual assumptions.
    Varied(Varied),
}

impl Replay {
    const ALL: [Self; 3] = [Self::In(Mode::Through), Self::In(Mode::Back), Self::Records];

    const fn name(self) -> &'static str {
        match self {
            Self::In(mode) => mode.name(),
            Self::Records => "Record by record",
            Self::Varied(_) => "Varied",
        }
    }

    const fn percents(self) -> &'static [f64] {
        match self {
            Self::In(_) => &PERCENTS,
            Self::Records | Self::Varied(_) => &RECORDS_PERCENTS,
        }
    }

    fn cell(self, plan: &Plan, fiu: Fiu, percent: f64, kind: Kind) -> Cell {
        match self {
            Self::Varied(varied) => Cell { work: plan.varied_work(fiu, varied), ..plan.cell(fiu, percent, kind) },
            Self::In(mode) => plan.cell_in(mode, fiu, percent, kind),
            Self::Records => plan.cell_of_records(fiu, percent, kind),
        }
    }
}

/// Read-hit ratios, in percent.
struct Hits<'a> {
    plan: &'a Plan,
    outcomes: &'a Outcomes,
    replay: Replay,
    percent: f64,
}

impl Hits<'_> {
    fn of(&self, fiu: Fiu, kind: Kind) -> Option<f64> {
        let cell = self.replay.cell(self.plan, fiu, self.percent, kind);
        self.outcomes.measures(&cell).map(|measures| measures.read_hit_ratio * 100.0)
    }

    /// The percentage by which one kind has more hits than another, in each trace.
    fn gains(&self, kind: Kind, than: Kind) -> Vec<f64> {
        Fiu::all_of(|fiu| Some(percent_more(self.of(fiu, kind)?, self.of(fiu, than)?)))
    }
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let (mut charts, mut tables) = (Vec::new(), Vec::new());
    let all =
        Replay::ALL.into_iter().flat_map(|replay| replay.percents().iter().map(move |percent| (replay, *percent)));
    for (replay, percent) in all {
        let hits = Hits { plan, outcomes, replay, percent };
        let title = format!("{}: read-hit ratio, cache of {percent} % of the file system", replay.name());
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
    for replay in &Replay::ALL[1..] {
        tables.push(judged(&format!("{}: verdicts", replay.name()), &verdicts(plan, outcomes, *replay)));
    }
    Section {
        id: "figure-4",
        title: "Figure 4: read-hit ratio by variant".into(),
        text: format!(
            "A read is a hit if all of its extents are cached under their addresses or, with deduplication, are found in \
             the cache by the origin's recipes. The first 16 of the 21 days warm the cache; the other five are measured. \
             {BUFFER} {MODES} \"Record by record\" is a replay of the records of 4 KiB of which published traces consist: \
             an extent of 8 KiB is then read and written in halves."
        ),
        charts,
        tables,
        verdicts: verdicts(plan, outcomes, Replay::ALL[0]),
    }
}

/// The verdicts on N2 to N5, and on N6 if the replay has a cache of 5 %.
pub(super) fn verdicts(plan: &Plan, outcomes: &Outcomes, replay: Replay) -> Vec<Verdict> {
    const WHY: &str = "The gain from a larger effective cache depends on reuse distances, which are assumed in the \
                       synthetic traces: their logarithms are uniformly distributed";
    let Gains { both, compressed, dedup, dedup_extents, finer } = Gains::of(plan, outcomes, replay);
    let more = dedup.iter().zip(&compressed).all(|(dedup, compressed)| dedup > compressed);
    let found = format!(
        "WEU {}, extents {}; more than compression {}",
        percents(&dedup),
        percents(&dedup_extents),
        if more { "in every trace" } else { "not in every trace" }
    );
    let gains = Part {
        what: "hits",
        figures: Fiu::NAMES.into_iter().zip(&both).zip(N2).map(|((name, gain), band)| (name, *gain, band)).collect(),
    };
    let by_dedup = [
        Part::new("hits of units", &Fiu::NAMES, &dedup, N4_UNITS),
        Part::new("hits of extents", &Fiu::NAMES, &dedup_extents, N4_EXTENTS),
    ];
    let mut all = vec![
        Verdict::new("N2", percents(&both), n2(&both)).because(&reason(&[gains], WHY)),
        Verdict::new("N3", percents(&compressed), n3(&compressed))
            .because(&reason(&[Part::new("hits", &Fiu::NAMES, &compressed, N3)], WHY)),
        Verdict::new("N4", found, n4(&dedup, &dedup_extents, &compressed)).because(&reason(&by_dedup, WHY)),
        Verdict::new("N5", percents(&finer), n5(&finer, &dedup)).because(&reason(
            &[Part::new("hits", &Fiu::NAMES, &finer, N5)],
            "An overwritten extent leaves a hole in its unit until the unit is evicted, whereas an extent that is \
             cached separately keeps its place",
        )),
    ];
    all.extend(matches!(replay, Replay::In(_)).then(|| large_caches(plan, outcomes, replay)));
    all
}

/// Judges N6.
fn large_caches(plan: &Plan, outcomes: &Outcomes, replay: Replay) -> Verdict {
    let [dc, d, c, plain] = Kind::WEUS;
    let at = |percent| Hits { plan, outcomes, replay, percent };
    let (large, all) = (at(5.0), at(ALL_PERCENT));
    let of = |fiu| {
        let best = [d, c, plain].into_iter().filter_map(|kind| large.of(fiu, kind)).fold(0.0, f64::max);
        let headroom = percent_more(all.of(fiu, dc)?, large.of(fiu, plain)?);
        Some((percent_more(large.of(fiu, dc)?, best), headroom))
    };
    let (gains, headroom): (Vec<f64>, Vec<f64>) = Fiu::all_of(of).into_iter().unzip();
    let holds = n6(&gains, &headroom);
    let found = format!(
        "gain over the best other WEU variant: {}; largest gain over (ND, NC) that any cache can have: {}",
        percents(&gains),
        percents(&headroom)
    );
    let closed: Vec<_> =
        Fiu::ALL.iter().zip(&headroom).filter(|(_, left)| **left < HEADROOM_MIN).map(|(fiu, _)| fiu.name()).collect();
    let less: Vec<_> = Fiu::NAMES.iter().zip(&gains).filter(|(_, gain)| **gain <= 0.0).map(|(name, _)| *name).collect();
    let verdict = Verdict::new("N6", found, holds)
        .because(&format!("another variant has as many hits in {}", less.join(" and ")));
    match closed.as_slice() {
        [] => verdict,
        closed => verdict.noting(&format!(
            "{}: a cache of 5 % of the file system holds nearly all data that are read again, compressed or not, so that \
             no variant can gain much",
            closed.join(" and ")
        )),
    }
}
