//! `nitro cache upgrade`

use super::reactor;
use crate::args::OutputArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_server::serve;
use std::path::Path;

/// Upgrades a cache that no server uses, and prints what was done.
pub(super) fn run(path: &Path, output: OutputArgs) -> Result<(), Error> {
    let done = reactor()?.block_on(serve::upgrade(path))?;
    let text = match output.format {
        Format::Table => {
            let [first, .., last] = done.versions_written;
            format!(
                "cache {}: has format version {}, which is current (this nitro writes versions {first} to {last}): \
                 nothing to upgrade\n",
                done.path, done.version,
            )
        }
        Format::Json => output::json_pretty(&done)?,
        Format::Csv => {
            let [before, now] = [done.version_before, done.version].map(|version| version.to_string());
            let row = vec![done.path, done.uuid, before, now, done.upgraded.to_string()];
            Table::of_one(["path", "uuid", "version_before", "version", "upgraded"], row).csv(true)
        }
    };
    output::print(&text).map(|_| ())
}
