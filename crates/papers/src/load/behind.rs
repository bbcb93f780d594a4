//! What an index does behind its users' backs.

use nitro_console::error::Error;
use nitro_device::{CompioClock, ReactorThread, spawn_thread};
use nitro_index::FlashIndex;
use nitro_index::bufferhash::BufferHash;
use nitro_index::silt::Silt;
use nitro_port::Device;
use std::sync::Arc;

/// An index to be measured.
pub trait Measured: FlashIndex + Send + Sync + Sized + 'static {
    /// What it does behind its users' backs, until it is told to stop.
    fn work(&self) -> impl Future<Output = Result<(), nitro_index::Error>>;

    /// Has [`work`](Self::work) end soon.
    fn stop(&self);
}

impl<D: Device> Measured for BufferHash<D> {
    async fn work(&self) -> Result<(), nitro_index::Error> {
        Ok(())
    }

    fn stop(&self) {}
}

impl<D: Device> Measured for Silt<D> {
    async fn work(&self) -> Result<(), nitro_index::Error> {
        self.run_background(&CompioClock::new()).await
    }

    fn stop(&self) {
        self.stop_background();
    }
}

/// What the index does behind, on a thread of its own.
pub struct Behind<I> {
    index: Arc<I>,
    thread: ReactorThread<Result<(), nitro_index::Error>>,
}

impl<I: Measured> Behind<I> {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(index: &Arc<I>) -> Result<Self, Error> {
        let theirs = Arc::clone(index);
        let thread = spawn_thread("behind", move || async move { theirs.work().await });
        Ok(Self { index: Arc::clone(index), thread: thread.map_err(|e| Error::with_sources("threads", &e))? })
    }

    /// Ends the work, and waits for the thread.
    ///
    /// # Errors
    /// What the work failed with.
    pub fn end(self) -> Result<(), Error> {
        self.index.stop();
        let ended = self.thread.join().map_err(|_| Error::new("index", "its background work panicked"))?;
        ended.map_err(|e| Error::with_sources("index", &e))
    }
}
