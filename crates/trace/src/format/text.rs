//! Readers of traces with one request per line.

use crate::source::{Line, Window};
use crate::{BadRecords, ErrorKind, ObjectName, Others, Place, Problem, Reader, Request, Skipped, TraceError};
use std::collections::HashSet;

/// What a record that conforms to its format is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A request.
    Request,
    /// Something else, which is counted: its kind, a phrase in the plural.
    Other(&'static str),
}

/// The parser of a format's lines.
pub trait LineParser: Send {
    /// Fills a cleared `request` from a line that is not blank.
    ///
    /// # Errors
    /// The line does not conform to the format.
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem>;

    /// What the format calls an object of a request that was parsed.
    fn object_name(&self, _object: u32) -> ObjectName {
        ObjectName::Number
    }

    /// Lines at the beginning of a file that the user wants to skip, whatever they contain.
    fn skipped_lines(&self) -> u64 {
        0
    }

    /// Whether the first line is a header with the names of the columns.
    fn is_header(&self, line: &[u8]) -> bool {
        line.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(u8::is_ascii_alphabetic)
    }
}

impl<P: LineParser + ?Sized> LineParser for Box<P> {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        (**self).parse(line, request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        (**self).object_name(object)
    }

    fn skipped_lines(&self) -> u64 {
        (**self).skipped_lines()
    }

    fn is_header(&self, line: &[u8]) -> bool {
        (**self).is_header(line)
    }
}

/// Most lines of a header that are remembered, and most bytes of such a line.
const HEADER_LINES_MAX: usize = 64;
const HEADER_LINE_BYTES_MAX: usize = 1 << 12;

/// A reader of lines.
pub struct TextReader<P> {
    window: Window,
    parser: P,
    policy: BadRecords,
    skipped: Skipped,
    others: Others,
    line: u64,
    /// The lines of the header. Where files were joined, they are repeated.
    header: HashSet<Box<[u8]>>,
    ended: bool,
}

impl<P: LineParser> TextReader<P> {
    /// A reader of the lines from the window's position on.
    pub fn new(window: Window, parser: P, policy: BadRecords) -> Self {
        Self {
            window,
            parser,
            policy,
            skipped: Skipped::default(),
            others: Others::default(),
            line: 0,
            header: HashSet::new(),
            ended: false,
        }
    }

    /// Whether the current line belongs to the file's header; it is remembered.
    fn is_header(&mut self, range: &std::ops::Range<usize>) -> bool {
        let line = self.window.bytes(range);
        let is_header = self.line <= self.parser.skipped_lines() || self.line == 1 && self.parser.is_header(line);
        if is_header && self.header.len() < HEADER_LINES_MAX && line.len() <= HEADER_LINE_BYTES_MAX {
            self.header.insert(line.into());
        }
        is_header
    }

    fn bad(&mut self, problem: Problem) -> Result<(), TraceError> {
        self.skipped.note(self.policy, TraceError::new(ErrorKind::BadRecord, Place::Line(self.line), problem))
    }

    fn advance(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        loop {
            let line = self.window.line().map_err(|error| TraceError::io(error, Place::Line(self.line + 1)))?;
            self.line += 1;
            let range = match line {
                Line::At(range) => {
                    let bytes = self.window.bytes(&range);
                    range.end - without_mark(bytes).len()..range.end
                }
                Line::TooLong => {
                    self.bad(Problem::new("record", "line of over 1 MiB"))?;
                    continue;
                }
                Line::End => return Ok(false),
            };
            if self.is_header(&range) {
                continue;
            }
            let line = self.window.bytes(&range);
            if is_blank(line) {
                continue;
            }
            request.clear();
            match self.parser.parse(line, request).and_then(|parsed| request.check().map(|()| parsed)) {
                Ok(Parsed::Request) => return Ok(true),
                Ok(Parsed::Other(kind)) => self.others.note(kind),
                Err(_) if self.header.contains(line) => {}
                Err(problem) => self.bad(problem)?,
            }
        }
    }
}

/// A line without the byte order mark of UTF-8, with which some programs begin a file. Where files were joined, it is also
/// at the beginning of a line inside.
pub fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
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

    fn others(&self) -> Others {
        self.others.clone()
    }

    fn object_name(&self, object: u32) -> ObjectName {
        self.parser.object_name(object)
    }
}
