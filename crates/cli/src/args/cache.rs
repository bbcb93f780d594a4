//! `nitro cache`

use super::serve::Switch;
use super::{ControlArgs, OutputArgs};
use clap::{Args, Subcommand};
use nitro_console::size::Size;
use nitro_server::config::{CacheConfig, CacheStore, FingerprintName};
use std::path::PathBuf;

const CREATE_EXAMPLES: &str = "\
Examples:
  nitro cache create /fast/cache.img --size 64G
  nitro cache create /dev/nvme0n1p3

nitro serve makes its cache itself where there is none; this is for making it beforehand.";

const SHOW_EXAMPLES: &str = "\
Examples:
  The caches of the running server:
    nitro cache show
  A cache that no server uses:
    nitro cache show /fast/cache.img -o json";

const DETACH_EXAMPLES: &str = "\
Example:
  nitro cache detach cache vm

Dirty data are written back first, then everything cached of the volume is forgotten. Clients stay connected. The cache of a
server without a configuration file is called \"cache\".";

const RESIZE_EXAMPLES: &str = "\
Examples:
  nitro cache resize cache --size 128G
  nitro cache resize fast --size 32G

A cache can grow to about twice the size that it was made with. One in a file takes its file along. On a block device, the size is how much of the device it uses. What does not fit
a smaller cache is evicted; dirty data are written back before. Where the configuration tells a size, change it there, too.";

const FSCK_EXAMPLES: &str = "\
Example:
  nitro cache fsck /fast/cache.img

Reads the whole device and checks every structure, every checksum and every fingerprint. Nothing is changed: damaged
content that is clean is read from its origin when it is met, and damaged dirty content is told of and left alone. Exit
code 1 if a structure or dirty content is damaged; damaged clean content is listed, and costs a miss.";

const SALVAGE_EXAMPLES: &str = "\
Examples:
  What of which volumes is in the cache alone:
    nitro cache salvage /fast/cache.img --list
  Write it over a copy of the origin:
    cp --reflink=auto /slow/vm.img /slow/rescued.img
    nitro cache salvage /fast/cache.img --volume vm --to /slow/rescued.img
  The same with what only its write log has:
    nitro cache salvage /fast/cache.img --write-log /dev/pmem0 --volume vm --to /slow/rescued.img

For a cache that a server cannot open any more; the cache is not changed. FILE is made, sparse, if it does not exist; of one
that does, only the ranges that are dirty in the cache are overwritten. Where the journal is damaged, --possible takes what
may be dirty, too, and may be old: compare before you trust it.";

/// `nitro cache ...`
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Make a cache
    #[command(after_long_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Show the caches of the running server, or one that no server uses
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show {
        /// A cache that no server uses
        path: Option<PathBuf>,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Have a volume's origin serve alone, once it is up to date
    #[command(after_long_help = DETACH_EXAMPLES)]
    Detach {
        /// The cache's name
        cache: String,
        /// The volume's name
        volume: String,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Have a detached volume go through its cache again
    Attach {
        /// The cache's name
        cache: String,
        /// The volume's name
        volume: String,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change the size of a cache while it is served
    #[command(after_long_help = RESIZE_EXAMPLES)]
    Resize {
        /// The cache's name
        cache: String,
        /// Its size in all; its file grows and shrinks with it
        #[arg(long)]
        size: Size,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Check every structure and checksum of a cache that no server uses, changing nothing
    #[command(after_long_help = FSCK_EXAMPLES)]
    Fsck {
        /// Its file or device
        path: PathBuf,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Get dirty data out of a cache that cannot be served any more
    #[command(after_long_help = SALVAGE_EXAMPLES)]
    Salvage(SalvageArgs),
}

/// `nitro cache create`
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// A file (created if it does not exist) or block device
    pub(crate) path: PathBuf,
    /// Its size; needed to create a file, else that of the file or device
    #[arg(long)]
    size: Option<Size>,
    /// A write log for it: a fast file (created if it does not exist) or block device
    #[arg(long, value_name = "PATH")]
    write_log: Option<PathBuf>,
    /// How much of it to use; needed to create a file [default: all]
    #[arg(long, value_name = "SIZE", requires = "write_log")]
    write_log_size: Option<Size>,
    /// Unit of caching, 4K to 128K [default: 8K]
    #[arg(long, value_name = "SIZE")]
    extent_size: Option<Size>,
    /// Unit of writing to the SSD and of eviction, 512K to 8M [default: 2M]
    #[arg(long, value_name = "SIZE")]
    weu_size: Option<Size>,
    /// Store equal extents once [default: on]
    #[arg(long, value_enum)]
    dedup: Option<Switch>,
    /// Which hash names contents; sha1 is not safe, and is refused [default: blake3]
    #[arg(long, value_enum)]
    fingerprint: Option<FingerprintName>,
    /// Start it anew even if it holds a cache or something else, which is lost
    #[arg(long = "format", id = "start_anew")]
    format: bool,
    /// Even if it holds dirty data
    #[arg(long, requires = "start_anew")]
    pub(crate) force_discard_dirty: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl CreateArgs {
    pub(crate) fn config(&self) -> CacheConfig {
        CacheConfig {
            size: self.size,
            write_log: self.write_log.clone(),
            write_log_size: self.write_log_size,
            extent_size: self.extent_size,
            weu_size: self.weu_size,
            dedup: self.dedup.map(Switch::is_on),
            fingerprint: self.fingerprint,
            format: self.format,
            ..CacheConfig::new(CacheStore::Path(self.path.clone()))
        }
    }
}

/// `nitro cache salvage`
#[derive(Debug, Args)]
pub(crate) struct SalvageArgs {
    /// The cache's file or device
    pub(crate) path: PathBuf,
    /// Only tell what is dirty
    #[arg(long, conflicts_with_all = ["volume", "to"], required_unless_present = "volume")]
    pub(crate) list: bool,
    /// Whose data: a name, or the number that --list shows
    #[arg(long, value_name = "NAME", requires = "to")]
    pub(crate) volume: Option<String>,
    /// Where they go
    #[arg(long, value_name = "FILE", requires = "volume")]
    pub(crate) to: Option<PathBuf>,
    /// The cache's write log: what it holds is newer than what the cache has
    #[arg(long, value_name = "PATH")]
    pub(crate) write_log: Option<PathBuf>,
    /// Also what may be dirty, and may be old, where the journal is damaged
    #[arg(long)]
    pub(crate) possible: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
