//! The contents of a store, and its checks.

use super::grow;
use super::ssd::rows;
use super::transfer::{Report, Unit, Watch, ended, pause};
use super::{CosStore, failed};
use futures_util::future::{Either, select};
use nitro_console::date::utc;
use nitro_console::error::Error;
use nitro_console::output::{Format, Table, json_line};
use nitro_console::size::Size;
use nitro_cos::{CollectOptions, Difference, Findings, Kind, ObjectInfo, RegionPattern};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;

/// Maximum number of damages listed.
const DAMAGES_SHOWN: usize = 100;

/// A table, as CSV if that is wanted, or a value as JSON.
pub(super) fn text(format: Format, table: &Table, value: &impl Serialize) -> Result<String, Error> {
    match format {
        Format::Table => Ok(table.aligned()),
        Format::Csv => Ok(table.csv(true)),
        Format::Json => json_line(value),
    }
}

/// An object, and how much of it is in no other object.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    object: ObjectInfo,
    /// See [`unique_bytes`](nitro_cos::Store::unique_bytes); `None`: not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_bytes: Option<u64>,
}

/// Lists the objects, with the bytes of each that are in no other object.
///
/// # Errors
/// The objects or their recipes cannot be read, or the operation was ended.
pub(super) async fn list_unique(
    (store, path): (&CosStore, &Path),
    format: Format,
    watch: &dyn Watch,
) -> Result<Report, Error> {
    let progress = |what, done, total| watch.show(what, Unit::Items, done, total);
    // It changes nothing, and can be dropped anywhere.
    let unique = match select(pin!(store.unique_bytes(&progress)), pin!(ended(watch))).await {
        Either::Left((unique, _)) => unique.map_err(|e| failed(path, &e))?,
        Either::Right((cause, _)) => {
            return Err(Error::new(path.display(), format_args!("{cause} interrupted the count")));
        }
    };
    Ok(Report::Text { text: listed(store, Some(&unique.into_iter().collect()), format).await?, damage: None })
}

/// Lists the objects.
///
/// # Errors
/// The directory of objects cannot be read, or the answer cannot be encoded.
pub(super) async fn list(store: &CosStore, format: Format) -> Result<String, Error> {
    listed(store, None, format).await
}

async fn listed(store: &CosStore, unique: Option<&HashMap<String, u64>>, format: Format) -> Result<String, Error> {
    let objects = store.list().await.map_err(|e| Error::new("the objects cannot be listed", e))?;
    let with_unique =
        |object: ObjectInfo| Listed { unique_bytes: unique.and_then(|all| all.get(&object.name).copied()), object };
    let objects: Vec<Listed> = objects.into_iter().map(with_unique).collect();
    let mut columns = vec!["name", "kind", "size", "chunk", "state", "created"];
    columns.extend(unique.map(|_| "unique"));
    let mut table = Table::new(columns);
    for Listed { object, unique_bytes } in &objects {
        let state = match object.incomplete_at {
            Some(at) => format!("import interrupted at {}", Size(at)),
            None if object.read_only => "read-only".to_owned(),
            None => "-".to_owned(),
        };
        let kind = if object.kind == Kind::Volume { "volume" } else { "stream" };
        let bytes = |n: u64| if format == Format::Csv { n.to_string() } else { Size(n).to_string() };
        let (size, chunk) = (bytes(object.size_bytes), bytes(object.chunk_bytes.into()));
        let mut row = vec![object.name.clone(), kind.to_owned(), size, chunk, state, utc(object.created)];
        row.extend(unique.map(|_| unique_bytes.map_or_else(|| "-".to_owned(), bytes)));
        table.row(row);
    }
    text(format, &table, &objects)
}

/// Lists the ranges in which two objects differ.
///
/// # Errors
/// The answer cannot be encoded.
pub(super) fn diff(differences: &[Difference], format: Format) -> Result<String, Error> {
    let mut table = Table::new(["offset", "bytes"]);
    differences.iter().for_each(|d| table.row(vec![d.offset.to_string(), d.len.to_string()]));
    text(format, &table, &differences)
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    stats: nitro_cos::Stats,
    /// Bytes of all objects for each byte that is stored.
    reduction: f64,
}

