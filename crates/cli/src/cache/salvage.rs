//! `nitro cache salvage`

use super::reactor;
use crate::args::{OutputArgs, SalvageArgs};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_engine::inspect::{self, Dirty, DirtyRange, DirtyVolume, Logged, LoggedVolume, Salvaged, Standing, Trust};
use nitro_files::open_target;
use nitro_port::{Device, DeviceError, Operation};
use nitro_server::serve;
use nitro_units::ObjectId;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Lists the data that only the cache has, or writes them to a file.
pub(super) fn run(args: &SalvageArgs) -> Result<(), Error> {
    let what = serve::title(&args.path);
    let trust = if args.possible { Trust::HeadersToo } else { Trust::Journal };
    let reactor = reactor()?;
    let device = reactor.block_on(serve::open_devices_to_look(&args.path))?;
    let hopeless = |e: nitro_engine::Error| {
        Error::with_sources(&what, &e).or("without a superblock nothing can be found; is this the right device?")
    };
    let mut dirty = reactor.block_on(inspect::dirty(&device, trust)).map_err(hopeless)?;
    let logged = match &args.write_log {
        Some(path) => {
            let log = serve::open_log_to_look(path)?;
            let fail = |e: nitro_engine::Error| {
                Error::with_sources(format_args!("write log {}", path.display()), &e).or("is this the right device?")
            };
            reactor.block_on(inspect::logged(&device, &log)).map_err(fail)?
        }
        None => Logged::default(),
    };
    if let (Some(uuid), None) = (&dirty.journal.write_log, &args.write_log) {
        tracing::warn!(
            "{what}: the write log {uuid} belongs to it and may hold newer writes: give it with --write-log"
        );
    }
    if logged.damaged {
        tracing::warn!("{what}: the write log is damaged: its last writes cannot be read");
    }
    add(&mut dirty, &logged);
    let (Some(name), Some(to)) = (&args.volume, &args.to) else {
        list(&dirty, args.output)?;
        if !args.list && !dirty.volumes.is_empty() {
            output::note!("give --volume NAME --to FILE to write the dirty data of a volume to a file");
        }
        return Ok(());
    };
    let volume = find(&dirty, name).ok_or_else(|| {
        let names: Vec<_> = dirty.volumes.iter().map(title).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Error::new(&what, format_args!("there are no dirty data of a volume {name:?}"))
            .or(format_args!("it has dirty data of: {known}; see --list, and --possible if the journal is damaged"))
    })?;
    let mut salvaged = reactor.block_on(write_out(&device, volume, trust, to))?;
    write_logged(&mut salvaged, &logged, volume, to)?;
    report(&salvaged, volume, to, args.output)?;
    match salvaged.unreadable.len() {
        0 => Ok(()),
        count => Err(Error::new(what, format_args!("{count} ranges could not be read"))
            .or("the other ranges were written; the list shows where the file has older data")),
    }
}

fn title(volume: &DirtyVolume) -> String {
    volume.name.clone().unwrap_or_else(|| volume.object.to_string())
}

fn find<'a>(dirty: &'a Dirty, name: &str) -> Option<&'a DirtyVolume> {
    let by_name = dirty.volumes.iter().find(|volume| volume.name.as_deref() == Some(name));
    by_name.or_else(|| dirty.volumes.iter().find(|volume| volume.name.is_none() && volume.object.to_string() == name))
}

/// Adds the dirty data of the write log to `dirty`.
fn add(dirty: &mut Dirty, logged: &Logged) {
    for LoggedVolume { object, name, origin_bytes, extents } in &logged.volumes {
        let at = dirty.volumes.iter().position(|volume| volume.object == *object).unwrap_or_else(|| {
            let (object, name, origin_bytes, ranges) = (*object, name.clone(), *origin_bytes, Vec::new());
            dirty.volumes.push(DirtyVolume { object, name, origin_bytes, ranges });
            dirty.volumes.len() - 1
        });
        let ranges = &mut dirty.volumes[at].ranges;
        for (offset, bytes) in extents {
            let (offset, len) = (*offset, bytes.len() as u64);
            match ranges.last_mut().filter(|range| range.standing == Standing::Logged) {
                Some(last) if last.offset + last.len == offset => last.len += len,
                _ => ranges.push(DirtyRange { offset, len, standing: Standing::Logged }),
            }
        }
    }
}

