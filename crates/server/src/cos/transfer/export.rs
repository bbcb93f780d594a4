//! Exports to files, block devices and standard output.

use super::threads::{Failed, Shared, Workers, count};
use crate::cos::StoreDevice;
use bytes::Bytes;
use event_listener::Event;
use futures_util::stream::{self, StreamExt};
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_cos::Volume;
use nitro_files as files;
use nitro_port::Device;
use nitro_port::buf::is_zero;
use nitro_port::yielding::attempt_at;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one read.
const SEGMENT_BYTES: u64 = 1 << 20;
/// The minimum number of segments that each thread reads concurrently: while it decompresses and writes one, the device
/// reads others.
const SEGMENTS_AHEAD_MIN: usize = 4;
/// The minimum number for all threads: two ranges of read-ahead, so that one is read while the other is decompressed.
const SEGMENTS_MIN: usize = 16;

/// The arguments of an export.
#[derive(Debug, Clone, Copy)]
pub struct Export<'a> {
    /// The store, as errors name it.
    pub store: &'a Path,
    /// A file that does not exist yet, or a block device; `-`: standard output.
    pub target: &'a Path,
    /// The target may exist, and is overwritten.
    pub force: bool,
    /// Threads; `None`: as many as the machine has processors.
    pub threads: Option<u8>,
}

/// Segments that each of some threads reads concurrently.
fn segments_ahead(threads: usize) -> usize {
    SEGMENTS_MIN.div_ceil(threads).max(SEGMENTS_AHEAD_MIN)
}

fn is_stdout(target: &Path) -> bool {
    target == Path::new("-")
}

/// Exports an object, and returns its size in bytes. Shows the progress on standard error. A file is written as
/// `TARGET.part`, and renamed when it is complete.
///
/// # Errors
/// The target exists and may not be overwritten, it is neither a regular file nor a block device, it cannot be written,
/// or the store fails.
pub async fn export(args: Export<'_>, volume: &Volume<StoreDevice>) -> Result<u64, Error> {
    let target = args.target;
    if is_stdout(target) {
        return to_stdout(args, volume).await;
    }
    let kind = fs::metadata(target).ok().map(|m| m.file_type());
    let is_device = kind.is_some_and(|kind| kind.is_block_device());
    // A file takes the target's place: /dev/null must not become one.
    if kind.is_some_and(|kind| !kind.is_file() && !is_device) {
        return Err(Error::new(target.display(), "it is neither a regular file nor a block device")
            .or("name a file, or - for standard output"));
    }
    if kind.is_some() && !args.force {
        let what = if is_device { "all data on the device would be lost" } else { "it exists already" };
        return Err(Error::new(target.display(), what).or("add --force to confirm"));
    }
    let part = match is_device {
        true => target.to_owned(),
        false => PathBuf::from(format!("{}.part", target.display())),
    };
    let opened = match is_device {
        true => files::open_target(&part),
        false => open_part(&part),
    };
    let file = opened.map_err(|e| Error::new(part.display(), e).or("remove it, or name another file"))?;
    if !is_device {
        lock(&file, &part)?;
    }
    // All that an export that was broken off had written is written again: it may have been one of another object.
    let there = if is_device { 0 } else { file.metadata().map_or(0, |m| m.len()) };
    if !is_device {
        file.set_len(volume.size_bytes()).map_err(|e| Error::new(part.display(), e))?;
    }
    let kept = file.try_clone().map_err(|e| Error::new(part.display(), e))?;
    let written = to_file(args, volume, file, there, is_device).await?;
    if !is_device {
        check_same(&kept, &part)?;
        place(&part, target, args.force)?;
    }
    Ok(written)
}

