//! Command descriptor blocks (SPC-5 §6, SBC-4 §5).

use super::Sense;

/// A range of logical blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The address of the first block.
    pub lba: u64,
    /// The number of blocks.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
}

impl Range {
    /// The offset of the range in bytes, which is exact if the range lies within a unit.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.lba.saturating_mul(self.block_bytes as u64)
    }

    /// The length of the range in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.blocks as u64 * self.block_bytes as u64
    }
}

/// PERSISTENT RESERVE IN's service actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum PrIn {
    ReadKeys,
    ReadReservation,
    ReportCapabilities,
    ReadFullStatus,
}

/// PERSISTENT RESERVE OUT's service actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum PrOut {
    Register,
    Reserve,
    Release,
    Clear,
    Preempt,
    PreemptAndAbort,
    RegisterAndIgnore,
}

/// A parsed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// The operation and its parameters.
    pub action: Action,
    /// GROUP NUMBER; 0 for commands that have none.
    pub group: u8,
}

/// The operation of a command, and its parameters. Lengths of parameter lists and allocation lengths are in bytes.
/// `verify` and `compare` are BYTCHK: 0 or 1 of WRITE AND VERIFY (WRITE has none), and 0, 1 or 3 of VERIFY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Action {
    TestUnitReady,
    RequestSense { descriptor: bool, allocation: u32 },
    Inquiry { page: Option<u8>, allocation: u32 },
    ReportLuns { select: u8, allocation: u32 },
    ModeSense { long: bool, dbd: bool, control: u8, page: u8, subpage: u8, allocation: u32 },
    ModeSelect { long: bool, save: bool, len: u32 },
    Reserve,
    Release,
    ReadCapacity10 { allocation: u32 },
    ReadCapacity16 { allocation: u32 },
    GetLbaStatus { lba: u64, allocation: u32 },
    GetStreamStatus { from: u16, allocation: u32 },
    ReportOpcodes { options: u8, opcode: u8, service: u16, timeouts: bool, allocation: u32 },
    Read { range: Range },
    Write { range: Range, fua: bool, verify: Option<u8> },
    Verify { range: Range, compare: u8 },
    Prefetch { range: Range, immediate: bool },
    Synchronize { range: Range },
    WriteSame { range: Range, unmap: bool, no_data: bool },
    Unmap { len: u32 },
    CompareAndWrite { range: Range, fua: bool },
    StartStop { immediate: bool },
    PreventRemoval,
    PrIn { action: PrIn, allocation: u32 },
    PrOut { action: PrOut, scope: u8, kind: u8, len: u32 },
}

/// The fields of a CDB, and the bytes of a block.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8; 16], u32);

impl Fields<'_> {
    fn number(self, at: usize, len: usize) -> u64 {
        self.0.iter().skip(at).take(len).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn word(self, at: usize) -> u32 {
        self.number(at, 4) as u32
    }

    fn bit(self, at: usize, bit: u8) -> bool {
        self.0[at] >> bit & 1 == 1
    }

    /// The range of a command of 6, 10, 12 or 16 bytes.
    fn range(self, shape: Shape) -> Range {
        let (lba, blocks) = match shape {
            Shape::Six => (self.number(1, 3) & 0x1f_ffff, if self.0[4] == 0 { 256 } else { self.0[4].into() }),
            Shape::Ten => (self.number(2, 4), self.number(7, 2) as u32),
            Shape::Twelve => (self.number(2, 4), self.word(6)),
            Shape::Sixteen => (self.number(2, 8), self.word(10)),
        };
        Range { lba, blocks, block_bytes: self.1 }
    }

    /// GROUP NUMBER.
    fn group(self, shape: Shape) -> u8 {
        let byte = match shape {
            Shape::Six => return 0,
            Shape::Ten => self.0[6],
            Shape::Twelve => self.0[10],
            Shape::Sixteen => self.0[14],
        };
        byte & 0x3f
    }
}

/// The layout of a CDB, named by its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Six,
    Ten,
    Twelve,
    Sixteen,
}

/// Parses a CDB for a unit with blocks of `block_bytes`.
///
/// # Errors
/// [`Sense`] data INVALID COMMAND OPERATION CODE or INVALID FIELD IN CDB.
pub fn parse(cdb: &[u8; 16], block_bytes: u32) -> Result<Command, Sense> {
    let command = parse_parameters(cdb, block_bytes)?;
    let control = match cdb[0] >> 5 {
        0 => 5,
        1 | 2 => 9,
        4 => 15,
        _ => 11,
    };
    // NACA: there is no auto contingent allegiance (SAM-5 §5.2).
    if cdb[control] & 0x04 == 0 { Ok(command) } else { Err(Sense::cdb(control as u16)) }
}

