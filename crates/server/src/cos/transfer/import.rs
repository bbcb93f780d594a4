//! Imports of files, block devices and streams.

use super::producer::Producer;
use super::source::Source;
use super::threads::{Failed, Shared, Workers, at_once, count, pause};
use crate::cos::{CosStore, StoreDevice, failed, now};
use bytes::Bytes;
use event_listener::Event;
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_console::signals::{Signals, Urgency};
use nitro_console::size::Size;
use nitro_cos::{Kind, StreamPart, Volume};
use nitro_port::buf::BufMut;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Advice, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that one thread takes at a time.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Interval in bytes at which an import records its progress, so that it can continue from there after an interruption.
const NOTED_EVERY_BYTES: u64 = 128 << 20;

/// Where the content of an import is from.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A file or block device; `-`: standard input.
    Path(&'a Path),
    /// The standard output of a command: a program and its arguments.
    Command(&'a [OsString]),
}

/// The arguments of an import.
#[derive(Debug, Clone, Copy)]
pub struct Import<'a> {
    /// The store, as errors name it.
    pub store: &'a Path,
    /// The object's name.
    pub name: &'a str,
    /// The content.
    pub source: Content<'a>,
    /// The kind of the object; `None`: a volume for a file or device, a stream for everything else.
    pub kind: Option<Kind>,
    /// Bytes of a volume's chunks; `None`: the store's default.
    pub chunk_bytes: Option<u32>,
    /// Threads; `None`: as many as the machine has processors.
    pub threads: Option<u8>,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Bytes of the object.
    pub bytes: u64,
    /// Bytes that an earlier import had stored.
    pub resumed_at: u64,
}

/// Imports an object. Shows the progress on standard error. If a signal interrupts the import of a volume, it can be
/// continued, as long as the source is the same file with the same content.
///
/// # Errors
/// The source cannot be read or was changed meanwhile, the command fails, the store is full or fails, or a signal has
/// arrived.
pub async fn import(args: Import<'_>, store: &Arc<CosStore>) -> Result<Imported, Error> {
    let no_size = |what: &str| {
        let why = "a volume is imported from a file or a device, since its size must be known";
        Error::new(what, why).or("leave out --kind volume")
    };
    let bytes = match (args.source, args.kind) {
        (Content::Command(_), Some(Kind::Volume)) => return Err(no_size("--from-command")),
        (Content::Command(command), _) => import_output(args, store, command).await?,
        (Content::Path(path), Some(Kind::Volume)) if path == Path::new("-") => return Err(no_size("standard input")),
        (Content::Path(path), _) if path == Path::new("-") => {
            let input = stdin().as_fd().try_clone_to_owned().map(File::from);
            import_stream(args, store, input.map_err(|e| Error::new("-", e))?, path, None).await?
        }
        (Content::Path(path), Some(Kind::Stream)) => {
            let input = File::open(path).map_err(|e| Error::new(path.display(), e))?;
            import_stream(args, store, input, path, None).await?
        }
        (Content::Path(path), _) => return import_volume(args, store, path).await,
    };
    Ok(Imported { bytes, resumed_at: 0 })
}

/// Imports the standard output of a command, which is not started if there is an object of the name already.
async fn import_output(args: Import<'_>, store: &Arc<CosStore>, command: &[OsString]) -> Result<u64, Error> {
    // Signals are handled before there is a command that one could leave behind.
    Signals::handle()?;
    let fail = |e: nitro_cos::Error| failed(args.store, &e);
    drop(store.import_stream(args.name, now()).await.map_err(fail)?);
    let (producer, output) = Producer::start(command)?;
    let name = producer.name();
    import_stream(args, store, output, Path::new(&name), Some(producer)).await
}

/// What the threads of an import share.
struct Segments {
    source: Source,
    size: u64,
    next: AtomicU64,
    /// The end of the first finished part, and the finished parts behind the first gap: their ends, by their starts.
    done: Mutex<(u64, BTreeMap<u64, u64>)>,
    bytes: AtomicU64,
    ended: AtomicBool,
    /// The store was full.
    is_full: AtomicBool,
}

