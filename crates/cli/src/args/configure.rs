//! `nitro check`, `nitro reload` and `nitro set`

use super::{OutputArgs, ServerArgs};
use clap::Args;
use std::path::PathBuf;

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  nitro check /etc/nitro/nitro.toml
  nitro check /etc/nitro/nitro.toml -o json

The command checks what nitro serve checks at its start, by the same code, up to opening for writing: keys, values and their combinations, \
addresses, certificates and accounts, caches and origins with their marks and dirty data. It changes nothing, and lists all errors that it finds. \
Notes say what a start would create or change. What a running server uses is noted and not examined. Stores are opened to look their objects up, \
as nitro cos list does. The exit code is 1 if a start would be refused.";

pub(super) const RELOAD_EXAMPLES: &str = "\
Example:
  nitro reload

The server applies the changes of the file since it last read it: new volumes are served, missing volumes are removed (their dirty data are \
written back first), and settings that can change at once are changed; see nitro set --list. The command lists the other changes, which take \
effect when the server is started again. If the file cannot be used, nothing changes. SIGHUP does the same; the log then has the result.";

pub(super) const SET_EXAMPLES: &str = "\
Examples:
  Until the server ends:
    nitro set cache.fast.dirty_max 40
  Also in the configuration file, whose comments are kept:
    nitro set volume.vm.mode write-back --persist
  Only in a file, without a server:
    nitro set cache.fast.ram 1G --file /etc/nitro/nitro.toml
  All keys, their meaning, and which can change at once:
    nitro set --list

The cache of a server without a configuration file is called \"cache\".";

/// `nitro check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The configuration file, in TOML
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// `nitro set`
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// server.KEY, cache.NAME.KEY or volume.NAME.KEY
    #[arg(required_unless_present = "list")]
    pub(crate) key: Option<String>,
    /// The value: a number, a size such as 4G, a time such as 30s, true, false, or a text
    #[arg(required_unless_present = "list")]
    pub(crate) value: Option<String>,
    /// Also change the server's configuration file
    #[arg(long, conflicts_with = "list")]
    pub(crate) persist: bool,
    /// Only change this file, without a running server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "persist", "control"])]
    pub(crate) file: Option<PathBuf>,
    /// List all keys
    #[arg(long, conflicts_with_all = ["key", "value"])]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
