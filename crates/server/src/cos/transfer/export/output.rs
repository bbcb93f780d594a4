//! Exports to standard output, in order.

use super::writer::Writer;
use super::{Export, SEGMENT_BYTES, finish, segments_ahead};
use crate::cos::StoreDevice;
use crate::cos::transfer::Watch;
use crate::cos::transfer::threads::{Failed, Shared, Workers};
use bytes::Bytes;
use event_listener::Event;
use futures_util::stream::{self, StreamExt};
use nitro_console::error::Error;
use nitro_cos::Volume;
use nitro_port::yielding::attempt_at;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// The order in which segments are written.
struct Turn {
    /// The next segment; `None`: a thread failed.
    next: Mutex<Option<u64>>,
    changed: Event,
}

impl Turn {
    fn next(&self) -> Option<u64> {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread failed.
    fn is_over(&self) -> bool {
        self.next().is_none()
    }

    /// Waits for the turn of a segment; false: a thread failed. The thread must not be blocked meanwhile: reads of other
    /// threads may wait for one that it has begun.
    async fn wait(&self, segment: u64) -> bool {
        let is_mine = || match self.next() {
            None => Some(false),
            Some(next) => (next == segment).then_some(true),
        };
        attempt_at(&self.changed, is_mine).await
    }

    /// Notes that a segment is written.
    fn end(&self, segment: u64) {
        if let Some(next) = &mut *self.next.lock().unwrap_or_else(PoisonError::into_inner) {
            *next = segment + 1;
        }
        self.changed.notify(usize::MAX);
    }

    fn fail(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify(usize::MAX);
    }
}

/// What the threads of an export in order share.
struct Output {
    out: Writer,
    turn: Turn,
    bytes: AtomicU64,
}

impl Shared for Output {
    fn end(&self) {
        self.turn.fail();
    }
}

impl Output {
    /// Writes a segment in its turn.
    async fn write(&self, segment: u64, data: Result<Bytes, nitro_cos::Error>) -> Result<(), Failed> {
        let data = data.map_err(Failed::Store)?;
        if self.turn.wait(segment).await {
            self.out.write_all(&data, || self.turn.is_over()).map_err(Failed::File)?;
            self.bytes.fetch_add(data.len() as u64, SeqCst);
            self.turn.end(segment);
        }
        Ok(())
    }
}

/// The threads take segments in turn; each thread writes its segment when the previous ones are written.
pub(super) async fn export(
    args: &Export<'_>,
    volume: &Volume<StoreDevice>,
    out: File,
    watch: &dyn Watch,
) -> Result<u64, Error> {
    let size = volume.size_bytes();
    let out = Writer::new(out).map_err(|e| Error::new(args.target.display(), e))?;
    let turn = Turn { next: Mutex::new(Some(0)), changed: Event::new() };
    let shared = Arc::new(Output { out, turn, bytes: AtomicU64::new(0) });
    let threads = args.pace.threads;
    let workers = Workers::start("export", threads, &shared, |first, shared| {
        let volume = volume.clone();
        move || async move {
            let mine = (first as u64..size.div_ceil(SEGMENT_BYTES)).step_by(threads);
            write_segments(&volume, mine, &shared, segments_ahead(threads)).await
        }
    })?;
    finish(args, workers, (size, &shared.bytes), watch).await?;
    Ok(size)
}

async fn write_segments(
    volume: &Volume<StoreDevice>,
    mine: impl Iterator<Item = u64>,
    shared: &Output,
    at_once: usize,
) -> Result<(), Failed> {
    let reads = mine.map(|segment| async move {
        let from = segment * SEGMENT_BYTES;
        let len = SEGMENT_BYTES.min(volume.size_bytes() - from);
        let read = volume.read_range(from, len as usize).await;
        // Here, so that other reads of this thread go on while this one waits.
        let written = shared.write(segment, read).await;
        if written.is_err() {
            shared.end();
        }
        written
    });
    let mut written = stream::iter(reads.take_while(|_| !shared.turn.is_over())).buffered(at_once);
    let mut done = Ok(());
    // To the end, also after a failure: no read that is under way is given up.
    while let Some(segment) = written.next().await {
        done = done.and(segment);
    }
    done
}
