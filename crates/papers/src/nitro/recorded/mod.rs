//! Claims on recorded traces. Duplicates count where a trace has fingerprints, which most do not have; compression is assumed
//! where the trace has no compressed sizes.

mod found;

pub use found::{Found, Trace};

use super::judges::{N4_UNITS, Wear, n3, n5, n8_each, n9};
use super::plan::Kind;
use super::{Cell, Outcomes, Plan, WARM_DAYS};
use crate::report::{Holds, Section, Table, Verdict, percent_more, percents, shown};
use nitro_console::size::Size;
use nitro_sim::{Measures, PartialWrites, Settings, Variant, Warmup};

pub(super) const ID: &str = "recorded-traces";
/// The sizes of caches in shares of the footprint. The paper's caches of 2 % of the file system are 17 % (Mail), 34 %
/// (Homes) and 38 % (WebVM) of what the traces access.
const CACHE_SHARES: [f64; 2] = [0.17, 0.38];
/// Bytes of a write-evict unit: the smallest, because the caches are small.
const WEU_BYTES: u32 = 512 << 10;
/// The buffer in shares of the cache: the paper's NVRAM of 960 MB, in front of caches of 9.4 and 10 GB.
const BUFFER_SHARE: f64 = 0.1;
/// The days of the paper's traces, of which the first 16 warm the cache.
const DAYS: u64 = 21;
const PLAIN: Kind = Kind::new(Variant::Weu, false, false);
const COMPRESSED: Kind = Kind::new(Variant::Weu, false, true);
const EXTENTS: Kind = Kind::new(Variant::Extent { ways: 0 }, false, false);
/// The same with deduplication, for traces with fingerprints: N5 compares these.
const DEDUP: Kind = Kind::new(Variant::Weu, true, false);
const DEDUP_EXTENTS: Kind = Kind::new(Variant::Extent { ways: 0 }, true, false);
/// The variants of Figure 6 beside plain units.
const WORN: [Kind; 5] = [
    Kind::new(Variant::WeuLruMod, false, false),
    Kind::new(Variant::WeuLruTrim, false, false),
    Kind::new(Variant::ExtentLruMod, false, false),
    Kind::new(Variant::ExtentLruTrim, false, false),
    Kind::new(Variant::Naive, false, false),
];
const NO_TRACES: &str = "not run: no traces given (`--traces DIR`)";
const NONE_USED: &str = "not run: none of the files given with `--traces` is a trace that can judge";
const CLAIMS: [&str; 4] = ["N3r", "N5r", "N8r", "N9r"];

fn kinds(trace: &Trace) -> impl Iterator<Item = Kind> + use<> {
    let deduplicated = if trace.fingerprints { &[DEDUP, DEDUP_EXTENTS][..] } else { &[] };
    [PLAIN, COMPRESSED, EXTENTS].into_iter().chain(WORN).chain(deduplicated.iter().copied())
}

/// A trace, and the size of the cache in a share of its footprint.
#[derive(Clone, Copy)]
struct Place<'a> {
    trace: &'a Trace,
    share: f64,
}

impl Place<'_> {
    fn cache_bytes(&self) -> u64 {
        let units = self.trace.footprint_bytes as f64 * self.share / f64::from(WEU_BYTES);
        units.round() as u64 * u64::from(WEU_BYTES)
    }

    fn cell(&self, kind: Kind) -> Cell {
        let cache_bytes = self.cache_bytes();
        let settings = Settings {
            weu_bytes: WEU_BYTES,
            partial_writes: PartialWrites::Fetch,
            warmup: Warmup::Requests((self.trace.reads + self.trace.writes) * WARM_DAYS / DAYS),
            staging_bytes: (cache_bytes as f64 * BUFFER_SHARE) as u64,
            ..Settings::new(cache_bytes)
        };
        Cell { work: self.trace.work.clone(), settings: kind.apply(settings) }
    }
}

fn places(plan: &Plan) -> impl Iterator<Item = Place<'_>> {
    let traces = plan.recorded.iter().flat_map(|found| &found.traces);
    traces.flat_map(|trace| CACHE_SHARES.map(|share| Place { trace, share }))
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    places(plan).flat_map(|place| kinds(place.trace).map(move |kind| place.cell(kind)).collect::<Vec<_>>()).collect()
}

