//! The program's error: what it was about, what is wrong, and the way out.

use std::error::Error as StdError;
use std::fmt;

/// Why a command failed, as its user is told: `what: why; what to do`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    what: String,
    why: String,
    way_out: String,
}

impl Error {
    /// `what` names the subject (an origin, a file, a setting), `why` the fault.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { what: what.to_string(), why: why.to_string(), way_out: String::new() }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn or(mut self, way_out: impl fmt::Display) -> Self {
        self.way_out = way_out.to_string();
        self
    }

    /// An error that was told in one line, as by a server.
    #[must_use]
    pub fn told(line: &str) -> Self {
        let (what, why) = line.split_once(": ").unwrap_or(("server", line));
        Self::new(what, why)
    }

    /// The same, of a part of `whole`.
    #[must_use]
    pub fn within(mut self, whole: impl fmt::Display) -> Self {
        self.what = format!("{whole}: {}", self.what);
        self
    }

    /// What and why; the way out.
    pub fn into_parts(self) -> (String, String) {
        (format!("{}: {}", self.what, self.why), self.way_out)
    }

    /// An error with all its sources in one line.
    pub fn with_sources(what: impl fmt::Display, error: &(dyn StdError + 'static)) -> Self {
        Self::new(what, why(error))
    }
}

/// An error and its sources in one line, each once.
pub fn why(error: &(dyn StdError + 'static)) -> String {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if !why.contains(&text) {
            why.push_str(": ");
            why.push_str(&text);
        }
        source = inner.source();
    }
    why
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if self.way_out.is_empty() { Ok(()) } else { write!(f, "; {}", self.way_out) }
    }
}

impl StdError for Error {}
