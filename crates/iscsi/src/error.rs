//! The crate's error.

use std::io;

/// The error of a connection.
#[derive(Debug, thiserror::Error)]
pub enum IscsiError {
    /// The transport failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The initiator closed the stream within a PDU.
    #[error("the initiator disconnected in the middle of a PDU")]
    Truncated,
    /// A PDU violates the protocol in a way that has no error response.
    #[error("{0}")]
    Protocol(&'static str),
    /// The login was refused.
    #[error("login of {initiator:?} refused: {reason}")]
    Refused {
        /// The initiator's name; empty if it sent none.
        initiator: String,
        /// The reason for the refusal.
        reason: &'static str,
    },
    /// A header's checksum is wrong, so that the start of the next PDU is unknown.
    #[error("the checksum of a header is wrong")]
    HeaderDigest,
    /// Other clients waited too long for memory that this initiator's commands hold.
    #[error("the initiator was too slow while others waited for memory held by its commands")]
    Overdue,
}