/// The figures of a trace and a cache, in percent where they are differences.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// N3: hits by compression.
    compressed: f64,
    /// N5: hits of extents over units, with deduplication if the trace has fingerprints.
    finer: f64,
    /// Hits of units by deduplication, if the trace has fingerprints.
    dedup: Option<f64>,
    /// N8: erasures relative to plain units.
    wear: Wear,
    /// N9: hits of WEU-LRU-mod.
    modified: f64,
}

impl Figures {
    fn of(place: Place<'_>, outcomes: &Outcomes) -> Option<Self> {
        let measures = |kind| outcomes.measures(&place.cell(kind));
        let plain = measures(PLAIN)?;
        let more = |found: &Measures| percent_more(found.read_hit_ratio, plain.read_hit_ratio);
        let erasures = |kind| Some(measures(kind)?.erasures as f64 / plain.erasures.max(1) as f64);
        let [weu_mod, weu_trim, extent_mod, extent_trim, naive] = WORN;
        let (dedup, finer) = match place.trace.fingerprints {
            true => {
                let (units, extents) = (measures(DEDUP)?, measures(DEDUP_EXTENTS)?);
                (Some(more(units)), percent_more(extents.read_hit_ratio, units.read_hit_ratio))
            }
            false => (None, more(measures(EXTENTS)?)),
        };
        Some(Self {
            compressed: more(measures(COMPRESSED)?),
            finer,
            dedup,
            wear: Wear {
                units: [erasures(weu_mod)?, erasures(weu_trim)?],
                extents: [erasures(extent_mod)?, erasures(extent_trim)?],
                naive: erasures(naive)?,
            },
            modified: more(measures(weu_mod)?),
        })
    }
}

/// The verdicts on all claims, in the order of [`CLAIMS`]. Where contents are unknown, the gain of deduplication in N5 is the
/// paper's smallest.
fn judge(all: &[Figures]) -> [Holds; 4] {
    let of = |figure: fn(&Figures) -> f64| all.iter().map(figure).collect::<Vec<_>>();
    let finer = of(|figures| figures.finer);
    let dedup = of(|figures| figures.dedup.unwrap_or(N4_UNITS.low));
    let wear: Vec<_> = all.iter().map(|figures| figures.wear).collect();
    [n3(&of(|f| f.compressed)), n5(&finer, &dedup), n8_each(&wear), n9(&of(|f| f.modified))]
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let rows: Vec<_> = places(plan).filter_map(|place| Some((place, Figures::of(place, outcomes)?))).collect();
    let found = plan.recorded.as_ref();
    let mut tables = Vec::new();
    if !rows.is_empty() {
        tables.extend([used(plan), hits(plan, outcomes), erasures(&rows), each(&rows)]);
    }
    tables.extend(found.filter(|found| !found.others.is_empty()).map(others));
    Section {
        id: ID,
        title: "Recorded traces".into(),
        text: TEXT.into(),
        tables,
        verdicts: verdicts(found.is_some(), &rows.iter().map(|(_, figures)| *figures).collect::<Vec<_>>()),
        ..Section::default()
    }
}

const TEXT: &str = "The claims that need no contents, on the traces of the folder given with `--traces`: N3, N5, N8 and N9, \
     under the names N3r to N9r, judged by the same rules, in every trace with every cache. The caches have 17 and 38 % of \
     the footprint: the paper's, of 2 % of the file system, are 17 to 38 % of what its traces access (§5.2). The first 16 \
     of 21 parts of the requests warm the cache. Units have 512 KiB; extents wait in a buffer of a tenth of the cache, as \
     in the paper's Homes and Mail, before they are packed or written. N5r compares variants with deduplication if the trace \
     has fingerprints, as recordings of `nitro serve --record` do; the traces of block devices that are public have none, so that \
     duplicates are **unknown** there. All else runs without deduplication. Compression is **assumed**, with \
     the paper's distribution (mean 2), unless the trace has compressed sizes: N3r shows what reads gain if twice as many \
     extents fit, not how well these data compress. Without fingerprints, N5r compares (ND, NC), and \"only\" is judged by the \
     paper's smallest gain of deduplication (8 %); with them, by the measured gain. A trace is replayed if it has reads, touches at least a tenth of its blocks more than \
     once, and enough of them for a cache of 64 units; this was decided before any was replayed.";

