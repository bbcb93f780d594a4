//! `nitro index`: hash tables on flash, measured and planned.

mod bench;
pub(crate) mod load;
mod plan;

use crate::args::{IndexCommand, ShapeArgs};
use nitro_console::error::Error;
use nitro_device::{CompioClock, ReactorThread, spawn_thread};
use nitro_index::bufferhash::BufferHash;
use nitro_index::silt::Silt;
use nitro_index::{FlashIndex, Shape};
use nitro_port::Device;
use std::sync::Arc;

/// Runs one of its commands.
pub(crate) fn run(command: &IndexCommand) -> Result<(), Error> {
    match command {
        IndexCommand::Bench(args) => bench::run(args),
        IndexCommand::Plan(args) => plan::run(args),
    }
}

/// An index to be measured.
pub(crate) trait Measured: FlashIndex + Send + Sync + Sized + 'static {
    /// What it does behind its users' backs, until it is told to stop.
    async fn work(&self) -> Result<(), nitro_index::Error>;

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
pub(crate) struct Behind<I> {
    index: Arc<I>,
    thread: ReactorThread<Result<(), nitro_index::Error>>,
}

impl<I: Measured> Behind<I> {
    pub(crate) fn start(index: &Arc<I>) -> Result<Self, Error> {
        let theirs = Arc::clone(index);
        let thread = spawn_thread("behind", move || async move { theirs.work().await });
        Ok(Self { index: Arc::clone(index), thread: thread.map_err(|e| Error::with_sources("threads", &e))? })
    }

    pub(crate) fn end(self) -> Result<(), Error> {
        self.index.stop();
        let ended = self.thread.join().map_err(|_| Error::new("index", "its background work panicked"))?;
        ended.map_err(|e| Error::with_sources("index", &e))
    }
}

impl ShapeArgs {
    fn shape(&self) -> Result<Shape, Error> {
        Shape::new(self.key_bytes, self.value_bytes).map_err(|e| Error::with_sources("index", &e))
    }
}
