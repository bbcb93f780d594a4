//! The laboratory inside another program, such as the Python package: settings by name in, results as JSON out.
//!
//! Settings are the options of `nitro-lab sim` and `nitro-lab size`, with their declarations, defaults and checks; results are
//! what these commands print with `-o json`. Nothing is printed but notes on classes without effect, and nothing ends the
//! process.

mod curve;
mod failure;
pub(crate) mod kept;
mod options;

pub use failure::Failure;
pub use kept::forget;
pub use nitro_sim::Axis;
pub use options::{Call, Setting, Value};

use crate::args::{SimArgs, SizeArgs};
use crate::{sim, size};
use clap::Args;
use nitro_commands::traces::{Input, ReadArgs};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_trace::{Reader, Request, TraceError};
use serde_json::Value as Json;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Settings by name, as they are given.
pub type Given<'a> = &'a [(String, Value)];

/// Requests between two questions whether the program wants to go on.
const ASK_EVERY: u64 = 1 << 12;

/// A program that the laboratory is inside of, which may stop what takes long.
#[derive(Clone)]
pub struct Inside(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inside")
    }
}

impl Inside {
    /// A program that is asked often whether it wants to `go_on`. After a `false`, the call ends with some error.
    pub fn new(go_on: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(go_on))
    }

    /// Whether the program wants to go on.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        (self.0)()
    }

    /// A reader that asks whether to go on.
    pub(crate) fn watched(&self, reader: Box<dyn Reader>) -> Box<dyn Reader> {
        Box::new(Watched { reader, inside: self.clone(), requests: 0 })
    }
}

struct Watched {
    reader: Box<dyn Reader>,
    inside: Inside,
    requests: u64,
}

impl Reader for Watched {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        self.requests += 1;
        if self.requests.is_multiple_of(ASK_EVERY) && !self.inside.goes_on() {
            return Err(TraceError::setting("stopped"));
        }
        self.reader.next(request)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}

fn named(traces: &[PathBuf]) -> String {
    let names: Vec<_> = traces.iter().map(|path| path.display().to_string()).collect();
    format!("trace {}", names.join(", "))
}

/// The error of traces without requests.
pub(crate) fn empty(traces: &[PathBuf]) -> Error {
    Error::new(named(traces), "it has no requests").or("see what it has with `nitro-lab trace info`")
}

/// The error of traces without reads, and what else is possible.
pub(crate) fn without_reads(traces: &[PathBuf], way_out: &str) -> Error {
    Error::new(named(traces), "it has no reads").or(way_out)
}

/// Opens traces, merged in the order of their times, with the settings of [`Call::Reading`].
///
/// # Errors
/// A setting is refused, or a trace cannot be read or has no known format.
pub fn open(traces: &[PathBuf], given: Given<'_>, inside: &Inside) -> Result<Box<dyn Reader>, Failure> {
    let args: Reading = Call::Reading.parsed(given, &[])?;
    Ok(inside.watched(Input::reader(traces, &args.read)?))
}

#[derive(Debug, Args)]
struct Reading {
    #[command(flatten)]
    read: ReadArgs,
}

fn simulated(traces: &[PathBuf], given: Given<'_>, inside: &Inside) -> Result<SimArgs, Error> {
    let mut args: SimArgs = Call::Simulation.parsed(given, traces)?;
    args.inside = Some(inside.clone());
    Ok(args)
}

/// Simulates a cache, with the settings of [`Call::Simulation`], as `nitro-lab sim`. With `keep`, what simulations need
/// of the traces is kept for the next call with the same traces, in 64 MiB of RAM and an unnamed file; see [`forget`].
///
/// # Errors
/// A setting is refused; a trace cannot be read, is empty, or has no reads and the cache is in write-through.
pub fn simulate(traces: &[PathBuf], given: Given<'_>, keep: bool, inside: &Inside) -> Result<Json, Failure> {
    sim::told(&simulated(traces, given, inside)?, inside, keep)
}

/// Counts the misses of a plain policy with room for `objects` objects, as `nitro-lab sim --policy`.
///
/// # Errors
/// There is no such policy; a size is 0; a trace cannot be read or is empty.
pub fn misses(
    traces: &[PathBuf],
    policy: &str,
    objects: u32,
    object_size: Option<u64>,
    given: Given<'_>,
    inside: &Inside,
) -> Result<Json, Failure> {
    if objects == 0 {
        return Err(Error::new("objects = 0", "a cache of no objects hits nothing")
            .or("give a number from 1 on")
            .into());
    }
    let mut reader = open(traces, given, inside)?;
    let report = sim::plain::misses(&mut *reader, policy, objects, object_size.map(Size))?;
    if report.misses.requests == 0 {
        return Err(empty(traces).into());
    }
    Ok(failure::json(&report)?)
}

/// The miss ratio of LRU by the size of the cache, as `nitro-lab sim --mrc`: `sample` is the percentage of the extents that are
/// followed, `None` for at most 65,536 of them.
///
/// # Errors
/// A setting is refused; a trace cannot be read, is empty, or has no reads.
pub fn lru_curve(traces: &[PathBuf], sample: Option<f64>, given: Given<'_>, inside: &Inside) -> Result<Json, Failure> {
    curve::lru(traces, sample, given, inside)
}

/// What caches of several sizes and one variant do, by simulations of a sample of the traces (`nitro_sim::sizing`). Without sizes: the one that
/// holds all that the traces touch, and up to eight smaller ones, each half of the next.
///
/// # Errors
/// A setting is refused; a trace cannot be read, is empty, or has no reads.
pub fn curve(
    traces: &[PathBuf],
    variant: &str,
    sizes: &[String],
    sample: Option<f64>,
    given: Given<'_>,
    inside: &Inside,
) -> Result<Json, Failure> {
    curve::simulated(traces, (variant, sizes), sample, given, inside)
}

/// How large a cache should be, with the settings of [`Call::Size`], as `nitro-lab size`. The answer has `words` for people.
///
/// # Errors
/// A setting is refused; a trace cannot be read, is empty, or has no reads.
pub fn answer(traces: &[PathBuf], given: Given<'_>, inside: &Inside) -> Result<Json, Failure> {
    let mut args: SizeArgs = Call::Size.parsed(given, traces)?;
    args.inside = Some(inside.clone());
    Ok(size::told(&args)?)
}
