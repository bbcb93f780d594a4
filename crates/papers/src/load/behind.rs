//! The background work of an index.

use nitro_console::error::Error;
use nitro_device::{CompioClock, ReactorThread, spawn_thread};
use nitro_index::FlashIndex;
use nitro_index::bufferhash::BufferHash;
use nitro_index::silt::Silt;
use nitro_port::Device;
use std::sync::Arc;

/// An index that can be measured.
pub trait Measured: FlashIndex + Send + Sync + Sized + 'static {
    /// Runs the background work until [`stop`](Self::stop) is called.
    fn work(&self) -> impl Future<Output = Result<(), nitro_index::Error>>;

    /// Ends [`work`](Self::work) soon.
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

/// The background work of an index on its own thread.
pub struct Behind<I> {
    index: Arc<I>,
    thread: ReactorThread<Result<(), nitro_index::Error>>,
}

impl<I: Measured> Behind<I> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(index: &Arc<I>) -> Result<Self, Error> {
        let theirs = Arc::clone(index);
        let thread = spawn_thread("behind", move || async move { theirs.work().await });
        Ok(Self { index: Arc::clone(index), thread: thread.map_err(|e| Error::with_sources("threads", &e))? })
    }

    /// Ends the work and joins the thread.
    ///
    /// # Errors
    /// The error of the background work.
    pub fn end(self) -> Result<(), Error> {
        self.index.stop();
        let ended = self.thread.join().map_err(|_| Error::new("index", "its background work panicked"))?;
        ended.map_err(|e| Error::with_sources("index", &e))
    }
}
