//! A trace as simulations read it: several times from its beginning.

use crate::args::SimArgs;
use crate::trace::{Input, refused};
use nitro_console::error::Error;
use nitro_trace::{Reader, Request, TraceError};
use std::fmt::Write;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

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
}

impl<'a> Source<'a> {
    /// Refuses what can be told to be wrong before anything is read.
    pub(super) fn new(args: &'a SimArgs) -> Result<Self, Error> {
        if args.traces.iter().any(|path| path.as_os_str() == "-") {
            return Err(Error::new(
                "trace -",
                "simulations may read a trace several times, and standard input only once",
            )
            .or("write it to a file first, with `nitro trace convert - trace.parquet`"));
        }
        Input::open(&args.traces, &args.read)?;
        Ok(Self { args })
    }

    /// From the beginning.
    pub(super) fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        Input::reader(&self.args.traces, &self.args.read)
    }

    /// From the beginning, showing how far it is read.
    pub(super) fn open_shown(&self) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(Input::open(&self.args.traces, &self.args.read)?))
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
