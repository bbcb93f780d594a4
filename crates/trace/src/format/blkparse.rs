//! The default text format of `blkparse`: `major,minor cpu sequence time_s pid event rwbs sector + sectors [process]`.

use super::fields::{self, Fields, SECOND_NS};
use super::text::{LineParser, Parsed};
use crate::request::SECTOR_BYTES;
use crate::{ObjectName, Op, Problem, Request};

/// The event of Linux's block layer that is taken as the request. Other events are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockEvent {
    /// `Q`: the request is queued, before the scheduler merges requests.
    #[default]
    Queued,
    /// `D`: the request is issued to the device.
    Issued,
    /// `C`: the device has completed the request.
    Completed,
}

impl BlockEvent {
    /// The letter of blkparse.
    pub(super) const fn letter(self) -> u8 {
        match self {
            Self::Queued => b'Q',
            Self::Issued => b'D',
            Self::Completed => b'C',
        }
    }

    /// The kind under which [`Others`](crate::Others) counts such events when another one is taken as the request.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        kind(self.letter())
    }
}

/// Events that are the chosen one, but neither read nor write, discard or flush.
pub(super) const NO_OPERATION: &str = "events without an operation";

/// The kind of an event, by its letter.
pub(super) const fn kind(letter: u8) -> &'static str {
    match letter {
        b'Q' => "queued (Q)",
        b'D' => "issued (D)",
        b'C' => "completed (C)",
        b'M' | b'F' => "merged (M, F)",
        b'G' | b'S' => "allocations of requests (G, S)",
        b'I' => "inserted (I)",
        b'R' => "requeued (R)",
        b'P' | b'U' | b'T' => "plugs and unplugs (P, U, T)",
        b'X' => "split (X)",
        b'B' => "bounced (B)",
        b'A' => "remapped (A)",
        b'm' => "messages (m)",
        _ => "events of other kinds",
    }
}

/// A device number in Linux's encoding: 12 bits of major number, 20 of minor number.
pub fn device(major: u64, minor: u64) -> Result<u32, Problem> {
    if major >= 1 << 12 || minor >= 1 << 20 {
        return Err(Problem::new("device", "too large"));
    }
    Ok((major << 20 | minor) as u32)
}

/// The name of a device, which is valid on its machine.
pub fn device_name(device: u32) -> ObjectName {
    ObjectName::Local(format!("device:{}:{}", device >> 20, device & 0xF_FFFF))
}

/// The operation of the letters `rwbs`.
fn op(letters: &[u8], sectors: u64) -> Option<Op> {
    match letters {
        [b'F', ..] if sectors == 0 => Some(Op::Flush),
        [b'R', ..] => Some(Op::Read),
        [b'W', ..] | [b'F', b'W', ..] => Some(Op::Write),
        [b'D' | b'E', ..] => Some(Op::Trim),
        [b'F', ..] => Some(Op::Flush),
        _ => None,
    }
}

/// The parser of lines.
pub struct Blkparse {
    event: BlockEvent,
    /// Whether the last line was part of a summary, which ends each output of blkparse. The lines of another output may
    /// follow.
    summary: bool,
}

impl Blkparse {
    /// A parser that takes `event` as the request.
    pub const fn new(event: BlockEvent) -> Self {
        Self { event, summary: false }
    }
}

impl LineParser for Blkparse {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        self.summary = is_summary(line, self.summary);
        if self.summary {
            return Ok(Parsed::Other("lines of summaries"));
        }
        let mut fields = Fields::blanks(line);
        let mut numbers = Fields::commas(fields.field("device")?);
        request.object = device(numbers.number("major")?, numbers.number("minor")?)?;
        numbers.end()?;
        fields.number("cpu")?;
        fields.number("sequence")?;
        request.time_ns = fields::time_ns(fields.field("time")?, SECOND_NS)?;
        fields.number("pid")?;
        let [event] = fields.field("event")? else { return Ok(Parsed::Other(kind(b'?'))) };
        if *event != self.event.letter() {
            return Ok(Parsed::Other(kind(*event)));
        }
        let letters = fields.field("rwbs")?;
        let (sector, sectors) = extent(&mut fields)?;
        let Some(op) = op(letters, sectors) else { return Ok(Parsed::Other(NO_OPERATION)) };
        request.op = op;
        request.place(sector, SECTOR_BYTES, sectors, SECTOR_BYTES)?;
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        device_name(object)
    }

    fn is_header(&self, _line: &[u8]) -> bool {
        false
    }
}

/// Whether a line is part of a summary, which begins with a line for a processor or the total, and whose lines, unlike
/// events, do not begin with a digit.
fn is_summary(line: &[u8], is_after_summary: bool) -> bool {
    let begins_event = line.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(u8::is_ascii_digit);
    line.starts_with(b"CPU") || line.starts_with(b"Total (") || is_after_summary && !begins_event
}

/// Parses `sector + sectors`, or `sector` alone, or nothing (an empty flush).
fn extent(fields: &mut Fields<'_>) -> Result<(u64, u64), Problem> {
    let Some(sector) = fields.next().filter(|field| !field.starts_with(b"[")) else { return Ok((0, 0)) };
    let sector = fields::number(sector, "offset")?;
    match fields.next() {
        Some(b"+") => Ok((sector, fields.number("size")?)),
        _ => Ok((sector, 0)),
    }
}
