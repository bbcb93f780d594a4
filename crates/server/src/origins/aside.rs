//! Work that blocks, on threads of its own.

use nitro_console::error::Error;
use nitro_device::Blocking;
use parking_lot::Mutex;
use std::sync::Arc;

/// Threads that a server keeps for such work, so that none of it fails for lack of a thread.
const KEPT: usize = 4;
/// Maximum number of threads: a file system that does not answer holds one for each volume on it.
const THREADS_MAX: usize = 256;

/// The threads, if they were started.
static THREADS: Mutex<Option<Arc<Blocking>>> = Mutex::new(None);

/// Starts the threads. To be called before volumes are served.
///
/// # Errors
/// The system refuses them.
pub(crate) fn start() -> Result<(), Error> {
    threads().map(drop)
}

fn threads() -> Result<Arc<Blocking>, Error> {
    let mut threads = THREADS.lock();
    if let Some(threads) = &*threads {
        return Ok(Arc::clone(threads));
    }
    let started = Blocking::keeping(KEPT, THREADS_MAX)
        .map_err(|e| Error::new("threads", e).or("raise the limit of threads (ulimit -u, TasksMax=)"))?;
    Ok(Arc::clone(threads.insert(Arc::new(started))))
}

/// Runs `work` on a separate thread, so that a file system that does not answer blocks no reactor. Work that has begun
/// continues if its caller is dropped.
///
/// # Errors
/// The threads could not be started (in a server, they run before the first volume is opened), or `work` panicked.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = threads()?.run(work).await;
    done.map_err(|_| Error::new("files", "the thread that works on them panicked").or("please report it"))
}
