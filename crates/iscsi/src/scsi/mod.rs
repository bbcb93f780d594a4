//! The SCSI disk: parses command descriptor blocks and makes parameter data, without I/O (SPC-5, SBC-4).

mod command;
mod facts;
mod inquiry;
mod mode;
mod opcodes;
mod parameters;
mod sense;

pub use command::{Action, Command, PrIn, PrOut, Range, parse};
pub use facts::{BLOCK_BYTES, Facts};
pub(crate) use inquiry::inquiry;
pub(crate) use mode::{Modes, mode_select, mode_sense};
pub(crate) use opcodes::report_opcodes;
pub(crate) use parameters::{
    get_lba_status, get_stream_status, read_capacity_10, read_capacity_16, report_luns, unmap_ranges,
};
pub use sense::{Sense, Status};
