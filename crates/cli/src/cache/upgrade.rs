//! `nitro cache upgrade`

use super::reactor;
use crate::args::OutputArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_server::serve;
use std::path::Path;

/// Prints the format version of a cache that no server uses.
pub(super) fn run(path: &Path, output: OutputArgs) -> Result<(), Error> {
    let done = reactor()?.block_on(serve::upgrade(path))?;
    let text = match output.format {
        Format::Table => {
            let state = match done.versions_written {
                [written] if written == done.version => "which is current: nothing to upgrade".to_owned(),
                [written] => format!("and its next start makes it version {written}: nothing to upgrade before"),
            };
            format!("cache {}: has format version {}, {state}\n", done.path, done.version)
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
