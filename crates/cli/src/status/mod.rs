//! `nitro status`

mod table;

pub(crate) use table::block;

use crate::args::ServerArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::screen;
use nitro_server::control::protocol::{Cache, Status};
use serde_json::Value;

/// Prints the state and the counters of the running server.
pub(crate) fn run(server: &ServerArgs) -> Result<(), Error> {
    let status = server.connect()?.status()?;
    let text = match server.output.format {
        Format::Table => screen::fitted(&table::render(&status), table::INDENT),
        Format::Json => output::json_pretty(&status)?,
        Format::Csv => flat(&status)?.csv(true),
    };
    output::print(&text).map(|_| ())
}

/// The state of a cache, without its counters.
pub(crate) fn cache_in_short(cache: &Cache) -> String {
    table::cache_in_short(cache)
}

/// One row for each metric, so that the columns do not depend on the metrics.
fn flat(status: &Status) -> Result<Table, Error> {
    let mut table = Table::new(["kind", "name", "metric", "value"]);
    let value = |v: serde_json::Result<Value>| v.map_err(|e| Error::new("CSV", e));
    rows(&mut table, "server", "", "", &value(serde_json::to_value(&status.server))?);
    rows(&mut table, "ram", "", "", &value(serde_json::to_value(&status.ram))?);
    for cache in &status.caches {
        rows(&mut table, "cache", &cache.name, "", &value(serde_json::to_value(cache))?);
    }
    for volume in &status.volumes {
        rows(&mut table, "volume", &volume.name, "", &value(serde_json::to_value(volume))?);
    }
    Ok(table)
}

/// Adds a row for each metric of a value.
pub(crate) fn rows(table: &mut Table, kind: &str, name: &str, metric: &str, value: &Value) {
    let inner = |key: &str| if metric.is_empty() { key.to_owned() } else { format!("{metric}.{key}") };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| !(metric.is_empty() && *key == "name")) {
                rows(table, kind, name, &inner(key), value);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| rows(table, kind, name, &inner(&i.to_string()), item));
        }
        Value::String(text) => table.row(vec![kind.to_owned(), name.to_owned(), metric.to_owned(), text.clone()]),
        other => table.row(vec![kind.to_owned(), name.to_owned(), metric.to_owned(), other.to_string()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_cache::Stats;
    use nitro_server::control::protocol::Volume;

    #[test]
    fn csv_has_a_row_for_each_metric_of_each_part() {
        let status = Status {
            caches: vec![Cache {
                name: "fast".into(),
                manager: Stats { hits: 7, ..Stats::default() },
                ..Cache::default()
            }],
            volumes: vec![Volume { name: "vm".into(), ..Volume::default() }],
            ..Status::default()
        };
        let csv = flat(&status).unwrap().csv(true);
        assert!(csv.starts_with("kind,name,metric,value\n"));
        for row in ["cache,fast,hits,7", "volume,vm,read_hit_latency.p99_us,0", "server,,connections,0"] {
            assert!(csv.lines().any(|line| line == row), "{row} in {csv}");
        }
        assert!(!table::render(&status).is_empty());
    }
}
