//! `nitro-lab trace`: information about traces, conversion to Parquet or CSV, and synthetic traces.

mod classify;
mod convert;
mod info;
mod result;
mod synth;

use crate::args::TraceCommand;
use nitro_console::error::Error;

/// Runs `nitro-lab trace ...`.
pub(crate) fn run(command: &TraceCommand) -> Result<(), Error> {
    match command {
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Convert(args) => convert::run(args),
        TraceCommand::Synth { kind } => synth::run(kind),
    }
}
