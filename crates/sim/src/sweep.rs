//! Simulations of many settings over one trace, on all cores, with stored results.

use crate::settings::Settings;
use crate::workload::{self, Open, Stored, TraceIdentity};
use crate::{Error, Outcome, simulate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A digest of the sources of all crates that determine outcomes; results of other sources are ignored.
const MODEL: &str = env!("NITRO_SIM_SOURCES");

/// A file of finished points, with a line of JSON for each.
#[derive(Debug)]
pub struct Results {
    file: File,
    path: String,
    trace: TraceIdentity,
    known: Vec<Outcome>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    model: String,
    trace: String,
    outcome: Outcome,
}

impl Results {
    /// Opens or creates a file of results. Those of another trace than `trace`, of other settings or of another version
    /// of the program are left alone. An incomplete last line, left by a run that was killed, is cut off.
    ///
    /// # Errors
    /// The file cannot be read or written, is in use by another sweep, or is not a file of results.
    pub fn open(path: &Path, trace: TraceIdentity) -> Result<Self, Error> {
        let name = path.display().to_string();
        let failed = |reason: &dyn ToString| Error::Results { path: name.clone(), reason: reason.to_string() };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| failed(&error))?;
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(failed(&"another sweep is writing to it"));
        }
        let (mut known, mut whole_bytes) = (Vec::new(), 0);
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        loop {
            text.clear();
            let bytes = reader.read_line(&mut text).map_err(|error| failed(&error))?;
            if bytes == 0 || !text.ends_with('\n') {
                break;
            }
            let line: Line = match serde_json::from_str(&text) {
                Ok(line) => line,
                Err(_) if text.starts_with("{\"model\":") => {
                    // A line of another version may have other settings.
                    whole_bytes += bytes as u64;
                    continue;
                }
                Err(error) => return Err(failed(&format_args!("it is not a file of results: {error}"))),
            };
            whole_bytes += bytes as u64;
            if line.model == MODEL && line.trace == trace.as_str() {
                known.push(line.outcome);
            }
        }
        file.set_len(whole_bytes).and_then(|()| file.seek(SeekFrom::End(0))).map_err(|error| failed(&error))?;
        Ok(Self { file, path: name, trace, known })
    }

    /// The outcome for these settings, if it is stored.
    #[must_use]
    pub fn get(&self, settings: &Settings) -> Option<&Outcome> {
        self.known.iter().find(|outcome| outcome.settings == *settings)
    }

    fn add(&mut self, outcome: &Outcome) -> Result<(), Error> {
        if let Some(file) = self.trace.changed() {
            return Err(Error::Changed { path: file.display().to_string() });
        }
        let trace = self.trace.as_str().to_owned();
        let line = Line { model: MODEL.to_owned(), trace, outcome: outcome.clone() };
        let written = serde_json::to_string(&line)
            .map_err(|error| error.to_string())
            .and_then(|text| self.file.write_all((text + "\n").as_bytes()).map_err(|error| error.to_string()));
        written.map_err(|reason| Error::Results { path: self.path.clone(), reason })
    }
}

/// The progress of a sweep.
#[derive(Debug, Default)]
pub struct SweepProgress {
    /// The extents to simulate in all points that are not finished; 0 while traces are read.
    pub total: AtomicU64,
    /// The extents done.
    pub done: AtomicU64,
    /// Whether all threads are to stop.
    pub stop: AtomicBool,
}

/// Simulates `points` on `threads` threads, except those that are in `results`; returns the outcomes in the order of
/// the points. Each outcome is written to `results` when it is complete.
///
/// # Errors
/// The first error of any simulation; [`Error::Stopped`] if `progress` requests a stop.
pub fn sweep(
    open: &(dyn Fn() -> Result<Box<dyn nitro_trace::Reader>, nitro_trace::TraceError> + Sync),
    points: &[Settings],
    threads: usize,
    results: Option<Results>,
    progress: &SweepProgress,
) -> Result<Vec<Outcome>, Error> {
    points.iter().try_for_each(Settings::check)?;
    let mut outcomes: Vec<Option<Outcome>> =
        points.iter().map(|point| results.as_ref().and_then(|results| results.get(point)).cloned()).collect();
    let left: Vec<usize> = (0..points.len()).filter(|at| outcomes[*at].is_none()).collect();
    let workloads = prepare(open, left.iter().map(|at| points[*at].extent_bytes))?;
    let pieces = |at: &usize| workloads.get(&points[*at].extent_bytes).map_or(0, Stored::pieces);
    progress.total.store(left.iter().map(pieces).sum(), Ordering::Relaxed);
    let results = Mutex::new(results);
    let made = in_parallel(left.len(), threads, &|number| {
        let point = &points[left[number]];
        let Some(workload) = workloads.get(&point.extent_bytes) else { return Err(Error::Stopped) };
        let mut told = 0;
        let mut tell = |pieces: u64| {
            progress.done.fetch_add(pieces - told, Ordering::Relaxed);
            told = pieces;
            !progress.stop.load(Ordering::Relaxed)
        };
        let outcome = simulate(&mut workload.replay(), point, &mut tell);
        let outcome = outcome.inspect_err(|_| progress.stop.store(true, Ordering::Relaxed))?;
        if let Some(results) = results.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            results.add(&outcome)?;
        }
        Ok(outcome)
    })?;
    for (at, outcome) in left.into_iter().zip(made) {
        outcomes[at] = Some(outcome);
    }
    Ok(outcomes.into_iter().flatten().collect())
}

/// Does `count` tasks on `threads` threads, each named by its number; returns their results in this order. No task begins after one
/// that failed.
///
/// # Errors
/// The first error of any task; another one than [`Error::Stopped`] comes first.
pub(crate) fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    task: &(dyn Fn(usize) -> Result<T, Error> + Sync),
) -> Result<Vec<T>, Error> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let work = || -> Result<(), Error> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let made = task(number).inspect_err(|_| next.store(count, Ordering::Relaxed))?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, made));
        }
    };
    let ended: Vec<Result<(), Error>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, count.max(1))).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    // An error of a task takes precedence over `Stopped`, which it causes in the others.
    let mut errors: Vec<Error> = ended.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| matches!(error, Error::Stopped));
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, made)| made).collect())
}

/// The pieces of the trace for each extent size.
fn prepare(open: &Open<'_>, sizes: impl Iterator<Item = u32>) -> Result<BTreeMap<u32, Stored>, Error> {
    let mut workloads = BTreeMap::new();
    for extent_bytes in sizes {
        if let std::collections::btree_map::Entry::Vacant(entry) = workloads.entry(extent_bytes) {
            entry.insert(workload::stored(open, extent_bytes)?);
        }
    }
    Ok(workloads)
}
