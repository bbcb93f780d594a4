//! The traces of a command, for simulations that read them several times from the beginning.

use crate::inside::Inside;
use nitro_commands::traces::{Input, ReadArgs, is_read_once, refused};
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;
use nitro_sim::workload::{Precedence, SaidContents, Source, TraceIdentity};
use nitro_trace::{Reader, TraceError};
use std::path::PathBuf;
use std::sync::Arc;

/// The traces of a command.
pub(crate) struct Traces<'a> {
    paths: &'a [PathBuf],
    read: &'a ReadArgs,
    source: Source<'a>,
    is_shown: bool,
}

impl<'a> Traces<'a> {
    /// The traces at `paths`, classified by the rules of `table`. Errors that can be detected without reading the traces
    /// are returned here. Another program that the laboratory is `inside` of may stop the reading, and shows no progress.
    pub(crate) fn new(
        paths: &'a [PathBuf],
        read: &'a ReadArgs,
        table: &ClassTable,
        precedence: Precedence,
        inside: Option<&Inside>,
    ) -> Result<Self, Error> {
        if let Some(stream) = paths.iter().find(|path| is_read_once(path)) {
            let (stream, what) = match stream.as_os_str() == "-" {
                true => ("-".to_owned(), "standard input"),
                false => (stream.display().to_string(), "a stream"),
            };
            let why = format_args!("simulations may read a trace several times, and {what} only once").to_string();
            return Err(Error::new(format_args!("trace {stream}"), why)
                .or(format_args!("write it to a file first, with `nitro-lab trace convert {stream} trace.parquet`")));
        }
        Input::open(paths, read)?;
        let rules = (!table.rules.0.is_empty()).then(|| (Arc::new(table.rules.clone()), precedence));
        let (is_shown, inside) = (inside.is_none(), inside.cloned());
        let open = move || {
            let reader = Input::reader(paths, read)?;
            Ok(match &inside {
                Some(inside) => inside.watched(reader),
                None => reader,
            })
        };
        Ok(Self { paths, read, source: Source::new(Box::new(open), rules), is_shown })
    }

    /// A reader that starts at the beginning.
    pub(crate) fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        self.source.open()
    }

    /// A reader that starts at the beginning and shows its progress.
    pub(crate) fn open_shown(&self) -> Result<Box<dyn Reader>, Error> {
        if !self.is_shown {
            return self.open().map_err(|e| refused(&e));
        }
        Ok(self.source.classified(Box::new(Input::open(self.paths, self.read)?)))
    }

    /// Whether any request has a class, its own or one from the rules.
    pub(crate) fn has_classes(&self) -> Result<bool, Error> {
        self.source.has_classes().map_err(|e| refused(&e))
    }

    /// What the traces contain about contents.
    pub(crate) fn contents(&self) -> Result<SaidContents, Error> {
        self.source.contents().map_err(|e| refused(&e))
    }

    /// What identifies these traces with these options.
    pub(crate) fn identity(&self) -> Result<TraceIdentity, Error> {
        let identity = self.source.identity(&format!("{:?}", self.read), self.paths);
        identity.map_err(|(path, error)| Error::new(format!("trace {}", path.display()), error))
    }
}

/// The error of a simulation, with a hint.
pub(crate) fn failed(error: nitro_sim::Error) -> Error {
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