/// Writes the data of the write log to the file, over those of the cache.
fn write_logged(salvaged: &mut Salvaged, logged: &Logged, volume: &DirtyVolume, to: &Path) -> Result<(), Error> {
    let fail = |e: std::io::Error| Error::new(format_args!("file {}", to.display()), e).or("make room");
    let file = open_target(to).map_err(fail)?;
    for (offset, bytes) in logged.volumes.iter().filter(|v| v.object == volume.object).flat_map(|v| &v.extents) {
        file.write_all_at(bytes, *offset).map_err(fail)?;
        salvaged.extents += 1;
        salvaged.bytes += bytes.len() as u64;
    }
    file.sync_all().map_err(fail)
}

async fn write_out(device: &impl Device, volume: &DirtyVolume, trust: Trust, to: &Path) -> Result<Salvaged, Error> {
    let what = format!("file {}", to.display());
    let fail = |e: std::io::Error| Error::new(&what, e).or("name a file that can be written to");
    let file = open_target(to).map_err(fail)?;
    let found = file.metadata().map_err(fail)?;
    if let Some(size_bytes) = volume.origin_bytes.filter(|size_bytes| found.is_file() && found.len() < *size_bytes) {
        file.set_len(size_bytes).map_err(fail)?;
    }
    let salvaged = inspect::salvage(device, ObjectId(volume.object), trust, async |offset, bytes| {
        let failed = |e| DeviceError::from_io(e, Operation::Write, offset, bytes.len() as u64);
        file.write_all_at(&bytes, offset).map_err(failed)
    })
    .await
    .map_err(|e| Error::with_sources(&what, &e).or("make room, and check the device"))?;
    file.sync_all().map_err(fail)?;
    Ok(salvaged)
}

fn report(salvaged: &Salvaged, volume: &DirtyVolume, to: &Path, output: OutputArgs) -> Result<(), Error> {
    let text = match output.format {
        Format::Json => output::json_pretty(salvaged)?,
        Format::Table => {
            let (bytes, name) = (Size(salvaged.bytes), title(volume));
            let mut out = format!("{bytes} of volume {name} written to {}\n", to.display());
            for range in &salvaged.doubtful {
                out += &format!("  possibly old: {} bytes at {}\n", range.len, range.offset);
            }
            for range in &salvaged.older {
                out += &format!("  an older version: {} bytes at {}\n", range.len, range.offset);
            }
            for range in &salvaged.unreadable {
                out += &format!("  lost: {} bytes at {}: {}\n", range.len, range.offset, range.reason);
            }
            out
        }
        Format::Csv => {
            let mut table = Table::new(["kind", "offset", "len", "reason"]);
            let kinds = [("possibly old", &salvaged.doubtful), ("older", &salvaged.older)];
            for (kind, range) in kinds.iter().flat_map(|(kind, ranges)| ranges.iter().map(move |r| (kind, r))) {
                table.row(vec![(*kind).to_owned(), range.offset.to_string(), range.len.to_string(), String::new()]);
            }
            for range in &salvaged.unreadable {
                let place = [range.offset, range.len].map(|n| n.to_string());
                let [offset, len] = place;
                table.row(vec!["lost".to_owned(), offset, len, range.reason.clone()]);
            }
            table.csv(true)
        }
    };
    output::print(&text).map(|_| ())
}

fn list(dirty: &Dirty, output: OutputArgs) -> Result<(), Error> {
    if output.format == Format::Json {
        return output::print(&output::json_pretty(dirty)?).map(|_| ());
    }
    let mut table = Table::new(["volume", "offset", "len", "standing"]);
    for volume in &dirty.volumes {
        for range in &volume.ranges {
            let standing = serde_json::to_value(range.standing).ok();
            let standing = standing.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
            table.row(vec![title(volume), range.offset.to_string(), range.len.to_string(), standing]);
        }
    }
    let text = match output.format {
        Format::Table if table.rows.is_empty() => "nothing is dirty\n".to_owned(),
        Format::Table => table.aligned(),
        _ => table.csv(true),
    };
    output::print(&text).map(|_| ())
}
