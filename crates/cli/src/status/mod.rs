//! `nitro status`

mod table;

pub(crate) use table::block;

use crate::args::{ServerArgs, StatusArgs};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Listening, Table};
use nitro_console::screen;
use nitro_server::control::health::Health;
use nitro_server::control::protocol::{Cache, Status};
use serde_json::Value;
use std::time::Duration;

/// Prints the state and the counters of the running server, once or again and again.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Error> {
    let (mut client, format) = (args.server.connect()?, args.server.output.format);
    let Some(seconds) = args.watch else {
        return output::print(&text(&client.status()?, format, true, args.verbose)?).map(drop);
    };
    let interval = Duration::from_secs_f64(seconds);
    for round in 0_u64.. {
        let status = client.status()?;
        let listening = match format {
            Format::Table => output::redraw(&text(&status, format, true, args.verbose)?)?,
            Format::Csv => output::print(&text(&status, format, round == 0, args.verbose)?)?,
            Format::Json => output::print(&output::json_line(&status)?)?,
        };
        if listening == Listening::No || output::pause(interval)? == Listening::No {
            break;
        }
    }
    Ok(())
}

fn text(status: &Status, format: Format, with_head: bool, verbose: bool) -> Result<String, Error> {
    Ok(match format {
        Format::Table => screen::fitted(&table::render(status, verbose), table::INDENT),
        Format::Json => output::json_pretty(status)?,
        Format::Csv => flat(status)?.csv(with_head),
    })
}

/// Prints the health of the server on one line. Returns the exit code of a monitoring plugin.
pub(crate) fn check(server: &ServerArgs) -> Result<u8, Error> {
    let health = match server.connect().and_then(|mut client| client.status()) {
        Ok(status) => Health::of(&status),
        Err(error) => Health::unknown(&error),
    };
    let text = match server.output.format {
        Format::Table => format!("{health}\n"),
        Format::Json => output::json_pretty(&health)?,
        Format::Csv => {
            let row = vec![health.state.as_str().to_owned(), health.code.to_string(), health.message.clone()];
            Table::of_one(["state", "code", "message"], row).csv(true)
        }
    };
    output::print(&text)?;
    Ok(health.code)
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
        assert!(!table::render(&status, true).is_empty());
    }
}
