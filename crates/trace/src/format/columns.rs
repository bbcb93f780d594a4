//! Text with columns that the user describes: `time=0:s,op=3,offset=4:sectors,len=5:sectors,object=1`.

use super::fields::{self, Fields, MD5_DIGITS, Separator};
use super::names::Names;
use super::text::{LineParser, Parsed};
use super::volumes::{filetime_ns, scsi_op};
use crate::{ObjectName, Op, Problem, Request, TraceError};
use std::str::FromStr;

/// Upper limit of the number of columns.
const COLUMNS_MAX: usize = 64;
/// Hexadecimal digits of a fingerprint of 160 bits.
const FINGERPRINT_DIGITS: usize = 40;
/// The first number for objects that are named by words, or by numbers of more than 31 bits.
const FIRST_NAME: u32 = 1 << 31;

/// The meaning of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Nothing,
    /// A time; the unit in nanoseconds.
    Time(u64),
    /// A Windows file time.
    Filetime,
    Op(OpCoding),
    /// An offset; the unit in bytes.
    Offset(u64),
    /// A length; the unit in bytes.
    Len(u64),
    Object,
    /// Digests; the hexadecimal digits of each.
    Fingerprint(usize),
    Compressed(u64),
}

/// The notation of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpCoding {
    /// Words: `R`, `read`, `Write`, ….
    Words,
    /// 0 is a read, 1 a write.
    ReadIs0,
    /// 0 is a write, 1 a read.
    ReadIs1,
    /// SCSI operation codes, hexadecimal.
    Scsi,
}

/// A description of columns. Its text consists of items `role=column[:unit]`, separated by commas; columns are counted
/// from 0:
///
/// | role | units |
/// |---|---|
/// | `time` | `s` (default), `ms`, `us`, `ns`, `filetime` |
/// | `op` | `words` (R, read, W, …; default), `read0` (0 is a read), `read1`, `scsi` (hexadecimal); if missing: read |
/// | `offset` | `bytes` (default), `sectors`, `kib`, `4kib`, or a number of bytes; required |
/// | `len` | as `offset`; if missing: 512 bytes |
/// | `object` | a number or a name; if missing: 0 |
/// | `fingerprint` | `md5` (default), `160`: one or more hexadecimal digests |
/// | `compressed` | as `offset` |
///
/// Other items are `sep=comma` (default), `tab`, `space` (any blanks), `semicolon`, `pipe`; and `skip=N`, the number of
/// lines to skip at the beginning. Without `skip`, a first line without digits is skipped as a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    roles: Vec<Role>,
    separator: Separator,
    skip: u64,
}

fn bytes_unit(unit: Option<&str>) -> Option<u64> {
    match unit {
        None | Some("bytes" | "b") => Some(1),
        Some("sectors") => Some(512),
        Some("kib") => Some(1 << 10),
        Some("4kib") => Some(4 << 10),
        Some(number) => number.parse().ok().filter(|&bytes| bytes > 0),
    }
}

fn role(name: &str, unit: Option<&str>) -> Option<Role> {
    Some(match (name, unit) {
        ("time", None | Some("s")) => Role::Time(1_000_000_000),
        ("time", Some("ms")) => Role::Time(1_000_000),
        ("time", Some("us")) => Role::Time(1_000),
        ("time", Some("ns")) => Role::Time(1),
        ("time", Some("filetime")) => Role::Filetime,
        ("op", None | Some("words")) => Role::Op(OpCoding::Words),
        ("op", Some("read0")) => Role::Op(OpCoding::ReadIs0),
        ("op", Some("read1")) => Role::Op(OpCoding::ReadIs1),
        ("op", Some("scsi")) => Role::Op(OpCoding::Scsi),
        ("offset", unit) => Role::Offset(bytes_unit(unit)?),
        ("len", unit) => Role::Len(bytes_unit(unit)?),
        ("object", None) => Role::Object,
        ("fingerprint", None | Some("md5")) => Role::Fingerprint(MD5_DIGITS),
        ("fingerprint", Some("160")) => Role::Fingerprint(FINGERPRINT_DIGITS),
        ("compressed", unit) => Role::Compressed(bytes_unit(unit)?),
        _ => return None,
    })
}

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut columns = Self { roles: Vec::new(), separator: Separator::Byte(b','), skip: 0 };
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            columns
                .add(item)
                .ok_or_else(|| TraceError::setting(format_args!("columns: {item:?} is not understood")))?;
        }
        if !columns.roles.iter().any(|role| matches!(role, Role::Offset(_))) {
            return Err(TraceError::setting("columns: there is no offset"));
        }
        Ok(columns)
    }
}

