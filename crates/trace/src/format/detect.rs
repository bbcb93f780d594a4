//! Recognises a format by the beginning of a trace.

use super::binary::{Decoder, array};
use super::records::{Blktrace, OracleGeneral, Vscsi};
use super::text::{is_blank, without_mark};
use super::{Format, Options, fio};
use crate::{Request, TraceError};

/// The magic at the beginning and the end of a Parquet file.
pub const PARQUET_MAGIC: &[u8] = b"PAR1";
/// Most bytes that are examined.
pub const BEGINNING_BYTES: usize = 1 << 16;
/// Most lines or records that are examined.
const RECORDS_MAX: usize = 100;

/// The format that fits `beginning`, the first [`BEGINNING_BYTES`] of a trace, or all of it; `None` if there is none.
///
/// # Errors
/// It is a format of which this version is not read.
pub fn format(beginning: &[u8], options: &Options) -> Result<Option<Format>, TraceError> {
    Ok(if beginning.starts_with(PARQUET_MAGIC) {
        Some(Format::Parquet)
    } else if Blktrace::of(beginning, options.event).is_some() {
        Some(Format::Blktrace)
    } else if is_fio(beginning)? {
        Some(Format::Fio)
    } else if is_text(beginning) {
        text(beginning, options)
    } else if Vscsi::of(beginning).is_some_and(|mut version| fits(&mut version, beginning)) {
        Some(Format::Vscsi)
    } else {
        (fits(&mut OracleGeneral, beginning) && is_oracle(beginning)).then_some(Format::OracleGeneral)
    })
}

/// Whether this is the beginning of a log of fio.
///
/// # Errors
/// It is one of a version that is not read.
pub fn is_fio(beginning: &[u8]) -> Result<bool, TraceError> {
    let line = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
    fio::is_header(without_mark(line))
}

fn is_text(beginning: &[u8]) -> bool {
    beginning.iter().all(|&byte| byte >= b' ' && byte != 0x7F || byte.is_ascii_whitespace())
}

/// The text format that can parse the most lines, if these are more than half: a bad line does not prevent recognition.
fn text(beginning: &[u8], options: &Options) -> Option<Format> {
    let whole = beginning.len() < BEGINNING_BYTES;
    let mut lines: Vec<&[u8]> = beginning
        .split(|&byte| byte == b'\n')
        .map(|line| without_mark(line.trim_ascii_end()))
        .take(RECORDS_MAX)
        .collect();
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

/// Any 24 bytes can be decoded as a record of oracleGeneral. In a trace, times rarely decrease, sizes are not 0, and
/// next accesses are later records or absent (negative, 0, or the largest number).
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
