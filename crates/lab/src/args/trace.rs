//! `nitro-lab trace ...`

use clap::{Args, Subcommand, ValueEnum};
use nitro_commands::traces::ReadArgs;
use nitro_commands::{OutputArgs, between};
use nitro_console::size::Size;
use std::path::PathBuf;

const INFO_EXAMPLES: &str = "\
Examples:
  nitro-lab trace info homes-110108-112108.1.blkparse.gz
  The files of one trace, in the order of their times; repeated records count once:
    nitro-lab trace info --drop-repeats webvm.*.blkparse
  A table with its columns described:
    nitro-lab trace info --columns time=0:ms,op=2,offset=3:sectors,len=4:sectors,object=1 mine.csv
  From a pipe:
    zcat trace.gz | nitro-lab trace info -
    nitro-lab trace info <(ssh host cat disk.iolog)

The format is recognised by the content of a file, not by its name. Files may be compressed (gzip, zstd, bzip2, xz).";

const CONVERT_EXAMPLES: &str = "\
Examples:
  nitro-lab trace convert hm_0.csv.gz hm_0.parquet
  nitro-lab trace convert sda.blktrace.* sda.parquet
  A table in CSV, which commands read with --columns time=0:ns,op=1,object=2,offset=3,len=4,skip=1:
    nitro-lab trace convert recorded.parquet recorded.csv
  A recording that was interrupted by a crash, up to its last complete part:
    nitro-lab trace convert recorded.parquet whole.parquet
  A trace of a disk of which an image exists, with classes:
    nitro-lab trace convert --classify disk.img sda.blktrace.0 sda.parquet

The columns of a table are time_ns, op, object, offset and len; it has no fingerprints. The columns of Parquet are time (ns), op,
object, offset and length (bytes), fingerprint (20 bytes for each block of the request), block (bytes covered by a fingerprint),
compressed (bytes of the request when compressed).";

const SYNTH_EXAMPLES: &str = "\
Examples:
  nitro-lab trace synth webvm webvm.parquet --scale 0.1
  nitro-lab trace synth boot-storm storm.parquet --machines 60 --boot recorded-boot.parquet
  nitro-lab trace synth zipf zipf.parquet --requests 20000000 --exponent 0.9

The same options, including the seed, generate the same file, byte for byte. These traces are synthetic, not recorded: their
files are marked as such, and `nitro-lab trace info` shows it.";

/// `nitro-lab trace ...`
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Show information about a trace
    #[command(after_long_help = INFO_EXAMPLES)]
    Info(InfoArgs),
    /// Convert a trace to Parquet, or to a table in CSV
    #[command(after_long_help = CONVERT_EXAMPLES)]
    Convert(ConvertArgs),
    /// Generate a synthetic trace
    #[command(after_long_help = SYNTH_EXAMPLES)]
    Synth {
        #[command(subcommand)]
        kind: SynthCommand,
    },
}

