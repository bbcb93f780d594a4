//! The crate's error.

use std::io;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum IscsiError {
    /// The transport failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The stream ended within a PDU.
    #[error("the initiator hung up in the middle of a PDU")]
    Truncated,
    /// A PDU breaks the protocol in a way that cannot be answered.
    #[error("{0}")]
    Protocol(&'static str),
    /// The login was refused.
    #[error("login of {initiator:?} refused: {reason}")]
    Refused {
        /// The initiator's name, as far as it told it.
        initiator: String,
        /// Why.
        reason: &'static str,
    },
    /// A header's checksum is wrong: there is no way to find the next one.
    #[error("the checksum of a header is wrong")]
    HeaderDigest,
    /// Others waited too long for memory that the initiator's commands hold.
    #[error("the initiator took too long while others waited for the memory of its commands")]
    Overdue,
}
