//! `nitro cos ...`

use super::OutputArgs;
use clap::{Args, Subcommand, ValueEnum};
use nitro_console::size::Size;
use nitro_cos::Fpi;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

const INIT_EXAMPLES: &str = "\
Examples:
  nitro cos init /srv/store
  nitro cos init /srv/store --max-size 2T --compression zstd
  nitro cos init /srv/store --size 500G
  nitro cos init /dev/sdb --force

In a folder, the store is a sparse file that begins small and grows by itself up to --max-size: whenever less than an eighth of it is free, its
size doubles. With --size alone it has that size until `nitro cos grow`. About 1.1 % of the size is allocated for the index and the journal;
content takes space as it is added, and gc gives it back. RAM for the largest size is part of what a server says that it needs.";

const GROW_EXAMPLES: &str = "\
Examples:
  nitro cos grow /srv/store 500G
  nitro cos grow /srv/store --max-size 4T
  nitro cos grow /dev/sdb

Without a size, a store on a block device takes all of it, as large as it is now. The index is made anew for the new size, from the lists of chunks
of all containers, while the store is in use; until the end, and if it fails or is interrupted, the store has its former size. Programs before this
version do not open a store that has grown.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  nitro cos import /srv/store vm1 vm1.img
  nitro cos import /srv/store disk /dev/vg/disk
  tar c /home | nitro cos import /srv/store home-monday -
  nitro cos import /srv/store home-monday --from-command -- tar c /home

Files and devices become volumes, which can be written to and served; standard input and the output of a command become
streams, divided into content-defined chunks. A pipe does not tell whether the command before it failed; with --from-command,
there is an object only if the command ends with exit status 0. It is run without a shell, and is ended if the import ends
before it. An interrupted import of a file or device, when started again, continues where it stopped; an import
from standard input starts at the beginning, and does not store again what was stored already.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  nitro cos export /srv/store vm1@monday vm1.img
  nitro cos export /srv/store home-monday - | tar x
  nitro cos export /srv/store vm1@tuesday --from vm1@monday - | ssh host nitro cos import /srv/copy vm1-tuesday - --increment

An increment can be imported where a volume has the content of the snapshot that it is from, whatever its name; the result is compared with the
original by its fingerprint. A file is written sparsely as FILE.part and renamed when it is complete; what an interrupted export has left there is overwritten.";

const SEND_EXAMPLES: &str = "\
Examples:
  nitro cos send /srv/store vm1@monday --to 'nitro cos receive /srv/copy vm1'
  nitro cos send /srv/store vm1@tuesday --to 'ssh host nitro cos receive /srv/copy vm1-tuesday'

The two sides compare fingerprints, and only the chunks that the other store lacks are sent, compressed; no earlier snapshot is named. The
command of --to is run by the shell, with a connection as its standard input and output. What was received when a transfer is cut off is kept as an
unfinished object, and the same command continues it. Only give those a way to send who may read what the receiving store has: an object is made
of all chunks whose fingerprints the sender knows.";

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  nitro cos snapshot /srv/store vm1@monday
  nitro cos snapshot /srv/store --timed vm1 vm2";

const FORGET_EXAMPLES: &str = "\
Examples:
  nitro cos forget /srv/store vm1 --keep-daily 7 --keep-weekly 12 --dry-run
  nitro cos forget /srv/store --all --timed --keep-last 3 --keep-hourly 24 --keep-monthly 12

A snapshot is kept if one of the options keeps it. --keep-daily 7 keeps the newest snapshot of each of the last seven days that have any, in UTC;
weeks begin on Mondays. Each object is treated by itself. gc frees the space of what is deleted.";

const QUOTA_EXAMPLES: &str = "\
Examples:
  nitro cos quota /srv/store 200G
  nitro cos quota /srv/store none

When the quota is used up, new content is refused as if the store were full. Stored objects can still be read and deleted.
gc frees the space of deleted objects; while it runs, it may use a little more than the quota.";

