//! The same systems on recordings of real file systems, which `scripts/record-file-systems` makes.

use super::figures::Figures;
use super::policy::{self, Counted};
use super::run;
use super::systems::Bed;
use super::trace::{Asked, Trace};
use super::{image, performance, table};
use crate::report::{Section, Table, Verdict};
use nitro_cache::builtin;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_sim::cost::Prices;
use nitro_trace::{Op, Options, Reader, Request, open};
use nitro_units::ClassId;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the script writes beside a recording.
#[derive(Debug, Deserialize)]
struct About {
    file_system: String,
    data_bytes: u64,
    volume_bytes: u64,
    phases: Vec<Phase>,
}

/// A phase, and its first time in nanoseconds since the Unix epoch.
#[derive(Debug, Deserialize)]
struct Phase {
    name: String,
    begin_ns: u64,
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(format_args!("--recordings: {}", path.display()), why)
        .or("name a folder that scripts/record-file-systems made")
}

/// The recordings of a folder, by name.
fn found(folder: &Path) -> Result<Vec<Arc<Trace>>, Error> {
    let failed = |error: std::io::Error| unreadable(folder, error);
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "json") && path.with_extension("parquet").exists() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(unreadable(folder, "there are no recordings with their phases (NAME.parquet and NAME.json)"));
    }
    files.iter().map(|file| read(file).map(Arc::new)).collect()
}

/// Reads a recording. What came before its first phase, the making of the file system, is left out.
fn read(about: &Path) -> Result<Trace, Error> {
    let text = fs::read_to_string(about).map_err(|error| unreadable(about, error))?;
    let said: About = serde_json::from_str(&text).map_err(|error| unreadable(about, error))?;
    let path = about.with_extension("parquet");
    let failed = |error: nitro_trace::TraceError| Error::with_sources(format_args!("{}", path.display()), &error);
    let mut reader = open(&path, &Options::default()).map_err(failed)?;
    let mut trace = phases_of(&said, &mut *reader).map_err(failed)?;
    let mut images = image::all(about, said.volume_bytes).map_err(|error| unreadable(about, error))?;
    image::classify(&mut trace, &mut images);
    if trace.phases.is_empty() {
        return Err(unreadable(about, "the recording has no request in any phase"));
    }
    trace.name = format!("{}, recorded", said.file_system);
    Ok(trace)
}

fn phases_of(said: &About, reader: &mut dyn Reader) -> Result<Trace, nitro_trace::TraceError> {
    let mut trace = Trace { data_bytes: said.data_bytes, volume_bytes: said.volume_bytes, ..Trace::default() };
    let mut next = said.phases.iter().peekable();
    let mut request = Request::default();
    while reader.next(&mut request)? {
        while let Some(phase) = next.next_if(|phase| phase.begin_ns <= request.time_ns) {
            trace.phases.push((phase.name.clone(), trace.requests.len()));
        }
        // Trims are left out: the disks of the paper's time have none.
        if !trace.phases.is_empty() && matches!(request.op, Op::Read | Op::Write | Op::Flush) {
            let len = u32::try_from(request.len).unwrap_or(u32::MAX);
            trace.requests.push(Asked { offset: request.offset, len, op: request.op, class: request.class });
        }
    }
    Ok(trace)
}

/// The sections of all recordings, with the verdicts of F1r to F5r.
pub(super) fn sections(folder: &Path, bed: &Bed<'_>, threads: usize) -> Result<Vec<Section>, Error> {
    let (traces, today) = (found(folder)?, table(Prices::today())?);
    let mut sections = Vec::new();
    let mut each: Vec<Vec<Verdict>> = Vec::new();
    for trace in &traces {
        let runs = run::all(trace, bed, threads)?;
        let phases: Vec<_> = trace.phases.iter().map(|(name, _)| name.clone()).collect();
        let counted = Counted::of(runs.iter());
        let figures = Figures::of(&phases, &[runs]);
        let ids = ["F1r", "F2r", "F3r", "F4r"];
        let title = format!("Recording: {}", trace.name);
        let mut performance = performance::section("dss-recorded", &title, text(trace), &figures, bed.prices, ids);
        let mut costs = performance::costs("dss-recorded-cost", &figures, bed.prices, &today, ids[3]);
        let mut verdicts = std::mem::take(&mut performance.verdicts);
        verdicts.append(&mut costs.verdicts);
        verdicts.push(policy::verdict("F5r", &counted.total));
        performance.tables.push(classes(trace));
        performance.tables.append(&mut costs.tables);
        performance.tables.push(policy::table(&counted));
        sections.push(performance);
        let told = |verdict: Verdict| Verdict { found: format!("{}: {}", trace.name, verdict.found), ..verdict };
        each.push(verdicts.into_iter().map(told).collect());
    }
    if let Some(last) = sections.last_mut() {
        last.verdicts = joined(each);
    }
    Ok(sections)
}

