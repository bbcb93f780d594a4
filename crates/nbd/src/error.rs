//! The crate's error.

use crate::protocol::{OptionError, RequestError};
use std::io;
use std::path::PathBuf;

/// What was being done when a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The greeting and the negotiation of options.
    Handshake,
    /// The TLS handshake.
    Tls,
    /// Receiving requests.
    Receive,
    /// Sending replies.
    Send,
}

impl Phase {
    /// One lower-case phrase.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Tls => "TLS handshake",
            Self::Receive => "receiving requests",
            Self::Send => "sending replies",
        }
    }
}

/// Why a connection, or the set-up of TLS, failed.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The transport failed; within TLS also a bad record or an end without notice.
    #[error("{} failed", phase.as_str())]
    Io {
        /// What was being done.
        phase: Phase,
        /// The transport's error.
        #[source]
        source: io::Error,
    },
    /// The stream ended within a message.
    #[error("{}: the client hung up in the middle of a message", phase.as_str())]
    Truncated {
        /// What was being done.
        phase: Phase,
    },
    /// The client set handshake flags that the server did not offer.
    #[error("unknown client flags {flags:#x}")]
    ClientFlags {
        /// What the client sent.
        flags: u32,
    },
    /// An option's header cannot be understood; there is no way to find the next one.
    #[error("malformed option")]
    Option(#[from] OptionError),
    /// A request's header cannot be understood; there is no way to find the next one.
    #[error("malformed request")]
    Request(#[from] RequestError),
    /// The client asked by `NBD_OPT_EXPORT_NAME`, which has no error reply, for an export that it cannot have.
    #[error("export {name:?} refused: {reason}")]
    Refused {
        /// The name asked for.
        name: String,
        /// Why it was refused.
        reason: &'static str,
    },
    /// More options than [`Limits::options_max`](crate::Limits::options_max).
    #[error("more than {max} options")]
    TooManyOptions {
        /// The limit.
        max: u32,
    },
    /// A payload too long even to be thrown away.
    #[error("{}: payload of {bytes} bytes", phase.as_str())]
    PayloadTooLong {
        /// What was being done.
        phase: Phase,
        /// Its length in bytes.
        bytes: u32,
    },
    /// Others waited too long for memory that the client's requests hold.
    #[error("{}: the client took too long while others waited for the memory of its requests", phase.as_str())]
    Overdue {
        /// What was being done.
        phase: Phase,
    },
    /// Plaintext followed `NBD_OPT_STARTTLS` before its reply: somebody injects commands (as in CVE-2021-3716).
    #[error("{bytes} bytes of plaintext after NBD_OPT_STARTTLS")]
    PlaintextAfterStartTls {
        /// How many bytes.
        bytes: usize,
    },
    /// A certificate or key file cannot be used.
    #[error("{}: {problem}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// The parser's error, if there is one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Certificate, key and client authority do not make a TLS configuration.
    #[error("the TLS configuration is unusable")]
    TlsConfig(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl NbdError {
    pub(crate) fn io(phase: Phase) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { phase, source }
    }
}
