//! The crate's error.

use crate::protocol::{OptionError, RequestError};
use std::io;
use std::path::PathBuf;

/// The activity of a connection when it failed.
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
    /// A lower-case phrase for messages.
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

/// The error of a connection, or of setting up TLS.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The transport failed. With TLS, also: an invalid record, or an end of the stream without `close_notify`.
    #[error("{} failed", phase.as_str())]
    Io {
        /// The connection's activity.
        phase: Phase,
        /// The transport's error.
        #[source]
        source: io::Error,
    },
    /// The stream ended within a message.
    #[error("{}: the client disconnected in the middle of a message", phase.as_str())]
    Truncated {
        /// The connection's activity.
        phase: Phase,
    },
    /// The client set handshake flags that the server did not offer.
    #[error("unknown client flags {flags:#x}")]
    ClientFlags {
        /// The flags that the client sent.
        flags: u32,
    },
    /// The header of an option is malformed, so that the start of the next option is unknown; or the name in
    /// `NBD_OPT_EXPORT_NAME`, which has no error reply, is malformed.
    #[error("malformed option")]
    Option(#[from] OptionError),
    /// The header of a request is malformed, so that the start of the next request is unknown.
    #[error("malformed request")]
    Request(#[from] RequestError),
    /// The client requested, by `NBD_OPT_EXPORT_NAME`, which has no error reply, an export that does not exist or
    /// requires TLS.
    #[error("export {name:?} refused: {reason}")]
    Refused {
        /// The requested name.
        name: String,
        /// The reason for the refusal.
        reason: &'static str,
    },
    /// The client sent more options than [`Limits::options_max`](crate::Limits::options_max) allows, none of which ended the
    /// handshake.
    #[error("the handshake did not end within {max} options")]
    TooManyOptions {
        /// The limit.
        max: u32,
    },
    /// The payload of a refused option or write is longer than
    /// [`Limits::drain_bytes_max`](crate::Limits::drain_bytes_max), so that it is not received and discarded; or the
    /// name in `NBD_OPT_EXPORT_NAME`, which has no error reply, is too long.
    #[error("{}: a payload of {bytes} bytes is too long", phase.as_str())]
    PayloadTooLong {
        /// The connection's activity.
        phase: Phase,
        /// The payload's length in bytes.
        bytes: u64,
    },
    /// Other clients waited too long for memory that this client's requests hold.
    #[error("{}: the client was too slow while others waited for memory held by its requests", phase.as_str())]
    Overdue {
        /// The connection's activity.
        phase: Phase,
    },
    /// Plaintext followed `NBD_OPT_STARTTLS` before its reply: an attacker may have injected commands
    /// (CVE-2021-3716).
    #[error("{bytes} bytes of plaintext after NBD_OPT_STARTTLS")]
    PlaintextAfterStartTls {
        /// The length of the plaintext in bytes.
        bytes: usize,
    },
    /// A certificate or key file cannot be used.
    #[error("{}: {problem}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// The problem with the file.
        problem: &'static str,
        /// The parser's error, if there is one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The TLS library rejected the configuration, for example because the key does not belong to the certificate.
    #[error("the TLS configuration is unusable")]
    TlsConfig(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl NbdError {
    pub(crate) fn io(phase: Phase) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { phase, source }
    }
}
