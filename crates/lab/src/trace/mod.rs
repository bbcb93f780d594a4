//! `nitro trace`: information about traces, conversion to Parquet or CSV, and synthetic traces.

mod convert;
mod info;
mod input;
mod result;
mod synth;

pub(crate) use input::Input;

use crate::args::TraceCommand;
use nitro_console::error::Error;
use nitro_trace::{ErrorKind, TraceError};

/// Runs `nitro trace ...`.
pub(crate) fn run(command: &TraceCommand) -> Result<(), Error> {
    match command {
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Convert(args) => convert::run(args),
        TraceCommand::Synth { kind } => synth::run(kind),
    }
}

/// The error of a trace, with a hint.
pub(crate) fn refused(error: &TraceError) -> Error {
    let way_out = match error.kind {
        ErrorKind::Io => "check the path, its permissions, and whether the file is complete",
        ErrorKind::UnknownFormat => {
            "name the format with --trace-format, or describe the table's columns with --columns"
        }
        ErrorKind::BadRecord => "--bad-records skip leaves such records out; is it the right --trace-format?",
        ErrorKind::Parquet => {
            "check whether the file is complete, and was written by `nitro trace` or `nitro serve --record`"
        }
        ErrorKind::Setting => "see --help for what can be chosen",
    };
    Error::told(&error.to_string()).or(way_out)
}
