//! Limits by peer: how many connections one may have, and how often it may try a secret.
//!
//! A connection counts for its *peer*, a process or a host, and for the peer's [`Group`], the user of all processes or
//! the host.

mod attempts;
mod places;

pub(crate) use attempts::{Attempts, Turn};
pub(crate) use places::{Place, Places};

use nitro_device::net::Peer;
use std::net::IpAddr;

/// The peers that share limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// All processes of a user.
    User(u32),
    /// A host, or a network of 64 bits of IPv6.
    Host(IpAddr),
    /// Peers of which nothing is known.
    Unknown,
}

impl From<Peer> for Group {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Process { uid, .. } => Self::User(uid),
            Peer::Host(address) => Self::Host(address),
            Peer::Unknown => Self::Unknown,
        }
    }
}
