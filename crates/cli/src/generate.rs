//! Manual pages and shell completions, generated from the description of the command line.

use crate::args::command;
use crate::configure;
use clap_complete::Shell;
use nitro_console::error::Error;
use nitro_console::output;
use std::fs;
use std::path::Path;

/// Writes `nitro.1`, a page for each command, `nitro.toml.5` and `CONFIGURATION.md` into `folder`.
pub(crate) fn man(folder: &Path) -> Result<(), Error> {
    let fail = |e| Error::new(folder.display(), e).or("name a directory that can be written to");
    fs::create_dir_all(folder).map_err(fail)?;
    clap_mangen::generate_to(command().disable_help_subcommand(true), folder).map_err(fail)?;
    fs::write(folder.join("nitro.toml.5"), configure::manual()).map_err(fail)?;
    fs::write(folder.join("CONFIGURATION.md"), configure::markdown()).map_err(fail)
}

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "nitro", &mut text);
    output::print(&String::from_utf8_lossy(&text)).map(|_| ())
}
