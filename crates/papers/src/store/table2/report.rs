//! The report of Table 2.

use super::image::SPINDLES;
use super::{CACHE_PERCENT, Outcome, Outcomes, QUEUE_BYTES, systems};
use crate::kind::Kind;
use crate::nitro::{DEPTH, DIRTY_PERCENT, Fiu, SSD_TIMES, judge_cold, judge_dedup_first, judge_warm};
use crate::report::{Bars, Chart, Holds, Section, Table, Verdict, percent_more, percents};
use nitro_console::size::Size;
use nitro_sim::timing::Cpu;

/// A figure by which systems are compared.
type Figure = fn(&Outcome) -> f64;
const IOPS: Figure = |outcome| outcome.iops;
const RESPONSE: Figure = |outcome| outcome.response_ms;

impl Outcomes {
    fn of(&self, warm: bool) -> &[Outcome] {
        if warm { &self.warm } else { &self.cold }
    }

    /// The difference of a variant's figure to another variant, or to no SSD, in percent.
    fn more(&self, warm: bool, figure: Figure, kind: Kind, than: Option<Kind>) -> f64 {
        let of = |system: Option<Kind>| {
            let place = systems().position(|s| s == system);
            place.and_then(|place| self.of(warm).get(place)).map_or(0.0, figure)
        };
        percent_more(of(Some(kind)), of(than))
    }
}

/// The differences of all variants and traces to no SSD.
fn gains(all: &[Outcomes], warm: bool, figure: Figure) -> Vec<f64> {
    all.iter().flat_map(|trace| Kind::ALL.map(|kind| trace.more(warm, figure, kind, None))).collect()
}

/// The differences of one variant to another, in all traces.
fn between(all: &[Outcomes], figure: Figure, kind: Kind, than: Kind) -> Vec<f64> {
    all.iter().map(|trace| trace.more(true, figure, kind, Some(than))).collect()
}

const fn name(warm: bool) -> &'static str {
    if warm { "warm" } else { "cold" }
}

pub(super) fn section(all: &[Outcomes]) -> Section {
    let mut tables: Vec<_> = [true, false].map(|warm| gained(all, warm)).into();
    tables.extend([true, false].map(|warm| work(all, warm)));
    Section {
        id: "cos-table-2",
        title: "Table 2, COS: IOPS and read response time, warm and cold".into(),
        text: text(all),
        charts: vec![
            chart(all, true, "IOPS, % more", IOPS),
            chart(all, true, "response time, % more", RESPONSE),
            chart(all, false, "IOPS, % more", IOPS),
        ],
        tables,
        verdicts: verdicts(all),
    }
}

fn text(all: &[Outcomes]) -> String {
    let sizes: Vec<_> = all
        .iter()
        .map(|Outcomes { trace, .. }| {
            let (volume, cache) = (Size(trace.volume_bytes()), Size(trace.cache_bytes()));
            format!("{} at {} of its size ({volume}, cache {cache})", trace.fiu.name(), trace.scale)
        })
        .collect();
    format!(
        "The synthetic traces of the simulator's Table 2, {}; file systems are volumes of the store, of which what the traces touch is \
         there beforehand. {DEPTH} requests at a time (closed loop; the simulator's table has an open one) through the engine with a cache of \
         {CACHE_PERCENT} % in units of 512 KiB (the least there are), on a modelled SSD {SSD_TIMES} times as large; write-back, at most {DIRTY_PERCENT} % of the cache dirty, RAM for {} on \
         their way to the SSD, nothing kept from it for being read in sequence, no RAM cache. The store has chunks of 8 KiB, RAM of 2/512 of the file system, and \
         {SPINDLES} modelled 7200 rpm disks, striped, **without parity**: as many as hold data in the paper's two shelves of 23 disks in RAID-6; nothing is \
         collected. Without an SSD a write is acknowledged when the store has it in RAM, as one of the paper's is in NVRAM; before that it \
         reads what is left of its chunk. Nobody flushes. Warm: 16 days are played, the next five measured; cold: the store \
         holds what it would after 16 days, and the last five are played. Time is virtual, that of the disks and the SSD; of the processor's there \
         are {} µs for each extent, assumed, and nothing for hashing, compressing and decompressing, which in the server have threads of their own or \
         come on top. Hits are shares of extents read; those by recipes are of content that was in the cache under another address. \
         Requests of the disks count those for writes and destage too.",
        sizes.join(", "),
        Size(QUEUE_BYTES),
        Cpu::default().request_ns / 1000
    )
}