impl Shared for Segments {
    fn end(&self) {
        self.ended.store(true, SeqCst);
    }
}

impl Segments {
    fn finish(&self, from: u64, to: u64) {
        self.bytes.fetch_add(to - from, SeqCst);
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.1.insert(from, to);
        let mut at = done.0;
        while let Some(end) = done.1.remove(&at) {
            at = end;
        }
        done.0 = at;
    }

    /// The offset up to which everything is stored.
    fn prefix(&self) -> u64 {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// The offset of the first byte at or behind `from` that is not in a hole. If the file has become shorter than `from`,
    /// everything behind seems to be a hole; [`Source::check`] finds that out.
    fn data_from(&self, from: u64) -> u64 {
        match rustix::fs::seek(&self.source.file, SeekFrom::Data(from)) {
            Ok(at) => at,
            Err(Errno::NXIO) => self.size,
            Err(_) => from,
        }
    }
}

async fn import_volume(args: Import<'_>, store: &Arc<CosStore>, path: &Path) -> Result<Imported, Error> {
    let signals = Signals::handle()?;
    let source = File::open(path).map_err(|e| Error::new(path.display(), e))?;
    let source = Source::new(source, path)?;
    let size = source.size().map_err(|e| Error::new(path.display(), e))?;
    let (token, is_lasting) = source.token();
    // Only advice: pipes and the like have no use for it.
    let _ = rustix::fs::fadvise(&source.file, 0, None, Advice::Sequential);
    let fail = |e: nitro_cos::Error| failed(args.store, &e);
    let (volume, from) = store.begin_import(args.name, size, (args.chunk_bytes, token), now()).await.map_err(fail)?;
    if from > 0 {
        nitro_console::note!("continuing at {} of {}", Size(from), Size(size));
    }
    let shared = Arc::new(Segments {
        source,
        size,
        next: AtomicU64::new(from),
        done: Mutex::new((from, BTreeMap::new())),
        bytes: AtomicU64::new(from),
        ended: AtomicBool::new(false),
        is_full: AtomicBool::new(false),
    });
    let workers = Workers::start("import", count(args.threads), &shared, |thread, shared| {
        let volume = volume.in_lane(thread);
        move || async move { at_once(&*shared, || import_segments(&volume, &shared)).await }
    })?;
    let progress = Progress::new(size, "imported");
    let mut noted = from;
    let note = async || {
        progress.show(shared.bytes.load(SeqCst));
        let prefix = shared.prefix();
        if let Some(name) = signals.get(Urgency::InOrder) {
            store.note_import(&volume, prefix).await.map_err(fail)?;
            let why = format!("{name} interrupted the import at {} of {}", Size(prefix), Size(size));
            return Err(Error::new(args.name, why).or(match is_lasting {
                true => "the same command continues it",
                false => {
                    "the same command begins anew: a device, or a file that was changed just before, may have changed"
                }
            }));
        }
        if prefix < noted + NOTED_EVERY_BYTES {
            return Ok(());
        }
        noted = prefix;
        store.note_import(&volume, prefix).await.map_err(fail)
    };
    let mut done = workers.finish((args.store, path.display()), note).await;
    progress.end();
    if let Err(changed) = shared.source.check(path) {
        // Whatever else happened: what was read is no content that the source ever had.
        store.abandon_import(&volume).await.map_err(fail)?;
        return Err(changed);
    }
    if done.is_ok() {
        let finished = store.finish_import(&volume).await;
        shared.is_full.fetch_or(finished.as_ref().is_err_and(nitro_cos::Error::is_full), SeqCst);
        done = finished.map_err(fail);
    }
    if done.is_err() && shared.is_full.load(SeqCst) {
        // Unlike one that was broken off, it could not go on: its room is of more use.
        store.abandon_import(&volume).await.map_err(fail)?;
    }
    done.map(|()| Imported { bytes: size, resumed_at: from }).map_err(|error| match shared.is_full.load(SeqCst) {
        true => error.or("no part of the import is kept; `nitro cos gc` frees its space"),
        false => error,
    })
}

async fn import_segments(volume: &Volume<StoreDevice>, shared: &Segments) -> Result<(), Failed> {
    let chunk_bytes = u64::from(volume.chunk_bytes());
    loop {
        let from = shared.next.fetch_add(SEGMENT_BYTES, SeqCst);
        if from >= shared.size || shared.ended.load(SeqCst) {
            return Ok(());
        }
        let to = (from + SEGMENT_BYTES).min(shared.size);
        let data_from = shared.data_from(from) / chunk_bytes * chunk_bytes;
        if data_from < to {
            let start = data_from.max(from);
            let len = (to - start) as usize;
            let mut data = BufMut::with_len(len.next_multiple_of(chunk_bytes as usize));
            shared.source.file.read_exact_at(&mut data[..len], start).map_err(Failed::File)?;
            data[len..].fill(0);
            volume.write_padded(start, data.freeze()).await.map_err(|error| {
                shared.is_full.fetch_or(error.is_full(), SeqCst);
                Failed::Store(error)
            })?;
        }
        shared.finish(from, to);
    }
}

/// Bytes of a stream that one thread stores at a time.
const PART_BYTES: usize = 4 << 20;

/// Parts that are cut ahead of the threads that store them.
const PARTS_CUT_AHEAD: usize = 4;

/// How often the thread that waits for a stream's source checks whether it has to end.
const READ_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Cuts a stream into parts, in order.
struct Cutter {
    input: File,
    /// Bytes that were read and not cut yet.
    rest: Vec<u8>,
    number: u64,
    is_at_end: bool,
}

type Part = (u64, Bytes, Vec<std::ops::Range<usize>>);

impl Cutter {
    /// Cuts the next part. `None`: there is none, or `ended` is set.
    fn next(&mut self, store: &CosStore, ended: &AtomicBool) -> io::Result<Option<Part>> {
        self.rest.reserve_exact(PART_BYTES.saturating_sub(self.rest.len()));
        while self.rest.len() < PART_BYTES && !self.is_at_end {
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

/// Imports what `input`, which errors call `path`, contains until its end. If it is from a command, the object is created
/// only if that succeeds.
async fn import_stream(
    args: Import<'_>,
    store: &Arc<CosStore>,
    input: File,
    path: &Path,
    mut producer: Option<Producer>,
) -> Result<u64, Error> {
    let signals = Signals::handle()?;
    let fail = |e: nitro_cos::Error| failed(args.store, &e);
    let source = Source::new(input.try_clone().map_err(|e| Error::new(path.display(), e))?, path)?;
    let mut import = store.import_stream(args.name, now()).await.map_err(fail)?;
    let cutter = Mutex::new(Some(Cutter { input, rest: Vec::new(), number: 0, is_at_end: false }));
    let shared = Arc::new(StreamShared {
        cut: Mutex::default(),
        changed: Event::new(),
        stored: Mutex::new(BTreeMap::new()),
        ended: AtomicBool::new(false),
        pushed: AtomicU64::new(0),
    });
    // The first thread waits for the source, which may take its time; that holds up none of those that store.
    let workers = Workers::start("import", 1 + count(args.threads), &shared, |number, shared| {
        let store = Arc::clone(store);
        let cutter = cutter.lock().unwrap_or_else(PoisonError::into_inner).take();
        move || async move {
            match cutter {
                Some(cutter) => cut_parts(cutter, &store, &shared).await,
                None => at_once(&*shared, || store_parts(&store, number - 1, &shared)).await,
            }
        }
    })?;
    let (mut next, mut bytes) = (0, 0);
    let push = async || {
        while let Some((len, part)) = shared.take_stored(next) {
            import.push(part).await.map_err(fail)?;
            bytes += len;
            next += 1;
            shared.pushed.store(next, SeqCst);
        }
        if let Some(name) = signals.get(Urgency::InOrder) {
            return Err(Error::new(
                args.name,
                format_args!("{name} interrupted the import, and no part of it is kept"),
            ));
        }
        Ok(())
    };
    workers.finish((args.store, path.display()), push).await?;
    source.check(path)?;
    if let Some(producer) = &mut producer {
        producer.succeed(signals).await?;
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
