//! The errors of traces.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why a record is not a request: the field, and its error. It needs no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// The field, or `record` for the whole record.
    pub field: &'static str,
    /// The error of the field.
    pub reason: &'static str,
}

impl Problem {
    /// The error of a field.
    #[must_use]
    pub const fn new(field: &'static str, reason: &'static str) -> Self {
        Self { field, reason }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

/// A place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The trace as a whole.
    Whole,
    /// A line of text, counted from 1.
    Line(u64),
    /// A binary record or row, counted from 1.
    Record(u64),
}

/// The kinds of [`TraceError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Reading or writing failed, or a compressed stream is damaged.
    Io,
    /// No format fits the beginning of the file, or there is no format with the requested name.
    UnknownFormat,
    /// The version of the format is not one of those that are read.
    Version,
    /// A record does not conform to its format.
    BadRecord,
    /// A Parquet file is damaged, or lacks required columns.
    Parquet,
    /// A setting of a reader or generator is invalid.
    Setting,
}

/// The error of reading or writing a trace.
#[derive(Debug, Clone)]
pub struct TraceError {
    /// The file, if it is known.
    pub file: Option<PathBuf>,
    /// The place in the trace.
    pub place: Place,
    /// The kind of the error.
    pub kind: ErrorKind,
    /// A lower-case phrase for people.
    pub reason: String,
    /// The error of the operating system or of the decompressor, if there is one.
    pub source: Option<Arc<io::Error>>,
}

impl TraceError {
    /// An error without a file and without a source.
    #[must_use]
    pub fn new(kind: ErrorKind, place: Place, reason: impl fmt::Display) -> Self {
        Self { file: None, place, kind, reason: reason.to_string(), source: None }
    }

    /// The error of an invalid setting.
    #[must_use]
    pub fn setting(reason: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Setting, Place::Whole, reason)
    }

    /// The error of a failed read or write.
    #[must_use]
    pub fn io(source: io::Error, place: Place) -> Self {
        let reason = source.to_string();
        Self { file: None, place, kind: ErrorKind::Io, reason, source: Some(Arc::new(source)) }
    }

    /// Sets the file, if there is none yet.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        self.file.get_or_insert_with(|| file.to_owned());
        self
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
        }
        match (&self.file, self.place) {
            (Some(_), Place::Whole) => f.write_str(": ")?,
            (None, Place::Whole) => {}
            (Some(_), Place::Line(line)) => write!(f, ":{line}: ")?,
            (None, Place::Line(line)) => write!(f, "line {line}: ")?,
            (Some(_), Place::Record(record)) => write!(f, ": record {record}: ")?,
            (None, Place::Record(record)) => write!(f, "record {record}: ")?,
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}
