//! The interface of readers: a trace as a stream of requests.

use crate::{ObjectName, Others, Request, TraceError};

/// The treatment of records that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadRecords {
    /// The reader ends with an error that contains file, line and reason.
    #[default]
    Fatal,
    /// The record is skipped and counted.
    Skip,
}

/// Most errors of bad records that are kept.
const SHOWN_MAX: usize = 8;

/// Records that were skipped.
#[derive(Debug, Clone, Default)]
pub struct Skipped {
    /// Their number.
    pub count: u64,
    /// The errors of the first of them.
    pub first: Vec<TraceError>,
}

impl Skipped {
    /// Counts a bad record, or returns its error, depending on `policy`.
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

    /// Adds the records of another reader.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        let room = SHOWN_MAX - self.first.len();
        self.first.extend(other.first.iter().take(room).cloned());
    }
}

/// A stream of requests, in constant memory.
pub trait Reader: Send {
    /// Overwrites `request` with the next request; `false` if there is none. After an error or `false`, the content of
    /// `request` is unspecified, and the reader must not be used further.
    ///
    /// # Errors
    /// The file cannot be read, or has a bad record and [`BadRecords::Fatal`] was chosen.
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError>;

    /// The reader whose requests this one changes: it tells what follows. `None`: this one tells itself.
    fn inner(&self) -> Option<&dyn Reader> {
        None
    }

    /// The records that were skipped so far.
    fn skipped(&self) -> Skipped {
        self.inner().map_or_else(Skipped::default, Reader::skipped)
    }

    /// The records so far that are valid, but not requests.
    fn others(&self) -> Others {
        self.inner().map_or_else(Others::default, Reader::others)
    }

    /// What the trace calls an object of a request that was returned.
    fn object_name(&self, object: u32) -> ObjectName {
        self.inner().map_or(ObjectName::Number, |reader| reader.object_name(object))
    }

    /// The requests as an iterator. It allocates memory for each request with fingerprints, so that it is for short
    /// traces.
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

    fn others(&self) -> Others {
        (**self).others()
    }

    fn object_name(&self, object: u32) -> ObjectName {
        (**self).object_name(object)
    }
}

impl<R: Reader + ?Sized> Reader for &mut R {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        (**self).next(request)
    }

    fn skipped(&self) -> Skipped {
        (**self).skipped()
    }

    fn others(&self) -> Others {
        (**self).others()
    }

    fn object_name(&self, object: u32) -> ObjectName {
        (**self).object_name(object)
    }
}

/// Requests that the program has, or makes, in their order.
#[derive(Debug, Clone)]
pub struct Listed<I>(I);

impl<I: Iterator<Item = Request>> Listed<I> {
    /// A reader of `requests`.
    pub fn new(requests: impl IntoIterator<IntoIter = I>) -> Self {
        Self(requests.into_iter())
    }
}

impl<I: Iterator<Item = Request> + Send> Reader for Listed<I> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        Ok(self.0.next().map(|next| *request = next).is_some())
    }
}

/// The iterator of [`Reader::requests`].
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
