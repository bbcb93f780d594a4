//! Readers of traces with one request per line.

use crate::source::{Line, Window};
use crate::{BadRecords, ErrorKind, Place, Problem, Reader, Request, Skipped, TraceError};

/// The parser of a format's lines.
pub trait LineParser: Send {
    /// Fills a cleared `request` from a line that is not blank; `false`: the line is valid, but not a request.
    ///
    /// # Errors
    /// The line does not conform to the format.
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<bool, Problem>;

    /// Whether the first line is a header with the names of the columns.
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

/// A reader of lines.
pub struct TextReader<P> {
    window: Window,
    parser: P,
    policy: BadRecords,
    skipped: Skipped,
    line: u64,
    ended: bool,
}

impl<P: LineParser> TextReader<P> {
    /// A reader of the lines from the window's position on.
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

/// Whether a line is blank or a comment (`#`), in any format.
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