/// The traces that are replayed.
fn used(plan: &Plan) -> Table {
    let columns = ["trace", "reads", "writes", "footprint", "touched more than once", "duplicates", "compression"];
    let mut table = Table::new("Traces", &columns);
    for trace in plan.recorded.iter().flat_map(|found| &found.traces) {
        table.rows.push(vec![
            trace.name.clone(),
            trace.reads.to_string(),
            trace.writes.to_string(),
            Size(trace.footprint_bytes).to_string(),
            Size(trace.again_bytes).to_string(),
            if trace.fingerprints { "of the trace" } else { "unknown" }.into(),
            if trace.compressed_sizes { "of the trace" } else { "assumed 2 : 1" }.into(),
        ]);
    }
    table
}

fn label(place: &Place<'_>) -> [String; 2] {
    [place.trace.name.clone(), format!("{} ({:.0} %)", Size(place.cache_bytes()), place.share * 100.0)]
}

/// Read-hit ratios of all variants whose hits differ.
fn hits(plan: &Plan, outcomes: &Outcomes) -> Table {
    let shown_kinds = [PLAIN, COMPRESSED, EXTENTS, WORN[0]];
    let mut table = Table::new("Read-hit ratio, %", &["trace", "cache"]);
    table.columns.extend(shown_kinds.map(|kind| match kind.variant {
        Variant::WeuLruMod => "WEU-LRU-mod".to_owned(),
        _ => kind.name(),
    }));
    for place in places(plan) {
        let ratio = |kind| outcomes.measures(&place.cell(kind)).map(|found| found.read_hit_ratio * 100.0);
        table.rows.push(label(&place).into_iter().chain(shown_kinds.map(|kind| shown(ratio(kind), 2))).collect());
    }
    table
}

