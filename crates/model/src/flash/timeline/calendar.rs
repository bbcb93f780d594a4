//! Reservations of a shared path: a channel or the host's link.

use crate::Nanos;
use std::collections::VecDeque;

/// If there are more spans than this, the two oldest are joined over the gap between them, which bounds the search.
const SPANS_MAX: usize = 64;

/// Reserved spans of time, in order, with gaps between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Calendar {
    taken: VecDeque<(Nanos, Nanos)>,
}

impl Calendar {
    /// Reserves the first free `span` from `ready` on, and returns its end. Later calls must not ask for time before
    /// `now`.
    pub(super) fn reserve(&mut self, now: Nanos, ready: Nanos, span: Nanos) -> Nanos {
        while self.taken.front().is_some_and(|(_, end)| *end <= now) {
            self.taken.pop_front();
        }
        let mut start = ready;
        let mut at = self.taken.len();
        if self.taken.back().is_some_and(|(_, end)| *end > ready) {
            at = self.taken.partition_point(|(_, end)| *end <= ready);
            while let Some((_, to)) = self.taken.get(at).filter(|(from, _)| *from < start + span) {
                start = *to;
                at += 1;
            }
        }
        let end = start + span;
        self.insert(at, start, end);
        end
    }

    /// Inserts a span before the one at `at`, and joins it with adjacent ones.
    fn insert(&mut self, at: usize, start: Nanos, end: Nanos) {
        let joins_before = at > 0 && self.taken[at - 1].1 == start;
        let joins_behind = self.taken.get(at).is_some_and(|(from, _)| *from == end);
        match (joins_before, joins_behind) {
            (true, true) => {
                self.taken[at - 1].1 = self.taken[at].1;
                self.taken.remove(at);
            }
            (true, false) => self.taken[at - 1].1 = end,
            (false, true) => self.taken[at].0 = start,
            (false, false) if start < end => self.taken.insert(at, (start, end)),
            (false, false) => {}
        }
        if self.taken.len() > SPANS_MAX
            && let Some((start, _)) = self.taken.pop_front()
        {
            self.taken[0].0 = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A naive model: it tries every start and compares with every reserved span.
    fn naive(taken: &mut Vec<(u64, u64)>, ready: u64, span: u64) -> u64 {
        let fits = |start: &u64| taken.iter().all(|(from, to)| start + span <= *from || *to <= *start);
        let start = (ready..).find(fits).unwrap();
        taken.push((start, start + span));
        start + span
    }

    proptest! {
        #[test]
        fn finds_the_first_gap(requests in prop::collection::vec((0u64..300, 1u64..9), 0..60)) {
            let (mut calendar, mut taken) = (Calendar::default(), Vec::new());
            for (ready, span) in requests {
                let end = calendar.reserve(Nanos::ZERO, Nanos(ready), Nanos(span));
                prop_assert_eq!(end.0, naive(&mut taken, ready, span));
            }
        }
    }
}
