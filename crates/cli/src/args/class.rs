//! `nitro class`

use super::{ControlArgs, OutputArgs};
use clap::Subcommand;
use nitro_server::classes::Change;
use std::path::PathBuf;

const LIST_EXAMPLES: &str = "\
Examples:
  nitro class list
  nitro class list -o json | jq '.[] | select(.name == \"metadata\").cached_bytes'

Shown are the classes that deserve anything but the usual, and those of which something is cached. Percentages are of the cache's size,
counted before compression.";

const SET_EXAMPLES: &str = "\
Examples:
  What file systems keep of themselves is evicted last:
    nitro class set metadata --priority highest
  Backups, which clients mark by opening NAME?class=20, stay out:
    nitro class set 20 --allocation never
  Directories keep at least a tenth of the cache:
    nitro class set directory --min 10

Units that are full stay in the order that they were filled for. Where the configuration's classes = names a file, the change is kept
in it.";

const LOAD_EXAMPLES: &str = "\
Examples:
  nitro class load /etc/nitro/classes.toml
  nitro class load ioclass-config.csv

Open-CAS's CSV is read as it is. In TOML:
  preset = \"file-server\"      # or database, hypervisor, none
  [class.redo-log]
  id = 20
  allocation = \"never\"
  [[rule]]                     # the first that applies counts
  class = \"redo-log\"
  offset_from = \"1G\"
  offset_to = \"2G\"
Rules may say offset_from, offset_to, request_size_min, request_size_max, direction, metadata, file_size_min and file_size_max.";

/// `nitro class ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ClassCommand {
    /// List the classes of a running server's caches
    #[command(after_long_help = LIST_EXAMPLES)]
    List {
        /// The cache; all if not given
        #[arg(long, value_name = "NAME")]
        cache: Option<String>,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change what a class deserves
    #[command(after_long_help = SET_EXAMPLES)]
    Set {
        /// Its name or number
        #[arg(value_name = "CLASS")]
        class: String,
        #[command(flatten)]
        change: Change,
        /// The cache; may be left out where there is only one
        #[arg(long, value_name = "NAME")]
        cache: Option<String>,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Put another table of classes into force
    #[command(after_long_help = LOAD_EXAMPLES)]
    Load {
        /// A table in TOML, or Open-CAS's CSV
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The cache; may be left out where there is only one
        #[arg(long, value_name = "NAME")]
        cache: Option<String>,
        #[command(flatten)]
        control: ControlArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
}