fn erasures(rows: &[(Place<'_>, Figures)]) -> Table {
    let columns =
        ["trace", "cache", "WEU-LRU-mod", "WEU-LRU-TRIM", "extent-LRU-mod", "extent-LRU-TRIM", "naive extents"];
    let mut table = Table::new("Erasures relative to WEU-LRU", &columns);
    for (place, Figures { wear: Wear { units, extents, naive }, .. }) in rows {
        let times = units.iter().chain(extents).chain([naive]).map(|times| shown(Some(*times), 2));
        table.rows.push(label(place).into_iter().chain(times).collect());
    }
    table
}

/// The verdicts that each trace and cache would have alone.
fn each(rows: &[(Place<'_>, Figures)]) -> Table {
    let columns =
        ["trace", "cache", "N3r: compression", "N5r: extents over units", "N8r: erasures", "N9r: modified SSD"];
    let mut table = Table::new("Each trace and cache alone", &columns);
    for (place, figures) in rows {
        let [n3, n5, n8, n9] = judge(&[*figures]).map(Holds::words);
        let mut row = label(place).to_vec();
        row.extend([
            format!("{}: {n3}", percents(&[figures.compressed])),
            format!("{}: {n5}", percents(&[figures.finer])),
            n8.to_owned(),
            format!("{}: {n9}", percents(&[figures.modified])),
        ]);
        table.rows.push(row);
    }
    table
}

fn others(found: &Found) -> Table {
    let mut table = Table::new("Files that are not replayed", &["file", "reason"]);
    table.rows.extend(found.others.iter().map(|(name, why)| vec![name.clone(), why.clone()]));
    table
}

fn verdicts(given: bool, all: &[Figures]) -> Vec<Verdict> {
    if all.is_empty() {
        let why = if given { NONE_USED } else { NO_TRACES };
        return CLAIMS.map(|id| Verdict::not_judged(id, why)).into();
    }
    let of = |figure: fn(&Figures) -> f64| percents(&all.iter().map(figure).collect::<Vec<_>>());
    let times = |figure: fn(&Wear) -> Vec<f64>| {
        let all = all.iter().flat_map(|figures| figure(&figures.wear)).map(|times| format!("{times:.2}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let found = [
        of(|figures| figures.compressed) + " (compression assumed)",
        of(|figures| figures.finer)
            + match all.iter().filter(|figures| figures.dedup.is_some()).count() {
                0 => " (without deduplication)",
                with if with == all.len() => " (with deduplication)",
                _ => " (with deduplication where the trace has fingerprints)",
            },
        format!(
            "extent-LRU-mod and -TRIM {} ×; WEU-LRU-mod and -TRIM {} ×; naive {} ×",
            times(|wear| wear.extents.to_vec()),
            times(|wear| wear.units.to_vec()),
            times(|wear| vec![wear.naive])
        ),
        of(|figures| figures.modified),
    ];
    let verdicts = CLAIMS.into_iter().zip(found).zip(judge(all)).zip(REASONS);
    verdicts.map(|(((id, found), holds), why)| Verdict::new(id, found, holds).because(why)).collect()
}

/// The reasons of verdicts, in the order of [`CLAIMS`].
const REASONS: [&str; 4] = [
    "what a larger effective cache gains depends on the trace's reuse distances between 17 and 76 % of its footprint; \
     those of one disk over minutes or hours are not those of a file server over weeks",
    "a unit is evicted with its live extents, and an overwritten extent leaves a hole in its unit, whereas an extent that \
     is cached separately is replaced alone; but exact LRU also evicts each extent just before its next use where data are \
     read in cycles that are larger than the cache. What prevails depends on the reuse of the trace",
    "the cost of a unit is exact: one erasure of each of its blocks. That of extents depends on how many of a block are \
     still cached when the block is collected: few where extents leave in the order in which they came. A log block of \
     naive extents is merged with at most as many data blocks as it has pages, which limits its cost to a few times this \
     number",
    "the modified SSD gains by its capacity, which is 17 % larger; the effect on hits depends on reuse",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const LIKE_THE_PAPER: Figures = Figures {
        compressed: 7.0,
        finer: 2.0,
        dedup: None,
        wear: Wear { units: [0.95, 1.0], extents: [3.0, 2.5], naive: 5000.0 },
        modified: 6.0,
    };

    #[test]
    fn each_claim_can_hold_and_fail_on_recorded_traces() {
        assert_eq!(judge(&[LIKE_THE_PAPER]), [Holds::Holds; 4]);
        let unlike = Figures {
            compressed: -0.1,
            finer: 9.0,
            dedup: None,
            wear: Wear { naive: 12.0, ..LIKE_THE_PAPER.wear },
            modified: -1.0,
        };
        // One trace that does not hold is enough.
        assert_eq!(judge(&[LIKE_THE_PAPER, unlike]), [Holds::DoesNot; 4]);
        // Measured, deduplication gains less than finer extents do.
        assert_eq!(judge(&[Figures { dedup: Some(1.0), finer: 6.0, ..LIKE_THE_PAPER }])[1], Holds::DoesNot);
        let weaker = Figures {
            compressed: 20.0,
            finer: 6.0,
            dedup: None,
            wear: Wear { extents: [9.0, 3.0], ..LIKE_THE_PAPER.wear },
            modified: 1.0,
        };
        assert_eq!(judge(&[weaker]), [Holds::InDirection; 4]);
    }

    #[test]
    fn without_traces_nothing_is_judged_and_the_reason_is_given() {
        for (given, why) in [(false, NO_TRACES), (true, NONE_USED)] {
            for verdict in verdicts(given, &[]) {
                assert_eq!((verdict.holds, verdict.reason.as_str()), (Holds::NotJudged, why), "{}", verdict.id);
            }
        }
        assert!(section(&Plan::quick(1), &Outcomes::default()).tables.is_empty());
    }

    #[test]
    fn contents_that_a_trace_lacks_are_not_shown_as_measured() {
        let trace = Trace {
            name: "disk.csv".into(),
            work: crate::nitro::Work::Recorded {
                path: Path::new("disk.csv").into(),
                identity: std::sync::Arc::new("x".into()),
            },
            reads: 2100,
            writes: 0,
            footprint_bytes: 1 << 30,
            again_bytes: 1 << 29,
            fingerprints: false,
            compressed_sizes: false,
        };
        let recorded = Some(Found { traces: vec![trace], others: Vec::new() });
        let plan = Plan { recorded, ..Plan::quick(1) };
        assert_eq!(used(&plan).rows[0][5..], ["unknown", "assumed 2 : 1"]);
        for Cell { settings, .. } in cells(&plan) {
            assert!(!settings.dedup && settings.check().is_ok(), "{settings:?}");
            assert_eq!(settings.warmup, Warmup::Requests(1600));
        }
        assert_eq!(cells(&plan).len(), 16);
        let mut with = plan.clone();
        with.recorded.iter_mut().flat_map(|found| &mut found.traces).for_each(|trace| trace.fingerprints = true);
        assert_eq!(used(&with).rows[0][5], "of the trace");
        assert_eq!(cells(&with).iter().filter(|cell| cell.settings.dedup).count(), 4);
        assert_eq!(places(&plan).next().map(|place| place.cache_bytes()), Some(348 * (512 << 10)));
    }
}
