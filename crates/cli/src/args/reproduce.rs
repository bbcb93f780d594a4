//! `nitro reproduce`

use super::OutputArgs;
use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  In minutes, with scaled traces:
    nitro reproduce --quick
  At the paper's sizes, in about an hour; started again, it goes on where it was:
    nitro reproduce --folder /var/tmp/reproduction
  One figure, for a script:
    nitro reproduce --quick --only figure-4 -o json

The folder gets reproduction.html (one file, with charts), reproduction.md, reproduction.json, and outcomes.jsonl with every
simulation that is finished. The FIU traces of the paper are not part of Nitro: synthetic ones with their published figures
stand for them, and the report says so. Figure 8 and the compressors are measured on this machine, all else is simulated.";

/// `nitro reproduce`
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Scaled traces and few points: minutes instead of an hour
    #[arg(long)]
    pub(crate) quick: bool,
    /// Traces so many times as large (or, below 1, as small) as they would be
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    pub(crate) scale: f64,
    /// Only these: table-1, figure-1, figure-4, figure-5, figure-6, ssd-throughput, table-2, figure-7, figure-8, compressors, ssd-writes
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    pub(crate) only: Vec<String>,
    /// Where results go, and are found again; made if need be
    #[arg(long, default_value = "nitro-reproduction", value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Threads [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Another seed makes other traces
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn factor(text: &str) -> Result<f64, String> {
    super::between(text, 0.01, 100.0, "times")
}
