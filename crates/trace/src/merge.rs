//! Merges several traces.

use crate::{Reader, Request, Skipped, TraceError};

/// A reader and its next request.
struct Head<R> {
    reader: R,
    request: Request,
    /// Whether `request` is valid: the reader has not ended.
    alive: bool,
}

/// The requests of several readers in the order of their times, for a trace with a file per day or per CPU. Each reader
/// must be in order. Requests with equal times are in the order of the readers, so that traces without times are
/// concatenated.
pub struct Merged<R> {
    heads: Vec<Head<R>>,
    started: bool,
}

impl<R: Reader> Merged<R> {
    /// The requests of all `readers`.
    pub fn new(readers: impl IntoIterator<Item = R>) -> Self {
        let head = |reader| Head { reader, request: Request::default(), alive: true };
        Self { heads: readers.into_iter().map(head).collect(), started: false }
    }
}

impl<R: Reader> Reader for Merged<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if !self.started {
            self.started = true;
            for head in &mut self.heads {
                head.alive = head.reader.next(&mut head.request)?;
            }
        }
        let alive = self.heads.iter_mut().filter(|head| head.alive);
        let Some(first) = alive.min_by_key(|head| head.request.time_ns) else { return Ok(false) };
        std::mem::swap(request, &mut first.request);
        first.alive = first.reader.next(&mut first.request)?;
        Ok(true)
    }

    fn skipped(&self) -> Skipped {
        let mut all = Skipped::default();
        for head in &self.heads {
            all.add(&head.reader.skipped());
        }
        all
    }
}
