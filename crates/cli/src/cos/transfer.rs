//! `nitro cos import` and `nitro cos export`

use super::with_opened;
use crate::args::{CosExportArgs, CosImportArgs, CosKind};
use nitro_console::error::Error;
use nitro_console::output::{Format, json_line, print};
use nitro_console::size::Size;
use nitro_cos::{Kind, Settings};
use nitro_server::cos::transfer::{self, Content, Export, Import};
use nitro_server::cos::{failed, open};
use serde::Serialize;
use std::time::Instant;

/// The result of an import.
#[derive(Serialize)]
struct Imported {
    name: String,
    bytes: u64,
    /// Bytes that an earlier, interrupted import had finished.
    resumed_at: u64,
    /// Chunks that the store already had.
    duplicate_chunks: u64,
    stored_chunks: u64,
    /// Bytes by which the store grew, including recipes.
    stored_bytes: u64,
    seconds: f64,
}

pub(super) async fn import(args: &CosImportArgs) -> Result<(), Error> {
    let settings = Settings { compare_duplicates: args.tuning.compare, ..Settings::default() };
    let store = open(&args.store.store, settings).await?;
    let begun = Instant::now();
    let import = Import {
        store: &args.store.store,
        name: &args.name,
        source: match &args.source {
            Some(path) => Content::Path(path),
            None => Content::Command(&args.command),
        },
        kind: args.kind.map(|kind| match kind {
            CosKind::Volume => Kind::Volume,
            CosKind::Stream => Kind::Stream,
        }),
        chunk_bytes: args.chunk_size.map(|size| u32::try_from(size.0).unwrap_or(u32::MAX)),
        threads: args.tuning.threads,
    };
    let done = with_opened(&args.store.store, &store, transfer::import(import, &store)).await?;
    let counters = store.counters();
    let imported = Imported {
        name: args.name.clone(),
        bytes: done.bytes,
        resumed_at: done.resumed_at,
        duplicate_chunks: counters.duplicate_chunks,
        stored_chunks: counters.stored_chunks,
        stored_bytes: counters.stored_bytes,
        seconds: begun.elapsed().as_secs_f64(),
    };
    let text = match args.output.format {
        Format::Json => json_line(&imported)?,
        _ => format!(
            "{}: {} in {:.1} s, {} chunks of {} new, {} stored\n",
            imported.name,
            Size(imported.bytes),
            imported.seconds,
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
    let path = &args.store.store;
    let store = open(path, Settings::default()).await?;
    let begun = Instant::now();
    let work = async {
        let volume = store.open_volume(&args.name).await.map_err(|e| failed(path, &e))?;
        let export = Export { store: path, target: &args.target, force: args.force, threads: args.threads };
        transfer::export(export, &volume).await
    };
    let bytes = with_opened(path, &store, work).await?;
    let exported = Exported { name: args.name.clone(), bytes, seconds: begun.elapsed().as_secs_f64() };
    // The object itself may be written to standard output.
    match args.output.format {
        Format::Json => nitro_console::note!("{}", json_line(&exported)?.trim_end()),
        _ => nitro_console::note!("{}: {} in {:.1} s", exported.name, Size(bytes), exported.seconds),
    }
    Ok(())
}