/// The contents and savings of the store.
///
/// # Errors
/// The answer cannot be encoded.
pub(super) fn stats(store: &CosStore, format: Format) -> Result<String, Error> {
    let stats = store.stats();
    let reduction = stats.logical_bytes as f64 / stats.stored_bytes.max(1) as f64;
    let mut table = Table::new(["", "value"]);
    let used = u64::from(stats.containers_used) * u64::from(stats.container_bytes);
    let room = u64::from(stats.containers) * u64::from(stats.container_bytes);
    let per_chunk = stats.stored_bytes.checked_div(stats.chunks).unwrap_or(0);
    for (name, value) in [
        ("objects", stats.objects.to_string()),
        ("of those, snapshots", stats.snapshots.to_string()),
        ("logical", Size(stats.logical_bytes).to_string()),
        ("stored", Size(stats.stored_bytes).to_string()),
        ("of that, recipes", Size(stats.recipe_bytes).to_string()),
        ("reduction", format!("{reduction:.2} x")),
        ("chunks", stats.chunks.to_string()),
        ("bytes a chunk", per_chunk.to_string()),
        ("containers", format!("{} of {}", Size(used), Size(room))),
        ("size", grow::sizes(stats.size_bytes, stats.grows_to_bytes)),
        ("quota", stats.quota_bytes.map_or_else(|| "none".to_owned(), |bytes| Size(bytes).to_string())),
        ("RAM while open", format!("{}, at most {}", Size(stats.ram_bytes), Size(stats.ram_need_bytes))),
    ] {
        table.row(vec![name.to_owned(), value]);
    }
    for (name, value) in stats.ssd.iter().flat_map(rows) {
        table.row(vec![name, value]);
    }
    let shown = Shown { stats, reduction };
    if format == Format::Csv { numbers(&shown) } else { text(format, &table, &shown) }
}

/// CSV with the names of the JSON fields, and numbers without units.
fn numbers(shown: &Shown) -> Result<String, Error> {
    let mut table = Table::new(["metric", "value"]);
    let value = serde_json::to_value(shown).map_err(|e| Error::new("CSV", e))?;
    enter(&mut table, "", &value);
    Ok(table.csv(true))
}

/// Adds a value under its name; the parts of a compound value are added one by one.
fn enter(table: &mut Table, name: &str, value: &serde_json::Value) {
    let below = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        serde_json::Value::Object(parts) => parts.iter().for_each(|(part, value)| enter(table, &below(part), value)),
        serde_json::Value::Array(parts) => {
            parts.iter().enumerate().for_each(|(number, value)| enter(table, &below(&number.to_string()), value));
        }
        // What is not limited has no number.
        serde_json::Value::Null => table.row(vec![name.to_owned(), String::new()]),
        serde_json::Value::String(text) => table.row(vec![name.to_owned(), text.clone()]),
        number => table.row(vec![name.to_owned(), number.to_string()]),
    }
}

/// How the parts of an object are accessed: one line for each part, with the shares of sequential (`=`), monotonic
/// (`/`) and random (`x`) accesses.
///
/// # Errors
/// The answer cannot be encoded.
pub(super) fn patterns(regions: &[RegionPattern], format: Format) -> Result<String, Error> {
    let mut table = Table::new(["from", "bytes", "pattern", "accesses"]);
    for region in regions {
        let drawn = region.accesses.iter().zip(["=", "/", "x"]).map(|(count, mark)| mark.repeat((*count).into()));
        let (from, len) = (Size(region.offset).to_string(), Size(region.len).to_string());
        table.row(vec![from, len, region.pattern.name().to_owned(), drawn.collect()]);
    }
    text(format, &table, &regions)
}

