//! `nitro warm`

use super::ServerArgs;
use clap::Args;
use nitro_commands::traces::ReadArgs;
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

Data that are cached already are not read again. Clients are served meanwhile; the server reads one part of 16 MiB at a time from the origin. \
After Ctrl-C, the data that were read stay in the cache. The reads of a trace are counted for each 1 MiB of the volume; the parts with the most \
reads are read in ascending order, so that a disk hardly seeks.";

/// What is read into the cache.
#[derive(Debug, Args)]
pub(crate) struct WarmArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// Offset of the first byte, such as 8192 or 1.5G [default: 0]
    #[arg(requires = "length")]
    pub(crate) offset: Option<Size>,
    /// Length in bytes, such as 1G [default: the whole volume]
    pub(crate) length: Option<Size>,
    /// Read the parts that this trace read most, instead of the whole volume; may be given several times, to merge
    /// traces
    #[arg(long, value_name = "TRACE", conflicts_with = "offset")]
    pub(crate) from_trace: Vec<PathBuf>,
    /// Count only the requests of this object of the trace, given by its number; needed if the trace has
    /// reads of several [default: the only one]
    #[arg(long, value_name = "N", requires = "from_trace")]
    pub(crate) object: Option<u32>,
    /// Maximum number of bytes to read with --from-trace [default: the cache's capacity]
    #[arg(long, value_name = "SIZE", requires = "from_trace")]
    pub(crate) max: Option<Size>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
