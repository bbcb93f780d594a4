//! `nitro cos ...`

use super::OutputArgs;
use clap::{Args, Subcommand, ValueEnum};
use nitro_console::size::Size;
use std::path::PathBuf;
use std::str::FromStr;

const INIT_EXAMPLES: &str = "\
Examples:
  nitro cos init /srv/store
  nitro cos init /srv/store --size 500G --compression zstd
  nitro cos init /dev/sdb

In a folder the store is a sparse file, which grows up to --size as content comes, and shrinks as gc frees it.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  nitro cos import /srv/store vm1 vm1.img
  nitro cos import /srv/store disk /dev/vg/disk
  tar c /home | nitro cos import /srv/store home-monday -

Files and devices become volumes, which can be written to and served; standard input becomes a stream, cut where its content
says so. An import of a file or device that was broken off goes on where it was when it is started again; one from standard
input begins anew, and finds what was stored already.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  nitro cos export /srv/store vm1@monday vm1.img
  nitro cos export /srv/store home-monday - | tar x

A file is written as FILE.part, sparsely, and renamed when it is complete; an export that was broken off goes on with that file.";

const SNAPSHOT_EXAMPLES: &str = "\
Example:
  nitro cos snapshot /srv/store vm1@monday";

const QUOTA_EXAMPLES: &str = "\
Examples:
  nitro cos quota /srv/store 200G
  nitro cos quota /srv/store none

Once the quota is used up, new content is refused as if the store were full; what is there can be read, and what is deleted makes
room after gc, which may take a little more than the quota while it runs.";

/// `nitro cos ...`
///
/// While a server has a store open, list, snapshot, clone, diff, delete, gc, quota and stats are done by that server.
#[derive(Debug, Subcommand)]
pub(crate) enum CosCommand {
    /// Make a store in a folder or on a block device
    #[command(after_long_help = INIT_EXAMPLES)]
    Init(CosInitArgs),
    /// Store a file, a block device or standard input as an object
    #[command(after_long_help = IMPORT_EXAMPLES)]
    Import(CosImportArgs),
    /// Write an object or a snapshot to a file, a block device or standard output
    #[command(after_long_help = EXPORT_EXAMPLES)]
    Export(CosExportArgs),
    /// Tell which objects and snapshots there are
    List {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make a snapshot of an object, in no time
    #[command(after_long_help = SNAPSHOT_EXAMPLES)]
    Snapshot {
        #[command(flatten)]
        store: StoreArgs,
        /// OBJECT@NAME
        name: String,
    },
    /// Make a volume that begins as an object or a snapshot is, in no time
    Clone {
        #[command(flatten)]
        store: StoreArgs,
        /// OBJECT or OBJECT@NAME
        source: String,
        /// The new object's name
        name: String,
    },
    /// Tell where two volumes or snapshots differ
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
    /// Remove an object or a snapshot; gc frees what only it had
    Delete {
        #[command(flatten)]
        store: StoreArgs,
        /// OBJECT or OBJECT@NAME
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Free what nothing refers to any more
    Gc {
        #[command(flatten)]
        store: StoreArgs,
        /// Empty containers of which less than this percentage is alive
        #[arg(long, value_name = "PCT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=100))]
        alive: u8,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Limit what a store may take of its disk
    #[command(after_long_help = QUOTA_EXAMPLES)]
    Quota {
        #[command(flatten)]
        store: StoreArgs,
        /// The most that containers may take, or `none`
        #[arg(value_name = "SIZE|none")]
        quota: Quota,
    },
    /// Read everything that is stored, and verify it
    Scrub {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Tell whether everything that objects refer to is there, without reading it
    Fsck {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Tell what a store holds and what it saves
    Stats {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store's folder or block device
    #[arg(value_name = "STORE")]
    pub(crate) store: PathBuf,
    /// The control socket of the server that serves objects of the store [default: that of the only server that this user runs]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
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
    /// Not at all
    None,
    /// LZ4: a third larger, and read a fifth faster
    Lz4,
    /// Zstandard, level 1: denser
    Zstd,
}

/// `nitro cos init`
#[derive(Debug, Args)]
pub(crate) struct CosInitArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The most that the store may take [default: what is free there, or the device]
    #[arg(long)]
    pub(crate) size: Option<Size>,
    /// Bytes of a chunk of new volumes: a power of two from 4K to 128K; best the extent size of the cache in front
    #[arg(long, value_name = "BYTES", default_value = "8K")]
    pub(crate) chunk_size: Size,
    /// Bytes that are compressed together: more shrink better, fewer are read faster at random
    #[arg(long, value_name = "BYTES", default_value = "64K")]
    pub(crate) region_size: Size,
    /// How content is compressed
    #[arg(long, value_enum, default_value_t = CosCompression::Zstd)]
    pub(crate) compression: CosCompression,
    /// Make it on a block device, or in place of a store, whatever that holds
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What an import makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CosKind {
    /// Chunks of one size, that can be overwritten and served
    Volume,
    /// Chunks as the content says, for backups
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
    #[arg(value_name = "FILE")]
    pub(crate) source: PathBuf,
    /// What to make of it [default: a volume of a file or device, a stream of standard input]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<CosKind>,
    /// Bytes of a chunk of the volume [default: the store's]
    #[arg(long, value_name = "BYTES")]
    pub(crate) chunk_size: Option<Size>,
    #[command(flatten)]
    pub(crate) tuning: CosTuningArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How much of the machine a command takes.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CosTuningArgs {
    /// Threads [default: the machine's cores, 6 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(crate) threads: Option<u8>,
    /// Believe duplicates only after their bytes were compared
    #[arg(long)]
    pub(crate) compare: bool,
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
    /// Overwrite a block device, or replace a file
    #[arg(long)]
    pub(crate) force: bool,
    /// Threads [default: the machine's cores, 6 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(crate) threads: Option<u8>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