/// Keeps other exports away from an unfinished file.
fn lock(file: &File, part: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => check_same(file, part),
        Err(TryLockError::WouldBlock) => {
            Err(Error::new(part.display(), "another export is writing to it").or("wait for it, or name another file"))
        }
        // On a file system without locks.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Checks that `part` is still the name of `file`: not if another export has finished it, or it was replaced.
fn check_same(file: &File, part: &Path) -> Result<(), Error> {
    let of = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    if of(file.metadata()) == of(fs::symlink_metadata(part)) {
        return Ok(());
    }
    Err(Error::new(part.display(), "it was renamed or replaced meanwhile").or("export to another name"))
}

/// Gives an export its name. A target that has appeared meanwhile is replaced only by `force`.
fn place(part: &Path, target: &Path, force: bool) -> Result<(), Error> {
    let flags = if force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match rustix::fs::renameat_with(CWD, part, CWD, target, flags) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Error::new(target.display(), "it was created meanwhile")
            .or(format_args!("add --force to replace it; {} has the object", part.display()))),
        // A file system that cannot rename in this way.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(part, target).map_err(|e| Error::new(target.display(), e)),
        Err(e) => Err(Error::new(target.display(), io::Error::from(e))),
    }
}

/// The unfinished file of an export: that of an interrupted export, which is overwritten, or a new one.
fn open_part(part: &Path) -> io::Result<File> {
    match files::create_new(part) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => files::open_own(part),
        created => created,
    }
}

/// What the threads of an export share.
struct Target {
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

impl Shared for Target {
    fn end(&self) {
        self.ended.store(true, SeqCst);
    }
}

impl Target {
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

async fn to_file(
    args: Export<'_>,
    volume: &Volume<StoreDevice>,
    file: File,
    there: u64,
    overwrite: bool,
) -> Result<u64, Error> {
    let size = volume.size_bytes();
    let shared = Arc::new(Target {
        file,
        size,
        there,
        overwrite,
        next: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    });
    let threads = count(args.threads);
    let workers = Workers::start("export", threads, &shared, |_, shared| {
        let volume = volume.clone();
        move || async move { export_segments(&volume, &shared, segments_ahead(threads)).await }
    })?;
    finish(args, workers, size, &shared.bytes).await?;
    // A file is as durable as one that was copied; who takes out a device expects its content to be on it.
    if overwrite {
        shared.file.sync_all().map_err(|e| Error::new(args.target.display(), e))?;
    }
    Ok(size)
}

/// Waits for the threads, and shows their progress.
async fn finish<S: Shared>(args: Export<'_>, workers: Workers<S>, size: u64, bytes: &AtomicU64) -> Result<(), Error> {
    let target = if is_stdout(args.target) { Path::new("standard output") } else { args.target };
    let progress = Progress::new(size, "exported");
    let tell = async || {
        progress.show(bytes.load(SeqCst));
        Ok(())
    };
    let done = workers.finish((args.store, target.display()), tell).await;
    progress.end();
    done
}

async fn export_segments(volume: &Volume<StoreDevice>, shared: &Target, at_once: usize) -> Result<(), Failed> {
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

/// The order in which segments are written to standard output.
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

/// What the threads of an export to standard output share.
struct Output {
    out: File,
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
            (&self.out).write_all(&data).map_err(Failed::File)?;
            self.bytes.fetch_add(data.len() as u64, SeqCst);
            self.turn.end(segment);
        }
        Ok(())
    }
}

/// The threads take segments in turn; each thread writes its segment when the previous ones are written.
async fn to_stdout(args: Export<'_>, volume: &Volume<StoreDevice>) -> Result<u64, Error> {
    let size = volume.size_bytes();
    // Not by way of the buffer, which looks for ends of lines.
    let out = stdout().as_fd().try_clone_to_owned().map_err(|e| Error::new("standard output", e))?;
    let turn = Turn { next: Mutex::new(Some(0)), changed: Event::new() };
    let shared = Arc::new(Output { out: File::from(out), turn, bytes: AtomicU64::new(0) });
    let threads = count(args.threads);
    let workers = Workers::start("export", threads, &shared, |first, shared| {
        let volume = volume.clone();
        move || async move {
            let mine = (first as u64..size.div_ceil(SEGMENT_BYTES)).step_by(threads);
            write_segments(&volume, mine, &shared, segments_ahead(threads)).await
        }
    })?;
    finish(args, workers, size, &shared.bytes).await?;
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
