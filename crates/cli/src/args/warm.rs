//! `nitro warm`

use super::{ReadArgs, ServerArgs};
use clap::Args;
use nitro_console::size::Size;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  The whole volume:
    nitro warm db
  Its first gigabyte:
    nitro warm db 0 1G
  What a recording of yesterday read most, as much as the cache holds:
    nitro warm db --from-trace yesterday.parquet

What is cached already is not read again. Clients are served meanwhile; the origin reads one part of 16 MiB at a time. Ctrl-C ends it: what was \
read stays in the cache. A trace is counted by regions of 1 MiB; those with the most reads are read in ascending order, so that a disk \
hardly seeks.";

/// What is read into the cache.
#[derive(Debug, Args)]
pub(crate) struct WarmArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// The first byte, as 8192 or 1.5G [default: 0]
    #[arg(requires = "length")]
    pub(crate) offset: Option<Size>,
    /// How many bytes [default: all of the volume]
    pub(crate) length: Option<Size>,
    /// Read what this trace read most, instead of all; repeated, several traces are merged
    #[arg(long, value_name = "TRACE", conflicts_with = "offset")]
    pub(crate) from_trace: Vec<PathBuf>,
    /// The trace's number of the volume [default: all of its objects count]
    #[arg(long, value_name = "N", requires = "from_trace")]
    pub(crate) object: Option<u32>,
    /// Most bytes that are read because of a trace [default: the cache's capacity]
    #[arg(long, value_name = "SIZE", requires = "from_trace")]
    pub(crate) max: Option<Size>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
