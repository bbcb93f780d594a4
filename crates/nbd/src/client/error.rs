//! Why a client has no connection.

use crate::protocol::{AnswerError, OfferError};
use std::io;
use std::time::Duration;

/// Why a connection to a server cannot be made, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The transport failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The stream ended.
    #[error("the server closed the connection")]
    Closed,
    /// The server has not answered the handshake in time.
    #[error("no answer to the handshake within {} s", .0.as_secs())]
    Late(Duration),
    /// The server does not answer requests on this connection, and answers on a new one.
    #[error("no answer on this connection for {} s", .0.as_secs())]
    Silent(Duration),
    /// What the server said in the handshake is malformed.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// What the server sent as a reply to a request is malformed.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A reply breaks the protocol.
    #[error("the server broke the protocol: {0}")]
    Violation(&'static str),
    /// There is no such export.
    #[error("there is no export {0:?}")]
    NoExport(String),
    /// The server requires TLS.
    #[error("the server requires TLS")]
    TlsRequired,
    /// The server offers no TLS.
    #[error("the server offers no TLS")]
    TlsNotOffered,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The server refuses an option; its number and message.
    #[error("the server refuses the export (reply {kind:#x}){}{message}", if message.is_empty() { "" } else { ": " })]
    Refused {
        /// `NBD_REP_ERR_*`.
        kind: u32,
        /// The server's words, without control characters.
        message: String,
    },
    /// The export cannot be an origin.
    #[error("{0}")]
    Unusable(String),
}
