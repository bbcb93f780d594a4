//! Imports of files, block devices and streams.

mod increment;
mod stream;
mod volume;

use super::Watch;
use super::pace::Pace;
use crate::cos::CosStore;
use nitro_console::error::Error;
use nitro_cos::Kind;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The arguments of an import.
#[derive(Debug)]
pub(super) struct Import<'a> {
    /// The store, as errors name it.
    pub(super) store: &'a Path,
    /// The object's name.
    pub(super) name: &'a str,
    /// What errors call the source.
    pub(super) source: &'a Path,
    pub(super) kind: Kind,
    /// The content is an increment, which makes a volume from another one.
    pub(super) increment: bool,
    /// Bytes of a volume's chunks; `None`: the store's default.
    pub(super) chunk_bytes: Option<u32>,
    pub(super) pace: Pace,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Bytes of the object.
    pub bytes: u64,
    /// Bytes that an earlier import had stored.
    pub resumed_at: u64,
    /// Chunks that the store already had. This, and what follows, includes what others stored meanwhile.
    pub duplicate_chunks: u64,
    /// Chunks that it had not.
    pub stored_chunks: u64,
    /// Bytes by which the store grew, including recipes.
    pub stored_bytes: u64,
}

/// Imports an object from `file`. If the import of a volume is interrupted, it can be continued, as long as the source is the
/// same file with the same content.
///
/// # Errors
/// The source cannot be read, was changed meanwhile or was not complete, the store is full or fails, or the import was ended.
pub(super) async fn import(
    args: Import<'_>,
    store: &Arc<CosStore>,
    file: File,
    watch: &dyn Watch,
) -> Result<Imported, Error> {
    let before = store.counters();
    let (bytes, resumed_at) = match args.kind {
        _ if args.increment => (increment::import(&args, store, file, watch).await?, 0),
        Kind::Volume => volume::import(&args, store, file, watch).await?,
        Kind::Stream => (stream::import(&args, store, file, watch).await?, 0),
    };
    let now = store.counters();
    Ok(Imported {
        bytes,
        resumed_at,
        duplicate_chunks: now.duplicate_chunks - before.duplicate_chunks,
        stored_chunks: now.stored_chunks - before.stored_chunks,
        stored_bytes: now.stored_bytes - before.stored_bytes,
    })
}
