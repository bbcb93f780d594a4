//! Text formats with blanks between the fields.

use super::fields::{self, Fields, MICROSECOND_NS, MILLISECOND_NS};
use super::text::{LineParser, Parsed};
use crate::request::SECTOR_BYTES;
use crate::{Op, Problem, Request};

/// DiskSim's flag for reads.
const READ: u64 = 1;

/// DiskSim's ASCII format: `time device sector sectors flags`. Times with a decimal point are milliseconds, as in the
/// manual; whole numbers are microseconds, as in the published traces (DTRS, TPC-C).
pub struct DiskSim;

impl LineParser for DiskSim {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::blanks(line);
        let time = fields.field("time")?;
        let unit_ns = if time.contains(&b'.') { MILLISECOND_NS } else { MICROSECOND_NS };
        request.time_ns = fields::time_ns(time, unit_ns)?;
        request.object = fields.number_u32("device")?;
        let sector = fields.number("offset")?;
        let sectors = fields.number("size")?;
        let flags = fields::hexadecimal(fields.field("flags")?, "flags")?;
        fields.end()?;
        request.op = if flags & READ == READ { Op::Read } else { Op::Write };
        request.place(sector, SECTOR_BYTES, sectors, SECTOR_BYTES)?;
        Ok(Parsed::Request)
    }
}

/// The `.lis` format of the ARC paper (Megiddo and Modha, FAST 2003): `sector sectors ignored number`; reads without
/// times. A line stands for one request per block; see [`Split`](crate::Split).
pub struct Arc;

impl LineParser for Arc {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::blanks(line);
        let sector = fields.number("offset")?;
        let sectors = fields.number("size")?;
        fields.number("ignored")?;
        fields.number("number")?;
        fields.end()?;
        request.op = Op::Read;
        request.place(sector, SECTOR_BYTES, sectors, SECTOR_BYTES)?;
        Ok(Parsed::Request)
    }
}
