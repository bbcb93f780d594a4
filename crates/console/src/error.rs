//! The program's error: its subject, its cause, and what the user can do.

use std::error::Error as StdError;
use std::fmt;

/// The system's words for a file that must not grow further (`EFBIG`), and what they mean.
const TOO_LARGE: &str = "File too large (os error 27)";
const TOO_LARGE_EXPLAINED: &str =
    "File too large (os error 27): the limit of file sizes (ulimit -f, LimitFSIZE=), or of the file system, is reached";

/// The error of a command. The user sees `what: why; what to do`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    what: String,
    why: String,
    way_out: String,
}

impl Error {
    /// `what` names the subject (an origin, a file, a setting), `why` the cause.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        let why = why.to_string().replace(TOO_LARGE, TOO_LARGE_EXPLAINED);
        Self { what: what.to_string(), why, way_out: String::new() }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn or(mut self, way_out: impl fmt::Display) -> Self {
        self.way_out = way_out.to_string();
        self
    }

    /// Adds something else that the user can do, or should know.
    #[must_use]
    pub fn also(mut self, hint: impl fmt::Display) -> Self {
        let hint = hint.to_string();
        if !hint.is_empty() {
            let before = if self.way_out.is_empty() { "" } else { "; " };
            self.way_out = format!("{}{before}{hint}", self.way_out);
        }
        self
    }

    /// An error from a message of one line, such as that of a server.
    #[must_use]
    pub fn told(line: &str) -> Self {
        let (what, why) = line.split_once(": ").unwrap_or(("server", line));
        Self::new(what, why)
    }

    /// Prefixes the subject with that of which it is a part.
    #[must_use]
    pub fn within(mut self, whole: impl fmt::Display) -> Self {
        self.what = format!("{whole}: {}", self.what);
        self
    }

    /// Returns subject and cause in one text, and what the user can do.
    pub fn into_parts(self) -> (String, String) {
        (format!("{}: {}", self.what, self.why), self.way_out)
    }

    /// An error whose cause is `error` with all its sources, in one line.
    pub fn with_sources(what: impl fmt::Display, error: &(dyn StdError + 'static)) -> Self {
        Self::new(what, why(error))
    }
}

/// An error and its sources in one line. A source whose text is already contained is left out.
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