/// One verdict for each claim: the worst of all recordings.
fn joined(each: Vec<Vec<Verdict>>) -> Vec<Verdict> {
    let mut all = each.into_iter();
    let mut joined = all.next().unwrap_or_default();
    for verdicts in all {
        for (sum, verdict) in joined.iter_mut().zip(verdicts) {
            sum.holds = sum.holds.and(verdict.holds);
            sum.found = format!("{}; {}", sum.found, verdict.found);
            if !verdict.reason.is_empty() {
                let separator = if sum.reason.is_empty() { "" } else { "; " };
                sum.reason = format!("{}{separator}{}", sum.reason, verdict.reason);
            }
        }
    }
    joined
}

fn text(trace: &Trace) -> String {
    format!(
        "The test suite ran on a real file system in front of `nitro serve --record`, with {} of files on a volume of {}; the \
         server's detection, in the images after creation and after the transactions, gives each block its class. Requests \
         that cover several classes are cut, since requests of different classes are not merged. They are replayed in their \
         order, one at a time, through the same systems as the generated load, with a cache of a tenth of the files. The file system was unmounted after \
         each phase; the requests of its making, and trims, are left out. The recording has one run, so that there is no range.",
        Size(trace.data_bytes),
        Size(trace.volume_bytes)
    )
}

/// What detection found in the recording.
fn classes(trace: &Trace) -> Table {
    let mut table = Table::new("Classes in the recording", &["class", "reads", "writes", "MiB read", "MiB written"]);
    for class in ClassId::all() {
        let of = |op: Op| trace.requests.iter().filter(move |asked| asked.class == class && asked.op == op);
        let mib = |op: Op| {
            format!("{:.1}", of(op).map(|asked| u64::from(asked.len)).sum::<u64>() as f64 / f64::from(1 << 20))
        };
        let (reads, writes) = (of(Op::Read).count(), of(Op::Write).count());
        if reads + writes > 0 {
            let name = builtin::name(class).unwrap_or("other").to_owned();
            table.rows.push(vec![name, reads.to_string(), writes.to_string(), mib(Op::Read), mib(Op::Write)]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Holds;
    use nitro_trace::Listed;

    #[test]
    fn requests_are_in_the_phase_of_their_time() {
        let phase = |name: &str, begin_ns| Phase { name: name.into(), begin_ns };
        let phases = vec![phase("a", 100), phase("b", 200), phase("none", 300)];
        let said = About { file_system: "x".into(), data_bytes: 1, volume_bytes: 2, phases };
        let times = vec![(50, Op::Write), (100, Op::Write), (150, Op::Trim), (150, Op::Flush), (220, Op::Read)];
        let request = |(time_ns, op)| Request { time_ns, op, len: 4096, ..Request::default() };
        let trace = phases_of(&said, &mut Listed::new(times.into_iter().map(request))).unwrap_or_default();
        assert_eq!(trace.phases, [("a".to_owned(), 0), ("b".to_owned(), 2)]);
        assert_eq!([trace.of_phase(0).len(), trace.of_phase(1).len()], [2, 1]);
    }

    #[test]
    fn the_worst_recording_decides() {
        let verdict = |holds, reason: &str| vec![Verdict::new("F1r", "found", holds).noting(reason)];
        let all = joined(vec![verdict(Holds::Holds, ""), verdict(Holds::DoesNot, "slow"), verdict(Holds::Holds, "")]);
        assert_eq!(
            (all[0].holds, all[0].found.as_str(), all[0].reason.as_str()),
            (Holds::DoesNot, "found; found; found", "slow")
        );
        assert!(found(Path::new("/nonexistent")).is_err());
    }
}
