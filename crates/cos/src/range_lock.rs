//! A fair lock on ranges of numbers, shared or exclusive.

use event_listener::Event;
use nitro_port::yielding::attempt_at;
use parking_lot::Mutex;
use std::ops::Range;

/// The range of all numbers.
pub(crate) const ALL: Range<u64> = 0..u64::MAX;

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
}

impl Claims {
    /// Whether no earlier claim conflicts.
    fn has_turn(&self, id: u64) -> bool {
        let Some(at) = self.all.iter().position(|claim| claim.id == id) else { return true };
        let claim = &self.all[at];
        self.all[..at].iter().all(|before| !before.excludes(claim))
    }
}

/// A lock on ranges. All waiters are woken when a holder or a waiter ends.
#[derive(Debug, Default)]
pub(crate) struct RangeLock {
    claims: Mutex<Claims>,
    ended: Event,
}

/// A range that is held, or waited for, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    lock: &'a RangeLock,
    id: u64,
}

impl RangeLock {
    /// Locks the range in shared mode: waits until no part of it is locked exclusively.
    pub(crate) async fn shared(&self, range: Range<u64>) -> Held<'_> {
        self.claim(range, false).await
    }

    /// Locks the range exclusively: waits until no part of it is locked.
    pub(crate) async fn alone(&self, range: Range<u64>) -> Held<'_> {
        self.claim(range, true).await
    }

    async fn claim(&self, range: Range<u64>, alone: bool) -> Held<'_> {
        let held = {
            let mut claims = self.claims.lock();
            let id = claims.next;
            claims.next += 1;
            claims.all.push(Claim { id, range, alone });
            Held { lock: self, id }
        };
        attempt_at(&self.ended, || self.claims.lock().has_turn(held.id).then_some(())).await;
        held
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.lock.claims.lock().all.retain(|claim| claim.id != self.id);
        self.lock.ended.notify(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::{FutureExt, LocalBoxFuture};

    type Waiting<'a> = LocalBoxFuture<'a, Held<'a>>;

    fn has<'a>(waiting: &mut Waiting<'a>) -> Option<Held<'a>> {
        waiting.now_or_never()
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
}
