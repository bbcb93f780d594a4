//! `nitro class`

use super::ServerArgs;
use clap::Subcommand;
use nitro_config::classes::Change;
use std::path::PathBuf;

const LIST_EXAMPLES: &str = "\
Examples:
  nitro class list
  nitro class list -o json | jq '.[] | select(.name == \"metadata\").cached_bytes'

The list has the classes with a name of their own or settings other than the defaults, and those with cached data. Percentages refer to the cache's size and are
counted before compression.";

const SET_EXAMPLES: &str = "\
Examples:
  Evict metadata of file systems last:
    nitro class set metadata --priority highest
  Do not cache backups, which clients mark by opening NAME?class=20:
    nitro class set 20 --allocation never
  Reserve at least a tenth of the cache for directories:
    nitro class set directory --min 10

Units that are already full keep the priority that they were filled for. If classes = in the configuration names a file, the change is
written to that file.";

const LOAD_EXAMPLES: &str = "\
Examples:
  nitro class load /etc/nitro/classes.toml
  nitro class load ioclass-config.csv

Open-CAS's CSV is read unchanged. In TOML:
  preset = \"file-server\"      # or database, hypervisor, none
  [class.redo-log]
  id = 20
  allocation = \"never\"
  [[rule]]                     # the first that applies counts
  class = \"redo-log\"
  offset_from = \"1G\"
  offset_to = \"2G\"
Rules may have the conditions offset_from, offset_to, request_size_min, request_size_max, direction, metadata, file_size_min and
file_size_max.";

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
        server: ServerArgs,
    },
    /// Change how the cache treats a class
    #[command(after_long_help = SET_EXAMPLES)]
    Set {
        /// Name or number of the class
        #[arg(value_name = "CLASS")]
        class: String,
        #[command(flatten)]
        change: Change,
        /// The cache; required if the server has several
        #[arg(long, value_name = "NAME")]
        cache: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Load another table of classes and apply it
    #[command(after_long_help = LOAD_EXAMPLES)]
    Load {
        /// A table in TOML, or Open-CAS's CSV
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The cache; required if the server has several
        #[arg(long, value_name = "NAME")]
        cache: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
}
