//! URLs of other programs' servers.

use hyper::Uri;
use std::fmt;

/// What a URL is the address of, and how one is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Server {
    /// Such as "an etcd server".
    pub(crate) of: &'static str,
    pub(crate) write: &'static str,
}

/// An invalid URL of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError {
    text: String,
    server: Server,
    problem: &'static str,
}

impl Server {
    /// The error of a URL with a problem.
    pub(crate) fn refuse(self, text: &str, problem: &'static str) -> UrlError {
        UrlError { text: text.to_owned(), server: self, problem }
    }

    /// A URL that names a host, and neither a user nor a query.
    pub(crate) fn parse(self, text: &str) -> Result<Uri, UrlError> {
        let uri: Uri = text.parse().map_err(|_| self.refuse(text, "it is not a URL"))?;
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() || authority.contains('@') {
            return Err(self.refuse(text, "it must have a host and no user"));
        }
        if uri.query().is_some() {
            return Err(self.refuse(text, "it has a query"));
        }
        Ok(uri)
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, server: Server { of, write }, problem } = self;
        write!(f, "{text:?} is not the address of {of}: {problem}; write {write}")
    }
}

impl std::error::Error for UrlError {}
