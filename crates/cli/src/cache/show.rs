//! `nitro cache show`

use super::reactor;
use crate::args::OutputArgs;
use crate::status;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_server::control::protocol::Cache;
use nitro_server::control::report;
use nitro_server::serve::{self, CacheEntry};
use std::path::PathBuf;

/// Prints a cache that no server uses.
pub(super) fn stopped(paths: &[PathBuf], output: OutputArgs) -> Result<(), Error> {
    let entry = reactor()?.block_on(serve::look_at(paths))?;
    print(&[of(&entry)], output)
}

pub(super) fn of(entry: &CacheEntry) -> Cache {
    Cache { health: "stopped".to_owned(), loading: false, ..report::cache_status(entry, |_| false) }
}

pub(super) fn print(caches: &[Cache], output: OutputArgs) -> Result<(), Error> {
    let text = match output.format {
        Format::Json => output::json_pretty(&caches)?,
        Format::Table => caches.iter().map(status::cache_in_short).collect::<Vec<_>>().join("\n"),
        Format::Csv => {
            let mut table = Table::new(["cache", "path", "uuid", "health", "capacity", "dirty", "lost", "volumes"]);
            for cache in caches {
                let numbers = [cache.capacity_bytes, cache.dirty_bytes, cache.recovered.lost_bytes];
                let mut row: Vec<String> =
                    [&cache.name, &cache.path, &cache.uuid, &cache.health].map(Clone::clone).into();
                row.extend(numbers.map(|n| n.to_string()));
                row.push(cache.volumes.iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(" "));
                table.row(row);
            }
            table.csv(true)
        }
    };
    output::print(&text).map(|_| ())
}