/// `nitro cos ...`
///
/// While a server has a store open, that server carries out all commands but init and fsck, with two threads for each of
/// at most four transfers, scrubs and collections. Files are opened by the command itself: the server's rights give nobody a file.
#[derive(Debug, Subcommand)]
pub(crate) enum CosCommand {
    /// Create a store in a folder or on a block device
    #[command(after_long_help = INIT_EXAMPLES)]
    Init(CosInitArgs),
    /// Store a file, a block device or standard input as an object
    #[command(after_long_help = IMPORT_EXAMPLES)]
    Import(CosImportArgs),
    /// Write an object or a snapshot to a file, a block device or standard output
    #[command(after_long_help = EXPORT_EXAMPLES)]
    Export(CosExportArgs),
    /// Send an object or a snapshot to another store: only the chunks that it lacks
    #[command(after_long_help = SEND_EXAMPLES)]
    Send(CosSendArgs),
    /// Receive an object that `nitro cos send` sends to standard input, and answer on standard output
    #[command(after_long_help = SEND_EXAMPLES)]
    Receive(CosReceiveArgs),
    /// List objects and snapshots
    List {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// Show how much of each is in no other one, before compression: what deleting it would free. Reads all recipes
        #[arg(long)]
        unique: bool,
    },
    /// Create a snapshot of an object, without copying data
    #[command(after_long_help = SNAPSHOT_EXAMPLES)]
    Snapshot {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// OBJECT@NAME, or with --timed OBJECT
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Name the snapshots after the time, as in vm@2026-11-28T03:00:00Z
        #[arg(long)]
        timed: bool,
    },
    /// Delete the snapshots that a retention does not keep
    #[command(after_long_help = FORGET_EXAMPLES)]
    Forget(CosForgetArgs),
    /// Rename an object, and its snapshots with it; or a snapshot
    Rename {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// OBJECT or OBJECT@NAME
        old: String,
        /// The new name
        new: String,
    },
    /// Clone an object or a snapshot into a new volume, without copying data
    Clone {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// OBJECT or OBJECT@NAME
        source: String,
        /// The new object's name
        name: String,
    },
    /// List the ranges in which two volumes or snapshots differ
    Diff {
        #[command(flatten)]
        store: StoreArgs,
        /// OBJECT or OBJECT@NAME
        one: String,
        /// OBJECT or OBJECT@NAME
        other: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete objects or snapshots; gc frees the space that only they used
    Delete {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// OBJECT or OBJECT@NAME
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Free the space of content that no object refers to (garbage collection)
    Gc {
        #[command(flatten)]
        store: StoreArgs,
        /// Collect containers of which less than this percentage is live data
        #[arg(long, value_name = "PCT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=100))]
        alive: u8,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make a store larger, or let it grow by itself
    #[command(after_long_help = GROW_EXAMPLES)]
    Grow {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// The new size [default: that of the block device]
        size: Option<Size>,
        /// Size up to which the store grows by itself from now on
        #[arg(long, value_name = "SIZE")]
        max_size: Option<Size>,
    },
    /// Limit the disk space of a store
    #[command(after_long_help = QUOTA_EXAMPLES)]
    Quota {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// Maximum space of the store's containers, or `none`
        #[arg(value_name = "SIZE|none")]
        quota: Quota,
    },
    /// Read and verify everything that is stored
    Scrub(ShownStoreArgs),
    /// Check that the store has all content that its objects refer to, without reading the content
    Fsck(ShownStoreArgs),
    /// Manage a store's SSD, which caches data that are read at random
    Ssd {
        #[command(subcommand)]
        command: CosSsdCommand,
    },
    /// Show how the parts of an object are accessed: in sequence, in ascending order with gaps, or at random
    ///
    /// Patterns are tracked since the store was opened: use this while a server serves the object.
    Patterns {
        #[command(flatten)]
        store: StoreArgs,
        /// OBJECT or OBJECT@NAME
        object: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the contents of a store and its savings
    Stats(ShownStoreArgs),
}

const SSD_EXAMPLES: &str = "\
Examples:
  nitro cos ssd attach /srv/store /mnt/nvme/store.ssd --ssd-size 100G --ssd-lz4
  nitro cos ssd replace /srv/store /dev/nvme1n1
  nitro cos ssd status /srv/store
  nitro cos ssd detach /srv/store

The store's disk also holds everything that is on the SSD: the SSD may fail, or be removed, at any time. The store records its SSD in the
file store.nitro.ssd in its folder, or for a store on a block device in a file beside the device, with the suffix .ssd. A server that has the store open carries these commands out while it serves.";

/// `nitro cos ssd ...`
#[derive(Debug, Subcommand)]
#[command(after_long_help = SSD_EXAMPLES)]
pub(crate) enum CosSsdCommand {
    /// Attach an SSD to the store
    Attach {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// A file or block device
        path: PathBuf,
        #[command(flatten)]
        options: CosSsdArgs,
    },
    /// Replace the store's SSD by another one
    Replace {
        #[command(flatten)]
        shown: ShownStoreArgs,
        /// A file or block device
        path: PathBuf,
        #[command(flatten)]
        options: CosSsdArgs,
    },
    /// Stop using the SSD
    Detach {
        #[command(flatten)]
        shown: ShownStoreArgs,
    },
    /// Show the SSD, its contents, and its hits
    Status(ShownStoreArgs),
}

/// How a store uses its SSD.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CosSsdArgs {
    /// Size of the file, if it is to be created
    #[arg(long, value_name = "SIZE")]
    pub(crate) ssd_size: Option<Size>,
    /// Percentage of the SSD reserved for recipes (file metadata, FMD); 0: recipes are not cached
    #[arg(long, value_name = "PCT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=80))]
    pub(crate) ssd_fmd: u8,
    /// Percentage of the SSD reserved for chunks that are read at random; 0: chunks are not cached
    #[arg(long, value_name = "PCT", default_value_t = 40, value_parser = clap::value_parser!(u8).range(0..=80))]
    pub(crate) ssd_data: u8,
    /// What to cache of the fingerprint index (FPI): off, pages that look-ups read, or short fingerprints of all chunks
    #[arg(long, value_name = "off|pages|short", default_value_t = Fpi::default())]
    pub(crate) ssd_fpi: Fpi,
    /// Compress chunks on the SSD (LZ4): more of them fit, and hits take more processor time
    #[arg(long)]
    pub(crate) ssd_lz4: bool,
    /// Overwrite the SSD even if it holds data
    #[arg(long)]
    pub(crate) ssd_force: bool,
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store's folder or block device
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
    /// Control socket of the server that serves objects of the store [default: that of the only server that this user
    /// runs]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// Which store, and how to print.
#[derive(Debug, Args)]
pub(crate) struct ShownStoreArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quota(pub(crate) Option<u64>);

impl FromStr for Quota {
    type Err = <Size as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            size => size.parse().map(|size: Size| Self(Some(size.0))),
        }
    }
}

/// How regions are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CosCompression {
    /// No compression
    None,
    /// LZ4: takes a third more space than Zstandard, and is read a fifth faster
    Lz4,
    /// Zstandard, level 1: takes less space
    Zstd,
}

/// `nitro cos init`
#[derive(Debug, Args)]
pub(crate) struct CosInitArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Size of the store at first [default: 1G, or --max-size if that is less; on a device: that of the device]
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// Size up to which the store grows by itself [default: half of the free space in the folder; with --size, or on a device: it does not]
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_size: Option<Size>,
    /// Chunk size of new volumes: a power of two from 4K to 128K, preferably the extent size of the cache in front
    #[arg(long, value_name = "BYTES", default_value = "8K")]
    pub(crate) chunk_size: Size,
    /// Bytes that are compressed together: larger regions compress better, smaller ones make random reads faster
    #[arg(long, value_name = "BYTES", default_value = "64K")]
    pub(crate) region_size: Size,
    /// Compression of content
    #[arg(long, value_enum, default_value_t = CosCompression::Zstd)]
    pub(crate) compression: CosCompression,
    /// Overwrite a block device or an existing store, even if it holds data
    #[arg(long)]
    pub(crate) force: bool,
    /// A file or block device on an SSD, which caches data that are read at random
    #[arg(long, value_name = "PATH")]
    pub(crate) ssd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) ssd_options: CosSsdArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The kind of an imported object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CosKind {
    /// Chunks of one size, which can be overwritten and served
    Volume,
    /// Content-defined chunks, for backups
    Stream,
}