fn parse_parameters(cdb: &[u8; 16], block_bytes: u32) -> Result<Command, Sense> {
    let fields = Fields(cdb, block_bytes);
    if let Some(action) = primary(fields)? {
        return Ok(Command { action, group: 0 });
    }
    let shape = match cdb[0] >> 5 {
        0 => Shape::Six,
        1 | 2 => Shape::Ten,
        4 => Shape::Sixteen,
        5 => Shape::Twelve,
        _ => return Err(Sense::INVALID_OPCODE),
    };
    let action = block(fields, shape)?;
    Ok(Command { action, group: fields.group(shape) })
}

/// Commands of SPC, and those of SBC that have no range.
fn primary(fields: Fields<'_>) -> Result<Option<Action>, Sense> {
    let cdb = fields.0;
    Ok(Some(match cdb[0] {
        0x00 => Action::TestUnitReady,
        0x03 => Action::RequestSense { descriptor: fields.bit(1, 0), allocation: cdb[4].into() },
        0x12 => {
            if cdb[1] & 0xfe != 0 {
                return Err(Sense::cdb(1));
            }
            if !fields.bit(1, 0) && cdb[2] != 0 {
                return Err(Sense::cdb(2));
            }
            let page = fields.bit(1, 0).then_some(cdb[2]);
            Action::Inquiry { page, allocation: fields.number(3, 2) as u32 }
        }
        // RTD (revert to defaults) is not supported.
        0x15 | 0x55 if fields.bit(1, 1) => return Err(Sense::cdb(1)),
        0x15 => Action::ModeSelect { long: false, save: fields.bit(1, 0), len: cdb[4].into() },
        0x55 => Action::ModeSelect { long: true, save: fields.bit(1, 0), len: fields.number(7, 2) as u32 },
        0x1a => mode_sense(fields, false, cdb[4].into()),
        0x5a => mode_sense(fields, true, fields.number(7, 2) as u32),
        0x16 | 0x56 => Action::Reserve,
        0x17 | 0x57 => Action::Release,
        0x1b => Action::StartStop { immediate: fields.bit(1, 0) },
        0x1e => Action::PreventRemoval,
        0x25 => Action::ReadCapacity10 { allocation: 8 },
        0x42 => {
            if fields.bit(1, 0) {
                return Err(Sense::cdb(1));
            }
            Action::Unmap { len: fields.number(7, 2) as u32 }
        }
        0x5e => {
            let action = match cdb[1] & 0x1f {
                0 => PrIn::ReadKeys,
                1 => PrIn::ReadReservation,
                2 => PrIn::ReportCapabilities,
                3 => PrIn::ReadFullStatus,
                _ => return Err(Sense::cdb(1)),
            };
            Action::PrIn { action, allocation: fields.number(7, 2) as u32 }
        }
        0x5f => pr_out(fields)?,
        0x9e => match cdb[1] & 0x1f {
            0x10 => Action::ReadCapacity16 { allocation: fields.word(10) },
            0x12 => Action::GetLbaStatus { lba: fields.number(2, 8), allocation: fields.word(10) },
            0x16 => Action::GetStreamStatus { from: fields.number(4, 2) as u16, allocation: fields.word(10) },
            _ => return Err(Sense::cdb(1)),
        },
        0xa0 => Action::ReportLuns { select: cdb[2], allocation: fields.word(6) },
        0xa3 => match cdb[1] & 0x1f {
            0x0c => Action::ReportOpcodes {
                options: cdb[2] & 7,
                opcode: cdb[3],
                service: fields.number(4, 2) as u16,
                timeouts: fields.bit(2, 7),
                allocation: fields.word(6),
            },
            _ => return Err(Sense::cdb(1)),
        },
        _ => return Ok(None),
    }))
}

fn mode_sense(fields: Fields<'_>, long: bool, allocation: u32) -> Action {
    let cdb = fields.0;
    Action::ModeSense {
        long,
        dbd: fields.bit(1, 3),
        control: cdb[2] >> 6,
        page: cdb[2] & 0x3f,
        subpage: cdb[3],
        allocation,
    }
}

