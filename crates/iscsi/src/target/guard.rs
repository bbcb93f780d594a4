//! The lock that makes COMPARE AND WRITE atomic: no other write to its blocks runs between its comparison and its end
//! (SBC-4 §5.3).

use event_listener::Event;
use nitro_port::yielding::attempt_at;
use parking_lot::Mutex;
use std::ops::Range;

/// A lock of byte ranges: shared for ordinary writes, exclusive for COMPARE AND WRITE.
#[derive(Debug, Default)]
pub(crate) struct RangeLock {
    state: Mutex<State>,
    changed: Event,
}

#[derive(Debug, Default)]
struct State {
    /// The ranges that are held or waited for, in the order of the calls.
    entries: Vec<Entry>,
    next: u64,
    /// Number of exclusive entries.
    alone: usize,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    range: Range<u64>,
    alone: bool,
}

/// A range that is locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    lock: &'a RangeLock,
    number: u64,
}

impl RangeLock {
    /// Locks a range, shared or (`alone`) exclusive. Waits for earlier overlapping entries: an exclusive one for all, a
    /// shared one for exclusive ones.
    pub(crate) async fn enter(&self, range: Range<u64>, alone: bool) -> Held<'_> {
        let number = {
            let mut state = self.state.lock();
            let number = state.next;
            state.next += 1;
            state.alone += usize::from(alone);
            state.entries.push(Entry { number, range: range.clone(), alone });
            number
        };
        let held = Held { lock: self, number };
        attempt_at(&self.changed, || {
            let state = self.state.lock();
            if state.alone == 0 {
                return Some(());
            }
            let overlaps = |entry: &Entry| entry.range.start < range.end && range.start < entry.range.end;
            let before = state.entries.iter().take_while(|entry| entry.number < number);
            let is_free = before.filter(|entry| alone || entry.alone).all(|entry| !overlaps(entry));
            is_free.then_some(())
        })
        .await;
        held
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state.lock();
        if let Some(at) = state.entries.iter().position(|entry| entry.number == self.number) {
            let entry = state.entries.remove(at);
            let has_waiting = state.alone > 0;
            state.alone -= usize::from(entry.alone);
            drop(state);
            if has_waiting {
                self.lock.changed.notify(usize::MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn one_that_is_alone_keeps_others_out_and_waits_for_those_before() {
        let lock = RangeLock::default();
        let first = lock.enter(0..10, false).now_or_never().unwrap();
        let beside = lock.enter(5..15, false).now_or_never().unwrap();
        let mut alone = Box::pin(lock.enter(8..12, true));
        assert!(alone.as_mut().now_or_never().is_none());
        let mut after = Box::pin(lock.enter(11..20, false));
        assert!(after.as_mut().now_or_never().is_none());
        assert!(lock.enter(12..20, false).now_or_never().is_some(), "it does not overlap");
        drop(first);
        assert!(alone.as_mut().now_or_never().is_none());
        drop(beside);
        let held = alone.as_mut().now_or_never().unwrap();
        assert!(after.as_mut().now_or_never().is_none());
        drop(held);
        assert!(after.now_or_never().is_some());
    }

    #[test]
    fn who_no_longer_waits_stands_in_nobodys_way() {
        let lock = RangeLock::default();
        let held = lock.enter(0..10, false).now_or_never().unwrap();
        let mut alone = Box::pin(lock.enter(0..10, true));
        assert!(alone.as_mut().now_or_never().is_none());
        assert!(lock.enter(0..10, false).now_or_never().is_none());
        drop(alone);
        assert!(lock.enter(0..10, false).now_or_never().is_some());
        drop(held);
        assert!(lock.state.lock().entries.is_empty() && lock.state.lock().alone == 0);
    }
}
