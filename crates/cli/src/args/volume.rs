//! `nitro volume` and `nitro flush`

use super::ServerArgs;
use clap::{Args, Subcommand};
use nitro_cache::admission::WritePolicy;
use nitro_config::{Mode, VolumeConfig, on_off};
use nitro_console::size::Size;
use std::path::PathBuf;

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  Why was the read at 3 GiB slow?
    nitro explain vm 3G

The cache keeps the reasons why extents were removed or not inserted, in a table with three entries for every eight extents that fit in it
without compression; newer entries replace older ones. The command changes nothing, and does not count as
a use of the extent. nitro status shows the causes of all misses.";

pub(super) const FLUSH_EXAMPLES: &str = "\
Examples:
  Start, and return at once:
    nitro flush vm
  Wait until the origin is up to date, and show the progress:
    nitro flush vm --wait
  All volumes, for example before maintenance of the machine:
    nitro flush --all --wait

Clients can read and write meanwhile; the command does not wait for writes that arrive after its start. Interrupting the
command does not stop the server from writing back. If one of several volumes fails, the others are written back all the same, and the exit
code is 1.";

const ADD_EXAMPLES: &str = "\
Examples:
  nitro volume add db --origin /slow/db.img
  nitro volume add db --origin /dev/sdc --cache fast --mode write-back

The volume is served until it is removed or the server ends; to keep it, add it to the configuration file. Data that its
cache still holds from earlier use under the same name are used if the origin has not been changed since.";

const SET_EXAMPLES: &str = "\
Examples:
  nitro volume set vm --mode write-back
  nitro volume set vm --mode write-through
  nitro volume set vm --dirty-share-max 30
  A backup reads the whole volume:
    nitro volume set vm --pause-fill on; backup; nitro volume set vm --pause-fill off

A change to write-through applies to new writes at once, and the command ends when the origin is up to date. Settings last
until the server ends; to keep them, add them to the configuration file.";

const REMOVE_EXAMPLES: &str = "\
Example:
  nitro volume remove db

The volume's dirty data are written back to its origin, its clients are asked to disconnect and are disconnected after 10
seconds, and its cached data are dropped. A volume that is not served but known to a cache is removed from the cache; if it
has dirty data, --force-discard-dirty is required.";

const RESIZE_EXAMPLES: &str = "\
Example:
  truncate -s 20G /slow/vm.img, or lvextend -L 20G /dev/slow/vm
  nitro volume resize vm

NBD clients see the new size when they connect again; virtual machines and iSCSI initiators are informed of it. Cached data are kept, unless the old size is not a multiple of the extent size: then \
the volume's dirty data are written back and its cached data are dropped. An origin that has become smaller is refused.";

/// `nitro volume ...`
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Serve another volume
    #[command(after_long_help = ADD_EXAMPLES)]
    Add(Box<AddArgs>),
    /// Change how a volume is served
    #[command(after_long_help = SET_EXAMPLES)]
    Set {
        /// The volume's name
        volume: String,
        /// When a write is acknowledged: when it is in the origin (write-through) or in the cache (write-back)
        #[arg(long, value_enum, required_unless_present_any = ["dirty_share_min", "dirty_share_max", "write_policy", "pause_fill"])]
        mode: Option<Mode>,
        /// Write-through: which written content is cached: allocate (all), update (only extents that are cached
        /// already), invalidate (none)
        #[arg(long, value_name = "POLICY")]
        write_policy: Option<WritePolicy>,
        /// Do not cache data of read misses, for example during a backup; hits and writes are not affected [default:
        /// off]
        #[arg(long, value_parser = on_off(), value_name = "on|off")]
        pause_fill: Option<bool>,
        #[command(flatten)]
        share: ShareArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Write the dirty data of a volume, or of all volumes, back to the origins
    #[command(after_long_help = FLUSH_EXAMPLES)]
    Flush(FlushArgs),
    /// Stop serving a volume, and remove it from its cache
    #[command(after_long_help = REMOVE_EXAMPLES)]
    Remove {
        /// The volume's name
        volume: String,
        /// Discard the volume's dirty data
        #[arg(long)]
        force_discard_dirty: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Make a volume as large as its origin, which has grown
    #[command(after_long_help = RESIZE_EXAMPLES)]
    Resize {
        /// The volume's name
        volume: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the served volumes and all volumes known to the caches
    List(ServerArgs),
}

/// A volume's share of its cache's room for dirty data.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ShareArgs {
    /// Percentage of the cache's room for dirty data that is reserved for this volume while it is in write-back
    /// [default: half of the room, divided equally among the volumes]
    #[arg(long, value_name = "PCT")]
    pub(crate) dirty_share_min: Option<u8>,
    /// Percentage of the cache's room for dirty data that this volume may use [default: 100]
    #[arg(long, value_name = "PCT")]
    pub(crate) dirty_share_max: Option<u8>,
}

/// `nitro explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// Offset of a byte in the volume, such as 8192 or 1.5G
    pub(crate) offset: Size,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `nitro flush`
#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    /// The volume's name
    #[arg(required_unless_present = "all")]
    pub(crate) volume: Option<String>,
    /// All served volumes, one after the other
    #[arg(long, conflicts_with = "volume")]
    pub(crate) all: bool,
    /// Wait until the origin is up to date
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `nitro volume add`
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the volume and its export
    pub(crate) volume: String,
    /// The slow storage: a file or block device that the server may open, cos:STORE#OBJECT, an NBD server's
    /// nbd://HOST/EXPORT, or a Ceph cluster's rbd:POOL/IMAGE; use file:PATH if a path contains a colon
    #[arg(long, value_name = "PATH")]
    pub(crate) origin: PathBuf,
    /// Name of the cache; required if the server has several
    #[arg(long, value_name = "NAME")]
    pub(crate) cache: Option<String>,
    /// When a write is acknowledged: when it is in the origin (write-through) or in the cache (write-back) [default:
    /// write-through]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Description shown to clients that list the exports
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) description: String,
    #[command(flatten)]
    pub(crate) config: VolumeConfig,
    /// Discard dirty data of the volume that prevent adding it
    #[arg(long)]
    pub(crate) force_discard_dirty: bool,
    /// Accept the origin although the cache does not recognise it (it was moved to another disk, or restored): the cache's dirty data
    /// are written to it, and clean data are dropped
    #[arg(long)]
    pub(crate) accept_origin: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