impl Columns {
    /// Adds the item `name=value`; `None` if it is invalid, or its role or column was given before.
    fn add(&mut self, item: &str) -> Option<()> {
        let (name, value) = item.split_once('=')?;
        match name {
            "sep" => {
                self.separator = match value {
                    "comma" => Separator::Byte(b','),
                    "tab" => Separator::Byte(b'\t'),
                    "semicolon" => Separator::Byte(b';'),
                    "pipe" => Separator::Byte(b'|'),
                    "space" => Separator::Blanks,
                    _ => return None,
                }
            }
            "skip" => self.skip = value.parse().ok()?,
            _ => {
                let (column, unit) = match value.split_once(':') {
                    Some((column, unit)) => (column, Some(unit)),
                    None => (value, None),
                };
                let role = role(name, unit)?;
                let column = column.parse().ok().filter(|&column: &usize| column < COLUMNS_MAX)?;
                let same = |other: &Role| std::mem::discriminant(other) == std::mem::discriminant(&role);
                if self.roles.iter().any(same) || self.roles.get(column).is_some_and(|&role| role != Role::Nothing) {
                    return None;
                }
                let count = self.roles.len().max(column + 1);
                self.roles.resize(count, Role::Nothing);
                self.roles[column] = role;
            }
        }
        Some(())
    }

    /// A parser of lines with these columns.
    #[must_use]
    pub fn parser(&self) -> ColumnParser {
        ColumnParser { columns: self.clone(), names: Names::default() }
    }
}

/// The parser of lines.
pub struct ColumnParser {
    columns: Columns,
    names: Names,
}

/// Offset and length with their units.
struct Extent {
    offset: u64,
    offset_unit: u64,
    len: u64,
    len_unit: u64,
}

impl ColumnParser {
    fn column(&mut self, role: Role, field: &[u8], request: &mut Request, at: &mut Extent) -> Result<(), Problem> {
        match role {
            Role::Nothing => {}
            Role::Time(unit_ns) => request.time_ns = fields::time_ns(field, unit_ns)?,
            Role::Filetime => request.time_ns = filetime_ns(fields::number(field, "time")?)?,
            Role::Op(coding) => request.op = op(coding, field)?,
            Role::Offset(unit) => (at.offset, at.offset_unit) = (fields::number(field, "offset")?, unit),
            Role::Len(unit) => (at.len, at.len_unit) = (fields::number(field, "len")?, unit),
            Role::Object => {
                request.object = match fields::number(field, "object") {
                    Ok(number) if number < FIRST_NAME.into() => number as u32,
                    _ => FIRST_NAME + self.names.number(field)?,
                }
            }
            Role::Fingerprint(digits) if !field.is_empty() => {
                fields::digests(field, digits, &mut request.fingerprints)?;
            }
            Role::Compressed(unit) if !field.is_empty() => {
                let bytes = fields::number(field, "compressed")?.checked_mul(unit);
                let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
                request.compressed_bytes = Some(bytes.ok_or(Problem::new("compressed", "too large"))?);
            }
            Role::Fingerprint(_) | Role::Compressed(_) => {}
        }
        Ok(())
    }
}

fn op(coding: OpCoding, field: &[u8]) -> Result<Op, Problem> {
    let op = match (coding, field) {
        (OpCoding::Words, word) => Op::from_word(word),
        (OpCoding::ReadIs0, b"0") | (OpCoding::ReadIs1, b"1") => Some(Op::Read),
        (OpCoding::ReadIs0, b"1") | (OpCoding::ReadIs1, b"0") => Some(Op::Write),
        (OpCoding::Scsi, code) => scsi_op(fields::hexadecimal(code, "op")?),
        _ => None,
    };
    op.ok_or(Problem::new("op", "not an operation"))
}

const fn unquoted(field: &[u8]) -> &[u8] {
    match field {
        [b'"', inner @ .., b'"'] => inner,
        field => field,
    }
}

impl LineParser for ColumnParser {
    fn parse(&mut self, line: &[u8], request: &mut Request) -> Result<Parsed, Problem> {
        let mut at = Extent { offset: 0, offset_unit: 1, len: 512, len_unit: 1 };
        let mut fields = Fields::new(line, self.columns.separator);
        for column in 0..self.columns.roles.len() {
            let field = fields.next().ok_or(Problem::new("record", "has too few columns"))?;
            self.column(self.columns.roles[column], unquoted(field), request, &mut at)?;
        }
        if let Some(count) = u32::try_from(request.fingerprints.len()).ok().filter(|&count| count > 0) {
            let len = at.len.checked_mul(at.len_unit).and_then(|len| u32::try_from(len).ok());
            request.block_bytes = len.ok_or(Problem::new("len", "too large"))?.div_ceil(count);
        }
        request.place(at.offset, at.offset_unit, at.len, at.len_unit)?;
        Ok(Parsed::Request)
    }

    fn object_name(&self, object: u32) -> ObjectName {
        let name = object.checked_sub(FIRST_NAME).and_then(|name| self.names.name(name));
        name.map_or(ObjectName::Number, ObjectName::Local)
    }

    fn skipped_lines(&self) -> u64 {
        self.columns.skip
    }

    fn is_header(&self, line: &[u8]) -> bool {
        // A line of requests may begin with a letter, since objects may be named by words; but it contains a digit.
        self.columns.skip == 0 && !line.iter().any(u8::is_ascii_digit)
    }
}