fn chart(all: &[Outcomes], warm: bool, y_label: &str, figure: Figure) -> Chart {
    let heights = |kind: Kind| all.iter().map(|trace| Some(trace.more(warm, figure, kind, None))).collect();
    Chart::Bars(Bars {
        title: format!("COS, {}: beside no SSD", name(warm)),
        y_label: y_label.into(),
        log_y: false,
        groups: all.iter().map(|outcomes| outcomes.trace.fiu.name().to_owned()).collect(),
        bars: Kind::ALL.map(|kind| (kind.name().to_owned(), heights(kind))).into(),
    })
}

fn gained(all: &[Outcomes], warm: bool) -> Table {
    let mut columns = vec![""];
    columns.extend(all.iter().flat_map(|outcomes| [outcomes.trace.fiu.name(), ""]));
    let title = format!("COS, {}: beside no SSD, IOPS and mean read response time", name(warm));
    let mut table = Table::new(title, &columns);
    for kind in Kind::ALL {
        let mut row = vec![kind.name().to_owned()];
        row.extend(all.iter().flat_map(|trace| [IOPS, RESPONSE].map(|f| percents(&[trace.more(warm, f, kind, None)]))));
        table.rows.push(row);
    }
    let mut none = vec!["no SSD".to_owned()];
    let shown = |outcome: &Outcome| [format!("{:.0}/s", outcome.iops), format!("{:.2} ms", outcome.response_ms)];
    none.extend(all.iter().filter_map(|trace| trace.of(warm).first()).flat_map(shown));
    table.rows.push(none);
    table
}

fn work(all: &[Outcomes], warm: bool) -> Table {
    let columns = [
        "trace",
        "system",
        "IOPS",
        "read, ms",
        "median",
        "90 %",
        "99 %",
        "hits",
        "by recipes",
        "requests of the disks a read",
        "regions read a read",
    ];
    let mut table = Table::new(format!("COS, {}: what the disks did", name(warm)), &columns);
    for trace in all {
        for (system, outcome) in systems().zip(trace.of(warm)) {
            let share = |share: f64| match system {
                Some(_) => format!("{:.1} %", share * 100.0),
                None => "–".to_owned(),
            };
            let mut row = vec![
                trace.trace.fiu.name().to_owned(),
                system.map_or("no SSD", Kind::name).to_owned(),
                format!("{:.0}", outcome.iops),
                format!("{:.2}", outcome.response_ms),
            ];
            row.extend(outcome.percentiles_ms.map(|ms| format!("{ms:.2}")));
            row.extend([
                share(outcome.hits),
                share(outcome.recipe_hits),
                format!("{:.2}", outcome.requests),
                format!("{:.2}", outcome.regions),
            ]);
            table.rows.push(row);
        }
    }
    table
}

fn verdicts(all: &[Outcomes]) -> Vec<Verdict> {
    const WHY: &str = "without an SSD this store acknowledges a write when RAM has it, and writes to the disks one long stream, whatever the \
                       addresses: an SSD gains little by acknowledging writes. Once half of the cache is dirty they wait for destage, which \
                       flushes the store after 4 MiB at most. More of the 32 requests that are always under way are reads then, and \
                       those that miss wait for one another, and for destage, at the disks; reuse is the synthetic traces'";
    const SAVED_WHY: &str = "before this store, which finds duplicates again by itself, a content that is known in the cache saves no request of \
                             the disks but for reads found by recipes; and where contents shrink by half, compression keeps more of \
                             them than deduplication does";
    const EXTENTS_WHY: &str = "the engine caches in write-evict units only, so that there are no extents to be compared with; the simulator has both \
                               (`nitro reproduce`)";
    let [dc, d, c, plain] = Kind::ALL;
    let homes = all.iter().find(|trace| trace.trace.fiu == Fiu::Homes).map(|trace| trace.more(true, IOPS, dc, None));
    let [iops, response] = [IOPS, RESPONSE].map(|figure| between(all, figure, dc, plain));
    let found = format!(
        "(D, C) beside WEU (ND, NC): IOPS {}, response {}; extents: not measured",
        percents(&iops),
        percents(&response)
    );
    vec![
        judge_warm(&gains(all, true, IOPS), &gains(all, true, RESPONSE), homes).because(WHY),
        judge_dedup_first(&between(all, IOPS, d, c)).because(SAVED_WHY),
        Verdict::new("N12", found, Holds::NotJudged).because(EXTENTS_WHY),
        judge_cold(&gains(all, false, IOPS), &gains(all, false, RESPONSE)).because(WHY),
    ]
}
