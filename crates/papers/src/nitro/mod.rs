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
mod run;
mod ssd_throughput;
mod ssd_writes;
mod synthetic;
mod table2;
mod work;

pub use cell::{Cell, Outcomes};
pub use plan::{Fiu, Plan, WARM_NS};
pub use run::{Step, run};
pub use table2::{DEPTH, DIRTY_PERCENT, SSD_TIMES, judge_cold, judge_dedup_first, judge_warm};
pub use work::Work;

use crate::claims::{CLAIMS, why_not_judged};
use crate::report::{JUDGED, Report, Section, Verdict, make, publish, say};
use crate::settings::Evaluation;
use nitro_console::error::Error;
use std::io::{IsTerminal, Write, stderr};
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
    /// Makes the section from the outcomes.
    pub section: fn(&Plan, &Outcomes) -> Section,
}

/// All experiments that are simulated, in the paper's order.
pub const EXPERIMENTS: [Experiment; 9] = [
    Experiment { id: "table-1", cells: |_| Vec::new(), section: parameters::section },
    Experiment { id: "figure-1", cells: figure1::cells, section: figure1::section },
    Experiment { id: "figure-4", cells: figure4::cells, section: figure4::section },
    Experiment { id: "figure-5", cells: figure5::cells, section: figure5::section },
    Experiment { id: "figure-6", cells: figure6::cells, section: figure6::section },
    Experiment { id: "ssd-throughput", cells: |_| Vec::new(), section: ssd_throughput::section },
    Experiment { id: "table-2", cells: table2::cells, section: table2::section },
    Experiment { id: "figure-7", cells: figure7::cells, section: figure7::section },
    Experiment { id: "ssd-writes", cells: ssd_writes::cells, section: ssd_writes::section },
];

/// Runs the experiments of `args` and writes the report.
///
/// # Errors
/// The folder cannot be written to, or a simulation fails.
pub fn evaluation(args: &Evaluation) -> Result<(), Error> {
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
        let judged: Vec<_> = sections.iter().flat_map(|section| &section.verdicts).map(|verdict| verdict.id).collect();
        sections.push(not_judged(&judged));
    }
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        command: command(args),
        title: "Nitro's evaluation, reproduced",
        about: about(plan.scales),
        scales: Some(plan.scales),
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: outcomes.failures().to_vec(),
    };
    publish(&report, &args.folder, "reproduction", args.format)?;
    if report.failures.is_empty() {
        return Ok(());
    }
    Err(Error::new("reproduce", format_args!("could not be simulated: {}", report.failures.join("; ")))
        .or("the report has the rest"))
}

/// The introduction of Nitro's report.
fn about([webvm, homes, mail]: [f64; 3]) -> String {
    format!(
        "The paper: *Nitro: A Capacity-Optimized SSD Cache for Primary Storage* (USENIX ATC 2014). Its three FIU \
         traces are not used: **synthetic traces** with their published figures (file system, footprint, sectors read \
         and written in 21 days, share of unique content among writes, request sizes) replace them, at {webvm}, \
         {homes} and {mail} of their size (WebVM, Homes, Mail), with caches in proportion; their addresses, times and \
         reuse are assumed. Mail's 460 million blocks are sampled by address: between a 250th and a 32nd of its size, \
         its read hits differ by 0.7 percentage points and its deduplication ratio by 4 %. Everything is simulated \
         with the server's own cache manager on modelled devices, except Figure 8 and the compressors, which are \
         measured. {JUDGED}"
    )
}

fn check_names(only: &[String]) -> Result<(), Error> {
    let known: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.id).chain([OVERHEADS, COMPRESSORS]).collect();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Error::new(format_args!("--only {name}"), "there is no such figure").or(known.join(", "))),
        None => Ok(()),
    }
}

fn command(args: &Evaluation) -> String {
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

fn run_cells(cells: &[Cell], args: &Evaluation) -> Result<Outcomes, Error> {
    let threads = args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
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
            eprint!("\r\x1b[K{line}");
            // Errors are ignored: the terminal may be closed.
            let _ = stderr().flush();
        } else if told.is_none_or(|told| told.elapsed() >= LINE_EVERY) {
            eprintln!("{line}");
            told = Some(Instant::now());
        }
    };
    let outcomes = run(cells, &file, threads, &mut tell);
    if terminal {
        eprint!("\r\x1b[K");
    }
    outcomes.map_err(|e| {
        Error::with_sources("reproduce", &e).or("remove the file to start again, or name another --folder")
    })
}

/// A section with the claims that are not among `judged`: those of Nitro that need an aged store, and those of the
/// other papers.
fn not_judged(judged: &[&str]) -> Section {
    const STORE: &str = "the model of a deduplicating origin has no layout that ages; `nitro reproduce cos` measures \
                         Figures 9 and 10 on the store itself";
    let missing = CLAIMS.iter().filter(|claim| !judged.contains(&claim.id));
    Section {
        id: "not-judged",
        title: "Claims that are not judged here".into(),
        text: "Figures 9 and 10 of Nitro's paper (aged and restored snapshots), and the other papers.".into(),
        verdicts: missing
            .map(|claim| Verdict::not_judged(claim.id, why_not_judged(claim.id).unwrap_or(STORE)))
            .collect(),
        ..Section::default()
    }
}
