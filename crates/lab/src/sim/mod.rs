//! `nitro-lab sim`: simulates a cache on a trace.

mod classes;
pub(crate) mod cost;
mod plain;
mod report;

use crate::args::SimArgs;
use crate::source::{Traces, failed};
use nitro_console::error::Error;
use nitro_console::output;
use nitro_console::progress::Progress;
use nitro_sim::cost::Prices;
use nitro_sim::sweep::{Results, SweepProgress, sweep};
use nitro_sim::workload::{self, Precedence, Stored, TraceIdentity};
use nitro_sim::{Knob, Outcome, Refused, Settings, Variant, points, simulate};
use report::Known;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Interval at which a sweep shows its progress.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Runs the simulations of `args` and prints the results.
pub(crate) fn run(args: &SimArgs) -> Result<(), Error> {
    if args.print_prices {
        return output::print(Prices::built_in_text()).map(drop);
    }
    let mut settings = Settings::new(0);
    for (knob, text) in args.given() {
        knob.set(&mut settings, text).map_err(|why| {
            Error::new(format_args!("{} {text}", knob.option()), why).or("see `nitro-lab sim --help`")
        })?;
    }
    let table = classes::table(args)?;
    settings.classes = table.classes;
    let precedence = if args.cache.reclassify { Precedence::Rules } else { Precedence::Trace };
    let source = Traces::new(&args.traces, &args.read, &table, precedence)?;
    if let (Some(name), Some(objects)) = (&args.policy, args.objects) {
        return plain::policy(&source, args, name, objects);
    }
    if args.mrc {
        return plain::curve(&source, args, &settings);
    }
    let mut knobs: Vec<Knob> = args.sweep.iter().map(|axis| axis.knob).collect();
    let sized = args.given().any(|(knob, _)| knob == Knob::Size) || knobs.contains(&Knob::Size);
    if !sized && settings.variant != Variant::None {
        return Err(Error::new("--cache-size", "it is missing")
            .or("give one, such as 1G, or several with --sweep size=1G..16G:x2"));
    }
    classes::check_use(&table, args, &source)?;
    let known = Known { contents: source.contents()?, classes: &table };
    if args.cost {
        return cost::run(&source, args, &settings, known);
    }
    let points = points(&args.sweep, settings, |knob| args.asked(knob)).map_err(refused_point)?;
    classes::tell_unused(&table, &points);
    let (outcomes, text);
    if args.sweep.is_empty() {
        outcomes = vec![single(&source, &points[0])?];
        text = report::single(&outcomes[0], known, args.output.format)?;
    } else {
        knobs.dedup();
        outcomes = many(&source, args, &points)?;
        text = report::many(&outcomes, &knobs, known, args.output.format)?;
    }
    outcomes.iter().try_for_each(check_measured)?;
    if let Some(path) = &args.parquet {
        nitro_sim::write_parquet(path, &outcomes).map_err(failed)?;
    }
    output::print(&text).map(drop)
}

/// Refuses results of nothing: the warm-up covers the whole trace.
fn check_measured(outcome: &Outcome) -> Result<(), Error> {
    if outcome.measured.requests > 0 || outcome.warmup_requests == 0 {
        return Ok(());
    }
    let why = format!("it is longer than the trace: all of its {} requests would be left out", outcome.warmup_requests);
    Err(Error::new("--warmup", why).or("give a shorter one"))
}

fn single(source: &Traces<'_>, settings: &Settings) -> Result<Outcome, Error> {
    settings.check().map_err(failed)?;
    let shown = source.open_shown()?;
    let mut pieces = workload::live_from(&|| source.open(), shown, settings.extent_bytes).map_err(failed)?;
    if pieces.keeps_contents() {
        // The content of the extents and the state of the cache would be in RAM at the same time.
        let kept = Stored::keep(&mut pieces).map_err(failed)?;
        drop(pieces);
        return simulate(&mut kept.replay(), settings, &mut |_| true).map_err(failed);
    }
    simulate(&mut pieces, settings, &mut |_| true).map_err(failed)
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
