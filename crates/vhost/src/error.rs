//! The errors of connections and queues.

use crate::config::QUEUES_MAX;
use std::io;

/// The error of a control connection.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// The socket failed.
    #[error("the control socket failed")]
    Socket(#[source] io::Error),
    /// A message violates the protocol, or requests something that is not supported.
    #[error("message {code} was refused")]
    Protocol {
        /// The message's number in the vhost-user protocol.
        code: u32,
        /// The reason for the refusal.
        #[source]
        source: vhost::vhost_user::Error,
    },
    /// An access to memory of the client failed, as its file has shrunk or its file system is full.
    #[error("the guest's memory is gone: its file has shrunk, or there was no room for one of its pages")]
    MemoryLost,
}

/// An error in a client's memory, rings or numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("guest memory is not in RAM: it must be a memfd, or a file of tmpfs (as /dev/shm) or of hugetlbfs")]
    NotInRam,
    #[error("the guest's memory is gone")]
    Lost,
    #[error("a memory region is empty or unknown, overlaps another, or is not within its file")]
    Region,
    #[error("guest memory cannot be mapped")]
    Map,
    #[error("there are too many memory regions, or not one file for each")]
    Regions,
    #[error("an address is not within the guest's memory")]
    Address,
    #[error("a queue's index is not below {QUEUES_MAX}")]
    QueueIndex,
    #[error("a queue's size is not a power of two, or too large")]
    QueueSize,
    #[error("a ring is not within the guest's memory, or not aligned")]
    Ring,
    #[error("the available ring's index is ahead by more than the ring's size")]
    AvailableIndex,
    #[error("a descriptor's index is not within its table")]
    DescriptorIndex,
    #[error("a chain of descriptors loops, or is too long")]
    ChainLength,
    #[error("an indirect table is malformed")]
    Indirect,
    #[error("a chain of descriptors has readable ones after writable ones")]
    Order,
    #[error("a chain of descriptors lacks a request's header or its status byte")]
    Incomplete,
    #[error("a descriptor was made available while the device uses it")]
    InUse,
    #[error("the in-flight region is malformed")]
    Inflight,
    #[error("the file is missing or not an eventfd")]
    NoEvent,
}

impl From<Fault> for vhost::vhost_user::Error {
    fn from(fault: Fault) -> Self {
        Self::ReqHandlerError(io::Error::other(fault))
    }
}