fn pr_out(fields: Fields<'_>) -> Result<Action, Sense> {
    let cdb = fields.0;
    let action = match cdb[1] & 0x1f {
        0 => PrOut::Register,
        1 => PrOut::Reserve,
        2 => PrOut::Release,
        3 => PrOut::Clear,
        4 => PrOut::Preempt,
        5 => PrOut::PreemptAndAbort,
        6 => PrOut::RegisterAndIgnore,
        _ => return Err(Sense::cdb(1)),
    };
    Ok(Action::PrOut { action, scope: cdb[2] >> 4, kind: cdb[2] & 0xf, len: fields.word(5) })
}

/// Commands of SBC with a range.
fn block(fields: Fields<'_>, shape: Shape) -> Result<Action, Sense> {
    let cdb = fields.0;
    let range = fields.range(shape);
    let fua = shape != Shape::Six && fields.bit(1, 3);
    // Protection information is not supported (RDPROTECT, WRPROTECT, VRPROTECT).
    let unprotected = || if shape != Shape::Six && cdb[1] & 0xe0 != 0 { Err(Sense::cdb(1)) } else { Ok(()) };
    Ok(match cdb[0] {
        0x08 => Action::Read { range },
        0x28 | 0xa8 | 0x88 => {
            unprotected()?;
            Action::Read { range }
        }
        0x0a => Action::Write { range, fua: false, verify: None },
        0x2a | 0xaa | 0x8a => {
            unprotected()?;
            Action::Write { range, fua, verify: None }
        }
        0x2e | 0xae | 0x8e => {
            unprotected()?;
            let compare = byte_check(cdb);
            if compare > 1 {
                return Err(Sense::cdb(1));
            }
            // WRITE AND VERIFY: the data are durable before they are read back.
            Action::Write { range, fua: true, verify: Some(compare) }
        }
        0x2f | 0xaf | 0x8f => {
            unprotected()?;
            let compare = byte_check(cdb);
            if compare == 2 {
                return Err(Sense::cdb(1));
            }
            Action::Verify { range, compare }
        }
        0x34 | 0x90 => Action::Prefetch { range, immediate: fields.bit(1, 1) },
        0x35 | 0x91 => Action::Synchronize { range },
        0x41 | 0x93 => write_same(fields, range, shape)?,
        0x89 => {
            unprotected()?;
            // Bytes 10 to 12 are reserved; byte 13 is the number of blocks.
            let range = Range { blocks: cdb[13].into(), ..range };
            Action::CompareAndWrite { range, fua }
        }
        _ => return Err(Sense::INVALID_OPCODE),
    })
}

/// BYTCHK of a command that verifies blocks.
const fn byte_check(cdb: &[u8; 16]) -> u8 {
    cdb[1] >> 1 & 3
}

fn write_same(fields: Fields<'_>, range: Range, shape: Shape) -> Result<Action, Sense> {
    let (protect, anchor, old) = (fields.0[1] & 0xe0 != 0, fields.bit(1, 4), fields.0[1] & 6 != 0);
    if protect || anchor || old {
        return Err(Sense::cdb(1));
    }
    let no_data = fields.bit(1, 0);
    if no_data && shape == Shape::Ten {
        return Err(Sense::cdb(1));
    }
    Ok(Action::WriteSame { range, unmap: fields.bit(1, 3), no_data })
}

impl Action {
    /// Bytes of the data that the initiator sends for the command.
    #[must_use]
    pub fn data_out_bytes(&self) -> u64 {
        match *self {
            Self::Write { range, .. } => range.bytes(),
            Self::Verify { range, compare: 1 } => range.bytes(),
            Self::Verify { range, compare: 3 } => u64::from(range.blocks.min(1) * range.block_bytes),
            Self::WriteSame { range, no_data: false, .. } => range.block_bytes.into(),
            Self::CompareAndWrite { range, .. } => 2 * range.bytes(),
            Self::ModeSelect { len, .. } | Self::Unmap { len } | Self::PrOut { len, .. } => len.into(),
            _ => 0,
        }
    }

    /// Whether the command changes the medium.
    #[must_use]
    pub const fn writes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteSame { .. } | Self::Unmap { .. } | Self::CompareAndWrite { .. })
    }

    /// The range of a command that has one.
    #[must_use]
    pub const fn range(&self) -> Option<Range> {
        match *self {
            Self::Read { range }
            | Self::Write { range, .. }
            | Self::Verify { range, .. }
            | Self::Prefetch { range, .. }
            | Self::Synchronize { range }
            | Self::WriteSame { range, .. }
            | Self::CompareAndWrite { range, .. } => Some(range),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
