//! Simulates the systems on a trace.

use super::systems::{Bed, System};
use super::trace::Trace;
use crate::report::say;
use nitro_console::error::Error;
use nitro_sim::sweep::{SweepProgress, sweep};
use nitro_sim::{Measures, Outcome, Settings};
use nitro_trace::Reader;
use std::sync::Arc;

/// The outcome of a system on disks, with a trace.
#[derive(Debug, Clone)]
pub(super) struct Ran {
    pub(super) system: System,
    /// The number of the disks in the table of prices.
    pub(super) hdd: usize,
    pub(super) outcome: Outcome,
}

impl Ran {
    /// The measurements of each phase.
    pub(super) fn phases(&self) -> &[Measures] {
        match self.outcome.periods.as_slice() {
            [] => std::slice::from_ref(&self.outcome.measured),
            periods => periods,
        }
    }
}

/// Simulates settings on a trace.
pub(super) fn outcomes(trace: &Arc<Trace>, points: &[Settings], threads: usize) -> Result<Vec<Outcome>, Error> {
    let open = || Ok(Box::new(trace.reader()) as Box<dyn Reader>);
    let failed = |error: nitro_sim::Error| Error::with_sources(format_args!("the load {}", trace.name), &error);
    sweep(&open, points, threads, None, &SweepProgress::default()).map_err(failed)
}

/// Simulates all systems on all disks. The sizes of `bed` are replaced by those of the trace.
pub(super) fn all(trace: &Arc<Trace>, bed: &Bed<'_>, threads: usize) -> Result<Vec<Ran>, Error> {
    let bed = Bed { data_bytes: trace.data_bytes, write_bytes: trace.write_bytes_max(), ..*bed };
    say(&format!("{}: {} requests", trace.name, trace.requests.len()));
    let cells: Vec<(usize, System)> =
        (0..bed.prices.hdds.len()).flat_map(|hdd| System::ALL.map(|system| (hdd, system))).collect();
    let points: Vec<_> = cells.iter().map(|(hdd, system)| bed.settings(*system, &bed.prices.hdds[*hdd])).collect();
    let outcomes = outcomes(trace, &points, threads)?;
    Ok(cells.into_iter().zip(outcomes).map(|((hdd, system), outcome)| Ran { system, hdd, outcome }).collect())
}
