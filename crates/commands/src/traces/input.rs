//! One or several traces, read as one.

use super::file::{OfFile, Warnings};
use super::{ReadArgs, refused};
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_trace::parquet::{ParquetReader, is_of_object};
use nitro_trace::{
    BadRecords, Format, Merged, Origin, Position, Reader, Request, TraceError, WithoutRepeats, is_stream, open,
    open_stream, origins, recognise,
};
use std::fs::File;
use std::io::stdin;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Number of requests between two updates of the progress.
const LOOK_EVERY: u64 = 1 << 12;

/// One or several files, read as one trace, with a display of the progress.
pub struct Input {
    reader: Box<dyn Reader>,
    /// The format of each file; `None` if it is not known before the file is read.
    pub formats: Vec<Option<Format>>,
    /// The metadata of the first Parquet file; with further files, those that are not about objects.
    pub notes: Vec<(String, String)>,
    progress: Option<(Progress, Position)>,
    requests: u64,
    /// An object of several files that was not taken for the same disk.
    apart: Arc<OnceLock<String>>,
    warnings: Warnings,
}

impl Input {
    /// Opens traces, which are merged in the order of their times.
    pub fn open(paths: &[PathBuf], args: &ReadArgs) -> Result<Self, Error> {
        let position = Position::default();
        let options = args.options(&position);
        let (mut readers, mut formats, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let warnings = Warnings::default();
        let mut total_bytes = Some(0);
        check_read_once(paths)?;
        for path in paths {
            if path.as_os_str() == "-" {
                let name = Path::new("stdin");
                let reader = open_stream(stdin(), &options).map_err(|e| refused(&e.in_file(name)))?;
                readers.push(Box::new(OfFile::new(reader, name, &warnings)) as Box<dyn Reader>);
                formats.push(options.format);
                total_bytes = None;
                continue;
            }
            if path.is_dir() {
                let what = format!("trace {}", path.display());
                return Err(Error::new(what, "it is a directory").or("name the files in it"));
            }
            let format = recognise(path, &options).map_err(|e| refused(&e))?;
            let reader = open(path, &options).map_err(|e| refused(&e))?;
            readers.push(Box::new(OfFile::new(reader, path, &warnings)));
            if format == Some(Format::Parquet) && notes.is_empty() {
                notes = notes_of(path);
                // Its objects may have other numbers in the merged trace.
                notes.retain(|(key, _)| paths.len() == 1 || !is_of_object(key));
            }
            formats.push(format);
            let len = path.metadata().ok().filter(|_| !is_stream(path)).map(|found| found.len());
            total_bytes = total_bytes.zip(len).map(|(bytes, len)| bytes + len);
        }
        let (reader, apart) = merged(readers, &origins(paths), args);
        let progress = total_bytes.map(|bytes| (Progress::new(bytes, "read"), position));
        Ok(Self { reader, formats, notes, progress, requests: 0, apart, warnings })
    }

    /// As [`open`](Self::open), without any output.
    pub fn reader(paths: &[PathBuf], args: &ReadArgs) -> Result<Box<dyn Reader>, TraceError> {
        let options = args.options(&Position::default());
        let (mut readers, warnings) = (Vec::new(), Warnings::default());
        for path in paths {
            readers.push(Box::new(OfFile::new(open(path, &options)?, path, &warnings)) as Box<dyn Reader>);
        }
        Ok(merged(readers, &origins(paths), args).0)
    }

    /// Prints on standard error which files have no requests, and which objects were taken for different disks, if that
    /// may be a surprise.
    fn tell_end(&self) {
        for warning in self.warnings.take() {
            nitro_console::note!("warning: {warning}");
        }
        if let Some(object) = self.apart.get() {
            nitro_console::note!(
                "{object} is in several files, and taken for another disk in each; --same-disks numbered takes what is numbered \
                 or named the same for one disk"
            );
        }
    }

    /// Prints on standard error which records were left out.
    pub fn tell_skipped(&self) {
        let skipped = self.reader.skipped();
        for error in &skipped.first {
            nitro_console::note!("left out: {error}");
        }
        let more = skipped.count - skipped.first.len() as u64;
        if more > 0 {
            nitro_console::note!("left out: {more} more bad records");
        }
    }
}

/// Whether a trace can be read only once: standard input, or a pipe or the like by its name.
#[must_use]
pub fn is_read_once(path: &Path) -> bool {
    path.as_os_str() == "-" || is_stream(path)
}

/// Checks that no stream is named twice.
fn check_read_once(paths: &[PathBuf]) -> Result<(), Error> {
    let all: Vec<_> = paths.iter().zip(origins(paths)).filter(|(path, _)| is_read_once(path)).collect();
    for (number, (path, origin)) in all.iter().enumerate() {
        if all[..number].iter().any(|(_, before)| before.file == origin.file) {
            return Err(Error::new(format_args!("trace {}", path.display()), "it is a stream, and named twice")
                .or("a stream can be read only once; write it to a file first"));
        }
    }
    Ok(())
}

/// Merges several readers into one. Returns it with the object that was first taken for several disks.
fn merged(
    mut readers: Vec<Box<dyn Reader>>,
    origins: &[Origin],
    args: &ReadArgs,
) -> (Box<dyn Reader>, Arc<OnceLock<String>>) {
    let (merged, apart): (Box<dyn Reader>, _) = match readers.pop() {
        Some(only) if readers.is_empty() => (only, Arc::default()),
        last => {
            let readers = readers.into_iter().chain(last);
            let merged = Merged::new(origins.iter().copied().zip(readers), args.same_disks.into());
            let apart = merged.apart();
            (Box::new(merged), apart)
        }
    };
    (if args.drop_repeats { Box::new(WithoutRepeats::new(merged)) } else { merged }, apart)
}

/// The metadata of a Parquet file. Prints a note if the file is incomplete.
fn notes_of(path: &Path) -> Vec<(String, String)> {
    let reader = File::open(path).ok().and_then(|file| ParquetReader::new(file, BadRecords::Fatal).ok());
    if reader.as_ref().is_some_and(ParquetReader::is_torn) {
        let path = path.display();
        nitro_console::note!(
            "{path}: it is incomplete because its writer was killed; it is read up to its last complete part"
        );
    }
    reader
        .map_or_else(Vec::new, |reader| reader.notes().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

impl Reader for Input {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let more = self.reader.next(request);
        self.requests += 1;
        if let Some((progress, position)) = &self.progress {
            if !matches!(more, Ok(true)) {
                progress.end();
            } else if self.requests.is_multiple_of(LOOK_EVERY) {
                progress.show(position.get());
            }
        }
        if !matches!(more, Ok(true)) {
            self.tell_end();
        }
        more
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}
