//! The report of Table 2.

use super::super::bed::SPINDLES;
use super::{CACHE_PERCENT, Outcome, Outcomes, QUEUE_BYTES, RATE_STEPS, systems};
use crate::kind::Kind;
use crate::nitro::{
    DEPTH, DIRTY_PERCENT, Fiu, LOAD_SHARE, SATURATED, SSD_TIMES, SUSTAINED_SHARE, judge_cold, judge_dedup_first,
    judge_warm,
};
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
        "The synthetic traces of the simulator's Table 2: {}. File systems are volumes of the store, which holds all \
         requested blocks before a trace starts. Requests of the measured days arrive in open loop, with \
         exponentially distributed intervals, at {:.0} % of the highest rate that a system sustains, at which requests \
         end at {:.0} % of the rate of arrivals. It is searched in halves, in steps of 1/{RATE_STEPS} of the rate in \
         closed loop with {SATURATED} requests in flight. The cache has {CACHE_PERCENT} % of the file system, in units of 512 KiB (the minimum) on a modelled SSD {SSD_TIMES} times \
         as large. The mode is write-back with at most {DIRTY_PERCENT} % of the cache dirty; {} of RAM each hold \
         clean and dirty data on their way to the SSD; sequential reads are cached, too; there is no RAM cache. The \
         store has chunks of 8 KiB, RAM of 2/512 of the file system, and {SPINDLES} modelled 7200 rpm disks, striped \
         **without parity**: as many as hold data in the paper's two shelves of 23 disks in RAID-6 (§5.3), with as \
         large a part of their capacity (1.6 TB in the mean) as the trace has of the published one; its garbage is \
         not collected. Without an SSD, a write is acknowledged when it is in the store's RAM, which corresponds to \
         the paper's NVRAM; before that, the rest of its chunk is read. Clients do not flush. Warm: 16 days are \
         replayed with {DEPTH} requests in flight, and the next five are measured; cold: the store has the content \
         after 16 days, and the last five days are replayed. Time is virtual: that of the disks and the SSD, and an \
         assumed {} µs of the processor for each extent. Hashing, compression and decompression take no time here; in \
         the server, they run on other threads or take additional time. Hits are shares of the extents read; hits by \
         recipes are of content that was cached under another address. Disk requests include those for writes and \
         destage.",
        sizes.join(", "),
        LOAD_SHARE * 100.0,
        SUSTAINED_SHARE * 100.0,
        Size(QUEUE_BYTES),
        Cpu::default().request_ns / 1000
    )
}

fn chart(all: &[Outcomes], warm: bool, y_label: &str, figure: Figure) -> Chart {
    let heights = |kind: Kind| all.iter().map(|trace| Some(trace.more(warm, figure, kind, None))).collect();
    Chart::Bars(Bars {
        title: format!("COS, {}: relative to no SSD", name(warm)),
        y_label: y_label.into(),
        log_y: false,
        groups: all.iter().map(|outcomes| outcomes.trace.fiu.name().to_owned()).collect(),
        bars: Kind::ALL.map(|kind| (kind.name().to_owned(), heights(kind))).into(),
    })
}

fn gained(all: &[Outcomes], warm: bool) -> Table {
    let mut columns = vec![""];
    columns.extend(all.iter().flat_map(|outcomes| [outcomes.trace.fiu.name(), ""]));
    let title = format!("COS, {}: relative to no SSD, IOPS and mean read response time", name(warm));
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
        "highest rate",
        "IOPS",
        "read, ms",
        "median",
        "90 %",
        "99 %",
        "99.9 %",
        "hits",
        "by recipes",
        "disk requests per read",
        "regions read per read",
        "SSD, MB/s read",
        "written",
    ];
    let mut table = Table::new(format!("COS, {}: work of the disks", name(warm)), &columns);
    for trace in all {
        for (system, outcome) in systems().zip(trace.of(warm)) {
            let share = |share: f64| match system {
                Some(_) => format!("{:.1} %", share * 100.0),
                None => "–".to_owned(),
            };
            let mut row = vec![
                trace.trace.fiu.name().to_owned(),
                system.map_or("no SSD", Kind::name).to_owned(),
                format!("{:.0}", outcome.highest),
                format!("{:.0}{}", outcome.iops, if outcome.sustained { "" } else { " (not sustained)" }),
                format!("{:.2}", outcome.response_ms),
            ];
            row.extend(outcome.percentiles_ms.map(|ms| format!("{ms:.2}")));
            row.extend([
                share(outcome.hits),
                share(outcome.recipe_hits),
                format!("{:.2}", outcome.requests),
                format!("{:.2}", outcome.regions),
            ]);
            let megabytes = |bytes: f64| system.map_or_else(|| "–".to_owned(), |_| format!("{:.1}", bytes / 1e6));
            row.extend(outcome.ssd.map(megabytes));
            table.rows.push(row);
        }
    }
    table
}

fn verdicts(all: &[Outcomes]) -> Vec<Verdict> {
    const WHY: &str = "without an SSD, this store acknowledges a write when it is in RAM, and writes one long stream \
                       to the disks, whatever the addresses, so that an SSD gains little by acknowledging writes. With \
                       an SSD, all written data pass through it, and without compression it limits the rate: the \
                       tables show what it writes beside what it reads; the modelled drive writes 34 MB/s at random. \
                       In caches of few units, writes also wait for destage. Reads that miss wait at the disks for one \
                       another and for destage, and response times are those of queues at 95 % of different rates; the \
                       reuse of data is that of the synthetic traces";
    const SAVED_WHY: &str = "in front of this store, which finds duplicates itself, content that the cache knows saves \
                             no disk requests, except for reads that are found by recipes; and if contents are \
                             compressed to a half, the cache holds more of them by compression than by deduplication";
    const EXTENTS_WHY: &str = "the engine caches in write-evict units only, so that there is no variant with separate \
                               extents to compare with; the simulator has both (`nitro-lab reproduce`)";
    let [dc, d, c, plain] = Kind::ALL;
    let homes = all.iter().find(|trace| trace.trace.fiu == Fiu::Homes).map(|trace| trace.more(true, IOPS, dc, None));
    let [iops, response] = [IOPS, RESPONSE].map(|figure| between(all, figure, dc, plain));
    let found = format!(
        "(D, C) relative to WEU (ND, NC): IOPS {}, response {}; extents: not measured",
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
