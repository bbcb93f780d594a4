//! The command line.

mod index;
mod reproduce;
mod sim;
mod size;
mod trace;

pub(crate) use index::{BenchArgs, IndexCommand, IndexKind, PlanArgs, ShapeArgs};
pub(crate) use reproduce::{
    AzorArgs, ClamArgs, CosPaperArgs, DataDomainArgs, DssArgs, IndexPaperArgs, NitroArgs, Paper, ReproduceArgs,
    SiltArgs,
};
pub(crate) use sim::SimArgs;
pub(crate) use size::SizeArgs;
pub(crate) use trace::{
    BootStormArgs, ConvertArgs, FileServerArgs, FiuArgs, InfoArgs, MakeArgs, RandomArgs, SnapshotArgs, SnapshotPass,
    SynthCommand, TpccArgs, TpchArgs, TraceCommand, ZipfArgs,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use nitro_commands::reference::ReferenceCommand;
use nitro_commands::{LogArgs, failure, flowing};

/// Nitro's laboratory: simulates caches on traces, and reproduces the evaluations of the papers.
#[derive(Debug, Parser)]
#[command(name = "nitro-lab", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The description of the whole command line.
#[must_use]
pub fn command() -> clap::Command {
    flowing(Cli::command())
}

impl Cli {
    /// Parses the arguments of the process. Prints an error or the requested help, and ends the process, if there is no
    /// command to run.
    pub(crate) fn given() -> Self {
        let parsed = command().try_get_matches().and_then(|matches| Self::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| failure::wrong_usage("nitro-lab", &error))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Simulate a cache on a trace of requests
    #[command(after_long_help = sim::EXAMPLES)]
    Sim(Box<SimArgs>),
    /// How large a cache a trace, a recording or a running server needs, how long the SSD lasts, and what it costs
    #[command(after_long_help = size::EXAMPLES)]
    Size(Box<SizeArgs>),
    /// Show information about traces, convert and generate them
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Benchmark and plan hash tables on flash, for more fingerprints than RAM can hold
    Index {
        #[command(subcommand)]
        command: IndexCommand,
    },
    /// Reproduce the evaluation of Nitro's paper: compare its figures and tables with the reproduced ones, with a
    /// verdict for each claim
    #[command(after_long_help = reproduce::EXAMPLES)]
    Reproduce(ReproduceArgs),
    #[command(flatten)]
    Reference(ReferenceCommand),
}
