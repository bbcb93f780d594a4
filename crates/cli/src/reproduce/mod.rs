//! `nitro reproduce`: the paper's evaluation again, ours beside theirs.

mod clam;
mod compressors;
mod cos;
mod html;
mod indexes;
mod kind;
mod markdown;
mod overheads;
mod silt;
mod svg;
mod synthetic;

use crate::args::{Paper, ReproduceArgs};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_sim::experiments::{Cell, EXPERIMENTS, Holds, Outcomes, Plan, Section, Step, Verdict, run as simulate};
use serde::Serialize;
use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

/// What is measured on this machine, after the simulations.
const OVERHEADS: &str = "figure-8";
const COMPRESSORS: &str = "compressors";
/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// All that a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Of the program.
    pub(crate) version: &'static str,
    /// That makes it again.
    pub(crate) command: String,
    /// The heading.
    pub(crate) title: &'static str,
    /// Which paper, and how it was made again.
    pub(crate) about: String,
    /// The traces' sizes beside the published ones, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scales: Option<[f64; 3]>,
    /// From beginning to end, in seconds; less where outcomes were known.
    pub(crate) seconds: f64,
    pub(crate) sections: Vec<Section>,
    /// Simulations that could not be run.
    pub(crate) failures: Vec<String>,
}

/// Runs what is asked for, and writes the report.
pub(crate) fn run(args: &ReproduceArgs) -> Result<(), Error> {
    match &args.paper {
        None => evaluation(args),
        Some(Paper::Clam(args)) => clam::run(args),
        Some(Paper::Silt(args)) => silt::run(args),
        Some(Paper::Cos(args)) => cos::run(args),
    }
}

/// Nitro's.
fn evaluation(args: &ReproduceArgs) -> Result<(), Error> {
    let begun = Instant::now();
    check_names(&args.only)?;
    let wants = |id: &str| args.only.is_empty() || args.only.iter().any(|only| only == id);
    make(&args.folder)?;
    let plan = if args.quick { Plan::quick(args.seed) } else { Plan::full(args.seed) }.scaled(args.scale);
    let wanted: Vec<_> = EXPERIMENTS.iter().filter(|experiment| wants(experiment.id)).collect();
    let cells: Vec<Cell> = wanted.iter().flat_map(|experiment| (experiment.cells)(&plan)).collect();
    let outcomes = run_cells(&cells, args)?;
    let mut sections: Vec<Section> = wanted.iter().map(|experiment| (experiment.section)(&plan, &outcomes)).collect();
    if wants(OVERHEADS) {
        say("figure-8: measured on this machine");
        sections.push(overheads::section(args.quick, args.seed, &args.folder)?);
    }
    if wants(COMPRESSORS) {
        sections.push(compressors::section()?);
    }
    if args.only.is_empty() {
        sections.push(not_measured());
    }
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        command: command(args),
        title: "Nitro's evaluation, made again",
        about: about(plan.scales),
        scales: Some(plan.scales),
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: outcomes.failures().to_vec(),
    };
    publish(&report, &args.folder, "reproduction", args.output.format)?;
    if report.failures.is_empty() {
        return Ok(());
    }
    Err(Error::new("reproduce", format_args!("could not be simulated: {}", report.failures.join("; ")))
        .or("the report has the rest"))
}

fn unusable(folder: &Path, why: &std::io::Error) -> Error {
    Error::new(format_args!("folder {}", folder.display()), why).or("name one that can be written to")
}

/// Makes the folder for the report.
fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|e| unusable(folder, &e))
}

/// What Nitro's report is about.
fn about([webvm, homes, mail]: [f64; 3]) -> String {
    format!(
        "The paper: *Nitro: A Capacity-Optimized SSD Cache for Primary Storage* (USENIX ATC 2014). Its three FIU traces are not \
         used: **synthetic traces** with their published figures (file system, footprint, writes per read, share of unique \
         content, request sizes, 21 days) stand for them, at {webvm}, {homes} and {mail} of their size (WebVM, Homes, Mail), with caches \
         in proportion; their addresses, times and reuse are made up. All is simulated with the server's own cache manager on \
         modelled devices, but Figure 8 and the compressors, which are measured. {JUDGED}"
    )
}

