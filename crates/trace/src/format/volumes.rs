//! The parsers of comma-separated traces of disks and volumes.

use super::fields::{self, Fields, MICROSECOND_NS, SECOND_NS};
use super::names::Names;
use super::text::{LineParser, Parsed};
use crate::request::SECTOR_BYTES;
use crate::{ObjectName, Op, Problem, Request};

/// Seconds from 1601, when Windows file time begins (in units of 100 ns), to the Unix epoch.
const FILETIME_UNIX_S: u64 = 11_644_473_600;

fn read_or_write(field: &[u8]) -> Result<Op, Problem> {
    match Op::from_word(field) {
        Some(op @ (Op::Read | Op::Write)) => Ok(op),
        _ => Err(Problem::new("operation", "neither read nor write")),
    }
}

/// Converts a Windows file time into nanoseconds since the Unix epoch.
pub fn filetime_ns(ticks: u64) -> Result<u64, Problem> {
    (ticks / 10_000_000)
        .checked_sub(FILETIME_UNIX_S)
        .and_then(|seconds| seconds.checked_mul(SECOND_NS))
        .and_then(|ns| ns.checked_add(ticks % 10_000_000 * 100))
        .ok_or(Problem::new("time", "before 1970 or past 2554"))
}

/// MSR Cambridge (Narayanan et al., FAST 2008): `filetime,host,disk,Read|Write,offset_B,size_B,response`.
#[derive(Default)]
pub struct Msr {
    disks: Names,
    /// A buffer for the name of a disk.
    name: Vec<u8>,
}

impl LineParser for Msr {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::commas(line);
        request.time_ns = filetime_ns(fields.number("time")?)?;
        let host = fields.field("host")?;
        let disk = fields.field("disk")?;
        fields::number(disk, "disk")?;
        // Together they are the name of the object.
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b',');
        self.name.extend_from_slice(disk);
        request.op = read_or_write(fields.field("operation")?)?;
        let offset = fields.number("offset")?;
        let len = fields.number("size")?;
        fields.number("response")?;
        fields.end()?;
        request.object = self.disks.number(&self.name)?;
        request.place(offset, 1, len, 1)?;
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        self.disks.name(object).map_or(ObjectName::Number, |name| ObjectName::Global(format!("msr:{name}")))
    }
}

/// SYSTOR '17 (Lee et al.): `time_s,response_s,R|W|,LUN,offset_B,size_B`.
pub struct Systor;

impl LineParser for Systor {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::commas(line);
        request.time_ns = fields::time_ns(fields.field("time")?, SECOND_NS)?;
        let response = fields.field("response")?;
        if !response.is_empty() {
            fields::time_ns(response, SECOND_NS)?;
        }
        request.op = match fields.field("operation")? {
            [] => Op::Other,
            word => read_or_write(word)?,
        };
        request.object = fields.number_u32("LUN")?;
        let offset = fields.number("offset")?;
        let len = fields.number("size")?;
        fields.end()?;
        request.place(offset, 1, len, 1)?;
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        ObjectName::Global(format!("systor:{object}"))
    }
}

/// Tencent CBS (Zhang et al., ATC 2020): `time_s,sector,sectors,0=R|1=W,volume`.
pub struct Tencent;

impl LineParser for Tencent {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::commas(line);
        request.time_ns = fields.number("time")?.checked_mul(SECOND_NS).ok_or(Problem::new("time", "too large"))?;
        let sector = fields.number("offset")?;
        let sectors = fields.number("size")?;
        request.op = match fields.field("operation")? {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err(Problem::new("operation", "neither 0 nor 1")),
        };
        request.object = fields.number_u32("volume")?;
        fields.end()?;
        request.place(sector, SECTOR_BYTES, sectors, SECTOR_BYTES)?;
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        ObjectName::Global(format!("tencent:{object}"))
    }
}

/// Alibaba (Li et al., IISWC 2020): `device,R|W,offset_B,size_B,time_us`.
pub struct Alibaba;

impl LineParser for Alibaba {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::commas(line);
        request.object = fields.number_u32("device")?;
        request.op = read_or_write(fields.field("operation")?)?;
        let offset = fields.number("offset")?;
        let len = fields.number("size")?;
        request.time_ns = fields::time_ns(fields.field("time")?, MICROSECOND_NS)?;
        fields.end()?;
        request.place(offset, 1, len, 1)?;
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        ObjectName::Global(format!("alibaba:{object}"))
    }
}

/// UMass SPC (Storage Performance Council trace format 1.0): `ASU,sector,size_B,R|W,time_s` and optional fields.
pub struct Spc;

impl LineParser for Spc {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::commas(line);
        request.object = fields.number_u32("ASU")?;
        let sector = fields.number("offset")?;
        let len = fields.number("size")?;
        request.op = read_or_write(fields.field("operation")?)?;
        request.time_ns = fields::time_ns(fields.field("time")?, SECOND_NS)?;
        request.place(sector, SECTOR_BYTES, len, 1)?;
        Ok(Parsed::Request)
    }
}

/// CloudPhysics in libCacheSim's text format: `version,time_s,SCSI operation,size_B,sector`.
pub struct CloudPhysicsCsv;

impl LineParser for CloudPhysicsCsv {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut fields = Fields::commas(line);
        if !matches!(fields.number("version")?, 1 | 2) {
            return Err(Problem::new("version", "neither 1 nor 2"));
        }
        request.time_ns = fields::time_ns(fields.field("time")?, SECOND_NS)?;
        let code = fields::hexadecimal(fields.field("operation")?, "operation")?;
        let op = scsi_op(code);
        let len = fields.number("size")?;
        let sector = fields.number("offset")?;
        fields.end()?;
        request.op = op.unwrap_or(Op::Other);
        request.place(sector, SECTOR_BYTES, len, 1)?;
        Ok(if op.is_some() { Parsed::Request } else { Parsed::Other(OTHER_COMMANDS) })
    }
}

/// The kind of SCSI commands without an operation.
pub const OTHER_COMMANDS: &str = "SCSI commands other than reads, writes, unmaps and flushes";

/// The operation of a SCSI operation code (SBC-4), if it reads, writes, unmaps or flushes blocks.
pub const fn scsi_op(code: u64) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0x88 | 0xA8 => Some(Op::Read),
        0x0A | 0x2A | 0x2E | 0x8A | 0x8E | 0xAA | 0xAE => Some(Op::Write),
        0x41 | 0x42 | 0x93 => Some(Op::Trim),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}
