//! `nitro volume` and `nitro flush`

use super::{ControlArgs, OutputArgs};
use clap::{Args, Subcommand};
use nitro_server::config::{Emulation, Mode};
use std::path::PathBuf;

pub(super) const FLUSH_EXAMPLES: &str = "\
Examples:
  Begin, and come back at once:
    nitro flush vm
  Wait until the origin is up to date, showing how far it is:
    nitro flush vm --wait

Clients go on meanwhile; what they write after the command began is not waited for. Interrupting the command does not stop
the server from writing back.";

const ADD_EXAMPLES: &str = "\
Examples:
  nitro volume add db --origin /slow/db.img
  nitro volume add db --origin /dev/sdc --cache fast --mode write-back

The volume is served until it is removed or the server ends: for good, write it into the configuration file. What its
cache still holds of it, from an earlier time under the same name, is used if nobody has changed the origin since.";

const SET_EXAMPLES: &str = "\
Examples:
  nitro volume set vm --mode write-back
  nitro volume set vm --mode write-through
  nitro volume set vm --dirty-share-max 30

To write-through, the command ends when the origin is up to date; new writes go there from its beginning on. What is
set lasts until the server ends: for good, write it into the configuration file.";

const REMOVE_EXAMPLES: &str = "\
Example:
  nitro volume remove db

The volume's origin is brought up to date, its clients are asked to leave and cut off after 10 seconds, and its cache
forgets it. A volume that is not served, but known to a cache, is forgotten, too: if it has dirty data, only with
--force-discard-dirty.";

/// `nitro volume ...`
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Serve another volume
    #[command(after_long_help = ADD_EXAMPLES)]
    Add(Box<AddArgs>),
    /// Change how a volume is served
    #[command(after_long_help = SET_EXAMPLES)]
    Set {
        /// Its name
        volume: String,
        /// When a write is acknowledged: when the origin has it, or when the cache has
        #[arg(long, value_enum, required_unless_present_any = ["dirty_share_min", "dirty_share_max"])]
        mode: Option<Mode>,
        #[command(flatten)]
        share: ShareArgs,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Bring a volume's origin up to date with what its cache holds
    #[command(after_long_help = FLUSH_EXAMPLES)]
    Flush(FlushArgs),
    /// Stop serving a volume, and have its cache forget it
    #[command(after_long_help = REMOVE_EXAMPLES)]
    Remove {
        /// Its name
        volume: String,
        /// Lose what its cache has and its origin has not
        #[arg(long)]
        force_discard_dirty: bool,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the volumes that are served, and those that the caches know
    List {
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// A volume's part of its cache's room for dirty data.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ShareArgs {
    /// Percentage of the cache's room for dirty data that other volumes leave to this one while it is in write-back [default: an
    /// equal part of half of it]
    #[arg(long, value_name = "PCT")]
    pub(crate) dirty_share_min: Option<u8>,
    /// Percentage of the cache's room for dirty data that this volume may take [default: 100]
    #[arg(long, value_name = "PCT")]
    pub(crate) dirty_share_max: Option<u8>,
}

/// `nitro flush`
#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    /// The volume's name
    pub(crate) volume: String,
    /// Wait until the origin is up to date
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro volume add`
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the volume and its export
    pub(crate) volume: String,
    /// The slow storage: a file or block device that the server may open
    #[arg(long, value_name = "PATH")]
    pub(crate) origin: PathBuf,
    /// The cache, if the server has several
    #[arg(long, value_name = "NAME")]
    pub(crate) cache: Option<String>,
    /// When a write is acknowledged: when the origin has it, or when the cache has [default: write-through]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Shown to clients that list the exports
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) description: String,
    /// Share cached contents only with volumes of the same domain [default: with all that name none]
    #[arg(long, value_name = "NAME")]
    pub(crate) dedup_domain: Option<String>,
    /// Make the origin as slow as a hard disk of 7200 or 15000 rpm, or as several in RAID-0
    #[arg(long, value_name = "RPM[:SPINDLES]")]
    pub(crate) emulate_disk: Option<Emulation>,
    #[command(flatten)]
    pub(crate) share: ShareArgs,
    /// Lose dirty data of it that stand in the way
    #[arg(long)]
    pub(crate) force_discard_dirty: bool,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
