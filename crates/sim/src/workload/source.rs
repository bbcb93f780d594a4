//! A trace that simulations read several times from its beginning.

use super::{Classified, Precedence, TraceIdentity};
use nitro_cache::class::Rules;
use nitro_trace::{Reader, Request, TraceError, origins};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// If none of this number of requests has contents, the trace has none.
const CONTENTS_REQUESTS: u32 = 100_000;

/// The information on contents that a trace has; the simulator generates the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaidContents {
    /// Whether it has fingerprints.
    pub fingerprints: bool,
    /// Whether it has compressed sizes.
    pub compressed_sizes: bool,
}

/// Opens a trace at its beginning, on any thread.
pub type OpenAnywhere<'a> = dyn Fn() -> Result<Box<dyn Reader>, TraceError> + Sync + 'a;

/// A trace that can be read several times, with classified requests.
pub struct Source<'a> {
    open: Box<OpenAnywhere<'a>>,
    rules: Option<(Arc<Rules>, Precedence)>,
}

impl<'a> Source<'a> {
    /// The trace that `open` opens, classified by rules if there are any.
    #[must_use]
    pub fn new(open: Box<OpenAnywhere<'a>>, rules: Option<(Arc<Rules>, Precedence)>) -> Self {
        Self { open, rules }
    }

    /// Opens the trace at its beginning.
    ///
    /// # Errors
    /// Errors of the trace.
    pub fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        Ok(self.classified((self.open)()?))
    }

    /// Classifies the requests of another reader of the same trace in the same way.
    #[must_use]
    pub fn classified(&self, reader: Box<dyn Reader>) -> Box<dyn Reader> {
        match &self.rules {
            Some((rules, precedence)) => Box::new(Classified::new(reader, Arc::clone(rules), *precedence)),
            None => reader,
        }
    }

    /// Whether any request has a class, from the trace or by the rules. Reads up to the first that has one.
    ///
    /// # Errors
    /// Errors of the trace.
    pub fn has_classes(&self) -> Result<bool, TraceError> {
        let (mut reader, mut request) = (self.open()?, Request::default());
        while reader.next(&mut request)? {
            if request.class.is_classified() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The information on contents that the trace has, from its first requests.
    ///
    /// # Errors
    /// Errors of the trace.
    pub fn contents(&self) -> Result<SaidContents, TraceError> {
        let mut reader = self.open()?;
        let (mut request, mut found) = (Request::default(), SaidContents::default());
        for _ in 0..CONTENTS_REQUESTS {
            if found.fingerprints && found.compressed_sizes || !reader.next(&mut request)? {
                break;
            }
            found.fingerprints |= !request.fingerprints.is_empty();
            found.compressed_sizes |= request.compressed_bytes.is_some();
        }
        Ok(found)
    }

    /// What identifies this trace, read from `files` in the way that `how` names. The files are read to their ends.
    ///
    /// # Errors
    /// The file that cannot be read, and the error.
    pub fn identity<'p>(&self, how: &str, files: &'p [PathBuf]) -> Result<TraceIdentity, (&'p Path, io::Error)> {
        let mut identity = how.to_owned();
        // The policies of classes are in the settings; the rules are a part of the trace.
        if let Some((rules, precedence)) = &self.rules {
            let _ = write!(identity, " {precedence:?} {rules:?}");
        }
        if files.len() > 1 {
            // Which files are parts of one trace decides which objects are the same, and depends on the paths.
            let traces: Vec<_> = origins(files).iter().map(|origin| (origin.file, origin.trace)).collect();
            let _ = write!(identity, " {traces:?}");
        }
        let mut identity = TraceIdentity::from(identity);
        for path in files {
            identity.add(path).map_err(|error| (path.as_path(), error))?;
        }
        Ok(identity)
    }
}
