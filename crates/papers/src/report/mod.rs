//! The report of a run: sections of tables, charts and verdicts, and the files that show them.

mod html;
mod judge;
mod markdown;
mod overview;
mod section;
mod svg;

pub use judge::{Band, Holds, Part, Verdict, judge_up_to, judged, percent_more, percents, reason};
pub(crate) use section::shown;
pub use section::{Bars, Chart, Contour, Line, Lines, Point, Points, Section, Table};

use crate::claims;
use crate::nitro::Hashes;
use nitro_console::error::Error;
use nitro_console::note;
use nitro_console::output::{self, Format};
use nitro_console::progress::replace_line;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The report of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The version of the program.
    pub(crate) version: &'static str,
    /// The command that reproduces the report.
    pub(crate) command: String,
    /// The heading.
    pub(crate) title: &'static str,
    /// The paper, and the method of the reproduction.
    pub(crate) about: String,
    /// The sizes of the traces, relative to the published ones, if there are traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scales: Option<[f64; 3]>,
    /// The hashes of the generator of the traces, if there are traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) generator: Option<Hashes>,
    /// The duration of the run in seconds; shorter if stored outcomes were used.
    pub(crate) seconds: f64,
    pub(crate) sections: Vec<Section>,
    /// The simulations that could not be run.
    pub(crate) failures: Vec<String>,
}

fn unusable(folder: &Path, why: &std::io::Error) -> Error {
    Error::new(format_args!("folder {}", folder.display()), why).or("name one that can be written to")
}

/// Creates the folder of the report.
pub(crate) fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|e| unusable(folder, &e))
}

/// The meaning of verdicts.
pub(crate) const JUDGED: &str = "A claim *holds* if each of its figures is within a quarter of the paper's figure, \
                                 above or below. It is *better* if a figure exceeds that range because the design is \
                                 better; the reason names the difference. It *holds in direction* if every part of the \
                                 claim has the paper's sign and order in every trace that it covers. Otherwise it \
                                 *does not hold*, or it is *explained by the trace* if a published figure of the trace \
                                 shows that it cannot hold. It is *not comparable* if it depends on the hardware or \
                                 the prices of its time, and *not judged* if a part of it was not measured.";

/// Prints a message on standard error, over the progress line.
pub(crate) fn say(what: &str) {
    replace_line("");
    note!("{what}");
}

/// Writes the report's three files, named `name`, and prints the results.
pub(crate) fn publish(report: &Report, folder: &Path, name: &str, format: Format) -> Result<(), Error> {
    let page = folder.join(name).with_extension("html");
    let write = || {
        fs::write(&page, html::page(report))?;
        fs::write(page.with_extension("md"), markdown::page(report))?;
        let json = serde_json::to_string_pretty(report).map_err(std::io::Error::other)?;
        fs::write(page.with_extension("json"), json + "\n")
    };
    write().map_err(|e| unusable(folder, &e))?;
    let text = match format {
        Format::Json => output::json_pretty(report)?,
        Format::Csv => table(report).csv(true),
        Format::Table => text(report, &page),
    };
    output::print(&text).map(|_| ())
}

/// All verdicts, in the order of [`claims::all`].
pub(crate) fn verdicts(report: &Report) -> Vec<&Verdict> {
    let mut all: Vec<_> = report.sections.iter().flat_map(|section| &section.verdicts).collect();
    let place = |id| claims::all().position(|claim| claim.id == id);
    all.sort_by_key(|verdict| place(verdict.id));
    all
}

/// The verdicts as text, and the path of the report.
fn text(report: &Report, page: &Path) -> String {
    let line = |verdict: &&Verdict| format!("{:<4} {:<18} {}\n", verdict.id, verdict.holds.words(), verdict.found);
    let verdicts = verdicts(report);
    let claims: String = verdicts.iter().map(line).collect();
    let counts = overview::words(&overview::counts(&verdicts));
    format!("{claims}\n{} verdicts: {counts}\nThe report: {}\n", verdicts.len(), page.display())
}

fn table(report: &Report) -> output::Table {
    let mut table = output::Table::new(["claim", "verdict", "found"]);
    for verdict in verdicts(report) {
        table.row(vec![verdict.id.to_owned(), verdict.holds.words().to_owned(), verdict.found.clone()]);
    }
    table
}