/// `nitro cos import`
#[derive(Debug, Args)]
pub(crate) struct CosImportArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The new object's name
    pub(crate) name: String,
    /// A file or block device; `-`: standard input
    #[arg(value_name = "FILE", required_unless_present = "from_command", conflicts_with = "command")]
    pub(crate) source: Option<PathBuf>,
    /// Store what a command writes to its standard output; the command stands behind `--`
    #[arg(long, conflicts_with = "source", requires = "command")]
    pub(crate) from_command: bool,
    /// The command for --from-command: a program and its arguments
    #[arg(value_name = "CMD", last = true, requires = "from_command")]
    pub(crate) command: Vec<OsString>,
    /// Kind of the new object [default: a volume for a file or device, a stream for everything else]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<CosKind>,
    /// The content is what `export --from` has written: it makes the volume from one that this store has
    #[arg(long, conflicts_with_all = ["kind", "chunk_size"])]
    pub(crate) increment: bool,
    /// Chunk size of the volume [default: the store's]
    #[arg(long, value_name = "BYTES")]
    pub(crate) chunk_size: Option<Size>,
    #[command(flatten)]
    pub(crate) tuning: CosTuningArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How a command uses the machine.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct CosTuningArgs {
    /// Threads [default: the machine's cores, 6 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(crate) threads: Option<u8>,
    /// Treat chunks as duplicates only after comparing their bytes
    #[arg(long)]
    pub(crate) compare: bool,
}

