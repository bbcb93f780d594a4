//! `nitro cache`

use super::{OutputArgs, ServerArgs};
use clap::{Args, Subcommand};
use nitro_config::{CacheConfig, CacheStore, FingerprintName, Scope, help, on_off};
use nitro_console::size::Size;
use std::path::PathBuf;

const CREATE_EXAMPLES: &str = "\
Examples:
  nitro cache create /fast/cache.img --size 64G
  nitro cache create /dev/nvme0n1p3

nitro serve creates its cache if it does not exist; this command creates a cache beforehand.";

const SHOW_EXAMPLES: &str = "\
Examples:
  The caches of the running server:
    nitro cache show
  A cache that no server uses:
    nitro cache show /fast/cache.img -o json";

const DETACH_EXAMPLES: &str = "\
Example:
  nitro cache detach cache vm

Dirty data are written back first, then all cached data of the volume are dropped. Clients stay connected. The cache of a
server without a configuration file is called \"cache\".";

const RESIZE_EXAMPLES: &str = "\
Examples:
  nitro cache resize cache --size 128G
  nitro cache resize fast --size 32G

A cache can grow to about twice the size that it was created with. A cache file is resized together with its cache; on a
block device, the size is how much of the device the cache uses. When a cache shrinks, data that do not fit are evicted, and
dirty data are written back first.
If the configuration file sets the size, change it there, too, or give --persist.";

const FSCK_EXAMPLES: &str = "\
Example:
  nitro cache fsck /fast/cache.img

Reads the whole device and checks every structure, every checksum and every fingerprint, without changing anything. Damage
is reported; the exit code is 1 if a structure or dirty content is damaged. Damaged clean content is listed, but is not a
failure: it costs a miss, since a server reads it from the origin again.";

const SALVAGE_EXAMPLES: &str = "\
Examples:
  List the dirty data of all volumes:
    nitro cache salvage /fast/cache.img --list
  Write the dirty data of a volume over a copy of its origin:
    cp --reflink=auto /slow/vm.img /slow/rescued.img
    nitro cache salvage /fast/cache.img --volume vm --to /slow/rescued.img
  The same, including data that are only in the write log:
    nitro cache salvage /fast/cache.img --write-log /dev/pmem0 --volume vm --to /slow/rescued.img

This is for a cache that a server cannot open any more; the cache is not changed. FILE is created as a sparse file if it does
not exist; in an existing file, only the ranges that are dirty in the cache are overwritten. If the journal is damaged,
--possible also extracts data that may be dirty and may be outdated: compare them before you use them.";

const UPGRADE_EXAMPLES: &str = "\
Examples:
  nitro cache upgrade /fast/cache.img
  nitro cache upgrade /dev/nvme0n1p3 -o json

This is for a cache that no server uses. This nitro opens caches of versions 1 to 4. Each start makes a cache version 4; an
earlier nitro refuses it from then on. A cache that a later nitro made is refused: only the nitro that made it, or a later one,
can use it.";

/// `nitro cache ...`
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Create a cache
    #[command(after_long_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List the caches of the running server
    List(ServerArgs),
    /// Show the caches of the running server, or one that no server uses
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show {
        /// A cache that no server uses: all its devices
        path: Vec<PathBuf>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Write a volume's dirty data back, then serve the volume from its origin without the cache
    #[command(after_long_help = DETACH_EXAMPLES)]
    Detach {
        /// The cache's name
        cache: String,
        /// The volume's name
        volume: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Serve a detached volume through its cache again
    Attach {
        /// The cache's name
        cache: String,
        /// The volume's name
        volume: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Change the size of a cache while it is served
    #[command(after_long_help = RESIZE_EXAMPLES)]
    Resize {
        /// The cache's name
        cache: String,
        /// New total size of the cache; a cache file is resized with it
        #[arg(long)]
        size: Size,
        /// Also write the size to the server's configuration file
        #[arg(long)]
        persist: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Check every structure and checksum of a cache that no server uses, without changing it
    #[command(after_long_help = FSCK_EXAMPLES)]
    Fsck {
        /// The cache's file or device; several: all its devices
        #[arg(required = true)]
        path: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Extract dirty data from a cache that cannot be served any more
    #[command(after_long_help = SALVAGE_EXAMPLES)]
    Salvage(SalvageArgs),
    /// Upgrade a cache that no server uses to the current format version, or report that its version is current
    #[command(after_long_help = UPGRADE_EXAMPLES)]
    Upgrade {
        /// The cache's file or device
        path: PathBuf,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// `nitro cache create`
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// A file (created if it does not exist) or block device; several: a cache over these devices
    #[arg(required = true)]
    pub(crate) path: Vec<PathBuf>,
    /// Size of the cache; required to create a file, otherwise the size of the file or device
    #[arg(long)]
    size: Option<Size>,
    /// Write log of the cache: a fast file (created if it does not exist) or block device
    #[arg(long, value_name = "PATH")]
    write_log: Option<PathBuf>,
    #[arg(long, value_name = "SIZE", requires = "write_log", help = help(Scope::Cache, "write_log_size"))]
    write_log_size: Option<Size>,
    #[arg(long, value_name = "SIZE", help = help(Scope::Cache, "extent_size"))]
    extent_size: Option<Size>,
    #[arg(long, value_name = "SIZE", help = help(Scope::Cache, "weu_size"))]
    weu_size: Option<Size>,
    #[arg(long, value_parser = on_off(), help = help(Scope::Cache, "dedup"))]
    dedup: Option<bool>,
    #[arg(long, value_enum, help = help(Scope::Cache, "fingerprint"))]
    fingerprint: Option<FingerprintName>,
    /// Format the file or device even if it holds a cache or other data, which are lost
    #[arg(long = "format", id = "start_anew")]
    format: bool,
    /// Format it even if it holds dirty data
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
            dedup: self.dedup,
            fingerprint: self.fingerprint,
            format: self.format,
            ..CacheConfig::new(CacheStore::Paths(self.path.clone()))
        }
    }
}

/// `nitro cache salvage`
#[derive(Debug, Args)]
pub(crate) struct SalvageArgs {
    /// The cache's file or device; several: all its devices
    #[arg(required = true)]
    pub(crate) path: Vec<PathBuf>,
    /// Only list the dirty ranges, as without --volume
    #[arg(long, conflicts_with_all = ["volume", "to"])]
    pub(crate) list: bool,
    /// The volume whose dirty data are extracted: its name, or the number that --list shows
    #[arg(long, value_name = "NAME", requires = "to")]
    pub(crate) volume: Option<String>,
    /// File that the dirty data are written to
    #[arg(long, value_name = "FILE", requires = "volume")]
    pub(crate) to: Option<PathBuf>,
    /// The cache's write log, whose data are newer than those in the cache
    #[arg(long, value_name = "PATH")]
    pub(crate) write_log: Option<PathBuf>,
    /// If the journal is damaged, also extract data that may be dirty and may be outdated
    #[arg(long)]
    pub(crate) possible: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
