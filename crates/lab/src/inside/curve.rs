//! Miss-ratio curves for other programs.

use super::{Call, Failure, Given, Inside, empty, failure, named, without_reads};
use crate::args::SizeArgs;
use crate::sim::plain;
use crate::size;
use crate::source::Traces;
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;
use nitro_sim::workload::Precedence;
use nitro_sim::{Knob, Settings, adapt};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::thread;

const OTHERS: &str = "name a trace with reads";

/// Checks the percentage of a sample.
fn check_sample(sample: Option<f64>) -> Result<(), Error> {
    match sample {
        Some(percent) if !(percent > 0.0 && percent <= 100.0) => {
            Err(Error::new(format_args!("sample = {percent}"), "must be above 0 and at most 100 percent"))
        }
        _ => Ok(()),
    }
}

pub(super) fn lru(traces: &[PathBuf], sample: Option<f64>, given: Given<'_>, inside: &Inside) -> Result<Json, Failure> {
    check_sample(sample)?;
    let (args, settings) = parsed(traces, given, inside)?;
    let source = Traces::new(traces, &args.read, &ClassTable::default(), Precedence::Trace, Some(inside))?;
    let (report, read) = plain::lru(source.open()?, sample, settings.extent_bytes)?;
    match (report.curve.requests, read) {
        (0, _) => Err(empty(traces).into()),
        (_, 0) => Err(without_reads(traces, OTHERS).into()),
        _ => Ok(failure::json(&report)?),
    }
}

/// The options, and the settings for a cache of any size.
fn parsed(traces: &[PathBuf], given: Given<'_>, inside: &Inside) -> Result<(SizeArgs, Settings), Error> {
    let mut args: SizeArgs = Call::Curve.parsed(given, traces)?;
    args.inside = Some(inside.clone());
    let settings = size::settings(&args)?;
    Ok((args, settings))
}

pub(super) fn simulated(
    traces: &[PathBuf],
    (variant, sizes): (&str, &[String]),
    sample: Option<f64>,
    given: Given<'_>,
    inside: &Inside,
) -> Result<Json, Failure> {
    check_sample(sample)?;
    let (mut args, mut base) = parsed(traces, given, inside)?;
    args.sample = sample;
    Knob::Variant.set(&mut base, variant).map_err(|why| Error::new(format_args!("policy = {variant}"), why))?;
    let sample = size::draw(&args, traces, &base)?;
    let asked = |knob| knob == Knob::Variant || args.given().any(|(given, _)| given == knob);
    let adapted = |cache_bytes| {
        let mut settings = Settings { cache_bytes, ..base };
        adapt(&mut settings, asked);
        settings
    };
    let mut bytes = Vec::with_capacity(sizes.len());
    for text in sizes {
        let mut settings = base;
        let set = Knob::Size.set(&mut settings, text);
        set.map_err(|why| Error::new(format_args!("sizes: {text}"), why))?;
        bytes.push(settings.cache_bytes);
    }
    if bytes.is_empty() {
        bytes = sample.sizes(&adapted(0));
    }
    let all: Vec<Settings> = bytes.into_iter().map(adapted).collect();
    all.iter().try_for_each(Settings::check)?;
    let threads = args.threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let points = sample.points(&all, threads)?;
    if points.iter().any(|point| point.read_extents == 0) {
        return Err(Error::new(named(traces), "no reads are left after the warm-up").or("give a shorter one").into());
    }
    Ok(json!({
        "extent_bytes": sample.extent_bytes,
        "rate": sample.rate,
        "touched_bytes": sample.touched_bytes(),
        "totals": failure::json(&sample.totals)?,
        "points": failure::json(&points)?,
    }))
}