/// `nitro cos forget`
#[derive(Debug, Args)]
pub(crate) struct CosForgetArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Objects whose snapshots are considered
    #[arg(value_name = "OBJECT", required_unless_present = "all")]
    pub(crate) objects: Vec<String>,
    /// Consider the snapshots of all objects
    #[arg(long, conflicts_with = "objects")]
    pub(crate) all: bool,
    /// Consider only snapshots that `snapshot --timed` has named
    #[arg(long)]
    pub(crate) timed: bool,
    /// Snapshots to keep: the newest ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) keep_last: u32,
    /// Hours of which one snapshot is kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) keep_hourly: u32,
    /// Days of which one snapshot is kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) keep_daily: u32,
    /// Weeks of which one snapshot is kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) keep_weekly: u32,
    /// Months of which one snapshot is kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) keep_monthly: u32,
    /// Years of which one snapshot is kept
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) keep_yearly: u32,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro cos send`
#[derive(Debug, Args)]
pub(crate) struct CosSendArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// OBJECT or OBJECT@NAME
    pub(crate) name: String,
    /// Command line of the shell that starts the receiver [default: it is at standard input and output]
    #[arg(long, value_name = "CMD")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro cos receive`
#[derive(Debug, Args)]
pub(crate) struct CosReceiveArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The new object's name
    pub(crate) name: String,
    /// Treat chunks as duplicates only after comparing their bytes: all are sent
    #[arg(long)]
    pub(crate) compare: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro cos export`
#[derive(Debug, Args)]
pub(crate) struct CosExportArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// OBJECT or OBJECT@NAME
    pub(crate) name: String,
    /// A file, which must not exist, or a block device; `-`: standard output
    #[arg(value_name = "FILE")]
    pub(crate) target: PathBuf,
    /// Write only what differs from this snapshot or volume, as `import --increment` takes it
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) from: Option<String>,
    /// Overwrite a block device, or replace a file
    #[arg(long)]
    pub(crate) force: bool,
    /// Threads [default: the machine's cores, 6 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(crate) threads: Option<u8>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
