//! `nitro-lab size`: how large a cache should be.

mod answer;
mod contents;
mod drive;
mod live;
mod report;

use crate::args::SizeArgs;
use crate::source::{Traces, failed};
use answer::{Answer, Checked, Question};
use contents::Contents;
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;
use nitro_console::output::{self, Format};
use nitro_sim::sizing::{Sample, Sampling};
use nitro_sim::workload::Precedence;
use nitro_sim::{Knob, Settings, adapt};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::slice;
use std::thread;

/// The pieces of a sample, which take 48 bytes each: more are simulated for longer than a command may take.
const PIECES_MAX: usize = 1_700_000;

/// From so many pieces on, the simulations are announced.
const PIECES_SHOWN: u64 = 500_000;

/// Answers from traces, or from a running server.
pub(crate) fn run(args: &SizeArgs) -> Result<(), Error> {
    if let Some(socket) = args.traces.iter().find(|path| live::is_socket(path)) {
        if args.traces.len() > 1 {
            return Err(Error::new(socket.display(), "it is a socket").or("name it alone, or only traces"));
        }
        return live::run(args, socket);
    }
    let answer = answer(args)?;
    let text = match args.output.format {
        Format::Json => output::json_pretty(&answer)?,
        Format::Csv => report::csv(&answer),
        Format::Table => report::words(&answer, &args.traces, args),
    };
    output::print(&text).map(drop)
}

/// The answer as `-o json` prints it, with the one for people as `words`, for the program that the laboratory is inside of.
pub(crate) fn told(args: &SizeArgs) -> Result<Value, Error> {
    if let Some(socket) = args.traces.iter().find(|path| live::is_socket(path)) {
        return Err(Error::new(socket.display(), "it is a socket")
            .or("`nitro-lab size` asks running servers; name a trace or a recording here"));
    }
    let answer = answer(args)?;
    let mut json = serde_json::to_value(&answer).map_err(|e| Error::new("answer", e))?;
    json["words"] = report::words(&answer, &args.traces, args).into();
    Ok(json)
}

/// Answers from traces.
fn answer(args: &SizeArgs) -> Result<Answer, Error> {
    let base = settings(args)?;
    let what = named(&args.traces);
    let sample = draw(args, &args.traces, &base)?;
    let source = traces(args, &args.traces)?;
    let contents = Contents::new(args, &base, source.contents()?, threads(args))?;
    let asked = |knob| args.given().any(|(given, _)| given == knob);
    let question = Question { sample: &sample, base, contents: &contents, asked: &asked, threads: threads(args) };
    let mut answer = Answer::new(&question, args, what)?;
    for path in &args.cross_check {
        let other = draw(args, slice::from_ref(path), &base)?;
        let question = Question { sample: &other, ..question };
        answer.cross_checks.push(Checked::new(&question, path, &answer)?);
    }
    Ok(answer)
}

/// The settings of the options, for a cache of any size.
pub(crate) fn settings(args: &SizeArgs) -> Result<Settings, Error> {
    let mut settings = Settings::new(0);
    for (knob, text) in args.given() {
        knob.set(&mut settings, text).map_err(|why| {
            Error::new(format_args!("{} {text}", knob.option()), why).or("see `nitro-lab size --help`")
        })?;
        if knob == Knob::Size && settings.cache_bytes == 0 {
            return Err(Error::new(format_args!("--cache-size {text}"), "a cache of no size hits nothing")
                .or("give a size such as 1G, or leave it out: `nitro-lab size` finds one"));
        }
    }
    Ok(settings)
}

fn threads(args: &SizeArgs) -> usize {
    args.threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
}

fn traces<'a>(args: &'a SizeArgs, paths: &'a [PathBuf]) -> Result<Traces<'a>, Error> {
    Traces::new(paths, &args.read, &ClassTable::default(), Precedence::Trace, args.inside.as_ref())
}

fn named(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// Reads traces and draws a sample. They must have reads.
pub(crate) fn draw(args: &SizeArgs, paths: &[PathBuf], base: &Settings) -> Result<Sample, Error> {
    let source = traces(args, paths)?;
    let sampling = args.sample.map_or(Sampling::Pieces(PIECES_MAX), |percent| Sampling::Rate(percent / 100.0));
    let mut server = *base;
    adapt(&mut server, |knob| args.given().any(|(given, _)| given == knob));
    let open = || source.open();
    let sample = Sample::draw(&open, source.open_shown()?, &server, sampling).map_err(failed)?;
    let refuse = |why: &str| Error::new(format_args!("trace {}", named(paths)), why);
    if sample.totals.requests == 0 {
        return Err(refuse("it has no requests").or("see what it has with `nitro-lab trace info`"));
    }
    if sample.totals.read_extents == 0 {
        return Err(refuse("it has no reads, only writes: a cache is as large as the reads that shall hit need")
            .or("name a trace with reads; what writes need is seen with `nitro-lab sim --mode write-back`"));
    }
    if !sample.has_reads() {
        return Err(refuse("no read is in the sample").or("choose a larger --sample"));
    }
    if sample.pieces() >= PIECES_SHOWN && args.inside.is_none() {
        nitro_console::note!("simulating caches of several sizes on {} extents of requests ...", sample.pieces());
    }
    Ok(sample)
}

/// The last part of a path, for texts.
fn short(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
