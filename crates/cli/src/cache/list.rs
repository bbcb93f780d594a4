//! `nitro cache list`

use crate::args::ServerArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Table};
use serde::Serialize;

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    health: &'a str,
    capacity_bytes: u64,
    /// What the cached extents would take without deduplication and compression.
    cached_bytes: u64,
    dirty_bytes: u64,
    /// Served volumes that it caches.
    volumes: Vec<&'a str>,
    path: &'a str,
}

/// Lists the caches of a running server.
pub(super) fn run(server: &ServerArgs) -> Result<(), Error> {
    let (status, format) = (server.connect()?.status()?, server.output.format);
    let all: Vec<_> = status
        .caches
        .iter()
        .map(|cache| Listed {
            name: &cache.name,
            health: &cache.health,
            capacity_bytes: cache.capacity_bytes,
            cached_bytes: cache.cached_bytes,
            dirty_bytes: cache.dirty_bytes,
            volumes: status.volumes.iter().filter(|v| v.cache == cache.name).map(|v| v.name.as_str()).collect(),
            path: &cache.path,
        })
        .collect();
    let mut table = Table::new(["cache", "health", "capacity", "cached", "dirty", "volumes", "path"]);
    for cache in &all {
        table.row(vec![
            cache.name.to_owned(),
            cache.health.to_owned(),
            format.size(cache.capacity_bytes),
            format.size(cache.cached_bytes),
            format.size(cache.dirty_bytes),
            cache.volumes.join(" "),
            cache.path.to_owned(),
        ]);
    }
    output::print_list(format, &all, &table)
}
