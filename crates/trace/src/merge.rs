//! Merges several traces.

use crate::objects::{ObjectName, Objects, Origin, SameDisks};
use crate::{Reader, Request, Skipped, TraceError};
use hashbrown::HashMap;
use std::sync::{Arc, OnceLock};

/// A reader and its next request.
struct Head<R> {
    reader: R,
    request: Request,
    /// Whether `request` is valid: the reader has not ended.
    alive: bool,
    origin: Origin,
    /// The numbers of its objects among those of all readers, by its own numbers.
    numbers: HashMap<u32, u32>,
    /// The last object: its own number, and its number among those of all readers.
    last: Option<(u32, u32)>,
}

impl<R: Reader> Head<R> {
    /// Reads the next request, and replaces its object's number.
    fn advance(&mut self, objects: &mut Objects) -> Result<(), TraceError> {
        self.alive = self.reader.next(&mut self.request)?;
        if !self.alive {
            return Ok(());
        }
        let own = self.request.object;
        self.request.object = match self.last {
            Some((last, number)) if last == own => number,
            _ => self.number(own, objects)?,
        };
        self.last = Some((own, self.request.object));
        Ok(())
    }

    fn number(&mut self, own: u32, objects: &mut Objects) -> Result<u32, TraceError> {
        if let Some(number) = self.numbers.get(&own) {
            return Ok(*number);
        }
        let number = objects.number(self.origin, own, self.reader.object_name(own))?;
        self.numbers.insert(own, number);
        Ok(number)
    }
}

/// The requests of several readers in the order of their times, for a trace with a file per day or per CPU, and for
/// traces of several disks. Each reader must be in order. Requests with equal times are in the order of the readers, so
/// that traces without times are concatenated. Objects of different readers have different numbers, unless they are the
/// same by a rule ([`SameDisks`]).
pub struct Merged<R> {
    heads: Vec<Head<R>>,
    objects: Objects,
    started: bool,
}

impl<R: Reader> Merged<R> {
    /// The requests of all `readers`, each with its origin; see [`origins`](crate::origins).
    pub fn new(readers: impl IntoIterator<Item = (Origin, R)>, rule: SameDisks) -> Self {
        let head = |(origin, reader)| Head {
            reader,
            request: Request::default(),
            alive: true,
            origin,
            numbers: HashMap::new(),
            last: None,
        };
        Self { heads: readers.into_iter().map(head).collect(), objects: Objects::new(rule), started: false }
    }

    /// The first object of several files that was not taken for the same disk although the files call it the same; empty
    /// until one was read.
    #[must_use]
    pub fn apart(&self) -> Arc<OnceLock<String>> {
        self.objects.apart()
    }
}

impl<R: Reader> Reader for Merged<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if !self.started {
            self.started = true;
            for head in &mut self.heads {
                head.advance(&mut self.objects)?;
            }
        }
        let alive = self.heads.iter_mut().filter(|head| head.alive);
        let Some(first) = alive.min_by_key(|head| head.request.time_ns) else { return Ok(false) };
        std::mem::swap(request, &mut first.request);
        first.advance(&mut self.objects)?;
        Ok(true)
    }

    fn skipped(&self) -> Skipped {
        let mut all = Skipped::default();
        for head in &self.heads {
            all.add(&head.reader.skipped());
        }
        all
    }

    fn object_name(&self, object: u32) -> ObjectName {
        self.objects.name(object)
    }
}
