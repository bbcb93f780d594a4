//! `nitro reproduce`

use super::OutputArgs;
use clap::{Args, Subcommand};
use nitro_console::size::Size;
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

const CLAM_EXAMPLES: &str = "\
Examples:
  In about three minutes:
    nitro reproduce clam --folder /mnt/ssd/clam
  In seconds, smaller, for a script:
    nitro reproduce clam --quick -o json

The folder gets clam.html (one file, with charts), clam.md and clam.json. A BufferHash of --entries entries of 20 + 12 bytes is
made in a file, filled until the oldest entries give way, and loaded with one operation at a time; so is a conventional hash
table, which reads and writes a random page for each insertion and stands for BerkeleyDB. Both run again on a modelled SSD,
whose time is virtual and whose erasures are counted. The file is removed at the end. Let nothing else run meanwhile.";

const SILT_EXAMPLES: &str = "\
Examples:
  In about three minutes:
    nitro reproduce silt --folder /mnt/ssd/silt
  In seconds, smaller, for a script:
    nitro reproduce silt --quick -o json

The folder gets silt.html (one file, with charts), silt.md and silt.json. A SILT of --entries entries of 20 + 12 bytes is made in a
file and filled, serves 90 % look-ups and 10 % insertions while it converts and merges, and is then looked up at rising depth.
The file is removed at the end. Let nothing else run meanwhile.";

const COS_EXAMPLES: &str = "\
Examples:
  In some minutes:
    nitro reproduce cos --folder /var/tmp/cos
  In a minute or two, smaller, for a script:
    nitro reproduce cos --quick -o json

The folder gets cos.html (one file, with charts), cos.md and cos.json. Synthetic traces of three file systems are played before a store
in RAM, behind modelled disks, without a cache and through one on a modelled SSD, warm and cold. Generations of a volume are written to a store in RAM, behind
a modelled disk; snapshots are kept, deleted and collected; they are read at random and restored, without a cache and through
one on a modelled SSD. Time is virtual: figures are the same on every machine. RAM is needed for four times the volume, and 1 GiB for the traces.";

/// Another paper than Nitro's, or a part of it.
#[derive(Debug, Subcommand)]
pub(crate) enum Paper {
    /// Make the evaluation of BufferHash (CLAM) again, on this machine and on a modelled SSD, in about three minutes
    #[command(after_long_help = CLAM_EXAMPLES)]
    Clam(ClamArgs),
    /// Make the evaluation of SILT again, on this machine, in about three minutes
    #[command(after_long_help = SILT_EXAMPLES)]
    Silt(SiltArgs),
    /// Make Nitro's Table 2 (COS) and Figures 9 and 10 (aged and restored snapshots) again, on the deduplicating store, in virtual time
    #[command(after_long_help = COS_EXAMPLES)]
    Cos(CosPaperArgs),
}

/// What is the same for both papers on hash tables on flash.
#[derive(Debug, Args)]
pub(crate) struct IndexPaperArgs {
    /// A small index and few operations: seconds, and rougher figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Entries that the index holds [default: 4000000, or 200000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100_000..=1 << 34))]
    pub(crate) entries: Option<u64>,
    /// RAM that the index may use [default: the paper's for each entry, CLAM 4 bytes and 800 KiB beside,
    /// SILT 0.7 bytes or the least that few entries need]
    #[arg(long, value_name = "BYTES")]
    pub(crate) ram: Option<Size>,
    /// Where results go; made if need be
    #[arg(long, default_value = "nitro-reproduction", value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// File for the index, on the SSD to be measured; must not exist, and is removed at the end [default: one in the folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Threads, where more than one operation is under way [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro reproduce clam`
#[derive(Debug, Args)]
pub(crate) struct ClamArgs {
    #[command(flatten)]
    pub(crate) common: IndexPaperArgs,
    /// What SSD and RAM cost, in dollars; the default is the paper's price of 2009
    #[arg(long, default_value_t = 400.0, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) dollars: f64,
}

/// `nitro reproduce silt`
#[derive(Debug, Args)]
pub(crate) struct SiltArgs {
    #[command(flatten)]
    pub(crate) common: IndexPaperArgs,
}

/// `nitro reproduce cos`
#[derive(Debug, Args)]
pub(crate) struct CosPaperArgs {
    /// A small volume and few generations: seconds, and rougher figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// A volume so many times as large as 256 MiB, or 96 MiB with --quick; 5 % or 2 % of it must be 4 MiB
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    pub(crate) scale: f64,
    /// Where results go; made if need be
    #[arg(long, default_value = "nitro-reproduction", value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro reproduce`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReproduceArgs {
    #[command(subcommand)]
    pub(crate) paper: Option<Paper>,
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

fn dollars(text: &str) -> Result<f64, String> {
    super::between(text, 1.0, 1e9, "dollars")
}

fn factor(text: &str) -> Result<f64, String> {
    super::between(text, 0.01, 100.0, "times")
}
