//! Imports of files and block devices as volumes.

use super::{Import, Watch};
use crate::cos::StoreDevice;
use crate::cos::transfer::Unit;
use crate::cos::transfer::source::Source;
use crate::cos::transfer::threads::{Failed, Shared, Workers, at_once};
use crate::cos::{CosStore, failed, now};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::Volume;
use nitro_port::buf::BufMut;
use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that one thread takes at a time.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Interval in bytes at which an import records its progress, so that it can continue from there after an interruption.
const NOTED_EVERY_BYTES: u64 = 128 << 20;

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

/// Returns the size of the volume in bytes, and where the import continued.
pub(super) async fn import(
    args: &Import<'_>,
    store: &Arc<CosStore>,
    file: File,
    watch: &dyn Watch,
) -> Result<(u64, u64), Error> {
    let path = args.source;
    let source = Source::new(file, path)?;
    let size = source.size().map_err(|e| {
        let why = format!("a volume is imported from a file or a device, since its size must be known: {e}");
        Error::new(path.display(), why).or("leave out --kind volume")
    })?;
    let (token, is_lasting) = source.token();
    // Only advice: pipes and the like have no use for it.
    let _ = rustix::fs::fadvise(&source.file, 0, None, Advice::Sequential);
    let fail = |e: nitro_cos::Error| failed(args.store, &e);
    let (volume, from) = store.begin_import(args.name, size, (args.chunk_bytes, token), now()).await.map_err(fail)?;
    if from > 0 {
        watch.note(format!("continuing at {} of {}", Size(from), Size(size)));
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
    let copies = args.pace.at_once;
    let workers = Workers::start("import", args.pace.threads, &shared, |thread, shared| {
        let volume = volume.in_lane(thread);
        move || async move { at_once(&*shared, copies, || import_segments(&volume, &shared)).await }
    })?;
    let mut noted = from;
    let note = async || {
        watch.show("imported", Unit::Bytes, shared.bytes.load(SeqCst), size);
        let prefix = shared.prefix();
        if let Some(cause) = watch.end() {
            store.note_import(&volume, prefix).await.map_err(fail)?;
            let why = format!("{cause} interrupted the import at {} of {}", Size(prefix), Size(size));
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
    done.map(|()| (size, from)).map_err(|error| match shared.is_full.load(SeqCst) {
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
            // The read may have taken long.
            if shared.ended.load(SeqCst) {
                return Ok(());
            }
            volume.write_padded(start, data.freeze()).await.map_err(|error| {
                shared.is_full.fetch_or(error.is_full(), SeqCst);
                Failed::Store(error)
            })?;
        }
        shared.finish(from, to);
    }
}
