//! The traces of a command, as simulations read them: several times from their beginning.

use crate::args::SimArgs;
use crate::trace::{Input, refused};
use nitro_console::error::Error;
use nitro_server::classes::ClassTable;
use nitro_sim::workload::{Precedence, SaidContents, Source};
use nitro_trace::{Reader, TraceError};
use std::sync::Arc;

/// The traces of a command.
pub(super) struct Traces<'a> {
    args: &'a SimArgs,
    source: Source<'a>,
}

impl<'a> Traces<'a> {
    /// The traces of `args`, classified by the rules of `table`. Refuses what can be told to be wrong before anything is read.
    pub(super) fn new(args: &'a SimArgs, table: &ClassTable) -> Result<Self, Error> {
        if args.traces.iter().any(|path| path.as_os_str() == "-") {
            return Err(Error::new(
                "trace -",
                "simulations may read a trace several times, and standard input only once",
            )
            .or("write it to a file first, with `nitro trace convert - trace.parquet`"));
        }
        Input::open(&args.traces, &args.read)?;
        let precedence = if args.cache.reclassify { Precedence::Rules } else { Precedence::Trace };
        let rules = (!table.rules.0.is_empty()).then(|| (Arc::new(table.rules.clone()), precedence));
        let source = Source::new(Box::new(|| Input::reader(&args.traces, &args.read)), rules);
        Ok(Self { args, source })
    }

    /// From the beginning.
    pub(super) fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        self.source.open()
    }

    /// From the beginning, showing how far it is read.
    pub(super) fn open_shown(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(self.source.classified(Box::new(Input::open(&self.args.traces, &self.args.read)?)))
    }

    /// Whether any request has a class, of its own or by the rules.
    pub(super) fn has_classes(&self) -> Result<bool, Error> {
        self.source.has_classes().map_err(|e| refused(&e))
    }

    /// What the traces say of contents.
    pub(super) fn contents(&self) -> Result<SaidContents, Error> {
        self.source.contents().map_err(|e| refused(&e))
    }

    /// What tells these traces, read this way, from others.
    pub(super) fn identity(&self) -> Result<String, Error> {
        let identity = self.source.identity(&format!("{:?}", self.args.read), &self.args.traces);
        identity.map_err(|(path, error)| Error::new(format!("trace {}", path.display()), error))
    }
}

/// What is wrong with a simulation, with the way out.
pub(super) fn failed(error: nitro_sim::Error) -> Error {
    match error {
        nitro_sim::Error::Trace(error) => refused(&error),
        nitro_sim::Error::Cache(error) => Error::new(format_args!("{} = {}", error.name, error.value), &error.reason)
            .or(format_args!("the nearest valid value is {}", error.nearest)),
        nitro_sim::Error::Results { path, reason } => {
            Error::new(path, reason).or("choose another file with --results, or remove it")
        }
        error @ nitro_sim::Error::Scratch(_) => {
            Error::new("simulation", error).or("point TMPDIR to where there is room")
        }
        error => Error::new("simulation", error).or("see `nitro sim --help` for what goes together"),
    }
}
