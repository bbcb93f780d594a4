//! `nitro-lab size`

use super::sim::{MeasuredSettings, SharedSettings, percentage};
use crate::inside::Inside;
use clap::Args;
use nitro_commands::traces::{ReadArgs, ReadOptions};
use nitro_commands::{OutputArgs, between};
use nitro_config::DriveEndurance;
use nitro_console::size::Size;
use nitro_sim::Knob;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  The cache that a recorded trace needs, and an SSD for it:
    nitro-lab size recorded.parquet
  The same, with the compression and the duplicates of the volume's image:
    nitro-lab size recorded.vscsi --image vm.img
  Whether Monday's answer is right on Tuesday:
    nitro-lab size monday.parquet --cross-check tuesday.parquet
  What a cache of 2 GiB would do on an SSD of 480 GB with 1 drive write per day:
    nitro-lab size recorded.parquet --cache-size 2G --drive-size 480000000000 --endurance 1dwpd
  What the running server's clients need, from what they read lately:
    nitro-lab size /run/user/1000/nitro/vm.control

Hits are counted by extent, as in nitro status: extents read that were cached, in RAM or on the SSD, over all extents read. A trace of at
most three million extents read, written or trimmed is simulated whole. Of a longer one, a share of the extents is simulated
with all their requests, in a cache that is smaller by this share; --sample 100 simulates all. The options that nitro serve and
nitro-lab sim have, too, mean the same. The last line of the answer is the command that simulates the answer on the whole trace.

A running server knows what was read lately, and for LRU alone: there, the answer is that of a curve of LRU, with the
deduplication and compression that its cache has.";

/// `nitro-lab size`
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    // Before the fields that take the values of these options out of what was parsed.
    #[command(flatten)]
    pub(crate) read_options: ReadOptions,
    /// Traces or recordings, merged in the order of their times; or the control socket of a running server
    #[arg(required = true, value_name = "TRACE|SOCKET")]
    pub(crate) traces: Vec<PathBuf>,
    /// Percentage of the extents read that should be cached [default: 90; if no cache reaches that, a point less than the
    /// largest one]
    #[arg(long, value_name = "PCT", value_parser = share)]
    pub(crate) hits: Option<f64>,
    /// Measure deduplication and compression in this image of the volume, for traces without contents: a file or block
    /// device, which is only read
    #[arg(long, value_name = "IMG")]
    pub(crate) image: Option<PathBuf>,
    /// Check the answer on another trace, such as that of another day; may be given several times
    #[arg(long, value_name = "TRACE")]
    pub(crate) cross_check: Vec<PathBuf>,
    /// Percentage of the extents that are simulated; 100 is exact [default: so many that the sample has at most three million]
    #[arg(long, value_name = "PCT", value_parser = percentage)]
    pub(crate) sample: Option<f64>,
    /// Threads [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) drive: DriveArgs,
    #[command(flatten)]
    pub(crate) shared: SharedSettings,
    #[command(flatten)]
    pub(crate) measured: MeasuredSettings,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// The program that the laboratory is inside of; no option.
    #[arg(skip)]
    pub(crate) inside: Option<Inside>,
}

/// The SSD.
#[derive(Debug, Args)]
#[command(next_help_heading = "SSD")]
pub(crate) struct DriveArgs {
    /// Limit of the bytes written to the SSD, as in its data sheet: 0.5dwpd (drive writes per day) or 600TBW (terabytes
    /// written in five years) [default: 0.3dwpd]
    #[arg(long, value_name = "RATING")]
    pub(crate) endurance: Option<DriveEndurance>,
    /// Size of the SSD to which --endurance applies [default: the smallest of 240, 480, 960 GB and so on that has room]
    #[arg(long, value_name = "SIZE")]
    pub(crate) drive_size: Option<Size>,
    /// Table of drives and prices, in TOML [default: drives of 2026]; nitro-lab sim --print-prices prints a template
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

impl SizeArgs {
    /// The settings given as options.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Knob, &str)> {
        self.shared.given().chain(self.measured.given())
    }
}

fn share(text: &str) -> Result<f64, String> {
    between(text, 0.1, 100.0, "percent")
}
