//! The traces of the evaluation: published figures, where sources disagree, and what the generator makes of them.

mod measured;
mod published;

use super::{Fiu, Plan};
use crate::report::{Chart, Line, Lines, Section, Table, percent_more, percents, shown};
use measured::{CACHE_PERCENTS, Hits, Measured};
use nitro_console::error::Error;
use nitro_trace::TraceError;
pub(super) use published::Published;
use published::{DAYS, FIGURE_1, MEDIAN_KIB, SAMPLES_KIB};
use serde::Serialize;

pub(super) const ID: &str = "traces";
/// Sources whose figures differ by less, in percent, do not disagree.
const SAME_PERCENT: f64 = 1.0;
const NITRO: &str = "Nitro §5";
const HEADER: &str = "header";
const SAMPLES: &str = "public samples";
const RUNS: &str = "runs in the public samples";
const MILLION: f64 = 1e6;
const GB: f64 = 1e9;
const DAY_NS: f64 = 86_400e9;

/// The hashes of the three generators at the published size, with the seed 1: of their parameters and first requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Hashes {
    webvm: String,
    homes: String,
    mail: String,
}

impl Hashes {
    pub(super) fn new() -> Result<Self, Error> {
        let of = |fiu: Fiu| {
            let digest = fiu.like(1.0, 1).digest().map_err(|e| failed(&e))?;
            Ok(digest.0.iter().map(|byte| format!("{byte:02x}")).collect())
        };
        Ok(Self { webvm: of(Fiu::WebVm)?, homes: of(Fiu::Homes)?, mail: of(Fiu::Mail)? })
    }

    const fn of(&self, fiu: Fiu) -> &String {
        match fiu {
            Fiu::WebVm => &self.webvm,
            Fiu::Homes => &self.homes,
            Fiu::Mail => &self.mail,
        }
    }
}

fn failed(error: &TraceError) -> Error {
    Error::with_sources("traces", error).or("another --scale may be possible")
}

