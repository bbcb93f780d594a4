//! A trace as simulations read it: several times from its beginning.

use super::{Classified, Precedence};
use nitro_cache::class::Rules;
use nitro_trace::{Reader, Request, TraceError};
use std::fmt::Write;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes at both ends of a file that tell it from others.
const SAMPLED_BYTES: u64 = 1 << 16;

/// Requests within which a trace that tells of contents does so.
const CONTENTS_REQUESTS: u32 = 100_000;

/// What a trace says of contents; the rest is made up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaidContents {
    /// Which are the same.
    pub fingerprints: bool,
    /// What they take when compressed.
    pub compressed_sizes: bool,
}

/// Opens a trace, each time from its beginning, on any thread.
pub type OpenAnywhere<'a> = dyn Fn() -> Result<Box<dyn Reader>, TraceError> + Sync + 'a;

/// A trace that is read several times, each request with its class.
pub struct Source<'a> {
    open: Box<OpenAnywhere<'a>>,
    rules: Option<(Arc<Rules>, Precedence)>,
}

impl<'a> Source<'a> {
    /// What `open` opens, classified by rules, if there are any.
    #[must_use]
    pub fn new(open: Box<OpenAnywhere<'a>>, rules: Option<(Arc<Rules>, Precedence)>) -> Self {
        Self { open, rules }
    }

    /// From the beginning.
    ///
    /// # Errors
    /// Those of the trace.
    pub fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        Ok(self.classified((self.open)()?))
    }

    /// What another reader reads of the same trace, classified as this.
    #[must_use]
    pub fn classified(&self, reader: Box<dyn Reader>) -> Box<dyn Reader> {
        match &self.rules {
            Some((rules, precedence)) => Box::new(Classified::new(reader, Arc::clone(rules), *precedence)),
            None => reader,
        }
    }

    /// Whether any request has a class, of its own or by the rules: reads up to the first that has.
    ///
    /// # Errors
    /// Those of the trace.
    pub fn has_classes(&self) -> Result<bool, TraceError> {
        let (mut reader, mut request) = (self.open()?, Request::default());
        while reader.next(&mut request)? {
            if request.class.is_classified() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the trace says of contents, from its first requests.
    ///
    /// # Errors
    /// Those of the trace.
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

    /// What tells this trace, read as `how` says from these files, from others.
    ///
    /// # Errors
    /// The file that cannot be read, and why.
    pub fn identity<'p>(&self, how: &str, files: &'p [PathBuf]) -> Result<String, (&'p Path, io::Error)> {
        let mut identity = how.to_owned();
        // What classes deserve is in the settings; which requests are of which is of the trace.
        if let Some((rules, precedence)) = &self.rules {
            let _ = write!(identity, " {precedence:?} {rules:?}");
        }
        for path in files {
            let (len, ends) = ends(path).map_err(|error| (path.as_path(), error))?;
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
