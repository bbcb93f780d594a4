//! Readers: a trace as a stream of requests.

use crate::{Request, TraceError};

/// What a reader does with a record that it cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadRecords {
    /// Ends with an error that names file, line and reason.
    #[default]
    Fatal,
    /// Leaves it out and counts it.
    Skip,
}

/// Bad records that are kept to be shown.
const SHOWN_MAX: usize = 8;

/// Records that were left out.
#[derive(Debug, Clone, Default)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first few of them.
    pub first: Vec<TraceError>,
}

impl Skipped {
    /// Counts a bad record, or gives it back where that is asked for.
    pub(crate) fn note(&mut self, policy: BadRecords, error: TraceError) -> Result<(), TraceError> {
        if policy == BadRecords::Fatal {
            return Err(error);
        }
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(error);
        }
        Ok(())
    }

    /// Adds those of another reader.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        let room = SHOWN_MAX - self.first.len();
        self.first.extend(other.first.iter().take(room).cloned());
    }
}

/// A stream of requests, in constant memory.
pub trait Reader: Send {
    /// Overwrites `request` with the next one; `false` behind the last. After an error or `false`, what `request` holds
    /// is unspecified, and the reader is at its end.
    ///
    /// # Errors
    /// What the file cannot be read for, or a bad record where those are fatal.
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError>;

    /// The records left out so far.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }

    /// The requests as an iterator, each with an allocation of its own if it has fingerprints: for short traces.
    fn requests(self) -> Requests<Self>
    where
        Self: Sized,
    {
        Requests { reader: self, ended: false }
    }
}

impl<R: Reader + ?Sized> Reader for Box<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        (**self).next(request)
    }

    fn skipped(&self) -> Skipped {
        (**self).skipped()
    }
}

impl<R: Reader + ?Sized> Reader for &mut R {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        (**self).next(request)
    }

    fn skipped(&self) -> Skipped {
        (**self).skipped()
    }
}

/// See [`Reader::requests`].
pub struct Requests<R> {
    reader: R,
    ended: bool,
}

impl<R: Reader> Iterator for Requests<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let mut request = Request::default();
        let result = self.reader.next(&mut request);
        self.ended = !matches!(result, Ok(true));
        match result {
            Ok(true) => Some(Ok(request)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
