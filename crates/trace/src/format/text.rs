//! Traces of one request a line.

use crate::source::{Line, Window};
use crate::{BadRecords, ErrorKind, Place, Problem, Reader, Request, Skipped, TraceError};

/// What a line of a format says.
pub trait LineParser: Send {
    /// Fills `request`, which was cleared, from a line that is not blank; `false`: the line is right, but no request.
    ///
    /// # Errors
    /// The line is not of the format.
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<bool, Problem>;

    /// Whether this, the first line, only names the columns.
    fn is_header(&self, line: &[u8]) -> bool {
        line.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(u8::is_ascii_alphabetic)
    }
}

impl<P: LineParser + ?Sized> LineParser for Box<P> {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<bool, Problem> {
        (**self).parse(line, request)
    }

    fn is_header(&self, line: &[u8]) -> bool {
        (**self).is_header(line)
    }
}

/// Reads the lines of a trace.
pub struct TextReader<P> {
    window: Window,
    parser: P,
    policy: BadRecords,
    skipped: Skipped,
    line: u64,
    ended: bool,
}

impl<P: LineParser> TextReader<P> {
    /// A reader of the lines that `window` stands before.
    pub fn new(window: Window, parser: P, policy: BadRecords) -> Self {
        Self { window, parser, policy, skipped: Skipped::default(), line: 0, ended: false }
    }

    fn bad(&mut self, problem: Problem) -> Result<(), TraceError> {
        self.skipped.note(self.policy, TraceError::new(ErrorKind::BadRecord, Place::Line(self.line), problem))
    }

    fn advance(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        loop {
            let line = self.window.line().map_err(|error| TraceError::io(error, Place::Line(self.line + 1)))?;
            self.line += 1;
            let range = match line {
                Line::At(range) => range,
                Line::TooLong => {
                    self.bad(Problem::new("record", "line of over 1 MiB"))?;
                    continue;
                }
                Line::End => return Ok(false),
            };
            let line = self.window.bytes(&range);
            if is_blank(line) || self.line == 1 && self.parser.is_header(line) {
                continue;
            }
            request.clear();
            match self.parser.parse(line, request).and_then(|is_request| request.check().map(|()| is_request)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(problem) => self.bad(problem)?,
            }
        }
    }
}

/// Lines that no format gives a meaning to.
pub fn is_blank(line: &[u8]) -> bool {
    line.first().is_none_or(|&first| first == b'#') || line[0].is_ascii_whitespace() && line.trim_ascii().is_empty()
}

impl<P: LineParser> Reader for TextReader<P> {
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
