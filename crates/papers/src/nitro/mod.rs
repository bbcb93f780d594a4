//! The evaluation of Nitro (USENIX ATC 2014, §5 and §6), reproduced: the simulations behind each figure and table,
//! their results, and whether the paper's claims hold.
//!
//! An [`Experiment`] names its [`Cell`]s, one simulation each, and makes a [`Section`] from the outcomes. Cells are the
//! same in every run, so outcomes can be stored, and a run that was stopped continues where it stopped.
//!
//! The FIU traces are not part of Nitro: [`FiuLike`](nitro_trace::synth::FiuLike) traces with their published figures
//! replace them.

mod cell;
mod compressors;
mod figure1;
mod figure4;
mod figure5;
mod figure6;
mod figure7;
mod judges;
mod overheads;
mod parameters;
mod plan;
mod recorded;
mod run;
mod sensitivity;
mod ssd_throughput;
mod ssd_writes;
mod synthetic;
mod table2;
mod traces;
mod work;

pub use cell::{Cell, Outcomes};
pub use plan::{DIRTY_PERCENT, Fiu, Mode, Plan, WARM_DAYS, WARM_NS};
pub use recorded::{Found, Trace};
pub use run::{Step, run};
pub use table2::{DEPTH, LOAD_SHARE, SATURATED, SSD_TIMES, SUSTAINED_SHARE, judge_cold, judge_dedup_first, judge_warm};
pub(crate) use traces::Hashes;
pub use work::{Varied, Work};

use crate::claims::{CLAIMS, Claim, why_not_judged};
use crate::parallel::threads_or_cores;
use crate::report::{JUDGED, Report, Section, Verdict, make, publish, say};
use crate::settings::Evaluation;
use nitro_console::error::Error;
use nitro_console::note;
use nitro_console::progress::replace_line;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// The sections that are measured on this machine, after the simulations.
const OVERHEADS: &str = "figure-8";
const COMPRESSORS: &str = "compressors";
/// The interval of progress lines if standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// A figure or table of the paper.
pub struct Experiment {
    /// The number in the paper, in lower case.
    pub id: &'static str,
    /// The simulations that it needs.
    pub cells: fn(&Plan) -> Vec<Cell>,
    /// The simulations whose settings follow from the outcomes of earlier ones.
    pub then: fn(&Plan, &Outcomes) -> Vec<Cell>,
    /// Makes the section from the outcomes.
    pub section: fn(&Plan, &Outcomes) -> Section,
}

impl Experiment {
    const fn new(id: &'static str, cells: fn(&Plan) -> Vec<Cell>, section: fn(&Plan, &Outcomes) -> Section) -> Self {
        Self { id, cells, then: |_, _| Vec::new(), section }
    }
}

/// All experiments that are simulated, in the paper's order.
pub const EXPERIMENTS: [Experiment; 11] = [
    Experiment::new("table-1", |_| Vec::new(), parameters::section),
    Experiment::new("figure-1", figure1::cells, figure1::section),
    Experiment::new("figure-4", figure4::cells, figure4::section),
    Experiment::new("figure-5", figure5::cells, figure5::section),
    Experiment::new("figure-6", figure6::cells, figure6::section),
    Experiment::new("ssd-throughput", |_| Vec::new(), ssd_throughput::section),
    Experiment { id: "table-2", cells: table2::cells, then: table2::then, section: table2::section },
    Experiment::new("figure-7", figure7::cells, figure7::section),
    Experiment::new("ssd-writes", ssd_writes::cells, ssd_writes::section),
    Experiment::new(sensitivity::ID, sensitivity::cells, sensitivity::section),
    Experiment::new(recorded::ID, recorded::cells, recorded::section),
];

/// Runs the experiments of `args` and writes the report, whose files are named `name`.
///
/// # Errors
/// The folder cannot be written to, or a simulation fails.
pub fn evaluation(args: &Evaluation, name: &str) -> Result<(), Error> {
    check_names(&args.only)?;
    make(&args.folder)?;
    let mut report = report(args)?;
    report.command = command("nitro-lab reproduce nitro", args);
    if args.only.is_empty() {
        let missing = not_judged(&report.sections);
        report.sections.push(missing);
    }
    publish_all(&report, args, name)
}

/// Writes the report, and fails if a simulation failed.
pub(crate) fn publish_all(report: &Report, args: &Evaluation, name: &str) -> Result<(), Error> {
    publish(report, &args.folder, name, args.format)?;
    if report.failures.is_empty() {
        return Ok(());
    }
    Err(Error::new("reproduce", format_args!("could not be run: {}", report.failures.join("; ")))
        .or("the report has the rest"))
}

