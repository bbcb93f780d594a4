//! Events that a client or an origin can cause in any number: only some of them are logged, the others are counted.

use parking_lot::Mutex;
use std::fmt;
use std::time::{Duration, Instant};

/// Most events of one kind that are logged in [`WINDOW`].
const LOGGED_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// One kind of event.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    begun: Option<Instant>,
    logged: u32,
    left_out: u64,
}

/// The number of events before this one that were not logged. Its text is appended to that of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut(u64);

impl LeftOut {
    /// The number itself.
    pub(super) const fn count(self) -> u64 {
        self.0
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} more like it were not logged)"),
        }
    }
}

impl Repeats {
    /// Counts an event. `None`: it must not be logged.
    pub fn next(&self) -> Option<LeftOut> {
        self.next_at(Instant::now())
    }

    /// Lets the next event be the first of its window.
    #[cfg(test)]
    pub(super) fn end_window(&self) {
        self.0.lock().begun = None;
    }

    fn next_at(&self, now: Instant) -> Option<LeftOut> {
        let mut state = self.0.lock();
        if state.begun.is_none_or(|begun| now.duration_since(begun) >= WINDOW) {
            (state.begun, state.logged) = (Some(now), 0);
        }
        if state.logged == LOGGED_MAX {
            state.left_out += 1;
            return None;
        }
        state.logged += 1;
        Some(LeftOut(std::mem::take(&mut state.left_out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_logged_and_the_rest_is_told_later() {
        let (repeats, begun) = (Repeats::default(), Instant::now());
        let logged = (0..1000).filter(|_| repeats.next_at(begun).is_some()).count();
        assert_eq!(logged, LOGGED_MAX as usize);
        assert_eq!(repeats.next_at(begun + WINDOW / 2), None);
        let next = repeats.next_at(begun + WINDOW).unwrap();
        assert_eq!(next.to_string(), " (991 more like it were not logged)");
        assert_eq!(repeats.next_at(begun + WINDOW).unwrap().to_string(), "");
    }
}
