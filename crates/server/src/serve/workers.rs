//! The background threads: a pool for the insertion of clean extents, and one each for dirty extents and journals, for
//! indexes on flash, and for destage and read-ahead.

use super::caches::CacheEntry;
use super::connections::sleep;
use super::flash_index::FlashFingerprints;
use super::open::Caches;
use super::witness;
use crate::export::VolumeExport;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_channel::oneshot;
use futures_util::StreamExt;
use futures_util::future::{Either, join, join_all, join3, select};
use nitro_console::error::Error;
use nitro_device::{ReactorThread, lower_priority, spawn_local, spawn_thread};
use nitro_engine::NoIndex;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn started<T>(result: Result<T, nitro_device::Error>) -> Result<T, Error> {
    result.map_err(|e| Error::with_sources("threads", &e).or("raise the limit of threads or of locked memory"))
}

pub(super) fn ended<T>(thread: ReactorThread<T>) -> Result<T, Error> {
    thread.join().map_err(|_| Error::new("threads", "a thread panicked").or("see the log; please report it"))
}

/// How long insertion may take to end.
const FINISH_MAX: Duration = Duration::from_secs(120);
const FINISH_LOOK: Duration = Duration::from_millis(2);

/// Insertion and journals of all caches.
pub(super) struct CacheWorkers {
    caches: Vec<Arc<CacheEntry>>,
    /// The pool. Each of its threads is a worker of every cache.
    clean: Vec<ReactorThread<()>>,
    dirty: ReactorThread<()>,
    indexes: Option<IndexWorker>,
}

/// The thread of all indexes on flash. Look-ups take CPU time there, instead of on the insertion thread.
struct IndexWorker {
    thread: ReactorThread<()>,
    /// Dropped when insertion has ended.
    inserting: oneshot::Sender<()>,
}

impl IndexWorker {
    /// Starts the thread; `None`: there is no index on flash.
    fn start(caches: &[Arc<CacheEntry>]) -> Result<Option<Self>, Error> {
        let with_index = caches.iter().filter(|entry| entry.flash_index.is_some());
        let theirs: Vec<_> = with_index.cloned().collect();
        if theirs.is_empty() {
            return Ok(None);
        }
        let (inserting, inserted) = oneshot::channel();
        let thread = started(spawn_thread("nitro-index", move || async move {
            let indexes = || theirs.iter().filter_map(|entry| entry.flash_index.as_ref());
            select(join_all(indexes().map(|index| index.tend(sleep))), inserted).await;
            join_all(indexes().map(FlashFingerprints::sync)).await;
        }))?;
        Ok(Some(Self { thread, inserting }))
    }
}

impl CacheWorkers {
    /// Starts all threads, `insert_threads` of them for the pool: a limit of threads shows here, and not when they are
    /// needed.
    pub(super) fn start(caches: &Caches, insert_threads: usize) -> Result<Self, Error> {
        let caches: Vec<_> = caches.values().cloned().collect();
        let clean = (0..insert_threads).map(|_| start_inserting(&caches)).collect::<Result<Vec<_>, _>>()?;
        let theirs = caches.clone();
        let dirty = started(spawn_thread("nitro-commit", move || async move {
            join_all(theirs.iter().map(commit)).await;
        }))?;
        let indexes = IndexWorker::start(&caches)?;
        Ok(Self { caches, clean, dirty, indexes })
    }

    /// Lets the workers finish their queues and make the data durable.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.caches.iter().for_each(|entry| entry.cache.close());
        let begun = Instant::now();
        while !(self.clean.iter().all(ReactorThread::is_finished) && self.dirty.is_finished()) {
            if begun.elapsed() > FINISH_MAX {
                let why = "insertion does not end; writes that were not flushed may be lost";
                return Err(Error::new("caches", why).or("check the cache devices"));
            }
            std::thread::sleep(FINISH_LOOK);
        }
        self.clean.into_iter().try_for_each(ended)?;
        ended(self.dirty)?;
        let Some(IndexWorker { thread, inserting }) = self.indexes else { return Ok(()) };
        drop(inserting);
        ended(thread)
    }
}

/// Starts a thread of the pool.
fn start_inserting(caches: &[Arc<CacheEntry>]) -> Result<ReactorThread<()>, Error> {
    let caches = caches.to_vec();
    let thread = spawn_thread("nitro-insert", move || async move {
        lower_priority();
        join_all(caches.iter().map(insert_clean)).await;
    });
    thread.map_err(|e| {
        Error::with_sources("threads", &e)
            .or("give fewer insert_threads, or raise the limit of threads or of locked memory")
    })
}

/// Inserts clean extents until the cache is closed.
async fn insert_clean(entry: &Arc<CacheEntry>) {
    match &entry.flash_index {
        Some(index) => {
            entry.cache.clean_insertion_worker(index).await;
            index.settled().await;
        }
        None => entry.cache.clean_insertion_worker(&NoIndex).await,
    }
}

/// Inserts dirty extents and keeps the journal until the cache is closed, with or without a journal.
async fn commit(entry: &Arc<CacheEntry>) {
    let keeping = async { join(entry.cache.journal_worker(), witness::take_back(entry)).await.0 };
    let (inserting, keeping) = (pin!(entry.cache.dirty_insertion_worker()), pin!(keeping));
    if let Either::Right(((), inserting)) = select(inserting, keeping).await {
        inserting.await;
    }
}

/// Destage and read-ahead of all volumes, including those that are added later.
pub struct VolumeWorkers {
    work: Mutex<Option<UnboundedSender<Arc<VolumeExport>>>>,
    thread: Mutex<Option<ReactorThread<()>>>,
}

impl VolumeWorkers {
    pub(super) fn start() -> Result<Self, Error> {
        let (work, mut taken) = unbounded::<Arc<VolumeExport>>();
        let thread = started(spawn_thread("nitro-destage", move || async move {
            while let Some(export) = taken.next().await {
                spawn_local(tend(export));
            }
        }))?;
        Ok(Self { work: Mutex::new(Some(work)), thread: Mutex::new(Some(thread)) })
    }

    /// Runs the workers of a volume until it is removed. This thread also destages dirty data of an earlier server.
    pub(super) fn tend(&self, export: &Arc<VolumeExport>) {
        let left = Arc::clone(export);
        spawn_local(async move {
            let settling = async {
                if let Err(error) = left.settle().await {
                    tracing::warn!("{error}");
                }
            };
            select(pin!(settling), pin!(left.ended.wait())).await;
        });
        if let Some(work) = self.work.lock().as_ref() {
            // Refused only when the thread has panicked, which shows at the end.
            let _ = work.unbounded_send(Arc::clone(export));
        }
    }

    /// Cancels all work.
    pub(super) fn stop(&self) -> Result<(), Error> {
        drop(self.work.lock().take());
        let thread = self.thread.lock().take();
        thread.map_or(Ok(()), ended)
    }
}

async fn tend(export: Arc<VolumeExport>) {
    let looking = join(export.detection_worker(), export.scan_worker());
    let working = join3(export.volume.readahead_worker(), export.volume.destage_worker(), looking);
    select(pin!(working), pin!(export.ended.wait())).await;
}
