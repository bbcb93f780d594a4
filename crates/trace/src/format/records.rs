//! The decoders of binary formats.

use super::binary::{Decoded, Decoder, array};
use super::blkparse::{self, BlockEvent, device_name};
use super::fields::{MICROSECOND_NS, SECOND_NS};
use super::text::Parsed;
use super::volumes::{OTHER_COMMANDS, scsi_op};
use crate::request::SECTOR_BYTES;
use crate::{ObjectName, Op, Problem, Request};

/// CloudPhysics' vscsi traces (Waldspurger et al., FAST 2015): records of 32 bytes in version 1, of 40 in version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vscsi {
    /// `u32 serial, len, segments; u16 command, version; u64 sector, time_us`
    V1,
    /// `u16 command, version; u32 serial, len, segments; u64 sector, time_us, response_us`
    V2,
}

impl Vscsi {
    /// The version of a trace with this beginning.
    #[must_use]
    pub fn of(beginning: &[u8]) -> Option<Self> {
        if array(beginning, 14) == [0, 1] {
            Some(Self::V1)
        } else if array(beginning, 2) == [0, 2] {
            Some(Self::V2)
        } else {
            None
        }
    }
}

impl Decoder for Vscsi {
    fn record_bytes(&self) -> usize {
        match self {
            Self::V1 => 32,
            Self::V2 => 40,
        }
    }

    fn decode(&mut self, record: &[u8], request: &mut Request) -> Result<Decoded, Problem> {
        let (len_at, command_at, version, sector_at) = match self {
            Self::V1 => (4, 12, 1, 16),
            Self::V2 => (8, 0, 2, 16),
        };
        if array(record, command_at + 2) != [0, version] {
            return Err(Problem::new("version", "not that of the first record"));
        }
        let len = u32::from_le_bytes(array(record, len_at));
        let sector = u64::from_le_bytes(array(record, sector_at));
        let time_us = u64::from_le_bytes(array(record, sector_at + 8));
        let Some(op) = scsi_op(u16::from_le_bytes(array(record, command_at)).into()) else {
            return Ok(Decoded::fixed(Parsed::Other(OTHER_COMMANDS)));
        };
        request.op = op;
        request.time_ns = time_us.checked_mul(MICROSECOND_NS).ok_or(Problem::new("time", "too large"))?;
        request.place(sector, SECTOR_BYTES, len.into(), 1)?;
        Ok(Decoded::fixed(Parsed::Request))
    }
}

/// libCacheSim's oracleGeneral: `u32 time_s; u64 object; u32 size_B; i64 next_access`, 24 bytes. It has no operations:
/// all requests are reads. The lower 54 bits of its object are taken as a sector, which is correct for traces of disks.
/// The upper bits, which are used if objects are hashes, become the request's object, so that addresses stay distinct.
pub struct OracleGeneral;

/// Bits of the number of a sector below 2⁶³ bytes.
const SECTOR_BITS: u32 = 54;

impl Decoder for OracleGeneral {
    fn record_bytes(&self) -> usize {
        24
    }

    fn decode(&mut self, record: &[u8], request: &mut Request) -> Result<Decoded, Problem> {
        let object = u64::from_le_bytes(array(record, 4));
        request.time_ns = u64::from(u32::from_le_bytes(array(record, 0))) * SECOND_NS;
        request.op = Op::Read;
        request.object = (object >> SECTOR_BITS) as u32;
        let sector = object & ((1 << SECTOR_BITS) - 1);
        let len = u32::from_le_bytes(array(record, 12));
        request.place(sector, SECTOR_BYTES, len.into(), 1)?;
        Ok(Decoded::fixed(Parsed::Request))
    }
}

/// Linux's `struct blk_io_trace`, version 7, in either byte order: 48 bytes `u32 magic, sequence; u64 time_ns, sector;
/// u32 bytes, action, pid, device, cpu; u16 error, payload bytes`, and the payload.
pub struct Blktrace {
    big_endian: bool,
    event: BlockEvent,
}

