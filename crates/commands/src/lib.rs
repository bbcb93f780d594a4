//! What the command lines of Nitro's programs share: options of the log and of the output, traces as arguments, help
//! texts, manual pages and completions; and the scan of an image for duplicates and compression.
#![forbid(unsafe_code)]

pub mod estimate;
pub mod failure;
pub mod reference;
pub mod shares;
mod text;
pub mod traces;

pub use text::{flowing, grouped};

use clap::Args;
use nitro_console::error::Error;
use nitro_console::logging::{self, LogFormat};
use nitro_console::output::Format;
use nitro_console::signals::survive_file_limit;
use std::process::ExitCode;

/// The heading of the options of every command.
const LOGGING: &str = "Logging";

/// How to log.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Log level for standard error: error, warn, info, debug, trace, or a filter by target
    #[arg(long, global = true, env = "NITRO_LOG", default_value = "info", value_name = "LEVEL", help_heading = LOGGING)]
    log: String,

    /// Format of log lines
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, help_heading = LOGGING)]
    log_format: LogFormat,
}

/// How to print.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArgs {
    /// Output format of the results
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub format: Format,
}

/// Runs a program's command, and prints its error as one of `program`. A server's log goes through a queue. Exit codes: what
/// `run` returns, or 1 after an error; the command line itself exits with 2 if it cannot be parsed.
pub fn execute(program: &str, log: &LogArgs, is_server: bool, run: impl FnOnce() -> Result<u8, Error>) -> ExitCode {
    let started = logging::start(&log.log, log.log_format, is_server).and_then(|()| survive_file_limit());
    let ended = started.and_then(|()| run());
    if let Err(error) = &ended {
        failure::print(program, error, 1);
    }
    logging::end();
    ExitCode::from(ended.unwrap_or(1))
}

/// Parses a number from `min` to `max`.
///
/// # Errors
/// It is not a number, or is out of bounds; the message names the bounds and `unit`.
pub fn between(text: &str, min: f64, max: f64, unit: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (min..=max).contains(value));
    value.ok_or_else(|| format!("must be {min} to {max} {unit}"))
}
