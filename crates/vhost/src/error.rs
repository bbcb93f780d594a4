//! Why a connection or a queue ended.

use crate::config::QUEUES_MAX;
use std::io;

/// Why a control connection failed.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// The socket failed.
    #[error("the control socket failed")]
    Socket(#[source] io::Error),
    /// The client breaks the protocol, or asks for what is refused.
    #[error("message {code} is refused")]
    Protocol {
        /// The request's number in the vhost-user protocol.
        code: u32,
        /// What is wrong with it.
        #[source]
        source: vhost::vhost_user::Error,
    },
}

/// What is wrong with a client's memory, rings or numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error(
        "guest memory can shrink: it must be a memfd sealed with F_SEAL_SHRINK (QEMU: memory-backend-memfd,share=on)"
    )]
    Shrinkable,
    #[error("a region of memory is empty, overlaps another, or is not within its file")]
    Region,
    #[error("guest memory cannot be mapped")]
    Map,
    #[error("too many regions of memory")]
    Regions,
    #[error("an address is not within the guest's memory")]
    Address,
    #[error("there are {QUEUES_MAX} queues at most")]
    QueueIndex,
    #[error("a queue's size is not a power of two within bounds")]
    QueueSize,
    #[error("a ring is not within the guest's memory, or not aligned")]
    Ring,
    #[error("the available ring's index runs ahead of its size")]
    AvailableIndex,
    #[error("a descriptor's index is not within its table")]
    DescriptorIndex,
    #[error("a chain of descriptors loops, or is too long")]
    ChainLength,
    #[error("an indirect table is malformed")]
    Indirect,
    #[error("a chain has readable descriptors after writable ones")]
    Order,
    #[error("a chain is without a request or without a place for its status")]
    Incomplete,
    #[error("a descriptor is made available while it is in use")]
    InUse,
    #[error("the in-flight region is malformed")]
    Inflight,
    #[error("the file is no eventfd")]
    NoEvent,
}

impl From<Fault> for vhost::vhost_user::Error {
    fn from(fault: Fault) -> Self {
        Self::ReqHandlerError(io::Error::other(fault))
    }
}
