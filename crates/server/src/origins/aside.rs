//! Work that blocks, on a thread of its own.

use futures_channel::oneshot;
use nitro_console::error::Error;
use std::thread;

/// Runs `work` on a separate thread, so that a file system that does not answer blocks no reactor. The work continues
/// if its caller is dropped.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new()
        .name("nitro-files".to_owned())
        // Refused only when nobody waits for the result any more.
        .spawn(move || drop(sender.send(work())))
        .map_err(|e| Error::new("threads", e).or("raise the limit of threads"))?;
    receiver.await.map_err(|_| Error::new("files", "the thread that works on them panicked").or("please report it"))
}
