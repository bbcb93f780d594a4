//! Readers of traces of binary records.

use super::text::Parsed;
use crate::source::Window;
use crate::{BadRecords, ErrorKind, ObjectName, Others, Place, Problem, Reader, Request, Skipped, TraceError};
use std::io;

/// A decoded record.
pub struct Decoded {
    /// Whether the record is a request.
    pub parsed: Parsed,
    /// Bytes of the record after its fixed part.
    pub payload_bytes: usize,
}

impl Decoded {
    /// A record without payload.
    pub const fn fixed(parsed: Parsed) -> Self {
        Self { parsed, payload_bytes: 0 }
    }
}

/// The decoder of a format's records.
pub trait Decoder: Send {
    /// Bytes of a record's fixed part.
    fn record_bytes(&self) -> usize;

    /// Fills a cleared `request` from the fixed part of a record.
    ///
    /// # Errors
    /// The record does not conform to the format.
    fn decode(&mut self, record: &[u8], request: &mut Request) -> Result<Decoded, Problem>;

    /// What the format calls an object of a request that was decoded.
    fn object_name(&self, _object: u32) -> ObjectName {
        ObjectName::Number
    }

    /// If records differ in length: the bytes with which each begins. After a damaged record, the reader searches for
    /// them.
    fn magic(&self) -> Option<[u8; 4]> {
        None
    }
}

/// A reader of binary records.
pub struct BinaryReader<D> {
    window: Window,
    decoder: D,
    policy: BadRecords,
    skipped: Skipped,
    others: Others,
    record: u64,
    ended: bool,
}

impl<D: Decoder> BinaryReader<D> {
    /// A reader of the records from the window's position on.
    pub fn new(window: Window, decoder: D, policy: BadRecords) -> Self {
        let (skipped, others) = (Skipped::default(), Others::default());
        Self { window, decoder, policy, skipped, others, record: 0, ended: false }
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
                    match decoded.parsed {
                        Parsed::Request => return Ok(true),
                        Parsed::Other(kind) => self.others.note(kind),
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

    /// Takes the bytes before the next `magic`, or all bytes if there is none.
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

    fn others(&self) -> Others {
        self.others.clone()
    }

    fn object_name(&self, object: u32) -> ObjectName {
        self.decoder.object_name(object)
    }
}

/// `N` bytes of a record from `at` on; zeroes if the record is too short.
pub fn array<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}
