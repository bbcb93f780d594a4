//! The command line.

mod serve;

pub(crate) use serve::ServeArgs;

use clap::{Parser, Subcommand, ValueEnum};

/// A deduplicating, compressing SSD cache in front of slow volumes, served over NBD.
#[derive(Debug, Parser)]
#[command(name = "nitro", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to log to standard error: error, warn, info, debug, trace, or a filter by target
    #[arg(long, global = true, env = "NITRO_LOG", default_value = "info", value_name = "LEVEL")]
    pub(crate) log: String,

    /// How log lines look
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Plain lines.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve volumes through a cache over NBD
    Serve(Box<ServeArgs>),
}
