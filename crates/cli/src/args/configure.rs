//! `nitro check`, `nitro reload`, `nitro config`, `nitro get` and `nitro set`

use super::{OutputArgs, ServerArgs};
use clap::Args;
use std::path::{Path, PathBuf};

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
effect when the server is started again; volumes that nitro volume remove removed and the file still lists are among them. If the file cannot be used, nothing changes. SIGHUP does the same; the log then has the result.";

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

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  All settings in force, with the source of each value: default, file, command line, set at run time:
    nitro config
  What a start with the configuration file as it is now would change:
    nitro config --diff
  For a script:
    nitro config -o json | jq '.settings[] | select(.source == \"run-time\")'

Secrets are left out. Values that are set at run time, by nitro set, nitro volume or nitro cache, last until the server ends.";

pub(super) const GET_EXAMPLES: &str = "\
Examples:
  nitro get cache.fast.dirty_max
  nitro get volume.vm.mode -o json

nitro set --list describes all keys, and nitro config shows all values. Secrets are left out.";

/// `nitro config`
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Show only differences from the configuration file as it is now
    #[arg(long)]
    pub(crate) diff: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `nitro get`
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// server.KEY, cache.NAME.KEY or volume.NAME.KEY
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `nitro check`
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The configuration file, in TOML
    #[arg(required_unless_present = "config", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// The same, as nitro serve takes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not check that addresses are free: systemd opens them, and passes them to the server (nitro.socket)
    #[arg(long)]
    pub(crate) sockets_passed: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl CheckArgs {
    /// The configuration file; one of both ways to name it is required.
    pub(crate) fn file(&self) -> &Path {
        self.file.as_deref().or(self.config.as_deref()).unwrap_or(Path::new(""))
    }
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
