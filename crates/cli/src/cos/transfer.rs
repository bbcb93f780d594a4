//! `nitro cos import` and `nitro cos export`

use super::terminal::Terminal;
use super::{operated, strange_answer};
use crate::args::{CosExportArgs, CosImportArgs, CosKind, CosTuningArgs};
use nitro_console::error::Error;
use nitro_console::output::{Format, json_line, print};
use nitro_console::size::Size;
use nitro_cos::{IncrementReader, Kind};
use nitro_server::cos::transfer::{Imported, Job, Producer, Report, Sink, Target};
use serde::Serialize;
use std::fs::File;
use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The result of an import.
#[derive(Serialize)]
struct ImportedObject {
    name: String,
    #[serde(flatten)]
    imported: Imported,
    seconds: f64,
}

/// The kind of the new object.
fn kind(args: &CosImportArgs) -> Result<Kind, Error> {
    let no_size = |what: &str| {
        let why = "a volume is imported from a file or a device, since its size must be known";
        Err(Error::new(what, why).or("leave out --kind volume"))
    };
    match (&args.source, args.kind) {
        _ if args.increment => Ok(Kind::Volume),
        (None, Some(CosKind::Volume)) => no_size("--from-command"),
        (Some(path), Some(CosKind::Volume)) if path == Path::new("-") => no_size("standard input"),
        (_, Some(CosKind::Stream)) | (None, None) => Ok(Kind::Stream),
        (Some(path), None) if path == Path::new("-") => Ok(Kind::Stream),
        (Some(_), _) => Ok(Kind::Volume),
    }
}

/// Opens the content, or starts the command that makes it.
fn open(args: &CosImportArgs, terminal: &Terminal) -> Result<File, Error> {
    match &args.source {
        None => {
            let (producer, output) = Producer::start(&args.command)?;
            terminal.wait_for(producer);
            Ok(output)
        }
        Some(path) if path == Path::new("-") => {
            stdin().as_fd().try_clone_to_owned().map(File::from).map_err(|e| Error::new("-", e))
        }
        Some(path) => {
            let file = File::open(path).map_err(|e| Error::new(path.display(), e))?;
            let mut start = [0; 8];
            // Pipes and the like cannot be read there.
            let is_read = file.read_at(&mut start, 0).is_ok();
            if is_read && !args.increment && args.kind.is_none() && IncrementReader::is_one(&start) {
                let way_out = "add --increment, or --kind to store it as it is";
                return Err(Error::new(path.display(), "it is an increment, not the content of an object").or(way_out));
            }
            Ok(file)
        }
    }
}

pub(super) async fn import(args: &CosImportArgs) -> Result<(), Error> {
    let begun = Instant::now();
    let source = match &args.source {
        Some(path) => path.display().to_string(),
        None => Producer::name_of(&args.command),
    };
    let job = Job::Import {
        name: args.name.clone(),
        source,
        kind: kind(args)?,
        increment: args.increment,
        chunk_bytes: args.chunk_size.map(|size| u32::try_from(size.0).unwrap_or(u32::MAX)),
        threads: args.tuning.threads,
    };
    let report = operated(&args.store, (job, args.tuning), |terminal| open(args, terminal)).await?;
    let Report::Imported(imported) = report else {
        return Err(strange_answer(&args.name));
    };
    let done = ImportedObject { name: args.name.clone(), imported, seconds: begun.elapsed().as_secs_f64() };
    let text = match args.output.format {
        Format::Json => json_line(&done)?,
        _ => format!(
            "{}: {} in {:.1} s, {} chunks of {} new, {} stored\n",
            done.name,
            Size(imported.bytes),
            done.seconds,
            imported.stored_chunks,
            imported.stored_chunks + imported.duplicate_chunks,
            Size(imported.stored_bytes)
        ),
    };
    print(&text).map(drop)
}

#[derive(Serialize)]
struct Exported {
    name: String,
    bytes: u64,
    seconds: f64,
}

pub(super) async fn export(args: &CosExportArgs) -> Result<(), Error> {
    let begun = Instant::now();
    let in_order = args.target == Path::new("-");
    let shown = if in_order { "standard output".to_owned() } else { args.target.display().to_string() };
    let job = Job::Export {
        name: args.name.clone(),
        from: args.from.clone(),
        target: shown,
        in_order,
        threads: args.threads,
    };
    let mut target = None;
    let open = |_: &Terminal| {
        let (opened, sink) = Target::open(&args.target, args.force)?;
        target = Some(opened);
        Ok(match sink {
            Sink::File(file) | Sink::Output(file) => file,
        })
    };
    let report = operated(&args.store, (job, CosTuningArgs::default()), open).await?;
    let Report::Exported(bytes) = report else {
        return Err(strange_answer(&args.name));
    };
    target.map_or(Ok(()), Target::finish)?;
    let exported = Exported { name: args.name.clone(), bytes, seconds: begun.elapsed().as_secs_f64() };
    // The object itself may be written to standard output.
    match args.output.format {
        Format::Json => nitro_console::note!("{}", json_line(&exported)?.trim_end()),
        _ => nitro_console::note!("{}: {} in {:.1} s", exported.name, Size(bytes), exported.seconds),
    }
    Ok(())
}
