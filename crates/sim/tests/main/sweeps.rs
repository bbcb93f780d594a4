//! Many settings at once.

use nitro_sim::sweep::{Results, SweepProgress, sweep};
use nitro_sim::{Outcome, Settings};
use nitro_trace::synth::Zipf;
use nitro_trace::{Reader, TraceError};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

fn open() -> Result<Box<dyn Reader>, TraceError> {
    let zipf = Zipf {
        objects: 5000,
        exponent: 0.9,
        requests: 20_000,
        write_share: 0.3,
        object_bytes: 8192,
        ..Zipf::default()
    };
    Ok(Box::new(zipf.reader()?))
}

fn points() -> Vec<Settings> {
    let sizes = [16u64 << 20, 24 << 20, 32 << 20];
    let of = |cache_bytes, extent_bytes| Settings { extent_bytes, ..Settings::new(cache_bytes) };
    sizes.into_iter().flat_map(|size| [of(size, 8192), of(size, 4096)]).collect()
}

fn results(path: &Path) -> Option<Results> {
    Some(Results::open(path, "zipf".into()).unwrap())
}

fn run(threads: usize, results: Option<Results>) -> Vec<Outcome> {
    sweep(&open, &points(), threads, results, &SweepProgress::default()).unwrap()
}

#[test]
fn threads_change_nothing() {
    let one = run(1, None);
    assert_eq!(one.iter().map(|outcome| outcome.settings).collect::<Vec<_>>(), points());
    assert_eq!(run(3, None), one);
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.jsonl");
    let whole = run(2, results(&path));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 6);
    // Two points were finished, and a third half written.
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    std::fs::write(&path, &text[..ends[1] + 100]).unwrap();
    let kept = results(&path).unwrap();
    let left: Vec<_> = points().into_iter().filter(|point| kept.get(point).is_none()).collect();
    assert_eq!(left.len(), 4);
    let progress = SweepProgress::default();
    let opened = AtomicU64::new(0);
    let counted = || {
        opened.fetch_add(1, Ordering::Relaxed);
        open()
    };
    assert_eq!(sweep(&counted, &points(), 2, Some(kept), &progress).unwrap(), whole);
    let extents = left.iter().map(|point| 20_000 * 8192 / u64::from(point.extent_bytes));
    assert!(opened.into_inner() > 0 && progress.total.into_inner() == extents.sum::<u64>());
    // Now all are there: the trace is not even opened.
    let never = || Err(TraceError::setting("not to be opened"));
    assert_eq!(sweep(&never, &points(), 2, results(&path), &SweepProgress::default()).unwrap(), whole);
    // Of another trace, none is.
    let other = Results::open(&path, "another".into()).unwrap();
    assert!(points().iter().all(|point| other.get(point).is_none()));
}

#[test]
fn what_is_no_file_of_results_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    std::fs::write(&path, "Dear Sir\nor Madam\n").unwrap();
    assert!(Results::open(&path, "zipf".into()).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "Dear Sir\nor Madam\n");
}

#[test]
fn a_sweep_stops_when_it_is_told_to() {
    let progress = SweepProgress::default();
    progress.stop.store(true, Ordering::Relaxed);
    let error = sweep(&open, &points(), 2, None, &progress).unwrap_err();
    assert!(matches!(error, nitro_sim::Error::Stopped));
}

#[test]
fn outcomes_are_written_as_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outcomes.parquet");
    nitro_sim::write_parquet(&path, &run(2, None)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}
