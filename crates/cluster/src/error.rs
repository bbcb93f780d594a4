//! Why a host cannot take part.

use thiserror::Error;

/// Why a host cannot take part.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// No server answers as etcd does; of each, why.
    #[error("no server answers as etcd 3.4 or later does: {0}")]
    Unreachable(String),
    /// Servers that were named belong to different clusters.
    #[error("{one} belongs to the etcd cluster {one_id:x}, and {other} to {other_id:x}")]
    Clusters {
        /// A server.
        one: String,
        /// Its cluster.
        one_id: u64,
        /// Another server.
        other: String,
        /// Its cluster.
        other_id: u64,
    },
    /// A program of another version uses the prefix.
    #[error("what etcd has under {prefix} is of format {found:?}, and this program knows {known:?}")]
    Format {
        /// The prefix of all keys.
        prefix: String,
        /// What is there.
        found: String,
        /// What this program writes.
        known: &'static str,
    },
    /// Another server has the name.
    #[error("the name {host:?} is in use: a server has the lease {lease:x} under it")]
    NameTaken {
        /// The name.
        host: String,
        /// The other's lease.
        lease: i64,
    },
    /// etcd does not let this client in.
    #[error("etcd refuses it: {0}")]
    Refused(String),
    /// A file of certificates, keys or passwords cannot be used.
    #[error("{0}")]
    File(String),
    /// There is no lease, for this reason.
    #[error("there is no lease: {0}")]
    NoLease(String),
}
