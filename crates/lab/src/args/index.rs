//! `nitro-lab index ...`

use clap::{Args, Subcommand, ValueEnum};
use nitro_commands::OutputArgs;
use nitro_console::size::Size;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const BENCH_EXAMPLES: &str = "\
Examples:
  nitro-lab index bench --kind bufferhash --entries 20000000 --file /mnt/ssd/index --ram 64M
  nitro-lab index bench --kind silt --entries 20000000 --file /mnt/ssd/index --ram 64M -o json

A file that does not exist is created. If the file holds the index of an earlier run, all entries up to the last sync of that
run are looked up and compared first, and the command fails if one is missing or wrong. Then the other entries are inserted:
an interrupted or killed run continues at its last sync. Direct I/O is used where the file system allows it.";

const PLAN_EXAMPLES: &str = "\
Examples:
  nitro-lab index plan --entries 1000000000 --ram 4G
  nitro-lab index plan --entries 20000000 --ram 64M -o json";

/// `nitro-lab index ...`
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Benchmark an index on flash: load it and look entries up
    #[command(after_long_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Show the best division of the RAM of a BufferHash between buffers and filters, and the expected cost of look-ups
    #[command(after_long_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
}

/// The index's data structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexKind {
    /// Buffers in RAM, Bloom filters, sequential writes; the oldest entries are evicted
    Bufferhash,
    /// Log, hash and sorted stores; nothing is evicted, and an entry takes less than a byte of RAM
    Silt,
}

/// The size of an index.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// Number of entries that the index has to hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) entries: u64,

    /// RAM that the index may use
    #[arg(long, value_name = "BYTES")]
    pub(crate) ram: Size,

    /// Bytes of a key, 8 to 64
    #[arg(long, value_name = "BYTES", default_value_t = 20)]
    pub(crate) key_bytes: u8,

    /// Bytes of a value, up to 1024; nitro-lab index bench needs at least 8
    #[arg(long, value_name = "BYTES", default_value_t = 12)]
    pub(crate) value_bytes: u16,
}

/// The size of the buffers of a BufferHash.
#[derive(Debug, Args)]
pub(crate) struct BufferArgs {
    /// BufferHash: bytes of a buffer, a power of two from 16K to 1M; smaller ones make the longest insertion shorter, larger
    /// ones make insertions cheaper
    #[arg(long, value_name = "BYTES", default_value = "128K")]
    pub(crate) buffer: Size,
}

/// `nitro-lab index bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The data structure
    #[arg(long, value_enum)]
    pub(crate) kind: IndexKind,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) buffer: BufferArgs,

    /// File (created if it does not exist) or block device for the index
    #[arg(long, value_name = "PATH")]
    pub(crate) file: PathBuf,

    /// Number of look-ups of existing entries; ten times as many look-ups of missing entries are made
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    pub(crate) lookups: u64,

    /// Look-ups in flight
    #[arg(long, value_name = "N", default_value = "64")]
    pub(crate) depth: NonZeroUsize,

    /// Number of threads [default: the machine's cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Make the index durable each time this many entries have been inserted
    #[arg(long, value_name = "N", default_value_t = 2_500_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sync_every: u64,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro-lab index plan`
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) buffer: BufferArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
