//! Times, names and messages of the machine.

use std::fmt;
use std::time::Duration;

/// A lease of etcd.
pub type LeaseId = i64;

/// A fencing number: the revision at which an ownership key was created. It rises from owner to owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The times that a host keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How long a lease lasts from its last renewal.
    pub lease: Duration,
    /// A host stops so much before its lease ends: etcd's clock may be faster than the host's.
    pub margin: Duration,
    /// How long after a renewal the next one is.
    pub renew_every: Duration,
    /// The pause after a question that failed.
    pub retry: Duration,
}

impl Terms {
    /// For leases of this length: renewed after a fifth, given up a fifth before their end.
    #[must_use]
    pub fn of(lease: Duration) -> Self {
        Self { lease, margin: lease / 5, renew_every: lease / 5, retry: lease / 20 }
    }
}

/// A lease that this host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// The lease.
    pub id: LeaseId,
    /// The host serves before this time, and not at it.
    pub until: Duration,
}

/// An ownership key that exists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The volume.
    pub volume: String,
    /// The fencing number.
    pub fence: Fence,
    /// The lease to which it is attached.
    pub lease: LeaseId,
    /// The host that made it.
    pub host: String,
}

/// A question to etcd. At most one is under way at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Grant a lease.
    Grant,
    /// Renew the lease, and then tell which of these volumes have owners.
    Renew(LeaseId, Vec<String>),
    /// Create the ownership key of a volume, if there is none.
    Claim(String, LeaseId),
    /// Delete the ownership key of a volume, if it still has this number.
    Release(String, Fence),
    /// End the lease, and so everything that is attached to it.
    Revoke(LeaseId),
}

/// An answer of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// There is a lease, which lasts this long from now on.
    Granted(LeaseId, Duration),
    /// It lasts this long from now on; the volumes have these owners.
    Renewed(Duration, Vec<Key>),
    /// There is no such lease any more.
    Gone,
    /// The volume is this host's, under this number.
    Claimed(Fence),
    /// Another host has the volume.
    NotClaimed,
    /// The key is gone.
    Released,
    /// The lease is gone.
    Revoked,
    /// There is no answer: what was asked for may have been done, or be done later.
    Failed,
}

/// What the server has to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Order {
    /// Open a volume with this number, and serve it.
    Open(String, Fence),
    /// Stop serving at once, all volumes.
    Stop(Why),
}

/// What the server has done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum News {
    /// The volume is served.
    Opened(String),
    /// The volume cannot be served here: another host may.
    Refused(String),
    /// The server is going to end: no more volumes.
    Leaving,
    /// No volume is served any more, and nothing is on its way to an origin.
    AtRest,
}

/// Why a host serves no more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Why {
    /// The lease was not renewed in time.
    Expired,
    /// etcd has ended the lease.
    LeaseGone,
    /// The ownership key of a volume is gone, or another host's.
    KeyGone(String),
    /// An orderly end.
    Left,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("its lease was not renewed in time"),
            Self::LeaseGone => f.write_str("etcd has ended its lease"),
            Self::KeyGone(volume) => write!(f, "the ownership key of volume {volume} is gone, or another host's"),
            Self::Left => f.write_str("it has left the cluster"),
        }
    }
}
