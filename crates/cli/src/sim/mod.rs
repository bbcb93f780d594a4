//! `nitro sim`: what a cache would have done for a trace.

mod axis;
mod chart;
mod classes;
mod cost;
mod knob;
mod plain;
mod report;
mod source;

pub(crate) use axis::Axis;
pub(crate) use knob::Knob;

use crate::args::SimArgs;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::class::Classes;
use nitro_cache::eviction::EvictionKind;
use nitro_console::error::Error;
use nitro_console::output;
use nitro_console::progress::Progress;
use nitro_sim::cost::Prices;
use nitro_sim::sweep::{Results, SweepProgress, sweep};
use nitro_sim::workload::{self, Stored};
use nitro_sim::{Outcome, Settings, Variant, simulate};
use report::Known;
use source::{Source, failed};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// How often a sweep shows how far it is.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Simulates as `args` say, and prints what comes of it.
pub(crate) fn run(args: &SimArgs) -> Result<(), Error> {
    if args.print_prices {
        return output::print(Prices::built_in_text()).map(drop);
    }
    let mut settings = Settings::new(0);
    for (knob, text) in args.given() {
        knob.set(&mut settings, text)
            .map_err(|why| Error::new(format_args!("{} {text}", knob.option()), why).or("see `nitro sim --help`"))?;
    }
    let table = classes::table(args)?;
    settings.classes = table.classes;
    let source = Source::new(args, &table)?;
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
    if args.cost {
        return cost::run(&source, args, &settings);
    }
    let known = Known { contents: source.contents()?, classes: &table };
    let points = points(args, settings)?;
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

/// Switches off what a variant cannot do, and has write-evict units use the server's policies, unless something else was asked for.
fn adapt(args: &SimArgs, settings: &mut Settings) {
    let asked = |knob| args.given().any(|(given, _)| given == knob) || args.sweep.iter().any(|axis| axis.knob == knob);
    if settings.variant == Variant::Weu {
        if !asked(Knob::Admission) {
            settings.admission = AdmissionKind::default();
        }
        if !asked(Knob::Eviction) {
            settings.eviction = EvictionKind::default();
        }
        if !asked(Knob::Staging) {
            settings.staging_bytes = nitro_cache::Settings::usual_staging_bytes(settings.cache_bytes);
        }
    }
    let dedups = settings.variant.has_weus()
        || settings.variant.has_places() && !matches!(settings.variant, Variant::Extent { ways: 1.. });
    if !dedups && !asked(Knob::Dedup) {
        settings.dedup = false;
    }
    if !settings.variant.has_weus() && !asked(Knob::Compress) {
        settings.compress = false;
    }
    if settings.variant == Variant::None {
        (settings.ram_bytes, settings.sequential_bytes) = (0, 0);
    }
    if !settings.variant.has_class_policies() {
        settings.classes = Classes::default();
    }
}

/// Refuses what says nothing: all of the trace was left out of the results.
fn check_measured(outcome: &Outcome) -> Result<(), Error> {
    if outcome.measured.requests > 0 || outcome.warmup_requests == 0 {
        return Ok(());
    }
    let why = format!("it is longer than the trace: all of its {} requests would be left out", outcome.warmup_requests);
    Err(Error::new("--warmup", why).or("give a shorter one"))
}

fn single(source: &Source<'_>, settings: &Settings) -> Result<Outcome, Error> {
    settings.check().map_err(failed)?;
    let shown = source.open_shown()?;
    let mut pieces = workload::live_from(&|| source.open(), shown, settings.extent_bytes).map_err(failed)?;
    if pieces.keeps_contents() {
        // What the extents hold and what the cache knows of them would be in RAM together.
        let kept = Stored::keep(&mut pieces).map_err(failed)?;
        drop(pieces);
        return simulate(&mut kept.replay(), settings, &mut |_| true).map_err(failed);
    }
    simulate(&mut pieces, settings, &mut |_| true).map_err(failed)
}

/// All combinations of the axes' values, each once.
fn points(args: &SimArgs, settings: Settings) -> Result<Vec<Settings>, Error> {
    let mut points = vec![settings];
    for Axis { knob, values } in &args.sweep {
        let mut next = Vec::with_capacity(points.len() * values.len());
        for point in &points {
            for value in values {
                let mut point = *point;
                knob.set(&mut point, value).map_err(|why| {
                    Error::new(format_args!("--sweep {}={value}", knob.name()), why).or("see `nitro sim --help`")
                })?;
                next.push(point);
            }
        }
        points = next;
    }
    points.iter_mut().for_each(|point| adapt(args, point));
    let mut once: Vec<Settings> = Vec::with_capacity(points.len());
    points.into_iter().for_each(|point| once.extend((!once.contains(&point)).then_some(point)));
    Ok(once)
}

fn many(source: &Source<'_>, args: &SimArgs, points: &[Settings]) -> Result<Vec<Outcome>, Error> {
    let identity = source.identity()?;
    let path = args.results.clone().or_else(|| default_results(&identity));
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

/// Opens the file of finished points, and says what is in it.
fn results(args: &SimArgs, path: &PathBuf, identity: String, points: &[Settings]) -> Result<Results, Error> {
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
        eprintln!("{known} of {} points were finished before ({shown}); --fresh simulates them again", points.len());
    }
    Ok(results)
}

/// In the user's cache folder, by trace; `None`: there is no such folder.
fn default_results(identity: &str) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    Some(caches.join("nitro/sweeps").join(format!("{:016x}.jsonl", hasher.finish())))
}
