//! The claim to an origin of a host to which etcd has given the volume.

use super::volume_mark::VolumeMark;
use nitro_cluster::{Fence, Tenure};
use std::io;
use std::sync::Arc;

/// A claim: it is good while the host's lease is, and its number tells it from the claims before and after it.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// Until when it is good.
    pub(crate) tenure: Arc<Tenure>,
    /// The etcd cluster, in hexadecimal digits.
    pub(crate) etcd: String,
    /// The fencing number.
    pub(crate) number: u64,
    /// The operator says that no later owner serves the origin, whatever its mark is.
    pub(crate) is_accepted: bool,
}

impl Claim {
    pub(crate) fn new(tenure: &Arc<Tenure>, cluster_id: u64, fence: Fence) -> Self {
        Self { tenure: Arc::clone(tenure), etcd: format!("{cluster_id:x}"), number: fence.0, is_accepted: false }
    }

    /// To be asked immediately before the origin is changed.
    ///
    /// # Errors
    /// The lease is over.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.tenure.holds() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, &*self.lost()))
    }

    /// Why the lease is over.
    pub(crate) fn lost(&self) -> Arc<str> {
        let unnoticed = || Arc::from("this host was stopped for longer than its lease lasts");
        let why = self.tenure.over().cloned().unwrap_or_else(unnoticed);
        Arc::from(format!("taken over: another host may serve it by now: {why}"))
    }

    /// Whether a mark is of a later claim, in words.
    pub(crate) fn is_after(&self, mark: &VolumeMark) -> Option<String> {
        (!self.is_accepted && mark.etcd == self.etcd && mark.fence > self.number).then(|| {
            format!(
                "its mark is of a later owner: it has the fencing number {}, and this host {}",
                mark.fence, self.number
            )
        })
    }

    /// Whether a mark is of another etcd cluster, in words.
    pub(crate) fn is_foreign(&self, mark: &VolumeMark) -> Option<String> {
        (!mark.etcd.is_empty() && mark.etcd != self.etcd).then(|| {
            let (other, own) = (&mark.etcd, &self.etcd);
            format!("another etcd cluster decided who serves it: {other}, and this host's is {own}")
        })
    }
}

#[cfg(test)]
impl Claim {
    /// One that is good.
    pub(crate) fn for_ever(cluster_id: u64, number: u64) -> Self {
        Self::new(&Arc::new(Tenure::until(std::time::Duration::MAX)), cluster_id, Fence(number))
    }

    /// One that is over.
    pub(crate) fn over(cluster_id: u64, number: u64) -> Self {
        Self::new(&Arc::default(), cluster_id, Fence(number))
    }
}
