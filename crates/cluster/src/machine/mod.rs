//! The state machine of a host. It reads no clock and sends nothing: what happens, and when, is told to it; it answers with what to
//! ask etcd, and with orders to the server. `crates/cluster/exhaust` goes through all that two hosts can do.
//!
//! A lease counts from the moment *before* its request was sent, and is over a margin before etcd may end it. Once over, it stays
//! so: an answer that comes later prolongs nothing, and the process has to be started again to take part.

mod terms;

pub use terms::{Answer, Ask, Fence, Held, Key, LeaseId, News, Order, Terms, Why};

use std::collections::BTreeMap;
use std::time::Duration;

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    terms: Terms,
    host: Host,
    volumes: BTreeMap<String, Hold>,
    /// When to ask for the lease, or to renew it, next.
    renew_at: Duration,
    /// Nothing else is asked before this time.
    calm_until: Duration,
    /// A question is under way.
    is_asking: bool,
    end: End,
}

/// What a host has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Host {
    Without,
    With(Held),
    Over(Why),
}

/// How far a host is with its orderly end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Staying,
    Leaving,
    AtRest,
}

/// What a host knows of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Hold {
    /// Not this host's.
    Elsewhere {
        /// etcd had no key of it, when it was asked last.
        is_free: bool,
        /// It is not claimed before this time.
        not_before: Duration,
    },
    /// This host's, and not served yet.
    Opening(Fence),
    /// This host's, and served.
    Serving(Fence),
    /// This host's, and to be given to others.
    GivenUp(Fence),
}

const UNKNOWN: Hold = Hold::Elsewhere { is_free: false, not_before: Duration::ZERO };

impl Machine {
    /// A host that may serve these volumes.
    #[must_use]
    pub fn new(terms: Terms, volumes: impl IntoIterator<Item = String>) -> Self {
        Self {
            terms,
            host: Host::Without,
            volumes: volumes.into_iter().map(|name| (name, UNKNOWN)).collect(),
            renew_at: Duration::ZERO,
            calm_until: Duration::ZERO,
            is_asking: false,
            end: End::Staying,
        }
    }