/// What verdicts mean.
const JUDGED: &str = "A claim *holds* if the figures lie where the paper's do, within a quarter of them; it *holds in direction* if \
                      what is better and what is worse is the same.";

fn check_names(only: &[String]) -> Result<(), Error> {
    let known: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.id).chain([OVERHEADS, COMPRESSORS]).collect();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Error::new(format_args!("--only {name}"), "there is no such figure").or(known.join(", "))),
        None => Ok(()),
    }
}

fn command(args: &ReproduceArgs) -> String {
    let mut command = "nitro reproduce".to_owned();
    if args.quick {
        command += " --quick";
    }
    if args.scale != 1.0 {
        command += &format!(" --scale {}", args.scale);
    }
    if !args.only.is_empty() {
        command += &format!(" --only {}", args.only.join(","));
    }
    if args.seed != 1 {
        command += &format!(" --seed {}", args.seed);
    }
    command
}

fn say(what: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    eprintln!("{what}");
}

fn run_cells(cells: &[Cell], args: &ReproduceArgs) -> Result<Outcomes, Error> {
    let threads = args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let file = args.folder.join("outcomes.jsonl");
    let terminal = stderr().is_terminal();
    let mut told = None::<Instant>;
    let mut tell = |step: Step<'_>| {
        let (done, of) = step.traces;
        let doing = match step.extents {
            (_, 0) => "being made".to_owned(),
            (extents, all) => format!("{:.0} % simulated", 100.0 * extents as f64 / all as f64),
        };
        let line = format!("trace {} of {of}, {}: {doing}", done + 1, step.work.name());
        if terminal {
            eprint!("\r\x1b[K{line}");
            // A terminal that is gone takes nothing.
            let _ = stderr().flush();
        } else if told.is_none_or(|told| told.elapsed() >= LINE_EVERY) {
            eprintln!("{line}");
            told = Some(Instant::now());
        }
    };
    let outcomes = simulate(cells, &file, threads, &mut tell);
    if terminal {
        eprint!("\r\x1b[K");
    }
    outcomes
        .map_err(|e| Error::with_sources("reproduce", &e).or("remove the file to begin anew, or name another --folder"))
}

/// What no model here can tell.
fn not_measured() -> Section {
    let why = "the model of a deduplicating origin has no layout that ages; `nitro reproduce cos` measures both on the store itself";
    let verdict = |id, claim| Verdict::new(id, claim, "–", Holds::NotMeasured).noting(why);
    Section {
        id: "figures-9-10",
        title: "Figures 9 and 10: aged and restored snapshots".into(),
        text: "Not measured here; see `nitro reproduce cos`.".into(),
        verdicts: vec![
            verdict(
                "N19",
                "random reads up to about 128 KiB are as fast in an aged store as in a young one; at 1 MiB Nitro on the aged COS \
                 takes 76 ms, slightly under the young COS; on the young COS 39 ms, slightly under the aged TPS",
            ),
            verdict(
                "N20",
                "restoring the oldest 25 snapshots with a 5 % cache: 374 s (D, C), 513 s (ND, C); overlap with the primary 80 % \
                 (newest) to 20 % (oldest)",
            ),
        ],
        ..Section::default()
    }
}

/// Writes the report's three files, called `name`, and prints what was found.
fn publish(report: &Report, folder: &Path, name: &str, format: Format) -> Result<(), Error> {
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

/// All claims, in the paper's order.
pub(crate) fn verdicts(report: &Report) -> Vec<&Verdict> {
    let mut all: Vec<_> = report.sections.iter().flat_map(|section| &section.verdicts).collect();
    all.sort_by_key(|verdict| verdict.id[1..].parse::<u32>().unwrap_or(u32::MAX));
    all
}

/// For people: what is long comes last.
fn text(report: &Report, page: &Path) -> String {
    let line = |verdict: &&Verdict| format!("{:<4} {:<18} {}\n", verdict.id, verdict.holds.words(), verdict.found);
    let claims: String = verdicts(report).iter().map(line).collect();
    format!("{claims}\nThe report: {}\n", page.display())
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(["claim", "verdict", "found"]);
    for verdict in verdicts(report) {
        table.row(vec![verdict.id.to_owned(), verdict.holds.words().to_owned(), verdict.found.clone()]);
    }
    table
}
