//! The traces of a command, for simulations that read them several times from the beginning.

use crate::args::SimArgs;
use nitro_commands::traces::{Input, is_read_once, refused};
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;
use nitro_sim::workload::{Precedence, SaidContents, Source, TraceIdentity};
use nitro_trace::{Reader, TraceError};
use std::sync::Arc;

/// The traces of a command.
pub(super) struct Traces<'a> {
    args: &'a SimArgs,
    source: Source<'a>,
}

impl<'a> Traces<'a> {
    /// The traces of `args`, classified by the rules of `table`. Errors that can be detected without reading the traces
    /// are returned here.
    pub(super) fn new(args: &'a SimArgs, table: &ClassTable) -> Result<Self, Error> {
        if let Some(stream) = args.traces.iter().find(|path| is_read_once(path)) {
            let (stream, what) = match stream.as_os_str() == "-" {
                true => ("-".to_owned(), "standard input"),
                false => (stream.display().to_string(), "a stream"),
            };
            let why = format_args!("simulations may read a trace several times, and {what} only once").to_string();
            return Err(Error::new(format_args!("trace {stream}"), why)
                .or(format_args!("write it to a file first, with `nitro-lab trace convert {stream} trace.parquet`")));
        }
        Input::open(&args.traces, &args.read)?;
        let precedence = if args.cache.reclassify { Precedence::Rules } else { Precedence::Trace };
        let rules = (!table.rules.0.is_empty()).then(|| (Arc::new(table.rules.clone()), precedence));
        let source = Source::new(Box::new(|| Input::reader(&args.traces, &args.read)), rules);
        Ok(Self { args, source })
    }

    /// A reader that starts at the beginning.
    pub(super) fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        self.source.open()
    }

    /// A reader that starts at the beginning and shows its progress.
    pub(super) fn open_shown(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(self.source.classified(Box::new(Input::open(&self.args.traces, &self.args.read)?)))
    }

    /// Whether any request has a class, its own or one from the rules.
    pub(super) fn has_classes(&self) -> Result<bool, Error> {
        self.source.has_classes().map_err(|e| refused(&e))
    }

    /// What the traces contain about contents.
    pub(super) fn contents(&self) -> Result<SaidContents, Error> {
        self.source.contents().map_err(|e| refused(&e))
    }

    /// What identifies these traces with these options.
    pub(super) fn identity(&self) -> Result<TraceIdentity, Error> {
        let identity = self.source.identity(&format!("{:?}", self.args.read), &self.args.traces);
        identity.map_err(|(path, error)| Error::new(format!("trace {}", path.display()), error))
    }
}

/// The error of a simulation, with a hint.
pub(super) fn failed(error: nitro_sim::Error) -> Error {
    match error {
        nitro_sim::Error::Trace(error) => refused(&error),
        nitro_sim::Error::Cache(error) => Error::new(format_args!("{} = {}", error.name, error.value), &error.reason)
            .or(format_args!("the nearest valid value is {}", error.nearest)),
        nitro_sim::Error::Results { path, reason } => {
            Error::new(path, reason).or("choose another file with --results, or remove it")
        }
        error @ nitro_sim::Error::Changed { .. } => {
            Error::told(&error.to_string()).or("simulate it again when nothing writes to it any more")
        }
        error @ nitro_sim::Error::Scratch(_) => {
            Error::new("simulation", error).or("set TMPDIR to a folder with enough room")
        }
        error => Error::new("simulation", error).or("see `nitro-lab sim --help` for the possible combinations"),
    }
}
