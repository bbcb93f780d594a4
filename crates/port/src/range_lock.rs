//! A fair lock on ranges of numbers, shared or exclusive.

use crate::yielding::attempt_at;
use event_listener::Event;
use parking_lot::Mutex;
use std::ops::Range;

/// The range of all numbers.
pub const ALL: Range<u64> = 0..u64::MAX;

#[derive(Debug)]
struct Claim {
    id: u64,
    range: Range<u64>,
    alone: bool,
}

impl Claim {
    fn excludes(&self, other: &Self) -> bool {
        let overlaps = self.range.start < other.range.end && other.range.start < self.range.end;
        overlaps && (self.alone || other.alone)
    }
}

#[derive(Debug, Default)]
struct Claims {
    /// Holders and waiters, in order of arrival.
    all: Vec<Claim>,
    next: u64,
    /// Number of exclusive ones. While it is zero, no claim waits.
    alone: usize,
}

impl Claims {
    /// Whether no earlier claim conflicts.
    fn has_turn(&self, id: u64) -> bool {
        if self.alone == 0 {
            return true;
        }
        let Some(at) = self.all.iter().position(|claim| claim.id == id) else { return true };
        let claim = &self.all[at];
        self.all[..at].iter().all(|before| !before.excludes(claim))
    }

    /// Removes a claim; returns whether others may wait for its end.
    fn remove(&mut self, id: u64) -> bool {
        let may_wait = self.alone > 0;
        if let Some(at) = self.all.iter().position(|claim| claim.id == id) {
            self.alone -= usize::from(self.all.remove(at).alone);
        }
        may_wait
    }
}

/// A lock on ranges, in the order of the calls. All waiters are woken when a holder or a waiter ends.
#[derive(Debug, Default)]
pub struct RangeLock {
    claims: Mutex<Claims>,
    ended: Event,
}

/// A range that is held, or waited for, until this is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    lock: &'a RangeLock,
    id: u64,
}

impl RangeLock {
    /// Locks the range in shared mode: waits until no part of it is locked exclusively.
    pub async fn shared(&self, range: Range<u64>) -> Held<'_> {
        self.claim(range, false).await
    }

    /// Locks the range exclusively: waits until no part of it is locked.
    pub async fn alone(&self, range: Range<u64>) -> Held<'_> {
        self.claim(range, true).await
    }

    async fn claim(&self, range: Range<u64>, alone: bool) -> Held<'_> {
        let held = {
            let mut claims = self.claims.lock();
            let id = claims.next;
            claims.next += 1;
            claims.alone += usize::from(alone);
            claims.all.push(Claim { id, range, alone });
            Held { lock: self, id }
        };
        attempt_at(&self.ended, || self.claims.lock().has_turn(held.id).then_some(())).await;
        held
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let may_wait = self.lock.claims.lock().remove(self.id);
        if may_wait {
            self.lock.ended.notify(usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    type Waiting<'a> = Pin<Box<dyn Future<Output = Held<'a>> + 'a>>;

    fn has<'a>(waiting: &mut Waiting<'a>) -> Option<Held<'a>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(held) => Some(held),
            Poll::Pending => None,
        }
    }

    #[test]
    fn ranges_are_shared_or_held_alone_in_the_order_in_which_they_were_asked_for() {
        let lock = RangeLock::default();
        let shared = |range| -> Waiting<'_> { Box::pin(lock.shared(range)) };
        let alone = |range| -> Waiting<'_> { Box::pin(lock.alone(range)) };
        let first = has(&mut shared(0..4)).unwrap();
        let second = has(&mut shared(2..6)).unwrap();
        let elsewhere = has(&mut alone(6..7)).unwrap();
        let mut waits = alone(3..4);
        assert!(has(&mut waits).is_none());
        // No later claim overtakes it; claims on other ranges do not wait.
        let mut behind = shared(0..4);
        assert!(has(&mut behind).is_none());
        assert!(has(&mut shared(0..3)).is_some());
        drop(first);
        assert!(has(&mut waits).is_none());
        drop(second);
        let third = has(&mut waits).unwrap();
        assert!(has(&mut behind).is_none());
        drop(third);
        assert!(has(&mut behind).is_some());
        // A waiter that is dropped does not block others.
        let mut given_up = alone(6..8);
        assert!(has(&mut given_up).is_none());
        drop((given_up, elsewhere));
        assert!(has(&mut alone(0..u64::MAX)).is_some());
    }
    #[test]
    fn nothing_is_kept_of_what_has_ended() {
        let lock = RangeLock::default();
        let held = has(&mut (Box::pin(lock.shared(0..10)) as Waiting<'_>)).unwrap();
        let mut given_up: Waiting<'_> = Box::pin(lock.alone(0..10));
        assert!(has(&mut given_up).is_none());
        assert!(has(&mut (Box::pin(lock.shared(0..10)) as Waiting<'_>)).is_none());
        drop(given_up);
        assert!(has(&mut (Box::pin(lock.shared(0..10)) as Waiting<'_>)).is_some());
        drop(held);
        assert!(lock.claims.lock().all.is_empty() && lock.claims.lock().alone == 0);
    }
}
