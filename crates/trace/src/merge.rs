//! Several traces as one.

use crate::{Reader, Request, Skipped, TraceError};

/// One of the readers, with the request it is at.
struct Head<R> {
    reader: R,
    request: Request,
    /// It has been read, and not ended.
    alive: bool,
}

/// Requests of several readers in the order of their times: the files of a trace that is kept by day or by CPU. Each is
/// taken to be in order. Equal times come in the order of the readers, so that traces without times follow one another.
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
