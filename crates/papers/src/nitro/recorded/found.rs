//! The recorded traces of a folder: those that can judge a claim, and why the others cannot.

use super::{CACHE_SHARES, WEU_BYTES};
use crate::nitro::Work;
use nitro_console::error::{Error, why};
use nitro_sim::workload::Source;
use nitro_trace::{Options, Summary, TraceError, is_stream, open, summarize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The depth of folders below the given one that are searched.
const DEPTH_MAX: u32 = 4;
/// Units of the smallest cache: with fewer, the eviction of one unit changes the hits.
const WEUS_MIN: f64 = 64.0;
/// The share of its blocks that a trace must touch again; otherwise hardly any read can hit.
const AGAIN_SHARE_MIN: f64 = 0.1;

/// A recorded trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The file, relative to the folder.
    pub(super) name: String,
    pub(super) work: Work,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) footprint_bytes: u64,
    /// Bytes of the blocks that are touched more than once.
    pub(super) again_bytes: u64,
    /// Whether the trace has fingerprints.
    pub(super) fingerprints: bool,
    /// Whether the trace has compressed sizes.
    pub(super) compressed_sizes: bool,
}

/// The traces of a folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The traces that are replayed.
    pub(super) traces: Vec<Trace>,
    /// Other files, and the reasons why they are not replayed.
    pub(super) others: Vec<(String, String)>,
}

impl Found {
    /// Searches a folder and the folders in it. Files whose names differ only after the first dot are taken for one
    /// trace in several formats, of which the first by name is replayed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, Error> {
        let unreadable = |error| Error::new(format_args!("--traces {}", folder.display()), error);
        let mut files = Vec::new();
        list(folder, DEPTH_MAX, &mut files).map_err(|e: io::Error| unreadable(e).or("name a folder of traces"))?;
        files.sort();
        let mut found = Self::default();
        let mut stems: Vec<(PathBuf, String)> = Vec::new();
        for path in files {
            let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            let stem = stem(&path);
            if let Some((_, first)) = stems.iter().find(|(other, _)| *other == stem) {
                found.others.push((name, format!("taken for {first} in another format")));
                continue;
            }
            match measured(&path, &name) {
                Ok(trace) => {
                    stems.push((stem, name));
                    found.traces.push(trace);
                }
                Err(why) => found.others.push((name, why)),
            }
        }
        Ok(found)
    }
}

/// Adds the files of a folder, and of those in it.
fn list(folder: &Path, depth: u32, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if !path.is_dir() {
            files.push(path);
        } else if depth > 0 {
            list(&path, depth - 1, files)?;
        }
    }
    Ok(())
}

/// A path up to the first dot in the file's name.
fn stem(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(name.split('.').next().unwrap_or_default())
}

/// Reads a trace; an error is the reason why it cannot judge.
fn measured(path: &Path, name: &str) -> Result<Trace, String> {
    if is_stream(path) {
        return Err("it is a stream, which can be read only once".into());
    }
    // The file is named beside the reason.
    let file = format!("{}: ", path.display());
    let failed = |error: TraceError| why(&error).replace(&file, "");
    let summary = summarize(&mut *open(path, &Options::default()).map_err(failed)?).map_err(failed)?;
    check(&summary)?;
    let source = Source::new(Box::new(|| open(path, &Options::default())), None);
    let files = [path.to_owned()];
    let identity = source.identity("recorded", &files).map_err(|(_, error)| error.to_string())?;
    Ok(Trace {
        name: name.to_owned(),
        work: Work::Recorded { path: path.into(), identity: Arc::new(identity) },
        reads: summary.reads.count,
        writes: summary.writes.count,
        footprint_bytes: summary.footprint_bytes,
        again_bytes: summary.working_set_bytes,
        fingerprints: summary.prints > 0,
        compressed_sizes: summary.compressed_bytes > 0,
    })
}

/// Whether a trace has reads enough, blocks enough, and blocks enough that are touched again.
fn check(summary: &Summary) -> Result<(), String> {
    let footprint_min = WEUS_MIN * f64::from(WEU_BYTES) / CACHE_SHARES[0];
    let again = summary.working_set_bytes as f64 / summary.footprint_bytes.max(1) as f64;
    if summary.reads.count == 0 {
        return Err("it has no reads".into());
    }
    if again < AGAIN_SHARE_MIN {
        return Err(format!("only {:.1} % of its blocks are touched more than once", again * 100.0));
    }
    if (summary.footprint_bytes as f64) < footprint_min {
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        return Err(format!(
            "it touches {:.0} MiB; caches of enough units need {:.0} MiB",
            mib(summary.footprint_bytes as f64),
            mib(footprint_min)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Lines of the `.lis` format: reads of `kib` at multiples of it.
    fn lis(kib: u64, numbers: impl Iterator<Item = u64>) -> String {
        numbers.map(|number| format!("{} {} 0 0\n", number * kib * 2, kib * 2)).collect()
    }

    #[test]
    fn a_folder_is_searched_and_what_cannot_judge_is_named() {
        let folder = std::env::temp_dir().join(format!("nitro-recorded-{}", std::process::id()));
        fs::create_dir_all(folder.join("deep/er")).unwrap();
        let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
        write("deep/er/again.lis", lis(512, (0..500).chain(0..500)));
        write("deep/er/again.copy", lis(512, (0..500).chain(0..500)));
        write("once.lis", lis(512, 0..500));
        write("small.lis", lis(4, (0..500).chain(0..500)));
        write("README.md", "What is here.\n".into());
        let found = Found::in_folder(&folder);
        let missing = Found::in_folder(&folder.join("none"));
        fs::remove_dir_all(&folder).unwrap();
        let found = found.unwrap();
        // The first by name of two formats.
        let names: Vec<_> = found.traces.iter().map(|trace| trace.name.as_str()).collect();
        assert_eq!(names, ["deep/er/again.copy"]);
        let trace = &found.traces[0];
        assert_eq!((trace.reads, trace.writes, trace.footprint_bytes), (1000, 0, 250 << 20));
        assert!(!trace.fingerprints && !trace.compressed_sizes);
        let why = |name: &str| found.others.iter().find(|(other, _)| other == name).map_or("", |(_, why)| why);
        assert_eq!(why("deep/er/again.lis"), "taken for deep/er/again.copy in another format");
        assert!(why("once.lis").starts_with("only 0.0 % of its blocks"), "{}", why("once.lis"));
        assert!(why("small.lis").starts_with("it touches 2 MiB"), "{}", why("small.lis"));
        assert_eq!(why("README.md"), "no known format fits its beginning");
        assert!(missing.is_err());
    }
}
