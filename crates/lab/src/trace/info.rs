//! `nitro-lab trace info`

use crate::args::InfoArgs;
use nitro_commands::traces::{Input, refused};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_trace::{Summary, summarize};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A trace and its statistics.
#[derive(Serialize)]
struct Report {
    files: Vec<String>,
    /// The format of each file; `columns` if the user described the columns, `stdin` or `stream` if what
    /// can be read only once has a format that was not named.
    formats: Vec<String>,
    /// The metadata of a Parquet file, above all whether the trace is synthetic.
    notes: BTreeMap<String, String>,
    #[serde(flatten)]
    summary: Summary,
    duration_seconds: f64,
    read_share: f64,
    sequential_share: f64,
    duplicate_share: f64,
    written_duplicate_share: f64,
    compression_ratio: f64,
}

/// Reads traces to their end and prints their statistics.
pub(super) fn run(args: &InfoArgs) -> Result<(), Error> {
    let mut input = Input::open(&args.traces, &args.read)?;
    let summary = summarize(&mut input).map_err(|e| refused(&e))?;
    input.tell_skipped();
    let told = |(path, format): (&PathBuf, &Option<nitro_trace::Format>)| match format {
        Some(format) => format.as_str(),
        None if args.read.columns.is_some() => "columns",
        None if path.as_os_str() == "-" => "stdin",
        None => "stream",
    };
    let report = Report {
        files: args.traces.iter().map(|path| path.display().to_string()).collect(),
        formats: args.traces.iter().zip(&input.formats).map(|of| told(of).to_owned()).collect(),
        notes: std::mem::take(&mut input.notes).into_iter().collect(),
        duration_seconds: summary.span_ns() as f64 / 1e9,
        read_share: summary.read_share(),
        sequential_share: summary.sequential_share(),
        duplicate_share: summary.duplicate_share(),
        written_duplicate_share: summary.written_duplicate_share(),
        compression_ratio: summary.compression_ratio(),
        summary,
    };
    let text = match args.output.format {
        Format::Json => output::json_pretty(&report)?,
        Format::Csv => report.csv(),
        Format::Table => report.table(),
    };
    output::print(&text).map(|_| ())
}

impl Report {
    fn table(&self) -> String {
        let mut out = String::new();
        for (file, format) in self.files.iter().zip(&self.formats) {
            out += &format!("trace         {file} ({format})\n");
        }
        for (key, value) in &self.notes {
            out += &format!("{key:<13} {value}\n");
        }
        out + &self.summary.to_string()
    }

    fn csv(&self) -> String {
        let summary = &self.summary;
        let count = |number: u64| number.to_string();
        let share = |share: f64| format!("{share:.6}");
        let cells = [
            ("requests", count(summary.requests)),
            ("reads", count(summary.reads.count)),
            ("read_bytes", count(summary.reads.bytes)),
            ("writes", count(summary.writes.count)),
            ("written_bytes", count(summary.writes.bytes)),
            ("trims", count(summary.trims.count)),
            ("flushes", count(summary.flushes.count)),
            ("others", count(summary.others.count)),
            ("duration_seconds", format!("{:.6}", self.duration_seconds)),
            ("objects", count(summary.objects)),
            ("address_end", count(summary.address_end)),
            ("footprint_bytes", count(summary.footprint_bytes)),
            ("read_footprint_bytes", count(summary.read_footprint_bytes)),
            ("written_footprint_bytes", count(summary.written_footprint_bytes)),
            ("working_set_bytes", count(summary.working_set_bytes)),
            ("sequential_share", share(self.sequential_share)),
            ("fingerprints", count(summary.prints)),
            ("unique_fingerprints", count(summary.unique_prints)),
            ("duplicate_share", share(self.duplicate_share)),
            ("written_duplicate_share", share(self.written_duplicate_share)),
            ("compression_ratio", share(self.compression_ratio)),
            ("exact", summary.exact.to_string()),
            ("bad_records", count(summary.skipped)),
        ];
        let mut table = Table::new(cells.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        table.row(cells.into_iter().map(|(_, value)| value).collect());
        table.csv(true)
    }
}
