//! `nitro index`: hash tables on flash, measured and planned.

mod bench;
mod load;
mod plan;

use crate::args::{IndexCommand, ShapeArgs};
use crate::error::Error;
use nitro_device::{CompioClock, FileDevice};
use nitro_index::bufferhash::BufferHash;
use nitro_index::silt::Silt;
use nitro_index::{FlashIndex, Shape};
use std::sync::Arc;

/// Runs one of its commands.
pub(crate) fn run(command: &IndexCommand) -> Result<(), Error> {
    match command {
        IndexCommand::Bench(args) => bench::run(args),
        IndexCommand::Plan(args) => plan::run(args),
    }
}

/// An index to be measured.
trait Measured: FlashIndex + Send + Sync + Sized + 'static {
    /// What it does behind its users' backs, until it is told to stop.
    async fn work(&self) -> Result<(), nitro_index::Error>;

    fn stop(&self);
}

impl Measured for BufferHash<Arc<FileDevice>> {
    async fn work(&self) -> Result<(), nitro_index::Error> {
        Ok(())
    }

    fn stop(&self) {}
}

impl Measured for Silt<Arc<FileDevice>> {
    async fn work(&self) -> Result<(), nitro_index::Error> {
        self.run_background(&CompioClock::new()).await
    }

    fn stop(&self) {
        self.stop_background();
    }
}

impl ShapeArgs {
    fn shape(&self) -> Result<Shape, Error> {
        Shape::new(self.key_bytes, self.value_bytes).map_err(|e| Error::with_sources("index", &e))
    }
}
