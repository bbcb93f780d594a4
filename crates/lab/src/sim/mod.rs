//! `nitro-lab sim`: simulates a cache on a trace.

mod classes;
pub(crate) mod cost;
pub(crate) mod plain;
mod report;

use crate::args::SimArgs;
use crate::inside::{self, Failure, Inside, kept};
use crate::source::{Traces, failed};
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;
use nitro_console::output;
use nitro_console::progress::Progress;
use nitro_sim::cost::Prices;
use nitro_sim::sweep::{Results, SweepProgress, sweep};
use nitro_sim::workload::{self, Precedence, Stored, TraceIdentity};
use nitro_sim::{Knob, Outcome, Refused, Settings, Variant, points, simulate};
use nitro_trace::Reader;
use report::Known;
use serde_json::Value;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Interval at which a sweep shows its progress.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// What the options of `args` ask for.
struct Asked<'a> {
    args: &'a SimArgs,
    settings: Settings,
    table: ClassTable,
    source: Traces<'a>,
}

impl<'a> Asked<'a> {
    fn new(args: &'a SimArgs) -> Result<Self, Error> {
        let mut settings = Settings::new(0);
        for (knob, text) in args.given() {
            knob.set(&mut settings, text).map_err(|why| {
                Error::new(format_args!("{} {text}", knob.option()), why).or("see `nitro-lab sim --help`")
            })?;
        }
        let table = classes::table(args)?;
        settings.classes = table.classes;
        let precedence = if args.cache.reclassify { Precedence::Rules } else { Precedence::Trace };
        let source = Traces::new(&args.traces, &args.read, &table, precedence, args.inside.as_ref())?;
        Ok(Self { args, settings, table, source })
    }

    /// Checks that the cache has a size.
    fn check_sized(&self) -> Result<(), Error> {
        if self.args.asked(Knob::Size) || self.settings.variant == Variant::None {
            return Ok(());
        }
        Err(Error::new("--cache-size", "it is missing")
            .or("give one, such as 1G, or several with --sweep size=1G..16G:x2"))
    }

    /// What is known of the traces; checks whether classes can have an effect.
    fn known(&self) -> Result<Known<'_>, Error> {
        classes::check_use(&self.table, self.args, &self.source)?;
        Ok(Known { contents: self.source.contents()?, classes: &self.table })
    }

    /// The caches to simulate: one without a sweep.
    fn points(&self) -> Result<Vec<Settings>, Error> {
        let points = points(&self.args.sweep, self.settings, |knob| self.args.asked(knob)).map_err(refused_point)?;
        classes::tell_unused(&self.table, &points);
        Ok(points)
    }
}

/// Runs the simulations of `args` and prints the results.
pub(crate) fn run(args: &SimArgs) -> Result<(), Error> {
    if args.print_prices {
        return output::print(Prices::built_in_text()).map(drop);
    }
    let asked = Asked::new(args)?;
    let (source, settings) = (&asked.source, &asked.settings);
    if let (Some(name), Some(objects)) = (&args.policy, args.objects) {
        return plain::policy(source, args, name, objects);
    }
    if args.mrc {
        return plain::curve(source, args, settings);
    }
    asked.check_sized()?;
    let known = asked.known()?;
    if args.cost {
        return cost::run(source, args, settings, known);
    }
    let points = asked.points()?;
    let (outcomes, text);
    if args.sweep.is_empty() {
        let shown = source.open_shown()?;
        outcomes = vec![single(source, &points[0], shown, &mut |_| true).map_err(failed)?];
        text = report::single(&outcomes[0], known, args.output.format)?;
    } else {
        let mut knobs: Vec<Knob> = args.sweep.iter().map(|axis| axis.knob).collect();
        knobs.dedup();
        outcomes = many(source, args, &points)?;
        text = report::many(&outcomes, &knobs, known, args.output.format)?;
    }
    outcomes.iter().try_for_each(check_measured)?;
    if let Some(path) = &args.parquet {
        nitro_sim::write_parquet(path, &outcomes).map_err(failed)?;
    }
    output::print(&text).map(drop)
}