    /// The lease, if there is one, and this host is not at rest: then etcd may have ended it already, though the answer was lost.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        match self.host {
            Host::With(held) if self.end != End::AtRest => Some(held),
            Host::With(_) | Host::Without | Host::Over(_) => None,
        }
    }

    /// Why this host serves no more.
    #[must_use]
    pub fn over(&self) -> Option<&Why> {
        match &self.host {
            Host::Over(why) => Some(why),
            Host::Without | Host::With(_) => None,
        }
    }

    /// The number under which this host owns a volume.
    #[must_use]
    pub fn owns(&self, volume: &str) -> Option<Fence> {
        match self.volumes.get(volume)? {
            Hold::Opening(fence) | Hold::Serving(fence) => Some(*fence),
            Hold::Elsewhere { .. } | Hold::GivenUp(_) => None,
        }
    }

    /// The volumes that this host owns.
    #[must_use]
    pub fn owned(&self) -> Vec<(String, Fence)> {
        self.volumes.keys().filter_map(|name| Some((name.clone(), self.owns(name)?))).collect()
    }

    /// The number under which this host may write to a volume's origin now, and answer clients. `Tenure` is the
    /// same, for requests.
    #[must_use]
    pub fn permits(&self, volume: &str, now: Duration) -> Option<Fence> {
        self.owns(volume).filter(|_| self.held().is_some_and(|held| now < held.until))
    }

    /// Notes that time has passed.
    #[must_use]
    pub fn tick(&mut self, now: Duration) -> Vec<Order> {
        match self.host {
            Host::With(held) if now >= held.until => self.stop(Why::Expired),
            _ => Vec::new(),
        }
    }

    /// What to ask etcd now.
    #[must_use]
    pub fn ask(&mut self, now: Duration) -> Option<Ask> {
        if self.is_asking {
            return None;
        }
        let asked = self.next(now);
        self.is_asking = asked.is_some();
        asked
    }

    fn next(&self, now: Duration) -> Option<Ask> {
        let held = match &self.host {
            Host::Over(_) => return None,
            Host::Without => {
                return (self.end == End::Staying && now >= self.renew_at).then_some(Ask::Grant);
            }
            Host::With(held) => held,
        };
        if self.end == End::AtRest {
            return Some(Ask::Revoke(held.id));
        }
        if now >= self.renew_at {
            return Some(Ask::Renew(held.id, self.volumes.keys().cloned().collect()));
        }
        let wanted = |(name, hold): (&String, &Hold)| match hold {
            Hold::GivenUp(fence) => Some(Ask::Release(name.clone(), *fence)),
            Hold::Elsewhere { is_free: true, not_before } if self.end == End::Staying && now >= *not_before => {
                Some(Ask::Claim(name.clone(), held.id))
            }
            Hold::Elsewhere { .. } | Hold::Opening(_) | Hold::Serving(_) => None,
        };
        if now < self.calm_until { None } else { self.volumes.iter().find_map(wanted) }
    }

    /// When to [`tick`](Self::tick) and to [`ask`](Self::ask) again, at the latest; `None`: nothing happens by itself any more.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        match self.host {
            Host::Without => Some(self.renew_at),
            Host::With(held) => Some(held.until.min(self.renew_at)),
            Host::Over(_) => None,
        }
    }

    /// Asks etcd as soon as possible whether a volume has become free.
    pub fn hurry(&mut self, now: Duration) {
        if self.held().is_some() {
            self.renew_at = self.renew_at.min(now);
        }
    }

    /// Takes the answer to a question that was sent at `sent`.
    #[must_use]
    pub fn answer(&mut self, now: Duration, sent: Duration, asked: &Ask, answer: Answer) -> Vec<Order> {
        self.is_asking = false;
        // First: what comes too late counts for nothing.
        let orders = self.tick(now);
        if self.over().is_some() {
            return orders;
        }
        match (asked, answer) {
            (Ask::Grant, Answer::Granted(id, lasts)) => self.granted(now, sent, id, lasts),
            (Ask::Renew(..), Answer::Renewed(lasts, keys)) => return self.renewed(sent, lasts, &keys),
            (Ask::Renew(..), Answer::Gone) | (Ask::Claim(..), Answer::Gone) => return self.stop(Why::LeaseGone),
            (Ask::Grant | Ask::Renew(..), _) => self.renew_at = now + self.terms.retry,
            (Ask::Claim(volume, _), Answer::Claimed(fence)) => return self.take(volume, fence),
            (Ask::Claim(volume, _), answer) => {
                // Until it is known who has it.
                self.volumes.insert(volume.clone(), UNKNOWN);
                if answer == Answer::Failed {
                    self.calm_until = now + self.terms.retry;
                }
            }
            (Ask::Release(volume, _), Answer::Released) => {
                // The others first.
                let not_before = now + self.terms.lease;
                self.volumes.insert(volume.clone(), Hold::Elsewhere { is_free: false, not_before });
            }
            (Ask::Release(..), _) => self.calm_until = now + self.terms.retry,
            (Ask::Revoke(_), _) => return self.stop(Why::Left),
        }
        Vec::new()
    }

    fn granted(&mut self, now: Duration, sent: Duration, id: LeaseId, lasts: Duration) {
        let until = self.ends(sent, lasts);
        if now < until {
            self.host = Host::With(Held { id, until });
            self.renew_at = now;
        } else {
            self.renew_at = now + self.terms.retry;
        }
    }

    /// When a lease that was asked for at `sent` is over for this host.
    fn ends(&self, sent: Duration, lasts: Duration) -> Duration {
        (sent + lasts).saturating_sub(self.terms.margin)
    }

    fn renewed(&mut self, sent: Duration, lasts: Duration, keys: &[Key]) -> Vec<Order> {
        let until = self.ends(sent, lasts);
        let Host::With(held) = &mut self.host else { return Vec::new() };
        held.until = held.until.max(until);
        let mine = held.id;
        self.renew_at = sent + self.terms.renew_every;
        let mut found = Vec::new();
        for (name, hold) in &mut self.volumes {
            let key = keys.iter().find(|key| key.volume == *name);
            match (&mut *hold, key) {
                // It was claimed, and the answer was lost.
                (Hold::Elsewhere { .. }, Some(key)) if key.lease == mine => found.push((name.clone(), key.fence)),
                (Hold::Elsewhere { is_free, .. }, key) => *is_free = key.is_none(),
                (Hold::Opening(fence) | Hold::Serving(fence), Some(key)) if key.fence == *fence => {}
                (Hold::Opening(_) | Hold::Serving(_), _) => {
                    let why = Why::KeyGone(name.clone());
                    return self.stop(why);
                }
                (Hold::GivenUp(fence), Some(key)) if key.fence == *fence => {}
                (Hold::GivenUp(_), _) => *hold = UNKNOWN,
            }
        }
        found.into_iter().flat_map(|(name, fence)| self.take(&name, fence)).collect()
    }

    /// Takes a volume that has become this host's.
    fn take(&mut self, volume: &str, fence: Fence) -> Vec<Order> {
        let is_staying = self.end == End::Staying;
        let hold = if is_staying { Hold::Opening(fence) } else { Hold::GivenUp(fence) };
        self.volumes.insert(volume.to_owned(), hold);
        if is_staying { vec![Order::Open(volume.to_owned(), fence)] } else { Vec::new() }
    }

    /// Takes what the server has done.
    pub fn hear(&mut self, news: &News) {
        match news {
            News::Opened(volume) => {
                if let Some(hold) = self.volumes.get_mut(volume)
                    && let Hold::Opening(fence) = *hold
                {
                    *hold = Hold::Serving(fence);
                }
            }
            News::Refused(volume) => {
                if let Some(hold) = self.volumes.get_mut(volume)
                    && let Hold::Opening(fence) | Hold::Serving(fence) = *hold
                {
                    *hold = Hold::GivenUp(fence);
                }
            }
            News::Leaving => self.end = self.end.max_of(End::Leaving),
            News::AtRest => {
                self.end = End::AtRest;
                if matches!(self.host, Host::Without) {
                    self.host = Host::Over(Why::Left);
                }
            }
        }
    }

    /// Ends the lease for this host, whatever etcd says.
    pub fn stop(&mut self, why: Why) -> Vec<Order> {
        if self.over().is_some() {
            return Vec::new();
        }
        self.host = Host::Over(why.clone());
        if why == Why::Left { Vec::new() } else { vec![Order::Stop(why)] }
    }
}

impl End {
    fn max_of(self, other: Self) -> Self {
        if self == Self::AtRest { self } else { other }
    }
}

#[cfg(test)]
mod tests;
