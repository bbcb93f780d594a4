//! The result file of a command. It gets its name only once it is complete.

use nitro_commands::traces::refused;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::signals;
use nitro_console::size::Size;
use nitro_files as files;
use nitro_trace::parquet::{ParquetWriter, convert};
use nitro_trace::{Place, Reader, Request, TraceError};
use serde::Serialize;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The suffix of an unfinished file.
const PART_SUFFIX: &str = ".part";

/// The type of a result file, by the extension of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Parquet,
    Csv,
}

impl Kind {
    fn of(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|end| end.to_str()).unwrap_or_default() {
            "csv" => Ok(Self::Csv),
            end
            @ ("gz" | "zst" | "bz2" | "xz" | "txt" | "tsv" | "json" | "blkparse" | "blktrace" | "vscsi" | "lis") => {
                let what = format!("result {}", path.display());
                Err(Error::new(what, format_args!("files of type .{end} cannot be written"))
                    .or("name it .parquet, or .csv for a table"))
            }
            _ => Ok(Self::Parquet),
        }
    }
}

/// What was made.
#[derive(Debug, Serialize)]
struct Made<'a> {
    path: &'a Path,
    requests: u64,
    bytes: u64,
}

pub(super) struct ResultFile {
    path: PathBuf,
    part: PathBuf,
    kind: Kind,
}

impl ResultFile {
    /// The file at `path`, which must not exist unless `force` is set.
    pub(super) fn new(path: &Path, force: bool) -> Result<Self, Error> {
        let what = format!("result {}", path.display());
        if path.exists() && !path.is_file() {
            return Err(Error::new(what, "it is not a regular file").or("name a file"));
        }
        let kind = Kind::of(path)?;
        if path.exists() && !force {
            return Err(Error::new(what, "it exists").or("choose another name, or give --force to replace it"));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(PART_SUFFIX);
        Ok(Self { path: path.to_owned(), part: part.into(), kind })
    }

    /// Refuses a CSV table, because it cannot hold `what` of the trace.
    pub(super) fn only_parquet(self, what: &str) -> Result<Self, Error> {
        match self.kind {
            Kind::Parquet => Ok(self),
            Kind::Csv => {
                Err(Error::new(format_args!("result {}", self.path.display()), format_args!("a table has no {what}"))
                    .or("name it .parquet; nitro-lab trace convert can convert it to a table"))
            }
        }
    }

    /// Writes all of a trace, and prints the number of requests and the size of the file.
    pub(super) fn fill(self, reader: &mut dyn Reader, notes: &[(&str, &str)], format: Format) -> Result<(), Error> {
        let what = format!("result {}", self.path.display());
        let unusable = |e: &dyn Display| Error::new(&what, e).or("name a file in a folder that can be written to");
        // If the command is interrupted, the unfinished file is removed.
        let part = self.part.clone();
        signals::before_end(move || drop(fs::remove_file(&part)))?;
        let file = files::create_anew(&self.part).map_err(|e| unusable(&e))?;
        let mut writing = |file: File| -> Result<u64, TraceError> {
            match self.kind {
                Kind::Parquet => convert(reader, ParquetWriter::new(file, notes)?),
                Kind::Csv => table(reader, file),
            }
        };
        let requests = writing(file).map_err(|e| {
            // A failure to remove it is less important than the failure itself.
            let _ = fs::remove_file(&self.part);
            refused(&e)
        })?;
        fs::rename(&self.part, &self.path).map_err(|e| unusable(&e))?;
        let bytes = fs::metadata(&self.path).map_or(0, |found| found.len());
        let text = match format {
            Format::Json => output::json_pretty(&Made { path: &self.path, requests, bytes })?,
            Format::Csv => Table::of_one(
                ["path", "requests", "bytes"],
                vec![self.path.display().to_string(), requests.to_string(), bytes.to_string()],
            )
            .csv(true),
            Format::Table => format!("{requests} requests in {}: {}\n", self.path.display(), Size(bytes)),
        };
        output::print(&text).map(|_| ())
    }
}

/// Writes a trace as CSV: `nitro-lab trace` reads it with `--columns time=0:ns,op=1,object=2,offset=3,len=4,skip=1`.
fn table(reader: &mut dyn Reader, file: File) -> Result<u64, TraceError> {
    let fail = |e| TraceError::io(e, Place::Whole);
    let (mut out, mut request, mut count) = (BufWriter::new(file), Request::default(), 0);
    writeln!(out, "time_ns,op,object,offset,len").map_err(fail)?;
    while reader.next(&mut request)? {
        let Request { time_ns, op, object, offset, len, .. } = &request;
        writeln!(out, "{time_ns},{},{object},{offset},{len}", op.as_str()).map_err(fail)?;
        count += 1;
    }
    out.flush().map_err(fail)?;
    Ok(count)
}
