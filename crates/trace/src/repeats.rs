//! Removes repeated records.

use crate::{Reader, Request, TraceError};

/// Most requests of one time with which further ones are compared.
const AT_ONE_TIME_MAX: usize = 1024;

/// Removes requests that equal an earlier one in all fields, including the time. Some of the FIU traces have such
/// records, which would falsify the duplicate ratio. The trace must be in the order of its times, and have times finer
/// than seconds.
pub struct WithoutRepeats<R> {
    reader: R,
    /// The requests at the present time.
    present: Vec<Request>,
    /// The number of requests in `present` that are in use; the others keep their allocations.
    count: usize,
    repeats: u64,
}

impl<R: Reader> WithoutRepeats<R> {
    /// The requests of `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader, present: Vec::new(), count: 0, repeats: 0 }
    }

    /// The number of requests that were removed so far.
    pub const fn repeats(&self) -> u64 {
        self.repeats
    }
}

impl<R: Reader> Reader for WithoutRepeats<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        while self.reader.next(request)? {
            let present = &self.present[..self.count];
            if present.first().is_some_and(|first| first.time_ns != request.time_ns) {
                self.count = 0;
            } else if present.contains(request) {
                self.repeats += 1;
                continue;
            }
            if self.count < self.present.len() {
                self.present[self.count].clone_from(request);
                self.count += 1;
            } else if self.count < AT_ONE_TIME_MAX {
                self.present.push(request.clone());
                self.count += 1;
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}