/// The result of one simulation as `-o json` prints it, for the program that the laboratory is `inside` of. With `keep`, the
/// pieces of the traces are kept for the next simulation.
pub(crate) fn told(args: &SimArgs, inside: &Inside, keep: bool) -> Result<Value, Failure> {
    let asked = Asked::new(args)?;
    asked.check_sized()?;
    let known = asked.known()?;
    let points = asked.points()?;
    let settings = &points[0];
    settings.check()?;
    let mut go_on = |_| inside.goes_on();
    let outcome = if keep {
        let how = format!("{:?} {:?} {:?}", args.read, asked.table.rules, args.cache.reclassify);
        let stored = kept::pieces(&how, &args.traces, settings.extent_bytes, &|| asked.source.open())?;
        simulate(&mut stored.replay(), settings, &mut go_on)?
    } else {
        single(&asked.source, settings, asked.source.open()?, &mut go_on)?
    };
    check_measured(&outcome)?;
    check_used(&outcome, &args.traces)?;
    Ok(report::json(&outcome, known)?)
}

/// Refuses results that say nothing of a cache: the trace has no requests, or none that a cache can help.
fn check_used(outcome: &Outcome, traces: &[PathBuf]) -> Result<(), Error> {
    let m = &outcome.measured;
    if m.requests + outcome.warmup_requests == 0 {
        return Err(inside::empty(traces));
    }
    if m.reads == 0 && outcome.settings.write_back.is_none() {
        return Err(inside::without_reads(
            traces,
            "set mode to write-back: without it, a cache does nothing for writes",
        ));
    }
    Ok(())
}

/// Refuses results of nothing: the warm-up covers the whole trace.
fn check_measured(outcome: &Outcome) -> Result<(), Error> {
    if outcome.measured.requests > 0 || outcome.warmup_requests == 0 {
        return Ok(());
    }
    let why = format!("it is longer than the trace: all of its {} requests would be left out", outcome.warmup_requests);
    Err(Error::new("--warmup", why).or("give a shorter one"))
}

/// Simulates one cache on a trace, which `reader` has opened at its beginning.
fn single(
    source: &Traces<'_>,
    settings: &Settings,
    reader: Box<dyn Reader>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, nitro_sim::Error> {
    settings.check()?;
    let mut pieces = workload::live_from(&|| source.open(), reader, settings.extent_bytes)?;
    if pieces.keeps_contents() {
        // The content of the extents and the state of the cache would be in RAM at the same time.
        let kept = Stored::keep(&mut pieces)?;
        drop(pieces);
        return simulate(&mut kept.replay(), settings, go_on);
    }
    simulate(&mut pieces, settings, go_on)
}

fn refused_point(refused: Refused) -> Error {
    let Refused { knob, value, why } = refused;
    Error::new(format_args!("--sweep {}={value}", knob.name()), why).or("see `nitro-lab sim --help`")
}

fn many(source: &Traces<'_>, args: &SimArgs, points: &[Settings]) -> Result<Vec<Outcome>, Error> {
    let identity = source.identity()?;
    let path = args.results.clone().or_else(|| default_results(identity.as_str()));
    let results = match &path {
        Some(path) => Some(results(args, path, identity, points)?),
        None => None,
    };
    let threads = args.threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let state = SweepProgress::default();
    let open = || source.open();
    thread::scope(|scope| {
        let sweeping = scope.spawn(|| sweep(&open, points, threads, results, &state));
        let mut progress = None;
        while !sweeping.is_finished() {
            thread::sleep(SHOWN_EVERY);
            let total = state.total.load(Ordering::Relaxed);
            if total > 0 {
                progress
                    .get_or_insert_with(|| Progress::counting(total, "extents simulated"))
                    .show(state.done.load(Ordering::Relaxed));
            }
        }
        if let Some(progress) = progress {
            progress.end();
        }
        sweeping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failed)
    })
}

/// Opens the file of finished points, and prints how many points it has.
fn results(args: &SimArgs, path: &PathBuf, identity: TraceIdentity, points: &[Settings]) -> Result<Results, Error> {
    let shown = path.display();
    let wrong = |error| Error::new(&shown, error).or("choose another file with --results");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    if args.fresh && path.exists() {
        fs::remove_file(path).map_err(wrong)?;
    }
    let results = Results::open(path, identity).map_err(failed)?;
    let known = points.iter().filter(|point| results.get(point).is_some()).count();
    if known > 0 {
        nitro_console::note!(
            "{known} of {} points were finished before ({shown}); --fresh simulates them again",
            points.len()
        );
    }
    Ok(results)
}

/// A file in the user's cache folder, named by the trace; `None`: there is no such folder.
fn default_results(identity: &str) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    Some(caches.join("nitro/sweeps").join(format!("{:016x}.jsonl", hasher.finish())))
}
