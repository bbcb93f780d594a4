//! The logs that fio writes with `write_iolog` and replays with `read_iolog`, versions 2 and 3.
//!
//! The first line is `fio version N iolog`. Version 3 (fio 3.31) has lines `time_us file action` and
//! `time_us file action offset_B length_B`; version 2 has the same without times. fio's manual does not say the unit of
//! times; fio writes and replays microseconds.

use super::fields::{self, MICROSECOND_NS};
use super::names::Names;
use super::text::{LineParser, Parsed};
use crate::{ErrorKind, ObjectName, Op, Place, Problem, Request, TraceError};
use memchr::memrchr;

/// The beginning and the end of the first line.
const HEADER: (&[u8], &[u8]) = (b"fio version ", b" iolog");

/// The versions that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

/// The parser of lines.
#[derive(Default)]
pub struct Fio {
    /// The version of the last header. A file has another one where files were joined.
    version: Option<Version>,
    files: Names,
}

/// The version in a header, as it is written there; `None` if `line` is not a header.
fn version_of(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii_end().strip_prefix(HEADER.0)?.strip_suffix(HEADER.1)
}

/// Whether `line` is the header of a log.
///
/// # Errors
/// It is the header of a version that is not read.
pub fn is_header(line: &[u8]) -> Result<bool, TraceError> {
    let Some(version) = version_of(line) else { return Ok(false) };
    if read_version(version).is_ok() {
        return Ok(true);
    }
    let version = version[..version.len().min(20)].escape_ascii();
    let reason = format_args!("a log of fio of version {version}; versions 2 and 3 are read").to_string();
    Err(TraceError::new(ErrorKind::Version, Place::Line(1), reason))
}

fn read_version(version: &[u8]) -> Result<Version, Problem> {
    match version {
        b"2" => Ok(Version::V2),
        b"3" => Ok(Version::V3),
        _ => Err(Problem::new("version", "neither 2 nor 3, which are read")),
    }
}

/// Removes the last field of `line` and returns it.
fn last<'a>(line: &mut &'a [u8], name: &'static str) -> Result<&'a [u8], Problem> {
    let at = memrchr(b' ', line).ok_or(Problem::new(name, "missing"))?;
    let field = &line[at + 1..];
    *line = line[..at].trim_ascii_end();
    Ok(field)
}

impl LineParser for Fio {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let line = line.trim_ascii();
        if let Some(version) = version_of(line) {
            self.version = Some(read_version(version)?);
            return Ok(Parsed::Other("headers"));
        }
        let version =
            self.version.ok_or(Problem::new("header", "missing: the first line is \"fio version 3 iolog\""))?;
        let mut rest = line;
        if version == Version::V3 {
            let end = memchr::memchr(b' ', line).ok_or(Problem::new("file", "missing"))?;
            request.time_ns = fields::time_ns(&line[..end], MICROSECOND_NS)?;
            rest = line[end..].trim_ascii_start();
        }
        // Parsed from the right, since the name of a file may contain blanks.
        let len = last(&mut rest, "action")?;
        if let b"add" | b"open" | b"close" | b"unlink" = len {
            return Ok(Parsed::Other("files added, opened, closed and unlinked"));
        }
        let len = fields::number(len, "length")?;
        let offset = fields::number(last(&mut rest, "offset")?, "offset")?;
        let op = match last(&mut rest, "action")? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" => Op::Flush,
            b"wait" => return Ok(Parsed::Other("waits")),
            _ => return Err(Problem::new("action", "unknown")),
        };
        request.object = self.files.number(rest)?;
        request.op = op;
        // fio writes the place of the request before into a sync's line.
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
        request.place(offset, 1, len, 1)?;
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        self.files.name(object).map_or(ObjectName::Number, |name| ObjectName::Local(format!("file:{name}")))
    }

    /// The header is parsed as any line, since files may be joined.
    fn is_header(&self, _line: &[u8]) -> bool {
        false
    }
}
