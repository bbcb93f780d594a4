//! Runs cells, trace by trace.

use super::cell::{Cell, Outcomes};
use super::work::Work;
use nitro_sim::Error;
use nitro_sim::Settings;
use nitro_sim::sweep::{Results, SweepProgress, sweep};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The interval of progress reports.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// The progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The current trace.
    pub work: &'a Work,
    /// The number of traces that are done, and of all.
    pub traces: (usize, usize),
    /// The extents of this trace's simulations that are done, and all; 0 of 0 while the trace is generated.
    pub extents: (u64, u64),
}

/// Runs `cells` on `threads` threads, except those whose outcomes are in `file`; the new outcomes are appended to it.
/// `tell` is called with the progress several times a second.
///
/// # Errors
/// The file cannot be used. Cells that fail are among the outcomes.
pub fn run(cells: &[Cell], file: &Path, threads: usize, tell: &mut dyn FnMut(Step<'_>)) -> Result<Outcomes, Error> {
    let mut outcomes = Outcomes::default();
    let groups = grouped(cells, &mut outcomes);
    for (number, (work, points)) in groups.iter().enumerate() {
        let results = Results::open(file, work.identity())?;
        let progress = SweepProgress::default();
        let (ended, end) = mpsc::channel::<()>();
        let swept = thread::scope(|scope| {
            let (open, progress) = (|| work.open(), &progress);
            let sweeping = scope.spawn(move || {
                // Dropped at the end, which closes the channel.
                let _ended = ended;
                sweep(&open, points, threads, Some(results), progress)
            });
            loop {
                let extents = (progress.done.load(Ordering::Relaxed), progress.total.load(Ordering::Relaxed));
                tell(Step { work, traces: (number, groups.len()), extents });
                if end.recv_timeout(TELL_EVERY) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            sweeping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        match swept {
            Ok(all) => {
                for (settings, outcome) in points.iter().zip(all) {
                    outcomes.insert(&Cell { work: work.clone(), settings: *settings }, outcome);
                }
            }
            Err(error @ Error::Results { .. }) => return Err(error),
            Err(error) => outcomes.fail(format!("{}: {error}", work.key())),
        }
    }
    Ok(outcomes)
}

/// The settings for each trace, without repetitions. Settings that cannot be simulated are skipped and listed as
/// failures.
fn grouped(cells: &[Cell], outcomes: &mut Outcomes) -> Vec<(Work, Vec<Settings>)> {
    let mut groups: Vec<(Work, Vec<Settings>)> = Vec::new();
    for Cell { work, settings } in cells {
        if let Err(error) = settings.check() {
            outcomes.fail(format!("{}: {error}", settings.variant));
            continue;
        }
        match groups.iter_mut().find(|(other, _)| other == work) {
            Some((_, points)) if points.contains(settings) => {}
            Some((_, points)) => points.push(*settings),
            None => groups.push((work.clone(), vec![*settings])),
        }
    }
    groups
}