/// Runs the experiments of `args`.
pub(crate) fn report(args: &Evaluation) -> Result<Report, Error> {
    let begun = Instant::now();
    let wants = |id: &str| args.only.is_empty() || args.only.iter().any(|only| only == id);
    let mut plan = if args.quick { Plan::quick(args.seed) } else { Plan::full(args.seed) }.scaled(args.scale);
    if let Some(folder) = args.traces.as_ref().filter(|_| wants(recorded::ID)) {
        say("recorded traces: being measured");
        plan.recorded = Some(Found::in_folder(folder)?);
    }
    let wanted: Vec<_> = EXPERIMENTS.iter().filter(|experiment| wants(experiment.id)).collect();
    let hashes = Hashes::new()?;
    let mut sections = Vec::new();
    if wants(traces::ID) {
        say("traces: being generated and measured");
        sections.push(traces::section(&plan, &hashes)?);
    }
    let cells: Vec<Cell> = wanted.iter().flat_map(|experiment| (experiment.cells)(&plan)).collect();
    let mut outcomes = run_cells(&cells, args)?;
    let mut last = Vec::new();
    loop {
        let cells = wanted.iter().flat_map(|experiment| (experiment.then)(&plan, &outcomes));
        let cells: Vec<Cell> = cells.filter(|cell| outcomes.outcome(cell).is_none()).collect();
        // Cells that failed remain without an outcome.
        if cells.is_empty() || cells == last {
            break;
        }
        outcomes.add(run_cells(&cells, args)?);
        last = cells;
    }
    sections.extend(wanted.iter().map(|experiment| (experiment.section)(&plan, &outcomes)));
    if wants(OVERHEADS) {
        say("figure-8: measured on this machine");
        sections.push(overheads::section(args.quick, args.seed, &args.folder)?);
    }
    if wants(COMPRESSORS) {
        sections.push(compressors::section()?);
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        command: String::new(),
        title: "Nitro's evaluation, reproduced",
        about: about(plan.scales),
        scales: Some(plan.scales),
        generator: Some(hashes),
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: outcomes.failures().to_vec(),
    })
}

/// The introduction of Nitro's report.
fn about([webvm, homes, mail]: [f64; 3]) -> String {
    format!(
        "The paper: *Nitro: A Capacity-Optimized SSD Cache for Primary Storage* (USENIX ATC 2014). Its three FIU \
         traces are not used: **synthetic traces** with their published figures (file system, footprint, sectors read \
         and written in 21 days, share of unique content among writes, which for Mail is known of one day only, and \
         Mail's share of requests of at most 8 KiB) replace them, at {webvm}, {homes} and {mail} of their size (WebVM, \
         Homes, Mail), with caches in proportion; their addresses, times, reuse and Mail's other request sizes are assumed. \
         Mail's 460 million blocks are too many: a trace of fewer blocks, in as much smaller a file system, replaces \
         them. Between a 250th and a 32nd of Mail's size, read hits differed by 0.7 percentage points and the \
         deduplication ratio by 4 % (measured on 23 November 2026, not in this run). Everything is simulated \
         with the server's own cache manager on modelled devices, except Figure 8 and the compressors, which are \
         measured. {JUDGED}"
    )
}

fn check_names(only: &[String]) -> Result<(), Error> {
    let experiments = EXPERIMENTS.iter().map(|experiment| experiment.id);
    let known: Vec<_> = [traces::ID].into_iter().chain(experiments).chain([OVERHEADS, COMPRESSORS]).collect();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Error::new(format_args!("--only {name}"), "there is no such figure").or(known.join(", "))),
        None => Ok(()),
    }
}

/// The command with its options.
pub(crate) fn command(command: &str, args: &Evaluation) -> String {
    let mut command = command.to_owned();
    if args.quick {
        command += " --quick";
    }
    if args.scale != 1.0 {
        command += &format!(" --scale {}", args.scale);
    }
    if !args.only.is_empty() {
        command += &format!(" --only {}", args.only.join(","));
    }
    if let Some(folder) = &args.traces {
        command += &format!(" --traces {}", folder.display());
    }
    if args.seed != 1 {
        command += &format!(" --seed {}", args.seed);
    }
    command
}

fn run_cells(cells: &[Cell], args: &Evaluation) -> Result<Outcomes, Error> {
    let threads = threads_or_cores(args.threads);
    let file = args.folder.join("outcomes.jsonl");
    let terminal = stderr().is_terminal();
    let mut told = None::<Instant>;
    let mut tell = |step: Step<'_>| {
        let (done, of) = step.traces;
        let doing = match step.extents {
            (_, 0) => "being generated".to_owned(),
            (extents, all) => format!("{:.0} % simulated", 100.0 * extents as f64 / all as f64),
        };
        let line = format!("trace {} of {of}, {}: {doing}", done + 1, step.work.name());
        if terminal {
            replace_line(&line);
        } else if told.is_none_or(|told| told.elapsed() >= LINE_EVERY) {
            note!("{line}");
            told = Some(Instant::now());
        }
    };
    let outcomes = run(cells, &file, threads, &mut tell);
    replace_line("");
    outcomes.map_err(|e| {
        Error::with_sources("reproduce", &e).or("remove the file to start again, or name another --folder")
    })
}

/// A section with the claims that the others do not judge.
pub(crate) fn not_judged(sections: &[Section]) -> Section {
    const STORE: &str = "the model of a deduplicating origin has no layout that ages; `nitro-lab reproduce cos` measures \
                         Figures 9 and 10 on the store itself";
    let judged = |claim: &Claim| sections.iter().flat_map(|section| &section.verdicts).any(|v| v.id == claim.id);
    let missing = CLAIMS.iter().filter(|claim| !judged(claim));
    Section {
        id: "not-judged",
        title: "Claims that are not judged here".into(),
        text: "Claims whose loads are not reproduced, or that another command judges.".into(),
        verdicts: missing
            .map(|claim| Verdict::not_judged(claim.id, why_not_judged(claim.id).unwrap_or(STORE)))
            .collect(),
        ..Section::default()
    }
}
