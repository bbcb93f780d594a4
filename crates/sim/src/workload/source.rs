//! A trace as simulations read it: several times from its beginning.

use crate::args::SimArgs;
use crate::trace::{Input, refused};
use nitro_cache::class::Rules;
use nitro_console::error::Error;
use nitro_server::classes::ClassTable;
use nitro_sim::workload::{Classified, Precedence};
use nitro_trace::{Reader, Request, TraceError};
use std::fmt::Write;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// Bytes at both ends of a file that tell it from others.
const SAMPLED_BYTES: u64 = 1 << 16;

/// Requests within which a trace that tells of contents does so.
const CONTENTS_REQUESTS: u32 = 100_000;

/// What a trace says of contents; the rest is made up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Which are the same.
    pub(super) fingerprints: bool,
    /// What they take when compressed.
    pub(super) compressed_sizes: bool,
}

/// The traces of a command.
pub(super) struct Source<'a> {
    args: &'a SimArgs,
    rules: Option<Arc<Rules>>,
}

impl<'a> Source<'a> {
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
        let rules = (!table.rules.0.is_empty()).then(|| Arc::new(table.rules.clone()));
        Ok(Self { args, rules })
    }

    /// From the beginning.
    pub(super) fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        Ok(self.classified(Input::reader(&self.args.traces, &self.args.read)?))
    }

    fn precedence(&self) -> Precedence {
        if self.args.cache.reclassify { Precedence::Rules } else { Precedence::Trace }
    }

    fn classified(&self, reader: Box<dyn Reader>) -> Box<dyn Reader> {
        match &self.rules {
            Some(rules) => Box::new(Classified::new(reader, Arc::clone(rules), self.precedence())),
            None => reader,
        }
    }

    /// Whether any request has a class, of its own or by the rules: reads up to the first that has.
    pub(super) fn has_classes(&self) -> Result<bool, Error> {
        let mut reader = self.open().map_err(|e| refused(&e))?;
        let mut request = Request::default();
        while reader.next(&mut request).map_err(|e| refused(&e))? {
            if request.class.is_classified() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// From the beginning, showing how far it is read.
    pub(super) fn open_shown(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(self.classified(Box::new(Input::open(&self.args.traces, &self.args.read)?)))
    }

    /// What the trace says of contents, from its first requests.
    pub(super) fn contents(&self) -> Result<Contents, Error> {
        let mut reader = self.open().map_err(|e| refused(&e))?;
        let (mut request, mut found) = (Request::default(), Contents::default());
        for _ in 0..CONTENTS_REQUESTS {
            if found.fingerprints && found.compressed_sizes || !reader.next(&mut request).map_err(|e| refused(&e))? {
                break;
            }
            found.fingerprints |= !request.fingerprints.is_empty();
            found.compressed_sizes |= request.compressed_bytes.is_some();
        }
        Ok(found)
    }

    /// What tells this trace, read this way, from others.
    pub(super) fn identity(&self) -> Result<String, Error> {
        let mut identity = format!("{:?}", self.args.read);
        // What classes deserve is in the settings; which requests are of which is of the trace.
        if let Some(rules) = &self.rules {
            let _ = write!(identity, " {:?} {rules:?}", self.precedence());
        }
        for path in &self.args.traces {
            let (len, ends) = ends(path).map_err(|error| Error::new(format!("trace {}", path.display()), error))?;
            let _ = write!(identity, " {len}:{ends:016x}");
        }
        Ok(identity)
    }
}

/// A file's length, and a hash of its beginning and end.
fn ends(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    // SipHash with fixed keys: the same in every run of this program.
    let mut hasher = DefaultHasher::new();
    let mut bytes = Vec::new();
    (&mut file).take(SAMPLED_BYTES).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(len.saturating_sub(SAMPLED_BYTES)))?;
    file.take(SAMPLED_BYTES).read_to_end(&mut bytes)?;
    hasher.write(&bytes);
    Ok((len, hasher.finish()))
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