/// A figure of a trace.
struct Figure {
    name: String,
    decimals: usize,
    /// Published figures with their sources; the first one is what the generator is compared with.
    published: Vec<(f64, &'static str)>,
    generated: f64,
    /// A second generated figure, with its meaning.
    beside: Option<(f64, &'static str)>,
}

impl Figure {
    fn new(name: &str, decimals: usize, published: &[(f64, &'static str)], generated: f64) -> Self {
        Self { name: name.to_owned(), decimals, published: published.to_vec(), generated, beside: None }
    }

    fn row(&self) -> Vec<String> {
        let told = |(figure, source): &(f64, &str)| format!("{} ({source})", shown(Some(*figure), self.decimals));
        let first = self.published.first();
        let others =
            self.published.iter().skip(1).filter(|(figure, _)| {
                first.is_some_and(|(first, _)| percent_more(*figure, *first).abs() >= SAME_PERCENT)
            });
        let others: Vec<_> = others.map(told).collect();
        let dash = || "–".to_owned();
        let generated = shown(Some(self.generated), self.decimals);
        let beside = self.beside.map(|(figure, what)| format!("; {what} {}", shown(Some(figure), self.decimals)));
        vec![
            self.name.clone(),
            first.map_or_else(dash, told),
            if others.is_empty() { dash() } else { others.join(", ") },
            generated + &beside.unwrap_or_default(),
            first.map_or_else(dash, |(first, _)| percents(&[percent_more(self.generated, *first)])),
        ]
    }
}

/// The figures of a trace, generated at `scale` of its size; volumes and counts are those of the published size.
fn figures(fiu: Fiu, scale: f64, measured: &Measured) -> Vec<Figure> {
    let published = Published::of(fiu);
    let mut figures = volumes(&published, scale, measured);
    figures.extend(requests(&published, measured));
    figures.extend(reuse(&published, scale, measured));
    figures
}

/// `bytes` at the published size, in GB.
fn whole_gb(bytes: u64, scale: f64) -> f64 {
    bytes as f64 / scale / GB
}

fn ratio(written: f64, read: f64) -> f64 {
    written / read.max(1.0)
}

/// How much there is, and is read and written.
fn volumes(published: &Published, scale: f64, measured: &Measured) -> Vec<Figure> {
    let Published { volume_gb, accessed_percent, header, blocks, .. } = published;
    let summary = &measured.summary;
    let millions = |count: f64| count / scale / MILLION;
    vec![
        Figure::new("file system, GB", 0, &[(*volume_gb, NITRO)], whole_gb(summary.address_end, scale)),
        Figure::new(
            "accessed share of it, %",
            1,
            &[(*accessed_percent, NITRO)],
            100.0 * whole_gb(summary.footprint_bytes, scale) / volume_gb,
        ),
        Figure::new("length, days", 1, &[(DAYS, "FIU's page")], summary.span_ns() as f64 / DAY_NS),
        Figure::new(
            "records, millions",
            2,
            &[(header.records / MILLION, HEADER)],
            millions((measured.records.reads.count + measured.records.writes.count) as f64),
        ),
        Figure::new("requests, millions", 2, &[], millions((summary.reads.count + summary.writes.count) as f64)),
        Figure::new(
            "blocks read, millions",
            2,
            &[(header.read() / MILLION, HEADER), (blocks.read() / MILLION, blocks.name)],
            millions(measured.read()),
        ),
        Figure::new(
            "blocks written, millions",
            2,
            &[(header.written() / MILLION, HEADER), (blocks.written / MILLION, blocks.name)],
            millions(measured.written()),
        ),
        Figure::new(
            "blocks read and written, millions",
            2,
            &[((header.read() + header.written()) / MILLION, HEADER), (blocks.all / MILLION, blocks.name)],
            millions(measured.read() + measured.written()),
        ),
    ]
}

/// What the requests are like.
fn requests(published: &Published, measured: &Measured) -> Vec<Figure> {
    let Published { writes_per_read, small_percent, header, sample, blocks, .. } = published;
    let summary = &measured.summary;
    let runs = (sample.small_percent, RUNS);
    let small = small_percent.map_or_else(|| vec![runs], |percent| vec![(percent, "Nitro §6.2"), runs]);
    vec![
        Figure {
            beside: Some((ratio(measured.written(), measured.read()), "in blocks")),
            ..Figure::new(
                "writes per read",
                1,
                &[
                    (*writes_per_read, NITRO),
                    (ratio(header.written(), header.read()), HEADER),
                    (ratio(blocks.written, blocks.read()), blocks.name),
                ],
                ratio(summary.writes.count as f64, summary.reads.count as f64),
            )
        },
        Figure::new(
            "blocks written for each unique one",
            2,
            &[(blocks.per_unique(), blocks.name), (FIGURE_1, "Nitro, Figure 1: about")],
            ratio(summary.written_prints as f64, summary.unique_written_prints as f64),
        ),
        Figure::new(
            "mean record, KiB",
            1,
            &[(header.mean_kib(), HEADER), (SAMPLES_KIB, SAMPLES)],
            measured.record_kib(),
        ),
        Figure::new(
            "records that continue a stream, %",
            0,
            &[(sample.sequential_percent, SAMPLES)],
            100.0 * measured.records.sequential_share(),
        ),
        Figure::new("median request, KiB", 1, &[(MEDIAN_KIB, "Nitro §3")], measured.median_kib()),
        Figure::new("mean request, KiB", 1, &[(sample.run_kib, RUNS)], measured.mean_kib()),
        Figure::new("requests of at most 8 KiB, %", 0, &small, measured.small_percent()),
    ]
}

/// Which blocks are accessed, and how often again.
fn reuse(published: &Published, scale: f64, measured: &Measured) -> Vec<Figure> {
    let Published { volume_gb, accessed_percent, header, blocks, .. } = published;
    let summary = &measured.summary;
    let accessed_blocks = volume_gb * GB * accessed_percent / 100.0 / 4096.0;
    let first = |all: f64| 100.0 * accessed_blocks / all;
    let mut figures = vec![
        Figure::new(
            "first accesses, % of blocks",
            1,
            &[(first(header.read() + header.written()), "Nitro §5 and header"), (first(blocks.all), blocks.name)],
            measured.first_percent(),
        ),
        Figure::new("places read, GB", 2, &[], whole_gb(summary.read_footprint_bytes, scale)),
        Figure::new("places written, GB", 2, &[], whole_gb(summary.written_footprint_bytes, scale)),
        Figure::new("requests that continue a stream, %", 1, &[], 100.0 * summary.sequential_share()),
    ];
    for (percent, Hits { reads, all }) in CACHE_PERCENTS.iter().zip(&measured.lru) {
        let name = format!("LRU hits of blocks read, cache of {percent} %, %");
        figures.push(Figure { beside: Some((*all, "with writes")), ..Figure::new(&name, 1, &[], *reads) });
    }
    figures
}

/// Generates the traces of a plan, measures them, and writes the section.
pub(super) fn section(plan: &Plan, hashes: &Hashes) -> Result<Section, Error> {
    let (mut tables, mut lines) = (Vec::new(), Vec::new());
    for fiu in Fiu::ALL {
        let scale = plan.scale(fiu);
        let measured = Measured::new(&fiu.like(scale, plan.seed)).map_err(|e| failed(&e))?;
        let about = if measured.summary.exact { "" } else { ", distinct blocks estimated to 0.1 %" };
        let title = format!("{}, generated at {scale} of its size{about}", fiu.name());
        let mut table = Table::new(title, &["", "published", "other sources, if they disagree", "generated", ""]);
        table.rows = figures(fiu, scale, &measured).iter().map(Figure::row).collect();
        tables.push(table);
        let points = CACHE_PERCENTS.iter().zip(&measured.lru).map(|(percent, hits)| (*percent, hits.reads)).collect();
        lines.push(Line { name: fiu.name().into(), points });
    }
    let mut table = Table::new("Hashes of the generator, at the published size, seed 1", &["trace", "SHA-1"]);
    table.rows.extend(Fiu::ALL.map(|fiu| vec![fiu.name().to_owned(), hashes.of(fiu).clone()]));
    tables.push(table);
    Ok(Section {
        id: ID,
        title: "The traces".into(),
        text: TEXT.into(),
        charts: vec![Chart::Lines(Lines {
            title: "LRU hits of the generated traces".into(),
            x_label: "cache, % of the file system".into(),
            y_label: "blocks read that hit, %".into(),
            log_x: true,
            log_y: false,
            y_min: 0.0,
            lines,
            events: Vec::new(),
        })],
        tables,
        verdicts: Vec::new(),
    })
}

const TEXT: &str = "What is published about the three FIU traces, where sources disagree, and the generated traces, measured. The \
     last column is the difference of the generated figure to the published one; counts and volumes are divided by \
     the scale. Blocks have 4 KiB. Sources: **Nitro**, by section or figure; **FIU's page** of the traces (1 to 21 \
     November 2008); the **header**, a comment in a header file of public programs that replay the traces, with \
     records, sectors read and sectors written of each whole trace (14,294,158, 24,931,648 and 89,421,616 of WebVM; \
     17,836,701, 32,418,889 and 136,881,792 of Homes; 460,334,027, 410,786,016 and 3,271,886,200 of Mail); the \
     **block counts** that are published for the traces: all, written, and unique among the written ones. Beside the \
     header's, those of Mail are of about a day, and that of all blocks of Homes is the header's number of records, \
     which have 4.7 KiB in the mean; the **public samples**, 1,000 records of WebVM and of Homes and 10,000 of Mail. \
     **Records and requests**: nearly all records have 4 KiB, but Nitro's requests have a median of 8 KiB, and 71 % \
     of Mail's are larger, which no record of the samples is. In the samples, most records continue the one before \
     them, 35 µs later in the median: the tracer cut requests into records. The generator makes requests, which the \
     evaluation replays, and cuts them into records, which are compared with the header; a *run* in a sample is what \
     a request was: records of one kind, each of which continues the one before it within a millisecond. Figure 4 \
     also shows a replay record by record. The generator follows the header for the volume of reads and writes, and \
     the block counts for unique content. No source at hand tells the places read and written apart, or has reuse \
     distances, hits of LRU or streams of these traces (Nitro §5 calls a large fraction of Homes' writes random): \
     these figures follow from the generator's assumptions, and no claim that depends on them can be confirmed in \
     amount. Requests have Nitro's median in WebVM and Homes, and above it the sizes of the samples' runs; those of \
     Mail have Nitro's share of at most 8 KiB, and other sizes are assumed. A hash identifies parameters, constants \
     and the first 65,536 requests.";

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_trace::synth::FiuLike;

    fn rows(fiu: Fiu, like: &FiuLike) -> Vec<Vec<String>> {
        let measured = Measured::new(like).expect("the parameters are valid");
        figures(fiu, like.scale, &measured).iter().map(Figure::row).collect()
    }

    fn row<'a>(rows: &'a [Vec<String>], name: &str) -> &'a [String] {
        rows.iter().find(|row| row[0].starts_with(name)).map_or(&[], |row| &row[1..])
    }

    /// The difference to the published figure, in percent.
    fn difference(rows: &[Vec<String>], name: &str) -> f64 {
        let cell = row(rows, name)[3].replace('−', "-").replace(['+', '%', ' '], "");
        cell.parse().unwrap_or_else(|_| panic!("{name}: {cell}"))
    }

    #[test]
    fn generated_traces_have_what_all_sources_agree_on() {
        for (fiu, scale) in Fiu::ALL.into_iter().zip([0.02, 0.01, 0.001]) {
            let rows = rows(fiu, &fiu.like(scale, 1));
            let all = ["file system", "accessed", "length", "records, ", "mean record", "blocks read"];
            for name in all.into_iter().chain(["blocks written, ", "blocks written for"]) {
                let off = difference(&rows, name);
                assert!(off.abs() < 3.0, "{}: {name}: {off} %", fiu.name());
            }
        }
    }

    #[test]
    fn a_trace_that_is_not_as_published_is_shown_to_differ() {
        let usual = Fiu::Homes.like(0.01, 1);
        let fewer = FiuLike { blocks: usual.blocks / 2.0, first_read_share: 0.9, ..usual.clone() };
        assert!(difference(&rows(Fiu::Homes, &fewer), "blocks written, ") < -45.0);
        let unique = FiuLike { duplicate_share: 0.0, ..usual };
        assert!(difference(&rows(Fiu::Homes, &unique), "blocks written for") < -30.0);
    }

    #[test]
    fn disagreements_are_told_and_agreements_are_not() {
        let of = |fiu: Fiu, scale| rows(fiu, &fiu.like(scale, 1));
        let (web, homes, mail) = (of(Fiu::WebVm, 0.01), of(Fiu::Homes, 0.005), of(Fiu::Mail, 0.0005));
        let other = |rows: &[Vec<String>], name| row(rows, name)[1].clone();
        assert_eq!(other(&web, "writes per read"), "–");
        assert_eq!(other(&homes, "writes per read"), "23.6 (block counts)");
        assert_eq!(other(&mail, "writes per read"), "8.0 (header), 10.7 (block counts of about a day)");
        assert_eq!(other(&homes, "blocks read and written"), "17.84 (block counts)");
        assert_eq!(other(&web, "blocks read and written"), "–");
        for (rows, published) in [(&web, "1.90"), (&homes, "1.51"), (&mail, "11.10")] {
            let row = row(rows, "blocks written for each");
            assert!(row[0].starts_with(published) && row[1].starts_with("2.00 (Nitro, Figure 1"), "{row:?}");
        }
        assert!(row(&mail, "requests of at most")[0].starts_with("29 "));
        assert_eq!(row(&homes, "places read")[..2], ["–", "–"]);
    }
}
