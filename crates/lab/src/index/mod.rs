//! `nitro-lab index`: benchmarks and plans of hash tables on flash.

mod bench;
mod plan;

use crate::args::{IndexCommand, ShapeArgs};
use nitro_console::error::Error;
use nitro_index::Shape;

/// Runs `nitro-lab index ...`.
pub(crate) fn run(command: &IndexCommand) -> Result<(), Error> {
    match command {
        IndexCommand::Bench(args) => bench::run(args),
        IndexCommand::Plan(args) => plan::run(args),
    }
}

impl ShapeArgs {
    fn shape(&self) -> Result<Shape, Error> {
        Shape::new(self.key_bytes, self.value_bytes).map_err(|e| Error::with_sources("index", &e))
    }
}
