//! Traces of binary records.

use crate::source::Window;
use crate::{BadRecords, ErrorKind, Place, Problem, Reader, Request, Skipped, TraceError};
use std::io;

/// What a record turned out to be.
pub struct Decoded {
    /// It is a request; otherwise it is right, but none.
    pub is_request: bool,
    /// Bytes of the record behind its fixed part.
    pub payload_bytes: usize,
}

impl Decoded {
    /// A record without payload.
    pub const fn fixed(is_request: bool) -> Self {
        Self { is_request, payload_bytes: 0 }
    }
}

/// What the records of a format say.
pub trait Decoder: Send {
    /// Bytes of a record's fixed part.
    fn record_bytes(&self) -> usize;

    /// Fills `request`, which was cleared, from a record's fixed part.
    ///
    /// # Errors
    /// The record is not of the format.
    fn decode(&mut self, record: &[u8], request: &mut Request) -> Result<Decoded, Problem>;

    /// Where records differ in length: the bytes that each begins with, to be looked for behind a damaged one.
    fn magic(&self) -> Option<[u8; 4]> {
        None
    }
}

/// Reads the records of a trace.
pub struct BinaryReader<D> {
    window: Window,
    decoder: D,
    policy: BadRecords,
    skipped: Skipped,
    record: u64,
    ended: bool,
}

impl<D: Decoder> BinaryReader<D> {
    /// A reader of the records that `window` stands before.
    pub fn new(window: Window, decoder: D, policy: BadRecords) -> Self {
        Self { window, decoder, policy, skipped: Skipped::default(), record: 0, ended: false }
    }

    fn bad(&mut self, problem: Problem) -> Result<(), TraceError> {
        self.skipped.note(self.policy, TraceError::new(ErrorKind::BadRecord, Place::Record(self.record), problem))
    }

    fn failed(&self, error: io::Error) -> TraceError {
        TraceError::io(error, Place::Record(self.record))
    }

    fn advance(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let bytes = self.decoder.record_bytes();
        loop {
            self.record += 1;
            let range = self.window.take(bytes).map_err(|error| self.failed(error))?;
            if range.is_empty() {
                return Ok(false);
            }
            if range.len() < bytes {
                self.bad(Problem::new("record", "cut short by the end of the file"))?;
                return Ok(false);
            }
            request.clear();
            let record = self.window.bytes(&range);
            match self.decoder.decode(record, request).and_then(|decoded| request.check().map(|()| decoded)) {
                Ok(decoded) => {
                    self.window.take(decoded.payload_bytes).map_err(|error| self.failed(error))?;
                    if decoded.is_request {
                        return Ok(true);
                    }
                }
                Err(problem) => {
                    self.bad(problem)?;
                    if let Some(magic) = self.decoder.magic() {
                        self.seek(magic)?;
                    }
                }
            }
        }
    }

    /// Takes bytes up to the next `magic`, or all.
    fn seek(&mut self, magic: [u8; 4]) -> Result<(), TraceError> {
        loop {
            let bytes =
                self.window.peek(magic.len()).map_err(|error| TraceError::io(error, Place::Record(self.record)))?;
            let found = bytes.windows(magic.len()).position(|bytes| bytes == magic);
            let past = found.unwrap_or(bytes.len().saturating_sub(magic.len() - 1));
            let ends = bytes.len() < magic.len();
            let past = if ends { bytes.len() } else { past };
            self.window.take(past).map_err(|error| self.failed(error))?;
            if found.is_some() || ends {
                return Ok(());
            }
        }
    }
}

impl<D: Decoder> Reader for BinaryReader<D> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        let result = self.advance(request);
        self.ended = !matches!(result, Ok(true));
        result
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

/// `N` bytes of a record at a place that its length was checked for; zeroes past its end.
pub fn array<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}
