//! Imports of streams.

use super::{Import, Watch};
use crate::cos::transfer::Unit;
use crate::cos::transfer::source::Source;
use crate::cos::transfer::threads::{Failed, Shared, Workers, at_once, pause};
use crate::cos::{CosStore, failed, now};
use bytes::Bytes;
use event_listener::Event;
use nitro_console::error::Error;
use nitro_cos::StreamPart;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts that are cut ahead of the threads that store them.
const PARTS_CUT_AHEAD: usize = 4;

/// How often the thread that waits for a stream's source checks whether it has to end.
const READ_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Cuts a stream into parts, in order.
struct Cutter {
    input: File,
    /// Bytes of a part.
    part_bytes: usize,
    /// Bytes that were read and not cut yet.
    rest: Vec<u8>,
    number: u64,
    is_at_end: bool,
}

type Part = (u64, Bytes, Vec<std::ops::Range<usize>>);

impl Cutter {
    /// Cuts the next part. `None`: there is none, or `ended` is set.
    fn next(&mut self, store: &CosStore, ended: &AtomicBool) -> io::Result<Option<Part>> {
        self.rest.reserve_exact(self.part_bytes.saturating_sub(self.rest.len()));
        while self.rest.len() < self.part_bytes && !self.is_at_end {
            if ended.load(SeqCst) {
                return Ok(None);
            }
            self.read_some()?;
        }
        let cuts = store.cut(&self.rest, self.is_at_end);
        let cut = cuts.last().map_or(0, |last| last.end);
        let tail = self.rest.split_off(cut);
        let data = std::mem::replace(&mut self.rest, tail);
        self.number += 1;
        Ok((!cuts.is_empty()).then(|| (self.number - 1, data.into(), cuts)))
    }

    /// Reads the available bytes; nothing if none arrive soon.
    fn read_some(&mut self) -> io::Result<()> {
        let ready = match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], Some(&READ_WAIT)) {
            Ok(ready) => ready > 0,
            Err(Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        if ready {
            let read = retry_on_intr(|| rustix::io::read(&self.input, spare_capacity(&mut self.rest)))?;
            self.is_at_end = read == 0;
        }
        Ok(())
    }
}

/// Parts that wait to be stored.
#[derive(Default)]
struct Cut {
    parts: VecDeque<Part>,
    /// No further part will follow.
    is_whole: bool,
}

/// What the threads of a stream's import share.
struct StreamShared {
    cut: Mutex<Cut>,
    /// The number of parts has changed, or the import has to end.
    changed: Event,
    /// Parts that are stored, and not in the recipe yet.
    stored: Mutex<BTreeMap<u64, (u64, StreamPart)>>,
    ended: AtomicBool,
    /// Parts that are in the recipe: threads do not run far ahead.
    pushed: AtomicU64,
}

impl StreamShared {
    fn cut(&self) -> MutexGuard<'_, Cut> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a part to the queue when there is room for it.
    async fn put_cut(&self, part: Part) {
        loop {
            let changed = self.changed.listen();
            if self.ended.load(SeqCst) {
                return;
            }
            {
                let mut cut = self.cut();
                if cut.parts.len() < PARTS_CUT_AHEAD {
                    cut.parts.push_back(part);
                    break;
                }
            }
            changed.await;
        }
        self.changed.notify(usize::MAX);
    }

    /// The next part to store.
    async fn take_cut(&self) -> Option<Part> {
        loop {
            let changed = self.changed.listen();
            let (part, is_whole) = {
                let mut cut = self.cut();
                (cut.parts.pop_front(), cut.is_whole)
            };
            if part.is_some() {
                self.changed.notify(usize::MAX);
                return part;
            }
            if is_whole || self.ended.load(SeqCst) {
                return None;
            }
            changed.await;
        }
    }

    fn take_stored(&self, number: u64) -> Option<(u64, StreamPart)> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

impl Shared for StreamShared {
    fn end(&self) {
        self.ended.store(true, SeqCst);
        self.changed.notify(usize::MAX);
    }
}

/// Parts that may wait for one before them.
const PARTS_AHEAD: u64 = 64;

/// Imports what `input` contains until its end, and returns the number of bytes. The object is created only if that was
/// complete.
pub(super) async fn import(
    args: &Import<'_>,
    store: &Arc<CosStore>,
    input: File,
    watch: &dyn Watch,
) -> Result<u64, Error> {
    let path = args.source;
    let fail = |e: nitro_cos::Error| failed(args.store, &e);
    let source = Source::new(input.try_clone().map_err(|e| Error::new(path.display(), e))?, path)?;
    let mut import = store.import_stream(args.name, now()).await.map_err(fail)?;
    let part_bytes = args.pace.part_bytes;
    let cutter = Mutex::new(Some(Cutter { input, part_bytes, rest: Vec::new(), number: 0, is_at_end: false }));
    let shared = Arc::new(StreamShared {
        cut: Mutex::default(),
        changed: Event::new(),
        stored: Mutex::new(BTreeMap::new()),
        ended: AtomicBool::new(false),
        pushed: AtomicU64::new(0),
    });
    let copies = args.pace.at_once;
    // The first thread waits for the source, which may take its time; that holds up none of those that store.
    let workers = Workers::start("import", 1 + args.pace.threads, &shared, |number, shared| {
        let store = Arc::clone(store);
        let cutter = cutter.lock().unwrap_or_else(PoisonError::into_inner).take();
        move || async move {
            match cutter {
                Some(cutter) => cut_parts(cutter, &store, &shared).await,
                None => at_once(&*shared, copies, || store_parts(&store, number - 1, &shared)).await,
            }
        }
    })?;
    let interrupted = |cause: String| {
        Error::new(args.name, format_args!("{cause} interrupted the import, and no part of it is kept"))
    };
    let (mut next, mut bytes) = (0, 0);
    let push = async || {
        while let Some((len, part)) = shared.take_stored(next) {
            import.push(part).await.map_err(fail)?;
            bytes += len;
            next += 1;
            shared.pushed.store(next, SeqCst);
        }
        // How much follows is not known.
        watch.show("imported", Unit::Bytes, bytes, 0);
        watch.end().map_or(Ok(()), |cause| Err(interrupted(cause)))
    };
    workers.finish((args.store, path.display()), push).await?;
    source.check(path)?;
    loop {
        if let Some(cause) = watch.end() {
            return Err(interrupted(cause));
        }
        if let Some(complete) = watch.complete() {
            complete?;
            break;
        }
        pause().await;
    }
    import.finish().await.map_err(fail)?;
    Ok(bytes)
}

async fn cut_parts(mut cutter: Cutter, store: &CosStore, shared: &StreamShared) -> Result<(), Failed> {
    while let Some(part) = cutter.next(store, &shared.ended).map_err(Failed::File)? {
        shared.put_cut(part).await;
    }
    shared.cut().is_whole = true;
    shared.changed.notify(usize::MAX);
    Ok(())
}

async fn store_parts(store: &CosStore, lane: usize, shared: &StreamShared) -> Result<(), Failed> {
    while let Some((number, data, cuts)) = shared.take_cut().await {
        while number > shared.pushed.load(SeqCst) + PARTS_AHEAD {
            if shared.ended.load(SeqCst) {
                return Ok(());
            }
            pause().await;
        }
        let len = data.len() as u64;
        let part = store.store_part(lane, data, &cuts).await.map_err(Failed::Store)?;
        shared.stored.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (len, part));
    }
    Ok(())
}
