//! What can be wrong with a trace.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why one record is not a request: which of its fields, and what about it. Costs nothing to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// The field, or `record` for the whole.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Problem {
    /// A problem with a field.
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

/// Where in a trace.
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
    /// No format fits what the file begins with, or there is no format of that name.
    UnknownFormat,
    /// A record is not what its format asks for.
    BadRecord,
    /// A Parquet file is damaged, or lacks columns of a trace.
    Parquet,
    /// A setting of a reader or generator makes no sense.
    Setting,
}

/// A trace that cannot be read or written.
#[derive(Debug, Clone)]
pub struct TraceError {
    /// The file, where it is known.
    pub file: Option<PathBuf>,
    /// Where in it.
    pub place: Place,
    /// What kind of error.
    pub kind: ErrorKind,
    /// One lower-case phrase for people.
    pub reason: String,
    /// The operating system's or decompressor's error, if there is one.
    pub source: Option<Arc<io::Error>>,
}

impl TraceError {
    /// An error without file or source.
    #[must_use]
    pub fn new(kind: ErrorKind, place: Place, reason: impl fmt::Display) -> Self {
        Self { file: None, place, kind, reason: reason.to_string(), source: None }
    }

    /// A setting that makes no sense.
    #[must_use]
    pub fn setting(reason: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Setting, Place::Whole, reason)
    }

    /// A failed read or write.
    #[must_use]
    pub fn io(source: io::Error, place: Place) -> Self {
        let reason = source.to_string();
        Self { file: None, place, kind: ErrorKind::Io, reason, source: Some(Arc::new(source)) }
    }

    /// The same, in a file.
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
