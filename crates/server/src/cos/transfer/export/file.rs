//! Exports to files and block devices, whose parts are written in any order.

use super::{Export, SEGMENT_BYTES, finish, segments_ahead};
use crate::cos::StoreDevice;
use crate::cos::transfer::Watch;
use crate::cos::transfer::threads::{Failed, Shared, Workers};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use nitro_console::error::Error;
use nitro_cos::Volume;
use nitro_port::Device;
use nitro_port::buf::is_zero;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// What the threads of an export share.
struct Places {
    file: File,
    size: u64,
    /// The length of the file at the start: up to here it may hold data of an earlier export.
    there: u64,
    /// The target may hold any data: zeroes have to be written.
    overwrite: bool,
    next: AtomicU64,
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl Shared for Places {
    fn end(&self) {
        self.ended.store(true, SeqCst);
    }
}

impl Places {
    /// Writes the data of a segment.
    fn take(&self, (from, data): (u64, Option<Bytes>)) -> Result<(), Failed> {
        if let Some(data) = data {
            self.file.write_all_at(&data, from).map_err(Failed::File)?;
        }
        self.bytes.fetch_add(SEGMENT_BYTES.min(self.size - from), SeqCst);
        Ok(())
    }

    /// Reads the segment that begins at `from`; `None`: it is a hole, and the target has a hole there, too.
    async fn segment(&self, volume: &Volume<StoreDevice>, from: u64) -> Result<(u64, Option<Bytes>), Failed> {
        let len = SEGMENT_BYTES.min(self.size - from);
        let is_fresh = from >= self.there && !self.overwrite;
        if is_fresh {
            let runs = volume.allocation(from, len).await.map_err(|e| Failed::Store(e.into()))?;
            if runs.iter().all(|run| run.hole) {
                return Ok((from, None));
            }
        }
        let data = volume.read_range(from, len as usize).await.map_err(Failed::Store)?;
        Ok((from, (!(is_fresh && is_zero(&data))).then_some(data)))
    }
}

pub(super) async fn export(
    args: &Export<'_>,
    volume: &Volume<StoreDevice>,
    file: File,
    watch: &dyn Watch,
) -> Result<u64, Error> {
    let fail = |e: std::io::Error| Error::new(args.target.display(), e);
    let kind = file.metadata().map_err(fail)?.file_type();
    let (size, overwrite) = (volume.size_bytes(), kind.is_block_device());
    if !overwrite && !kind.is_file() {
        return Err(Error::new(args.target.display(), "it is neither a regular file nor a block device"));
    }
    // All that an export that was broken off had written is written again: it may have been one of another object.
    let there = if overwrite { 0 } else { file.metadata().map_or(0, |m| m.len()) };
    if !overwrite {
        file.set_len(size).map_err(fail)?;
    }
    let shared = Arc::new(Places {
        file,
        size,
        there,
        overwrite,
        next: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    });
    let threads = args.pace.threads;
    let workers = Workers::start("export", threads, &shared, |_, shared| {
        let volume = volume.clone();
        move || async move { export_segments(&volume, &shared, segments_ahead(threads)).await }
    })?;
    finish(args, workers, (size, &shared.bytes), watch).await?;
    // A file is as durable as one that was copied; who takes out a device expects its content to be on it.
    if overwrite {
        shared.file.sync_all().map_err(fail)?;
    }
    Ok(size)
}

async fn export_segments(volume: &Volume<StoreDevice>, shared: &Places, at_once: usize) -> Result<(), Failed> {
    let next = || {
        let from = shared.next.fetch_add(SEGMENT_BYTES, SeqCst);
        (from < shared.size && !shared.ended.load(SeqCst)).then_some(from)
    };
    let reads = stream::iter(std::iter::from_fn(next)).map(|from| shared.segment(volume, from));
    let mut reads = reads.buffer_unordered(at_once);
    let mut done = Ok(());
    // To the end, also after a failure: no read that is under way is given up.
    while let Some(read) = reads.next().await {
        done = done.and_then(|()| shared.take(read?));
        if done.is_err() {
            shared.end();
        }
    }
    done
}