/// The magic number `0x65617400` with the version in its low byte.
const BLKTRACE_MAGIC: u32 = 0x6561_7407;
/// Categories of a request, in the upper half of its action.
const TC_READ: u32 = 1 << 16;
const TC_WRITE: u32 = 1 << 17;
const TC_FLUSH: u32 = 1 << 18;
const TC_NOTIFY: u32 = 1 << 26;
const TC_DISCARD: u32 = 1 << 29;
/// A bit of an action or a note (`__BLK_TA_CGROUP`, `__BLK_TN_CGROUP`): its payload begins with 8 bytes, the identity of a
/// control group. The payload's length includes them.
const TA_CGROUP: u32 = 1 << 8;
/// The letters of blkparse for the actions from 1 on (`__BLK_TA_QUEUE` and those that follow it).
const LETTERS: &[u8] = b"QMFGSRDCPUTIXBA";

/// The letter of an action, whatever its categories and its control group; `?` for one without a letter.
fn letter(action: u32) -> u8 {
    let number = action & 0xFFFF & !TA_CGROUP;
    number.checked_sub(1).and_then(|index| LETTERS.get(index as usize)).copied().unwrap_or(b'?')
}

impl Blktrace {
    /// A decoder for a trace with this beginning, if it is blktrace; `event` is taken as the request.
    #[must_use]
    pub fn of(beginning: &[u8], event: BlockEvent) -> Option<Self> {
        let magic = array(beginning, 0);
        if magic == BLKTRACE_MAGIC.to_le_bytes() {
            Some(Self { big_endian: false, event })
        } else if magic == BLKTRACE_MAGIC.to_be_bytes() {
            Some(Self { big_endian: true, event })
        } else {
            None
        }
    }

    fn u32(&self, record: &[u8], at: usize) -> u32 {
        let bytes = array(record, at);
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64(&self, record: &[u8], at: usize) -> u64 {
        let bytes = array(record, at);
        if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }
}

impl Decoder for Blktrace {
    fn record_bytes(&self) -> usize {
        48
    }

    fn object_name(&self, object: u32) -> ObjectName {
        device_name(object)
    }

    fn magic(&self) -> Option<[u8; 4]> {
        Some(if self.big_endian { BLKTRACE_MAGIC.to_be_bytes() } else { BLKTRACE_MAGIC.to_le_bytes() })
    }

    fn decode(&mut self, record: &[u8], request: &mut Request) -> Result<Decoded, Problem> {
        if self.u32(record, 0) != BLKTRACE_MAGIC {
            return Err(Problem::new("magic", "not that of blktrace version 7"));
        }
        let payload = array(record, 46);
        let payload = if self.big_endian { u16::from_be_bytes(payload) } else { u16::from_le_bytes(payload) };
        let action = self.u32(record, 28);
        let len = self.u32(record, 24);
        let op = if action & TC_DISCARD != 0 {
            Some(Op::Trim)
        } else if action & TC_WRITE != 0 && len > 0 {
            Some(Op::Write)
        } else if action & TC_FLUSH != 0 {
            Some(Op::Flush)
        } else if action & TC_READ != 0 {
            Some(Op::Read)
        } else {
            None
        };
        let letter = letter(action);
        let parsed = match op {
            _ if action & TC_NOTIFY != 0 => Parsed::Other("notes on processes and the recording"),
            _ if letter != self.event.letter() => Parsed::Other(blkparse::kind(letter)),
            None => Parsed::Other(blkparse::NO_OPERATION),
            Some(_) => Parsed::Request,
        };
        if parsed == Parsed::Request {
            request.op = op.unwrap_or_default();
            request.time_ns = self.u64(record, 8);
            request.object = self.u32(record, 36);
            let sector = if len == 0 { 0 } else { self.u64(record, 16) };
            request.place(sector, SECTOR_BYTES, len.into(), 1)?;
        }
        Ok(Decoded { parsed, payload_bytes: payload.into() })
    }
}
