//! Recognises a format by how a trace begins.

use super::binary::{Decoder, array};
use super::records::{Blktrace, OracleGeneral, Vscsi};
use super::text::is_blank;
use super::{Format, Options};
use crate::Request;

/// What a Parquet file begins and ends with.
pub const PARQUET_MAGIC: &[u8] = b"PAR1";
/// Bytes that are looked at.
pub const BEGINNING_BYTES: usize = 1 << 16;
/// Lines and records that are looked at.
const RECORDS_MAX: usize = 100;

/// The format that fits `beginning`, the first [`BEGINNING_BYTES`] of a trace, or all of it.
#[must_use]
pub fn format(beginning: &[u8], options: &Options) -> Option<Format> {
    if beginning.starts_with(PARQUET_MAGIC) {
        Some(Format::Parquet)
    } else if Blktrace::of(beginning, options.event).is_some() {
        Some(Format::Blktrace)
    } else if is_text(beginning) {
        text(beginning, options)
    } else if Vscsi::of(beginning).is_some_and(|mut version| fits(&mut version, beginning)) {
        Some(Format::Vscsi)
    } else {
        (fits(&mut OracleGeneral, beginning) && is_oracle(beginning)).then_some(Format::OracleGeneral)
    }
}

fn is_text(beginning: &[u8]) -> bool {
    beginning.iter().all(|&byte| byte >= b' ' && byte != 0x7F || byte.is_ascii_whitespace())
}

/// The text format that most lines are of, if that is more than half of them: one bad line hides nothing.
fn text(beginning: &[u8], options: &Options) -> Option<Format> {
    let whole = beginning.len() < BEGINNING_BYTES;
    let mut lines: Vec<&[u8]> =
        beginning.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).take(RECORDS_MAX).collect();
    if lines.len() < RECORDS_MAX && lines.len() > 1 && !whole {
        lines.pop();
    }
    let mut request = Request::default();
    let mut best = None;
    for format in Format::ALL {
        let Some(mut parser) = format.parser(options) else { continue };
        let (mut right, mut wrong) = (0, 0);
        for (number, line) in lines.iter().enumerate() {
            if is_blank(line) || number == 0 && parser.is_header(line) {
                continue;
            }
            request.clear();
            match parser.parse(line, &mut request) {
                Ok(_) => right += 1,
                Err(_) => wrong += 1,
            }
        }
        if right > wrong && best.is_none_or(|(most, _)| right > most) {
            best = Some((right, format));
        }
    }
    best.map(|(_, format)| format)
}

/// Whether most of the first records can be decoded.
fn fits(decoder: &mut impl Decoder, beginning: &[u8]) -> bool {
    let mut request = Request::default();
    let (mut right, mut wrong) = (0, 0);
    for record in beginning.chunks_exact(decoder.record_bytes()).take(RECORDS_MAX) {
        match decoder.decode(record, &mut request) {
            Ok(_) => right += 1,
            Err(_) => wrong += 1,
        }
    }
    right > wrong
}

/// Any 24 bytes decode as a record of oracleGeneral; those of a trace have times that hardly go back, sizes, and next
/// accesses that lie ahead, or none (-1, or the largest number).
fn is_oracle(beginning: &[u8]) -> bool {
    let (mut right, mut wrong) = (0, 0);
    let mut before = 0;
    for (number, record) in (1..).zip(beginning.chunks_exact(24).take(RECORDS_MAX)) {
        let time = u32::from_le_bytes(array(record, 0));
        let size = u32::from_le_bytes(array(record, 12));
        let next_access = i64::from_le_bytes(array(record, 16));
        let ahead = next_access < 0 || next_access > number || next_access == 0;
        if time >= before && size > 0 && ahead {
            right += 1
        } else {
            wrong += 1
        }
        before = time;
    }
    right > 9 * wrong
}
