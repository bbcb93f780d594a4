//! Limits how much a front end does in one poll.

use std::cell::Cell;

/// Requests that lead to I/O, begun or ended in one poll. Without a bound, a client's requests are all begun together and all answered
/// together, and the device idles in between.
const CROWD_MAX: u32 = 8;
/// Requests that are answered at once in one poll. The limit is higher, because no device waits for them.
const ANSWERED_MAX: u32 = 64;

/// Limits the work for one client's requests in a poll. Between two polls the reactor submits the requests that were
/// begun, and runs other tasks.
///
/// A front end calls [`renew`](Self::renew) at the start of a poll, checks before each step, and wakes itself at the
/// end of a poll in which a step [was postponed](Self::has_put_off).
#[derive(Debug, Default)]
pub struct Pace {
    begun: Cell<u32>,
    ended: Cell<u32>,
    answered: Cell<u32>,
    put_off: Cell<bool>,
}

impl Pace {
    /// Notes that a poll begins.
    pub fn renew(&self) {
        self.begun.set(0);
        self.ended.set(0);
        self.answered.set(0);
        self.put_off.set(false);
    }

    /// Whether another request may be begun; if not, it is postponed.
    pub fn may_begin(&self) -> bool {
        self.or_put_off(self.begun.get() < CROWD_MAX && self.answered.get() < ANSWERED_MAX)
    }

    /// Whether another request may be completed; if not, it is postponed.
    pub fn may_end(&self) -> bool {
        self.or_put_off(self.ended.get() < CROWD_MAX)
    }

    /// Notes that a request was begun that needs I/O.
    pub fn note_begun(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// Notes that a number of such requests have ended.
    pub fn note_ended(&self, count: u32) {
        self.ended.set(self.ended.get() + count);
    }

    /// Notes that a request was answered at once.
    pub fn note_answered(&self) {
        self.answered.set(self.answered.get() + 1);
    }

    /// Whether a step was postponed in this poll: then another poll has to follow at once.
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
                pace.note_ended(1);
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