/// `nitro-lab trace info`
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Traces, merged into one; - is standard input
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro-lab trace convert`
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Traces, merged in the order of their times; - is standard input
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The file to create: Parquet or, if the name ends with .csv, a table of times, operations and addresses
    #[arg(value_name = "RESULT")]
    pub(crate) result: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Classify requests by an image of the disk, with the file system that it had: metadata, directories, the journal, and
    /// the sizes of files, as `nitro serve` detects them. Classes of the trace are kept
    #[arg(long, value_name = "IMAGE")]
    pub(crate) classify: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of every synthetic trace.
#[derive(Debug, Clone, Args)]
pub(crate) struct MakeArgs {
    /// The file to create
    #[arg(value_name = "RESULT")]
    pub(crate) result: PathBuf,
    /// Seed of the random numbers; a different seed generates a different trace
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// One of the FIU-like traces.
#[derive(Debug, Clone, Args)]
pub(crate) struct FiuArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// Scale of volume size, footprint and number of requests, relative to the published trace
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub(crate) scale: f64,
}

/// `nitro-lab trace synth ...`
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SynthCommand {
    /// Like FIU's WebVM: a virtual machine with two web servers, 21 days
    Webvm(FiuArgs),
    /// Like FIU's Mail: a mail server, 21 days
    Mail(FiuArgs),
    /// Like FIU's Homes: a file server with home directories, 21 days
    Homes(FiuArgs),
    /// Many virtual machines that boot at once
    BootStorm(BootStormArgs),
    /// Daily snapshots of one virtual machine: its writes, backups of it, or the restore of one
    Snapshots(SnapshotArgs),
    /// Random reads of a working set with duplicates
    Random(RandomArgs),
    /// Requests with a Zipf distribution
    Zipf(ZipfArgs),
    /// Like TPC-H: a data warehouse that is only read, with scans of tables and random reads of indices and rows
    Tpch(TpchArgs),
    /// Like TPC-C: transactions with random reads and writes of pages, with the benchmark's skew
    Tpcc(TpccArgs),
    /// Like SPECsfs: a file server with many small files; requests have the classes of metadata and of sizes of files
    FileServer(FileServerArgs),
}

/// `nitro-lab trace synth boot-storm`
#[derive(Debug, Clone, Args)]
pub(crate) struct BootStormArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// The boot of one machine, recorded by `nitro serve --record` [default: the built-in recording of a Debian 12]
    #[arg(long, value_name = "TRACE")]
    pub(crate) boot: Option<PathBuf>,
    /// Start from a synthetic boot with the paper's figures: 18 MB, 99 % reads, 14 % random
    #[arg(long, conflicts_with = "boot")]
    pub(crate) made_up: bool,
    /// Number of machines; each is an object
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub(crate) machines: u32,
    /// Percentage of a machine's blocks that all machines share
    #[arg(long, default_value_t = 90.0, value_name = "PCT", value_parser = percentage)]
    pub(crate) overlap: f64,
    /// Addresses differ between machines by up to this percentage of the address space
    #[arg(long, default_value_t = 15.0, value_name = "PCT", value_parser = percentage)]
    pub(crate) shift: f64,
    /// Time in which all machines start, in seconds
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) within: f64,
}

/// Which requests of a chain of snapshots a trace contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SnapshotPass {
    /// The machine's own writes: the image, then the overwrites of each day
    Changes,
    /// A complete write of every snapshot
    Backups,
    /// A complete read of one snapshot
    Restore,
}

/// `nitro-lab trace synth snapshots`
#[derive(Debug, Clone, Args)]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// Which requests the trace contains
    #[arg(long, value_enum, default_value_t = SnapshotPass::Changes, value_name = "WHAT")]
    pub(crate) pass: SnapshotPass,
    /// The snapshot to restore, from 0 [default: the oldest]
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) snapshot: u32,
    /// Number of snapshots
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(crate) snapshots: u32,
    /// Size of the image [default: 38 GB, as in the paper]
    #[arg(long, value_name = "SIZE")]
    pub(crate) image_size: Option<Size>,
    /// Percentage of the image overwritten each day
    #[arg(long, default_value_t = 2.3, value_name = "PCT", value_parser = percentage)]
    pub(crate) daily_change: f64,
}

/// `nitro-lab trace synth random`
#[derive(Debug, Clone, Args)]
pub(crate) struct RandomArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// Size of the working set
    #[arg(long, default_value = "1G", value_name = "SIZE")]
    pub(crate) working_set: Size,
    /// Bytes of the working set divided by the bytes of its distinct content
    #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
    pub(crate) dedup_ratio: f64,
    /// Size of a read, and of a duplicate
    #[arg(long, default_value = "8K", value_name = "SIZE")]
    pub(crate) request_size: Size,
    /// Number of reads
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) requests: u64,
}

/// `nitro-lab trace synth zipf`
#[derive(Debug, Clone, Args)]
pub(crate) struct ZipfArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// Number of objects
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) objects: u64,
    /// Exponent of the distribution; 0: all objects are equally popular
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub(crate) exponent: f64,
    /// Number of requests
    #[arg(long, default_value_t = 20_000_000, value_name = "N")]
    pub(crate) requests: u64,
    /// Percentage of requests that are writes
    #[arg(long, default_value_t = 0.0, value_name = "PCT", value_parser = percentage)]
    pub(crate) writes: f64,
    /// Size of an object
    #[arg(long, default_value = "4K", value_name = "SIZE")]
    pub(crate) object_size: Size,
}

/// `nitro-lab trace synth tpch`
#[derive(Debug, Clone, Args)]
pub(crate) struct TpchArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// Size of the database; half of it is indices
    #[arg(long, default_value = "1G", value_name = "SIZE")]
    pub(crate) database: Size,
    /// Size of the volume, at least 16 times that of the database
    #[arg(long, default_value = "200G", value_name = "SIZE")]
    pub(crate) volume: Size,
    /// The database is one contiguous file, instead of a file for each table
    #[arg(long)]
    pub(crate) one_file: bool,
    /// Exponent of the Zipf distribution of the pages that are probed; 0: uniform
    #[arg(long, default_value_t = 0.0, value_name = "S")]
    pub(crate) skew: f64,
    /// Number of times that all 22 queries run
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) rounds: u32,
}

/// `nitro-lab trace synth tpcc`
#[derive(Debug, Clone, Args)]
pub(crate) struct TpccArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// Size of the database; a warehouse takes about 100 MB
    #[arg(long, default_value = "1G", value_name = "SIZE")]
    pub(crate) database: Size,
    /// Number of transactions
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    pub(crate) transactions: u64,
}

/// `nitro-lab trace synth file-server`
#[derive(Debug, Clone, Args)]
pub(crate) struct FileServerArgs {
    #[command(flatten)]
    pub(crate) make: MakeArgs,
    /// Size of all files
    #[arg(long, default_value = "4G", value_name = "SIZE")]
    pub(crate) file_set: Size,
    /// Percentage of the files that are accessed
    #[arg(long, default_value_t = 30.0, value_name = "PCT", value_parser = percentage)]
    pub(crate) accessed: f64,
    /// Number of operations of clients
    #[arg(long, default_value_t = 500_000, value_name = "N")]
    pub(crate) operations: u64,
}

fn percentage(text: &str) -> Result<f64, String> {
    between(text, 0.0, 100.0, "percent")
}

fn seconds(text: &str) -> Result<f64, String> {
    between(text, 0.0, 86_400.0, "seconds")
}
