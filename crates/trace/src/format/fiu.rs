//! FIU IODedup (Koller and Rangaswami, FAST 2010): `time_ns pid process sector sectors R|W major minor md5…`, with one
//! MD5 per 4 KiB or per sector. In the variant with tabs, a column of indices precedes.

use super::blkparse::{device, device_name};
use super::fields::{self, Fields, MD5_DIGITS, Separator};
use super::text::{LineParser, Parsed};
use crate::request::SECTOR_BYTES;
use crate::{ObjectName, Op, Problem, Request};
use memchr::{memchr, memrchr};

const BLOCK_BYTES: u64 = 4096;
/// Bytes of a line within which the variant with tabs has the first tab, after the index.
const INDEX_BYTES_MAX: usize = 24;

/// The parser of lines.
pub struct Fiu;

/// Removes the last field of `line` and returns it.
fn last<'a>(line: &mut &'a [u8], separator: u8, name: &'static str) -> Result<&'a [u8], Problem> {
    let at = memrchr(separator, line).ok_or(Problem::new(name, "missing"))?;
    let field = &line[at + 1..];
    *line = &line[..at];
    Ok(field)
}

impl LineParser for Fiu {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let tabs = memchr(b'\t', &line[..line.len().min(INDEX_BYTES_MAX)]).is_some();
        let separator = if tabs { b'\t' } else { b' ' };
        // Parsed from the right, since the name of a process may contain blanks.
        let mut rest = line.trim_ascii_end();
        let digest = last(&mut rest, separator, "fingerprint")?;
        let minor = fields::number(last(&mut rest, separator, "minor")?, "minor")?;
        let major = fields::number(last(&mut rest, separator, "major")?, "major")?;
        let op = last(&mut rest, separator, "operation")?;
        let sectors = fields::number(last(&mut rest, separator, "size")?, "size")?;
        let sector = fields::number(last(&mut rest, separator, "offset")?, "offset")?;
        let mut start = Fields::new(rest, Separator::Byte(separator));
        if tabs {
            start.number("index")?;
        }
        request.time_ns = start.number("time")?;
        start.number("pid")?;
        start.field("process")?;
        request.op = match op {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Problem::new("operation", "neither R nor W")),
        };
        request.object = device(major, minor)?;
        request.place(sector, SECTOR_BYTES, sectors, SECTOR_BYTES)?;
        fields::digests(digest, MD5_DIGITS, &mut request.fingerprints)?;
        let digests = request.fingerprints.len() as u64;
        request.block_bytes = if digests == sectors {
            SECTOR_BYTES as u32
        } else if digests == request.len.div_ceil(BLOCK_BYTES) {
            BLOCK_BYTES as u32
        } else {
            return Err(Problem::new("fingerprint", "neither one per sector nor one per 4 KiB"));
        };
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        device_name(object)
    }

    fn is_header(&self, line: &[u8]) -> bool {
        line.starts_with(b"\t") || line.first().is_some_and(u8::is_ascii_alphabetic)
    }
}
