//! etcd, as far as the machine asks it.

use crate::{DRIFT, LEASE, at};
use nitro_cluster::{Answer, Ask, Fence, Key, LeaseId};
use std::collections::BTreeMap;

/// etcd, with one ownership key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Etcd {
    revision: u64,
    granted: LeaseId,
    /// When leases end, if they are not renewed.
    leases: BTreeMap<LeaseId, u8>,
    key: Option<(Fence, LeaseId)>,
}

impl Etcd {
    /// Leases that it may end.
    pub fn expirable(&self, now: u8) -> impl Iterator<Item = LeaseId> {
        self.leases.iter().filter(move |(_, ends)| now + DRIFT >= **ends).map(|(lease, _)| *lease)
    }

    /// Ends a lease.
    pub fn end(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        if self.key.is_some_and(|(_, of)| of == lease) {
            self.key = None;
            self.revision += 1;
        }
    }

    /// Carries a question out.
    pub fn answer(&mut self, now: u8, ask: &Ask) -> Answer {
        match ask {
            Ask::Grant => {
                self.granted += 1;
                self.leases.insert(self.granted, now + LEASE);
                Answer::Granted(self.granted, at(LEASE))
            }
            Ask::Renew(lease, volumes) => match self.leases.get_mut(lease) {
                Some(ends) => {
                    *ends = now + LEASE;
                    let key = |(fence, lease)| Key { volume: volumes[0].clone(), fence, lease, host: String::new() };
                    Answer::Renewed(at(LEASE), self.key.into_iter().map(key).collect())
                }
                None => Answer::Gone,
            },
            Ask::Claim(_, lease) if !self.leases.contains_key(lease) => Answer::Gone,
            Ask::Claim(..) if self.key.is_some() => Answer::NotClaimed,
            Ask::Claim(_, lease) => {
                self.revision += 1;
                self.key = Some((Fence(self.revision), *lease));
                Answer::Claimed(Fence(self.revision))
            }
            Ask::Release(_, fence) => {
                if self.key.is_some_and(|(of, _)| of == *fence) {
                    self.key = None;
                    self.revision += 1;
                }
                Answer::Released
            }
            Ask::Revoke(lease) => {
                self.end(*lease);
                Answer::Revoked
            }
        }
    }
}