/// Runs a collection.
///
/// # Errors
/// Another collection is under way, the store fails, or the collection was ended.
pub(super) async fn collect(
    (store, path): (&CosStore, &Path),
    alive: u8,
    format: Format,
    watch: &dyn Watch,
) -> Result<Report, Error> {
    let options = CollectOptions { alive_share_min: f64::from(alive) / 100.0 };
    let progress = |what, done, total| watch.show(what, Unit::Items, done, total);
    let mut collecting = pin!(store.collect(&options, &progress));
    let mut cause = None;
    let collected = loop {
        match select(collecting.as_mut(), pin!(pause())).await {
            Either::Left((collected, _)) => break collected,
            Either::Right(_) => {
                cause = cause.or_else(|| watch.end());
                // At its next turn.
                cause.iter().for_each(|_| store.stop_collection());
            }
        }
    };
    let collected = collected.map_err(|error| match cause {
        Some(cause) => Error::new(path.display(), format_args!("{cause} interrupted the collection"))
            .or("what it has freed stays free"),
        None => failed(path, &error),
    })?;
    let mut table = Table::new(["", "value"]);
    for (name, value) in [
        ("containers looked at", collected.containers.to_string()),
        ("chunks in them", collected.chunks.to_string()),
        ("of those, dead", collected.dead_chunks.to_string()),
        ("containers freed", collected.freed_containers.to_string()),
        ("chunks copied out of them", collected.copied_chunks.to_string()),
        ("containers before", Size(collected.used_bytes_before).to_string()),
        ("containers after", Size(collected.used_bytes_after).to_string()),
    ] {
        table.row(vec![name.to_owned(), value]);
    }
    Ok(Report::Text { text: text(format, &table, &collected)?, damage: None })
}

/// Checks a store, with `reading` also its contents. The text names the damages.
///
/// # Errors
/// The store cannot be read, or the check was ended.
pub(super) async fn check(
    (store, path): (&CosStore, &Path),
    reading: bool,
    format: Format,
    watch: &dyn Watch,
) -> Result<Report, Error> {
    let progress = |what, done, total| watch.show(what, Unit::Items, done, total);
    let checking = async {
        match reading {
            true => store.scrub(&progress).await,
            false => store.check(&progress).await,
        }
    };
    // It changes nothing, and can be dropped anywhere.
    let findings = match select(pin!(checking), pin!(ended(watch))).await {
        Either::Left((findings, _)) => findings.map_err(|e| failed(path, &e))?,
        Either::Right((cause, _)) => {
            return Err(Error::new(path.display(), format_args!("{cause} interrupted the check")));
        }
    };
    let text = match format {
        Format::Table => told(&findings),
        format => text(format, &damages(&findings), &findings)?,
    };
    let damaged: u64 = findings.damage.iter().map(|d| d.len).sum();
    let damage = format!(
        "{} of objects damaged in {} places, {} containers without metadata",
        Size(damaged),
        findings.damage.len(),
        findings.damaged_containers.len()
    );
    Ok(Report::Text { text, damage: (!findings.is_clean()).then_some(damage) })
}

fn damages(findings: &Findings) -> Table {
    let mut table = Table::new(["object", "offset", "bytes", "why"]);
    for damage in &findings.damage {
        let row = [damage.object.clone(), damage.offset.to_string(), damage.len.to_string(), damage.why.clone()];
        table.row(row.into());
    }
    table
}

fn told(findings: &Findings) -> String {
    let mut text = format!(
        "{} objects, {} containers, {} chunks, {} read: {}\n",
        findings.objects,
        findings.containers,
        findings.chunks,
        Size(findings.bytes),
        if findings.is_clean() { "all well" } else { "DAMAGED" }
    );
    for damage in findings.damage.iter().take(DAMAGES_SHOWN) {
        text += &format!("{}: {} bytes at {}: {}\n", damage.object, damage.len, damage.offset, damage.why);
    }
    if findings.damage.len() > DAMAGES_SHOWN {
        text += &format!("and {} more\n", findings.damage.len() - DAMAGES_SHOWN);
    }
    if findings.damaged_unreferenced > 0 {
        text += &format!("{} damaged contents are in no object\n", findings.damaged_unreferenced);
    }
    text
}
