//! How much a front end does in one poll.

use std::cell::Cell;

/// Requests that lead to I/O, begun or ended in one poll. Without a bound, a client's requests are all begun together and all answered
/// together, and the device idles in between.
const CROWD_MAX: u32 = 8;
/// Requests that are answered at once in one poll. More than of the others: no device waits for them.
const ANSWERED_MAX: u32 = 64;

/// Bounds what one client's requests are given of a poll. Between two polls the reactor submits what was begun and gives other
/// tasks their turn.
///
/// A front end calls [`renew`](Self::renew) first thing in a poll, asks before each step, and has itself woken at the end of a
/// poll in which a step [was put off](Self::has_put_off).
#[derive(Debug, Default)]
pub struct Pace {
    begun: Cell<u32>,
    ended: Cell<u32>,
    answered: Cell<u32>,
    put_off: Cell<bool>,
}

impl Pace {
    /// A poll begins.
    pub fn renew(&self) {
        self.begun.set(0);
        self.ended.set(0);
        self.answered.set(0);
        self.put_off.set(false);
    }

    /// Whether another request may be looked at; if not, that is put off.
    pub fn may_begin(&self) -> bool {
        self.or_put_off(self.begun.get() < CROWD_MAX && self.answered.get() < ANSWERED_MAX)
    }

    /// Whether the end of another request may be seen to; if not, that is put off.
    pub fn may_end(&self) -> bool {
        self.or_put_off(self.ended.get() < CROWD_MAX)
    }

    /// A request was begun that takes a while.
    pub fn note_begun(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// Such a request has ended.
    pub fn note_ended(&self) {
        self.ended.set(self.ended.get() + 1);
    }

    /// A request was answered at once.
    pub fn note_answered(&self) {
        self.answered.set(self.answered.get() + 1);
    }

    /// Whether something could have been done in this poll and was not: then another poll is due at once.
    #[must_use]
    pub fn has_put_off(&self) -> bool {
        self.put_off.get()
    }

    fn or_put_off(&self, may: bool) -> bool {
        if !may {
            self.put_off.set(true);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_off_may_be_done_in_the_next_poll() {
        let pace = Pace::default();
        for _ in 0..2 {
            pace.renew();
            for _ in 0..CROWD_MAX {
                assert!(pace.may_begin() && pace.may_end());
                pace.note_begun();
                pace.note_ended();
            }
            assert!(!pace.has_put_off());
            assert!(!pace.may_begin() && !pace.may_end() && pace.has_put_off());
        }
    }

    #[test]
    fn answers_at_once_are_bounded_on_their_own() {
        let pace = Pace::default();
        for _ in 0..ANSWERED_MAX {
            assert!(pace.may_begin());
            pace.note_answered();
        }
        assert!(pace.may_end() && !pace.has_put_off());
        assert!(!pace.may_begin() && pace.has_put_off());
    }
}
